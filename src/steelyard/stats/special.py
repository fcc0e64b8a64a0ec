"""The distributions of scipy, imported with the first number that is asked of them.

``scipy.special`` is a fifth of what Steelyard imports to work on campaigns; what computes no
statistics (``list``, ``clean``, whatever is refused) does without.
"""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import TYPE_CHECKING


def _let_wait(module: str) -> None:
    """Have a module imported when one of its names is used.

    scipy copies all names of numpy, and so imports numpy's compiler of Fortran: half of its time.
    """
    if module in sys.modules:
        return
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    made = sys.modules[module] = module_from_spec(spec)
    spec.loader.exec_module(made)
    package, _, name = module.rpartition(".")
    setattr(sys.modules[package], name, made)  # as an import does


if TYPE_CHECKING:
    from scipy.special import (
        bdtr,
        betaincinv,
        chdtri,
        fdtrc,
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
        _let_wait("numpy.f2py")
        from scipy import special  # noqa: PLC0415 - the reason for this module

        return getattr(special, name)


__all__ = [
    "bdtr",
    "betaincinv",
    "chdtri",
    "fdtrc",
    "fdtri",
    "ndtr",
    "ndtri",
    "stdtr",
    "stdtrit",
]
