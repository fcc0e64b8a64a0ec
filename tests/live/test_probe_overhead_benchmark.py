"""The benchmark of the probes on a real server: what it prints adds up, and its gate can close."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.live import LIMIT_S, Steelyard

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "probe_overhead.py"
_NUMBER = r"([0-9]+\.[0-9]+)"


@pytest.mark.live
@pytest.mark.slow
def test_the_probes_share_is_measured_and_gated(steelyard: Steelyard) -> None:
    """Exit code 0 at up to 1 % of the CPU time, 10 above it; the share is that of its parts."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--pairs=2", "--seconds=2", "--clients=2", "--scale=1"],
        env={**os.environ, "STEELYARD_CACHE": str(steelyard.cache)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    share = re.search(rf"probes' share +{_NUMBER}%", done.stdout)
    assert share is not None, done.stderr
    assert done.returncode == (0 if "passed" in done.stdout else 10)
    cost_ms = _printed(done.stdout, "probes' threads") + _printed(done.stdout, "their sessions")
    used_s = _printed(done.stdout, "server") + _printed(done.stdout, "pgbench")
    used_s += _printed(done.stdout, "Steelyard") / 1e3
    assert float(share[1]) == pytest.approx(cost_ms / used_s / 10, rel=0.05)
    assert 0.0 < float(share[1]) < 20.0
    assert re.search(r"TPS with / without probes +[0-9.]+ % \[", done.stdout)
    assert not any((steelyard.cache / "live").glob("overhead-*"))


def _printed(text: str, whose: str) -> float:
    match = re.search(rf"^CPU of {whose} +{_NUMBER} m?s", text, re.MULTILINE)
    assert match is not None, text
    return float(match[1])
