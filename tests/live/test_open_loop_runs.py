"""Open loops on a real server."""

import json

import pytest

from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import from_text, merged
from support.live import Steelyard

pytestmark = [pytest.mark.live, pytest.mark.slow]

RATE_PER_S, SLICE_S = 50.0, 4.0
AT_A_RATE = f"""\
version: 1
name: at a rate
workloads:
  - {{name: reads, builtin: select-only, scale_factor: 1}}
loads: {{clients: 2, threads: 1, rate: {RATE_PER_S:g}}}
measure: {{slice: {SLICE_S:g}s, ramp: 1s, warm_up: 0s}}
stop: {{budget: 20m}}
seed: 7
configurations:
  default:
    target: {{kind: local, bin: embedded}}
"""


def test_one_configuration_at_a_rate(steelyard: Steelyard) -> None:
    """As many transactions as a Poisson schedule has; nothing is compared, and it is said."""
    name = steelyard.experiment(AT_A_RATE)
    steelyard.until_blocks(1, "run", name, "--out", "c", "--yes")
    reported = steelyard.run("report", "c")
    assert reported.returncode == 0, reported.stderr
    due = RATE_PER_S * SLICE_S
    counts = [run["measurement"]["transactions"] for run in steelyard.runs]
    assert counts
    assert all(abs(done - due) < 6.0 * due**0.5 for done in counts)
    assert "Throughput is not compared: all loads are open loops" in reported.stdout.replace(
        "\n", " "
    )
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert summary["comparisons"] == []
    assert [cell["clients"] for cell in summary["cells"]] == [2]


# All sessions sleep from 4.6 s of their life on, for a second: over the end of a slice of 4 s.
STALLING = """\
SELECT pg_sleep(greatest(0, 5.6 - age)) FROM (
  SELECT extract(epoch FROM clock_timestamp() - backend_start) AS age
  FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS session
WHERE age BETWEEN 4.6 AND 5.6;
"""


def test_what_waits_over_the_end_of_a_slice_is_counted(steelyard: Steelyard) -> None:
    """Not one slow transaction per client: what was due in the stall waits half a second or more.

    About 40 transactions are due between its beginning and the end of the slice.
    """
    (steelyard.directory / "stall.sql").write_text(STALLING)
    text = AT_A_RATE.replace("builtin: select-only", "scripts: [{file: stall.sql}]")
    name = steelyard.experiment(text.replace("rate: 50", "rate: 100"))
    steelyard.until_blocks(1, "run", name, "--out", "c", "--yes")
    runs = read_campaign(steelyard.directory / "c").runs
    for run in runs:
        assert run.latency is not None
        assert run.measurement is not None
        whole = merged(from_text(each.latency) for each in run.latency.scripts)
        assert whole.value_at(whole.total - 15) > 500_000
        due = 100.0 * SLICE_S
        assert abs(whole.total - due) < 6.0 * due**0.5
        assert run.measurement.seconds == pytest.approx(SLICE_S, rel=0.1)
