"""Quantities as Kubernetes writes them: ``500m``, ``2``, ``512Mi``, ``1e3``."""

import re
from decimal import Decimal
from typing import Final

from steelyard.model.errors import InputError

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_FORM: Final = re.compile(
    r"(?P<number>[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?)(?P<suffix>[A-Za-z]{0,2})"
)


def quantity(text: str) -> Decimal:
    """Return a quantity in its base unit: CPUs, bytes, or pieces.

    Raises:
        InputError: It is none.

    Source: Kubernetes API reference, "Quantity".
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or match["suffix"] not in _SUFFIXES:
        raise InputError(
            f"{text!r} is no quantity of Kubernetes",
            hint="Write it as `500m`, `2`, `512Mi` or `4Gi`.",
        )
    return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
