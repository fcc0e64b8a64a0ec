"""Every public method has its words, at the latest where its protocol stands."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import steelyard


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(steelyard.__path__, "steelyard."):
        if not module.name.endswith("__main__"):
            for found in vars(import_module(module.name)).values():
                if inspect.isclass(found) and found.__module__ == module.name:
                    yield found


def test_a_method_says_what_it_does_or_its_protocol_says_it() -> None:
    """Words that stand at the protocol are not written again where it is kept."""
    mute = {
        f"{each.__module__}.{each.__name__}.{name}"
        for each in _classes()
        if not each.__name__.startswith("_")
        for name, held in vars(each).items()
        if not name.startswith("_") and (inspect.isfunction(held) or isinstance(held, property))
        if not inspect.getdoc(held)
    }

    assert mute == set()
