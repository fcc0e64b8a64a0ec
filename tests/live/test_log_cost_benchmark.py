"""The benchmark of logging on a real server: it logs what it says, and reads all of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.live import LIMIT_S, Steelyard

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "log_cost.py"


@pytest.mark.live
@pytest.mark.slow
def test_the_cost_of_logging_is_measured(steelyard: Steelyard) -> None:
    """No log has no bytes, a whole one some 30 for a transaction, a sample a tenth of that."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--blocks=2", "--seconds=1", "--clients=2", "--scale=1"],
        env={**os.environ, "STEELYARD_CACHE": str(steelyard.cache)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sizes = {
        name: float(found[1])
        for name in ("no log", "every one", "one in ten")
        if (found := re.search(rf"^{name} .* ([0-9.]+) +[0-9.]+%$", done.stdout, re.MULTILINE))
    }
    assert sizes["no log"] == 0.0
    assert 15.0 < sizes["every one"] < 60.0
    assert 0.02 < sizes["one in ten"] / sizes["every one"] < 0.5
