"""Steelyard with other doors, as a program: less patience, or a wall clock that a file steps.

``STEELYARD_TEST_PATIENCE_S``: seconds after which a run and a statement without an end are looked
into. ``STEELYARD_TEST_STEP``: a file with the seconds by which the wall clock is off; none while it
is not there. The machine's own clock is never touched: others use it. No charts are drawn.
"""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

del sys.path[0]  # this folder, which has a module `kubernetes` of its own
from steelyard.cli.main import main  # noqa: E402
from steelyard.gateways import doors  # noqa: E402
from steelyard.gateways.host import Clock  # noqa: E402
from steelyard.gateways.sql import Sql  # noqa: E402
from steelyard.systems.postgres import load_programs  # noqa: E402


class SteppedClock(Clock):
    """The machine's clocks, with a wall that somebody sets."""

    def now(self) -> float:
        """Return the wall clock plus what the file says."""
        step = Path(os.environ["STEELYARD_TEST_STEP"])
        return super().now() + (float(step.read_text()) if step.exists() else 0.0)


if "STEELYARD_TEST_PATIENCE_S" in os.environ:
    patience_s = float(os.environ["STEELYARD_TEST_PATIENCE_S"])
    load_programs._DEADLINE_BEYOND_RUN_S = patience_s  # type: ignore[misc]
    doors.Sql = partial(Sql, patience_s=patience_s)  # type: ignore[assignment,misc]
if "STEELYARD_TEST_STEP" in os.environ:
    real = doors.system_doors
    doors.system_doors = lambda: replace(real(), clock=SteppedClock())
sys.modules["altair"] = None  # type: ignore[assignment] # these campaigns need no charts
main()
