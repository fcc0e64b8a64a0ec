"""Programs beside a known effect: one that takes what is free, and one that takes its part."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.live import TINY, Steelyard, one_by_one, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

_EFFECT = (
    one_by_one(TINY)
    .replace("shared_buffers: 64MB", "commit_delay: 50000, commit_siblings: 0")
    .replace("clients: 2", "clients: 8")
    .replace(
        "run_time: 1s, discard_start: 0s, warm_up: 0s",
        "run_time: 3s, discard_start: 1s, warm_up: 1s",
    )
    .replace("warm_up: 1s", "warm_up: 1s, max_other_load: ignore, machine_limits: off")
    .replace("stop: {budget: 5m, width: 99%}", "stop: {blocks: 7, budget: 10m}")
)
_WORKS = """
import sys, time
share, begun = float(sys.argv[1]), time.monotonic()
while True:
    while time.process_time() < share * (time.monotonic() - begun):
        pass
    time.sleep(0.05)
"""


@contextmanager
def _beside(shares: list[float]) -> Iterator[None]:
    """Let processes use such shares of a CPU each."""
    running = [subprocess.Popen([sys.executable, "-c", _WORKS, str(share)]) for share in shares]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    "shares", [[1.0], [0.3] * (os.cpu_count() or 1)], ids=["takes what is free", "takes its part"]
)
def test_a_known_effect_is_not_doubted_for_a_neighbour(
    steelyard: Steelyard, shares: list[float]
) -> None:
    """Commits that wait 50 ms lose; idle time that they leave is no reason for doubt."""
    with _beside(shares):
        done = steelyard.run("run", steelyard.experiment(_EFFECT), "--dir", "c")
    assert done.returncode == 0, done.stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    (result,) = (each for each in summary["comparisons"] if each["clients"] == "pooled")
    assert result["verdict"] == "slower"
    assert result["high_percent"] < -33.0
    findings = {finding["code"]: finding["message"] for finding in summary["findings"]}
    assert "foreign-load-differs" not in findings
    assert "foreign-load-differs" not in findings.get("not-judged", "")
    report = whole_report(steelyard.directory / "c")
    assert "took more than 5 % of the CPUs in 100 % of the measured time" in report
