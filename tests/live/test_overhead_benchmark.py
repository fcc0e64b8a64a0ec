"""The overhead benchmark on a real server: it runs, cleans up, and its exit code is the gate's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.live import LIMIT_S, Steelyard

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "overhead.py"


@pytest.mark.live
@pytest.mark.slow
def test_the_share_is_measured_and_gated(steelyard: Steelyard) -> None:
    """Exit code 0 at up to 1 % of the CPU time, 10 above it; the TPS ratio has its interval."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--pairs=2", "--seconds=2", "--clients=2", "--scale=1"],
        env={**os.environ, "STEELYARD_CACHE": str(steelyard.cache)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    share = re.search(r"share +([0-9.]+)%", done.stdout)
    assert share is not None, done.stderr
    assert done.returncode == (0 if "passed" in done.stdout else 10)
    assert 0.0 < float(share[1]) < 20.0
    assert re.search(r"TPS driven / bare +[0-9.]+ % \[", done.stdout)
    assert not any((steelyard.cache / "live").glob("overhead-*"))
