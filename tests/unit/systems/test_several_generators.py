"""Several pgbench processes as one: nothing of a load or of what they measured is lost."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import VERSIONS, recorded

from steelyard.core.experiment import Workload
from steelyard.core.outside import Completed, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.wording import MeasurementError
from steelyard.systems.postgres import pgbench
from steelyard.systems.postgres import pgbench as generators
from steelyard.systems.postgres.pgbench import divided
from steelyard.systems.protocol import RunRequest

_AT = 1_795_297_411.0
_PROGRESS = "progress: {end:.3f} s, {tps:.1f} tps, lat {ms:.3f} ms stddev 0.100, 0 failed\n"
_SUMMARY = """\
number of transactions actually processed: {processed}
number of failed transactions: {failed} (0.000%)
latency average = {ms:.3f} ms
latency stddev = {stddev:.3f} ms
initial connection time = {connection:.3f} ms
tps = {tps:.6f} (without initial connection time)
"""


def _request(load: Load, log: Path | None = None) -> RunRequest:
    return RunRequest(
        workload=Workload(name="reads", builtin="select-only", scale=1),
        load=load,
        protocol="simple",
        seconds=3,
        address=ServerAddress(host="/run/x", port=5433),
        log=log,
    )


def _printed(
    *per_second: float, ms: float = 2.0, stddev: float = 1.0, failed: int = 0, at: float = _AT
) -> Completed:
    """Return what one process prints that completed so many in each second."""
    lines = [_PROGRESS.format(end=at + n + 1.0, tps=tps, ms=ms) for n, tps in enumerate(per_second)]
    summary = _SUMMARY.format(
        processed=round(sum(per_second)),
        failed=failed,
        ms=ms,
        stddev=stddev,
        connection=ms,
        tps=sum(per_second) / len(per_second),
    )
    return Completed(argv=("pgbench",), exit_status=0, stdout=summary, stderr="".join(lines))


@given(
    clients=st.integers(1, 200),
    threads=st.integers(1, 64),
    wanted=st.integers(1, 9),
    rate=st.none() | st.floats(1.0, 1e6),
)
def test_clients_threads_and_rate_are_divided_without_remainder(
    clients: int, threads: int, wanted: int, rate: float | None
) -> None:
    """The parts add up to the whole, are as even as can be, and every process has work."""
    load = Load(clients=clients, threads=threads, rate_per_s=rate, generators=wanted)
    parts = [part.load for part in divided(_request(load))]
    assert len(parts) == min(wanted, clients)
    assert sum(part.clients for part in parts) == clients
    assert sum(part.threads for part in parts) == max(threads, len(parts))
    assert max(p.clients for p in parts) - min(p.clients for p in parts) <= 1
    assert min(part.threads for part in parts) >= 1
    if rate is None:
        assert {part.rate_per_s for part in parts} == {None}
    else:
        assert math.isclose(sum(part.rate_per_s or 0.0 for part in parts), rate)


def test_each_process_logs_under_a_name_of_its_own() -> None:
    """Two processes never write one file; one alone takes the name as it is."""
    several = divided(_request(Load(clients=4, threads=2, generators=2), Path("/dev/shm/x/log")))  # noqa: S108
    assert [str(part.log) for part in several] == ["/dev/shm/x/log-0", "/dev/shm/x/log-1"]  # noqa: S108
    (alone,) = divided(_request(Load(clients=4, threads=2), Path("/dev/shm/x/log")))  # noqa: S108
    assert str(alone.log) == "/dev/shm/x/log"  # noqa: S108


@pytest.mark.parametrize(
    ("flags", "of_the_second"),
    [
        (("--random-seed=7", "-r"), ("--random-seed=8", "-r")),
        (("--random-seed", "7", "-D", "7"), ("--random-seed", "8", "-D", "7")),
        (("--rand=7",), ("--rand=8",)),
        (("--random-seed=time",), ("--random-seed=time",)),
        (("-D", "7"), ("-D", "7")),
    ],
)
def test_each_process_has_a_seed_of_its_own(
    flags: tuple[str, ...], of_the_second: tuple[str, ...]
) -> None:
    """Under one seed they would all go for the same rows; every other flag is handed on."""
    request = replace(_request(Load(clients=4, threads=2, generators=2)), flags=flags)
    first, second = divided(request)
    assert (first.flags, second.flags) == (flags, of_the_second)


def test_counts_add_up_and_means_are_weighted() -> None:
    """A process with three times the transactions counts three times; the longest gives seconds."""
    one, other = _printed(100, 100, 100, ms=2.0), _printed(300, 300, 300, ms=4.0, failed=5)
    taken = generators.parse_generators((one, other), ramp_s=0.0, started_at=_AT)
    assert taken.transactions == pytest.approx(1200)
    assert taken.seconds == pytest.approx(3.0)
    assert taken.failed == 5
    assert taken.latency_mean_s == pytest.approx(0.0035)
    assert taken.connection_s == pytest.approx(0.004)
    assert [second.transactions for second in taken.series] == [400.0, 400.0, 400.0]
    assert [second.end_s for second in taken.series] == pytest.approx([1.0, 2.0, 3.0], abs=1e-3)


@given(st.lists(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=30), min_size=2, max_size=4))
def test_the_standard_deviation_is_that_of_all_transactions(parts: list[list[float]]) -> None:
    """Pooled from the processes' own, it is what one look at all transactions gives."""
    pooled = [value for values in parts for value in values]
    completed = []
    for values in parts:
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        completed.append(_printed(float(len(values)), ms=mean, stddev=spread))
    taken = generators.parse_generators(completed, ramp_s=0.0, started_at=_AT)
    mean = sum(pooled) / len(pooled)
    expected = math.sqrt(sum((value - mean) ** 2 for value in pooled) / len(pooled))
    assert taken.latency_mean_s == pytest.approx(mean / 1000, abs=2e-6)
    assert taken.latency_stddev_s == pytest.approx(expected / 1000, abs=2e-4)


