"""Fakes that are gateways by inheritance: none may inherit what reaches outside."""

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "fakes"


def fakes() -> list[type]:
    """Return all classes named so that have a gateway among their ancestors."""
    modules = [import_module(f"fakes.{each.name}") for each in pkgutil.iter_modules([str(_FOLDER)])]
    kinds = {kind for module in modules for kind in vars(module).values() if gateway(kind)}
    return sorted((k for k in kinds if k.__name__.startswith("Fake")), key=lambda k: k.__name__)


def gateway(kind: object) -> type | None:
    """Return the gateway that a class is."""
    line = kind.__mro__ if isinstance(kind, type) else ()
    return next((real for real in line if real.__module__.startswith("steelyard.gateways.")), None)


@pytest.mark.parametrize("fake", fakes())
def test_every_public_method_is_the_fakes_own(fake: type) -> None:
    """A process id alone may be inherited: a fake of a guard has no process to ask."""
    own = vars(gateway(fake))
    inherited = {name for name in own if name[0] != "_" and getattr(fake, name) is own[name]}
    assert inherited <= {"pid"}
