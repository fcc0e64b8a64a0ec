"""Quantities as Kubernetes writes them: ``500m`` of a CPU, ``6500Mi`` of memory.

Source: Kubernetes API reference, "Quantity" (``resource.Quantity``).
"""

import math
import re
from fractions import Fraction
from typing import Final

from steelyard.model.errors import InputError

# Bounded, so that no text becomes a number of millions of digits.
_FORM: Final = re.compile(
    r"^([+-]?)([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
    r"(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?[0-9]{1,2}))?$"
)
_FACTORS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{prefix}i": Fraction(1024**power) for power, prefix in enumerate("KMGTPE", 1)},
}
_PREFIX: Final = "hugepages-"


def parse_quantity(text: str) -> Fraction:
    """Return the exact number that a quantity means: ``500m`` is one half, ``1Ki`` is 1024.

    Raises:
        InputError: The text is no quantity, or a negative one.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or match[1] == "-":
        raise InputError(
            f"{text!r} is not a quantity of Kubernetes", hint="Write it as 500m, 2, 6500Mi or 8Gi."
        )
    factor = _FACTORS[match[3]] if match[3] else Fraction(10) ** int(match[4] or 0)
    return Fraction(match[2]) * factor


def parse_quantity_bytes(text: str) -> int:
    """Return whole bytes; a fraction of a byte is rounded up, as Kubernetes does.

    Raises:
        InputError: The text is no quantity.
    """
    return math.ceil(parse_quantity(text))


def page_bytes_of(resource: str) -> int | None:
    """Return the page size that a resource such as ``hugepages-2Mi`` names; None for others."""
    if not resource.startswith(_PREFIX):
        return None
    try:
        return parse_quantity_bytes(resource.removeprefix(_PREFIX)) or None
    except InputError:
        return None