def test_the_ramp_is_taken_off_each_process() -> None:
    """What progress lines report up to its end is not counted, whichever process reports it."""
    taken = generators.parse_generators(
        (_printed(10, 100, 100), _printed(20, 200, 200)), ramp_s=1.0, started_at=_AT
    )
    assert taken.transactions == pytest.approx(600, abs=1)


def test_a_process_that_skips_a_second_does_not_shift_the_others() -> None:
    """Seconds are matched by time, not by their number."""
    late = _printed(100, 100, 100)
    lines = late.stderr.splitlines(keepends=True)
    gappy = replace(late, stderr=lines[0] + lines[2])
    taken = generators.parse_generators(
        (_printed(100, 100, 100), gappy), ramp_s=0.0, started_at=_AT
    )
    assert len(taken.series) == 3
    assert sum(second.transactions for second in taken.series) == pytest.approx(600)


@pytest.mark.parametrize("version", VERSIONS)
def test_one_process_is_what_it_is_alone(version: int) -> None:
    """Real output read through the merging is the same as without it."""
    recording = recorded(version, "plain")
    alone = pgbench.parse_run(recording.completed(), ramp_s=1.0, started_at=0.0)
    assert (
        generators.parse_generators((recording.completed(),), ramp_s=1.0, started_at=0.0) == alone
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_error_of_one_is_the_error_of_the_run(version: int) -> None:
    """Told is the process that failed, not one that was ended because of it."""
    good = recorded(version, "plain").completed()
    failed = recorded(version, "aborted-client").completed()
    ended = Completed(argv=("pgbench",), exit_status=-9, stdout="", stderr="ended\n")
    with pytest.raises(MeasurementError, match=f"exited with {failed.exit_status}"):
        generators.parse_generators((ended, good, failed), ramp_s=0.0, started_at=0.0)
    with pytest.raises(MeasurementError, match="exited with -9"):
        generators.parse_generators((good, ended), ramp_s=0.0, started_at=0.0)
