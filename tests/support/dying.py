"""Steelyard as a program that ends by SIGKILL at one of its steps towards the outside.

``STEELYARD_TEST_DIES_AT``: number of the step, counted from 0. Steps are before and after each
line of a record, each write to the kernel, and each file that is placed or removed.
"""

import os
import signal
from itertools import count
from typing import Any

from steelyard.cli.main import main
from steelyard.gateways.host import KernelFiles
from steelyard.gateways.placed_files import PlacedFiles
from steelyard.record.journal import Journal

_STEPS = count()
_LAST = int(os.environ["STEELYARD_TEST_DIES_AT"])


def _step() -> None:
    if next(_STEPS) == _LAST:
        os.kill(os.getpid(), signal.SIGKILL)


def _mortal(owner: type, name: str) -> None:
    real = getattr(owner, name)

    def stepping(*arguments: Any, **keywords: Any) -> Any:
        _step()
        result = real(*arguments, **keywords)
        _step()
        return result

    setattr(owner, name, stepping)


_mortal(Journal, "append")
_mortal(KernelFiles, "write")
_mortal(PlacedFiles, "place")
_mortal(PlacedFiles, "remove")
main()
