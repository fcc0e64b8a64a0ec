"""The distributions of scipy bring nothing along that no statistics need."""

import subprocess
import sys

_ASKED = """
import sys
from steelyard.stats import special
print(special.ndtr(0.0), "numpy.f2py.crackfortran" in sys.modules)
import numpy
print(numpy.f2py.get_include() == sys.modules["numpy.f2py"].get_include())
"""


def test_the_compiler_of_fortran_is_imported_when_it_is_used() -> None:
    """A distribution has its values without it, and whoever asks numpy for it still gets it."""
    ended = subprocess.run(
        [sys.executable, "-c", _ASKED], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["0.5", "False", "True"]
