"""Which storage classes a command line means."""

from collections.abc import Sequence

from steelyard.campaign.file.form_values import shown
from steelyard.core.errors import InputError
from steelyard.core.spelling import choice
from steelyard.tuning.files.cluster import MATRIX, StorageClass


def chosen(names: Sequence[str], *, longhorn: bool) -> tuple[StorageClass, ...]:
    """Return the classes of these names, or all; on request only those of Longhorn.

    Raises:
        InputError: There is none of a name.
    """
    known = {each.name: each for each in MATRIX if each.longhorn or not longhorn}
    for name in names:
        if name not in known:
            raise InputError(
                f"there is no storage class {shown(name)}", hint=choice(name, [*known])
            )
    return tuple(known[name] for name in dict.fromkeys(names or known))
