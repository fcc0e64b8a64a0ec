"""``steelyard kubernetes storage-classes``: manifests for the storage that presets weigh."""

import click


@click.command("storage-classes")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--longhorn", is_flag=True, help="Only those of Longhorn.")
def command(names: tuple[str, ...], *, longhorn: bool) -> None:
    """Print storage classes as manifests, all or those named, with the reason for each parameter.

    \b
    steelyard kubernetes storage-classes longhorn-1r longhorn-2r | kubectl apply -f -

    Longhorn must be there, and its disks carry the tags `dedicated` and `shared`.
    """  # noqa: D301 - \b keeps click from joining the lines
    from steelyard.cli.class_choice import chosen  # noqa: PLC0415 - lazy
    from steelyard.tuning.files.cluster import class_text  # noqa: PLC0415 - lazy

    click.echo(
        "---\n".join(class_text(each) for each in chosen(names, longhorn=longhorn)), nl=False
    )
