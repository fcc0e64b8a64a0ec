"""Programs beside a known effect that take whatever CPU time is free."""

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


@contextmanager
def _busy_cpus() -> Iterator[None]:
    """Leave no CPU idle."""
    works = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(works) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_a_known_effect_is_not_doubted_for_a_neighbour(steelyard: Steelyard) -> None:
    """Commits that wait 50 ms lose; idle time that they leave is no reason for doubt."""
    with _busy_cpus():
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
