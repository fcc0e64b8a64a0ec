"""A server that is stopped for a known time: an open loop shows it, a closed one hides it."""

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.answers.latency.compute import histogram_of_run
from steelyard.core.measurement import RunLatency
from steelyard.core.wording import US_PER_S
from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import Histogram, bucket_bounds, from_text, merged
from support.live import Steelyard, interrupted, wait_for
from support.striking import data_at_work, signal_server

pytestmark = [pytest.mark.live, pytest.mark.slow]

STALL_S = 1.5
SLICE_S = 9
CLIENTS = 4
RATE = 1250  # so that a run has the 10,000 transactions that a p99.9 takes
BEFORE_S = 3.0  # from the generator's start to the stall: well within the run
LOOPS = f"""\
version: 1
name: stalls
baseline: default
workloads:
  - {{name: reads, builtin: select-only, scale: 1}}
load: {{clients: {CLIENTS}, threads: 1, rate: [closed, {RATE}], protocol: simple}}
measure: {{run_time: {SLICE_S}s, discard_start: 0s, warm_up: 0s}}
stop: {{budget: 20m, width: 0.1%}}
seed: 7
configurations:
  default:
    target: {{kind: local, server: embedded}}
  other:
    extends: default
    postgres: {{work_mem: 8MB}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """A run during which the server was stopped.

    Attributes:
        least_s: From the moment when all of its processes were stopped until the first went on.
        most_s: From the moment when the first was stopped until all had gone on.
    """

    least_s: float
    most_s: float
    latency: RunLatency

    @property
    def whole(self) -> Histogram:
        """Return the latencies of all its transactions."""
        return histogram_of_run(self.latency)

    @property
    def longest_s(self) -> float:
        """Return the longest of them."""
        return max(each.longest_s or 0.0 for each in self.latency.scripts)

    @property
    def late(self) -> int:
        """Return how many transactions took more than half of the stall."""
        least_us, _ = bucket_bounds(np.arange(len(self.whole.counts)))
        return int(self.whole.counts[least_us > self.least_s / 2 * US_PER_S].sum())

    def quantile_s(self, share: float) -> float:
        """Return a percentile, whether or not there are enough transactions to tell it."""
        return self.whole.quantile(share) / US_PER_S


def _stall(data: Path) -> tuple[float, float]:
    """Stop a server and let it go on; return how long at least and at most."""
    before = time.monotonic()
    signal_server(data, signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(STALL_S)
    going_on = time.monotonic()
    signal_server(data, signal.SIGCONT)
    return going_on - stopped, time.monotonic() - before


def _runs_with_stalls(steelyard: Steelyard) -> dict[bool, Stalled]:
    """Return a run of either loop, by whether it was open, each stopped in its middle."""
    process = steelyard.start(
        "run", steelyard.experiment(LOOPS), "--dir", "c", "--no-verdict", "--quiet"
    )
    stalls: list[tuple[int, float, float]] = []
    while {True, False} - {_is_open(run) for run in _stalled(steelyard, stalls)}:
        number = len(steelyard.runs)
        wait_for(lambda: data_at_work(steelyard) is not None, process)
        data = data_at_work(steelyard)
        time.sleep(BEFORE_S)
        if data is not None and number == len(steelyard.runs):
            stalls.append((number, *_stall(data)))
        wait_for(lambda before=number: len(steelyard.runs) > before, process)
    lines = len(steelyard.journal)
    wait_for(lambda: len(steelyard.journal) > lines, process)  # the last could be taken back
    interrupted(process)
    recorded = read_campaign(steelyard.directory / "c").runs
    return {
        recorded[number].cell.load.is_open: Stalled(
            least_s=least_s, most_s=most_s, latency=recorded[number].latency
        )
        for number, least_s, most_s in stalls
        if recorded[number].latency is not None
    }


def _stalled(steelyard: Steelyard, stalls: list[tuple[int, float, float]]) -> list[dict[str, Any]]:
    runs = steelyard.runs
    return [runs[number] for number, *_ in stalls if runs[number]["latency"] is not None]


def _is_open(run: dict[str, Any]) -> bool:
    return run["cell"]["load"]["rate_per_s"] is not None


def test_an_open_loop_shows_the_length_of_a_stall_that_a_closed_one_hides(
    steelyard: Steelyard,
) -> None:
    """SIGSTOP of known length: in max and p99.9 of the open loop it has its length.

    Of the transactions that were due in its first half, each waited for more than the other half:
    with this rate, a known share of all. In the closed loop each client was late once, however
    long the stall, so that its p99.9 knows nothing of it.
    """
    found = _runs_with_stalls(steelyard)
    closed, opened = found[False], found[True]

    assert 0.9 * opened.least_s < opened.longest_s < 1.25 * opened.most_s
    assert opened.whole.tells(0.999)
    assert 0.9 * opened.least_s < opened.quantile_s(0.999) < 1.25 * opened.most_s
    assert opened.quantile_s(0.99) > opened.least_s / 2
    due_early = RATE * opened.least_s / 2
    assert opened.late > due_early / 2

    assert 0.9 * closed.least_s < closed.longest_s < 1.25 * closed.most_s
    assert 1 <= closed.late <= CLIENTS
    assert closed.whole.total > 1000 * CLIENTS  # so that they are less than a thousandth
    assert closed.quantile_s(0.999) < closed.least_s / 2
    assert closed.late / closed.whole.total < opened.late / opened.whole.total / 10


RATE_PER_S, SLICE_S = 50.0, 4.0
AT_A_RATE = f"""\
version: 1
name: at a rate
workloads:
  - {{name: reads, builtin: select-only, scale: 1}}
load: {{clients: 2, threads: 1, rate: {RATE_PER_S:g}, protocol: simple}}
measure: {{run_time: {SLICE_S:g}s, discard_start: 1s, warm_up: 0s}}
stop: {{budget: 20m}}
seed: 7
configurations:
  default:
    target: {{kind: local, server: embedded}}
"""


def test_one_configuration_at_a_rate(steelyard: Steelyard) -> None:
    """As many transactions as a Poisson schedule has; nothing is compared, and it is said."""
    name = steelyard.experiment(AT_A_RATE)
    steelyard.until_blocks(1, "run", name, "--dir", "c", "--no-verdict")
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
    steelyard.until_blocks(1, "run", name, "--dir", "c", "--no-verdict")
    runs = read_campaign(steelyard.directory / "c").runs
    for run in runs:
        assert run.latency is not None
        assert run.measurement is not None
        whole = merged(from_text(each.latency) for each in run.latency.scripts)
        assert whole.value_at(whole.total - 15) > 500_000
        due = 100.0 * SLICE_S
        assert abs(whole.total - due) < 6.0 * due**0.5
        assert run.measurement.seconds == pytest.approx(SLICE_S, rel=0.1)
