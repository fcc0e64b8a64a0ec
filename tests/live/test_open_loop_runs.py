"""Open loops on a real server."""

import json

import pytest

from support.live import Steelyard

pytestmark = pytest.mark.live

RATE_PER_S, SLICE_S = 50.0, 4.0
AT_A_RATE = f"""\
version: 1
name: at a rate
workloads:
  - {{name: reads, builtin: select-only, scale_factor: 1}}
loads: {{clients: 2, threads: 1, rate: {RATE_PER_S:g}}}
measure: {{slice: {SLICE_S:g}s, ramp: 1s, discard: 0s}}
stop: {{budget: 20m}}
seed: 7
treatments:
  default:
    target: {{kind: local, bin: embedded}}
"""


def test_one_treatment_at_a_rate(steelyard: Steelyard) -> None:
    """As many transactions as a Poisson schedule has; nothing is compared, and it is said."""
    name = steelyard.experiment(AT_A_RATE)
    steelyard.until_blocks(2, "run", name, "--out", "c", "--yes")
    reported = steelyard.run("report", "c")
    assert reported.returncode == 0, reported.stderr
    due = RATE_PER_S * SLICE_S
    counts = [run["measurement"]["transactions"] for run in steelyard.runs]
    assert len(counts) >= 2
    assert all(abs(done - due) < 6.0 * due**0.5 for done in counts)
    assert "Throughput is not compared: all loads are open loops" in reported.stdout.replace(
        "\n", " "
    )
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["comparisons"] == []
    assert [cell["clients"] for cell in summary["cells"]] == [2]
