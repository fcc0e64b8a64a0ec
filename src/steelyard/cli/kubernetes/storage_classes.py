"""``steelyard kubernetes storage-classes``: manifests for the storage that presets weigh."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from steelyard.tuning.files.manifests import StorageClass


@click.command("storage-classes")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--longhorn", is_flag=True, help="Only those of Longhorn.")
def command(names: tuple[str, ...], *, longhorn: bool) -> None:
    """Print storage classes as manifests, all or those named, with the reason for each parameter.

    \b
    steelyard kubernetes storage-classes longhorn-1r longhorn-2r | kubectl apply -f -

    Longhorn must be there, and its disks carry the tags `dedicated` and `shared`.
    """  # noqa: D301 - \b keeps click from joining the lines
    from steelyard.tuning.files.manifests import class_text  # noqa: PLC0415 - lazy

    click.echo(
        "---\n".join(class_text(each) for each in chosen(names, longhorn=longhorn)), nl=False
    )


def chosen(names: Sequence[str], *, longhorn: bool) -> "tuple[StorageClass, ...]":
    """Return the classes of these names, or all; on request only those of Longhorn.

    Raises:
        InputError: There is none of a name.
    """
    from steelyard.campaign.file.form_values import shown  # noqa: PLC0415 - lazy
    from steelyard.core.errors import InputError  # noqa: PLC0415
    from steelyard.core.spelling import choice  # noqa: PLC0415
    from steelyard.tuning.files.manifests import MATRIX  # noqa: PLC0415

    known = {each.name: each for each in MATRIX if each.longhorn or not longhorn}
    for name in names:
        if name not in known:
            raise InputError(
                f"there is no storage class {shown(name)}", hint=choice(name, [*known])
            )
    return tuple(known[name] for name in dict.fromkeys(names or known))
