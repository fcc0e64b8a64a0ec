"""A script of the folder of benchmarks as a module."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load_script(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Return a script as a module, beside those that it builds on.

    Args:
        name: Of its file, without ending.
        patch: Forgets the module after the test.
    """
    patch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location(f"{name}_script", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
