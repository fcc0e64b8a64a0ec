"""Steelyard that soon looks into a run or a statement without an end, and draws no charts."""

import sys
from functools import partial

del sys.path[0]  # this folder, which has a module `kubernetes` of its own
from steelyard.cli.main import main  # noqa: E402
from steelyard.gateways import doors  # noqa: E402
from steelyard.gateways.sql import Sql  # noqa: E402
from steelyard.systems.postgres import load_programs  # noqa: E402

_PATIENCE_S = 6.0
load_programs._DEADLINE_BEYOND_RUN_S = _PATIENCE_S  # type: ignore[misc]
doors.Sql = partial(Sql, patience_s=_PATIENCE_S)  # type: ignore[assignment,misc]
sys.modules["altair"] = None  # type: ignore[assignment] # these campaigns need no charts
main()
