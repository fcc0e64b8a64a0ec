"""``steelyard plan``: what an experiment can decide, before it runs."""

import click


@click.command("plan")
@click.argument("source", metavar="FILE | preset:NAME")
@click.option("--budget", metavar="TIME", help="Plan for this budget, such as 20m.")
@click.option("--precision", metavar="SHARE", help="Plan for this half-width, such as 1%.")
@click.option(
    "--allow-existing", is_flag=True, help="Plan for an endpoint's database that is named."
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the file.")
@click.option("--json", "as_json", is_flag=True, help="Print it for programs.")
def command(
    source: str,
    *,
    budget: str | None,
    precision: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    allow_existing: bool,
) -> None:
    """Say what an experiment can decide, and in what time; nothing is started.

    The minutes to decide effects of 1, 2, 3, 5 and 10 % in the headlines and in single cells, the
    best length of a slice, what the budget does not decide, cheaper designs, disk, and the time
    to prepare the data.
    """
    from steelyard.cli import launching  # noqa: PLC0415 - lazy

    options = launching.RunOptions(
        source=source,
        flags=(),
        budget=budget,
        precision=precision,
        seed=None,
        out=None,
        resume=None,
        overrides=overrides,
        dry_run=True,
        as_json=as_json,
        quiet=True,
        yes=False,
        allow_existing=allow_existing,
    )
    launching.plan(options)
