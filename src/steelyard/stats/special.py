"""The distributions of scipy, imported with the first number that is asked of them.

``scipy.special`` is a fifth of what Steelyard imports to work on campaigns; what computes no
statistics (``list``, ``clean``, whatever is refused) does without.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scipy.special import (
        bdtr,
        betaincinv,
        chdtri,
        fdtri,
        ndtr,
        ndtri,
        stdtr,
        stdtrit,
    )
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(name)
        from scipy import special  # noqa: PLC0415 - the reason for this module

        return getattr(special, name)


__all__ = [
    "bdtr",
    "betaincinv",
    "chdtri",
    "fdtri",
    "ndtr",
    "ndtri",
    "stdtr",
    "stdtrit",
]
