"""The benchmarks of what measuring costs, on a real server: they run, clean up, and may fail."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.live import LIMIT_S, Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

_SCRIPTS = Path(__file__).parents[2] / "benchmarks"
_NUMBER = r"([0-9]+\.[0-9]+)"


def _run(steelyard: Steelyard, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a benchmark for a moment; it leaves nothing."""
    done = subprocess.run(
        [sys.executable, str(_SCRIPTS / f"{name}.py"), "--clients=2", "--scale=1", *words],
        env={**os.environ, "STEELYARD_CACHE": str(steelyard.cache)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert not any((steelyard.cache / "live").glob("overhead-*"))
    return done


def _share(done: "subprocess.CompletedProcess[str]") -> float:
    """Return the share that is gated: exit code 0 at up to 1 % of the CPU time, 10 above it."""
    share = re.search(rf"share +{_NUMBER}%", done.stdout)
    assert share is not None, done.stderr
    assert done.returncode == (0 if "passed" in done.stdout else 10)
    assert 0.0 < float(share[1]) < 20.0
    return float(share[1])


def test_the_share_is_measured_and_gated(steelyard: Steelyard) -> None:
    """The TPS ratio has its interval."""
    done = _run(steelyard, "overhead", "--pairs=2", "--seconds=2")
    _share(done)
    assert re.search(r"TPS driven / bare +[0-9.]+ % \[", done.stdout)


def test_the_probes_share_is_measured_and_gated(steelyard: Steelyard) -> None:
    """The share is that of its parts, and the TPS ratio has its interval."""
    done = _run(steelyard, "probe_overhead", "--pairs=2", "--seconds=2")
    cost_ms = _printed(done.stdout, "probes' threads") + _printed(done.stdout, "their sessions")
    used_s = _printed(done.stdout, "server") + _printed(done.stdout, "pgbench")
    used_s += _printed(done.stdout, "Steelyard") / 1e3
    assert _share(done) == pytest.approx(cost_ms / used_s / 10, rel=0.05)
    assert re.search(r"TPS with / without probes +[0-9.]+ % \[", done.stdout)


def _printed(text: str, whose: str) -> float:
    match = re.search(rf"^CPU of {whose} +{_NUMBER} m?s", text, re.MULTILINE)
    assert match is not None, text
    return float(match[1])


def test_the_cost_of_logging_is_measured(steelyard: Steelyard) -> None:
    """No log has no bytes, a whole one some 30 for a transaction, a sample a tenth of that."""
    done = _run(steelyard, "log_cost", "--blocks=2", "--seconds=1")
    assert done.returncode == 0, done.stderr
    sizes = {
        name: float(found[1])
        for name in ("no log", "every one", "one in ten")
        if (found := re.search(rf"^{name} .* ([0-9.]+) +[0-9.]+%$", done.stdout, re.MULTILINE))
    }
    assert sizes["no log"] == 0.0
    assert 15.0 < sizes["every one"] < 60.0
    assert 0.02 < sizes["one in ten"] / sizes["every one"] < 0.5
