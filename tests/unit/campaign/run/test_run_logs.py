"""The log of a run: read after it, or while it goes on where it is long; kept, dropped, checked."""

import errno
import gzip
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from fakes.campaigns import Killed, Stage, an_experiment
from fakes.clock import FakeClock
from fakes.servers import FakeLogReader, generator_fails
from steelyard.campaign.evidence import run_log
from steelyard.campaign.evidence.run_log import Logged, LogOrder, RunLog, trouble_of
from steelyard.campaign.run.counting import by_log
from steelyard.core.experiment import LogPolicy, Measure, Stop
from steelyard.core.findings import Validity
from steelyard.core.measurement import Measurement, RunLatency, ScriptLatency
from steelyard.core.wording import MeasurementError, RecordError
from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import from_text, histogram_of, to_text


@dataclass(kw_only=True)
class _Reader(FakeLogReader):
    """Keeps what it is fed, and when."""

    script: str = "reads"
    fed: list[bytes] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)

    def feed(self, source: str, chunk: bytes) -> None:
        """Take bytes."""
        super().feed(source, chunk)
        self.fed.append(chunk)
        self.told.set()


@dataclass(kw_only=True)
class _Store:
    """A directory for raw files."""

    path: Path

    def write_raw(self, name: str, text: str) -> str:
        """Keep a text."""
        (self.path / name).write_text(text)
        return name

    def raw_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file."""
        return (self.path / name).open("wb")


@dataclass(kw_only=True)
class _Scene:
    """A log with everything a test looks at."""

    logs: Path
    raw: Path
    reader: _Reader
    ramps: list[float] = field(default_factory=list)

    def log(
        self, policy: LogPolicy = LogPolicy.HISTOGRAMS, windows_s: float | None = None
    ) -> RunLog:
        """Return the log of a run; of a long one where there are windows."""
        store = _Store(path=self.raw)
        order = LogOrder(name="r", store=store, policy=policy, windows_s=windows_s)
        return RunLog(self.logs, order)

    def made(self, ramp_s: float) -> _Reader:
        """Return the reader, and note the ramp."""
        self.ramps.append(ramp_s)
        return self.reader

    def write(self, text: str, name: str = "log.17") -> None:
        """Write as the generator does."""
        with (self.logs / name).open("a") as file:
            file.write(text)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Scene:
    """Return empty directories, looked at a hundred times a second."""
    monkeypatch.setattr(run_log, "_LOOK_S", 0.01)
    for name in ("logs", "raw"):
        (tmp_path / name).mkdir()
    return _Scene(logs=tmp_path / "logs", raw=tmp_path / "raw", reader=_Reader())


def test_a_slice_is_not_disturbed_by_the_reading_of_its_log(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read before the run is over, however much it logs, and no copy is left.

    Then the ramp is known as the generator counts it.
    """
    monkeypatch.setattr(run_log, "UNREAD_BYTES", 100)
    with scene.log() as log:
        log.begin(scene.made, 2.3)
        scene.write("100\n" * 1000)
        assert not scene.reader.told.wait(0.3)
        logged = log.result(2.1, 100_000)
    assert scene.ramps == [2.1]
    assert logged.trouble == ""
    assert logged.latency is not None
    assert logged.latency.seconds == "r.seconds"
    assert from_text(logged.latency.scripts[0].latency).total == 100_000
    assert [path.name for path in scene.raw.iterdir()] == ["r.seconds"]


def test_a_slice_is_read_early_where_memory_is_full(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers have their segments in the same memory: what would fill it is read at once."""
    monkeypatch.setattr(run_log, "free_bytes", lambda _: run_log.SCARCE_BYTES - 1)
    with scene.log() as log:
        log.begin(scene.made, 2.3)
        scene.write("1\n" * 10)
        assert scene.reader.told.wait(30)
        assert log.result(2.1, 10).trouble == ""
    assert scene.reader.settled == [2.1]


def test_a_log_on_a_full_disk_is_told(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines may be missing, also where whoever wrote them did not look; the way out is known."""
    monkeypatch.setattr(run_log, "free_bytes", lambda _: run_log.FULL_BYTES - 1)
    with scene.log() as log:
        scene.write("1\n" * 10)
        log.begin(scene.made, 0.0, read_at_end=True)
        logged = log.result(0.0, None)
    assert logged.latency is None
    assert "there is no room left" in logged.trouble


def test_a_disk_that_was_full_meanwhile_is_told(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read gives its room back: the cut line that is left has that reason, no other has."""
    free = [run_log.SCARCE_BYTES - 1]
    monkeypatch.setattr(run_log, "free_bytes", lambda _: free[0])
    for left, told in ((run_log.SCARCE_BYTES - 1, False), (run_log.FULL_BYTES - 1, True)):
        free[0] = left
        scene.reader.told.clear()
        with scene.log() as log:
            log.begin(scene.made, 2.3)
            scene.write("1\n" * 10)
            assert scene.reader.told.wait(30)
            free[0] = run_log.SCARCE_BYTES
            trouble = log.result(2.1, 99).trouble
        assert trouble.endswith("and the load generator counts 99")
        assert ("the disk was full meanwhile" in trouble) is told


def test_where_the_log_alone_counts_it_is_compared_with_nothing(scene: _Scene) -> None:
    """A program that prints nothing has what its log holds."""
    with scene.log() as log:
        scene.write("100\n")
        log.begin(scene.made, 0.0, read_at_end=True)
        logged = log.result(0.0, None)
    assert logged.trouble == ""
    assert logged.latency is not None


def test_a_long_log_is_read_while_it_grows(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what may lie in memory it is read, nothing twice; its ramp is settled at the end."""
    monkeypatch.setattr(run_log, "UNREAD_BYTES", 100)
    with scene.log(windows_s=10.0) as log:
        log.begin(scene.made, 2.3)
        scene.write("1\n" * 60)
        assert scene.reader.told.wait(30)
        scene.write("5\n" * 3)
        logged = log.result(2.1, 75)
    assert logged.trouble == ""
    assert scene.ramps == [2.3 + run_log.CONNECTING_S]
    assert scene.reader.settled == [2.1]
    assert len(scene.reader.fed) > 1


def test_whatever_ends_a_run_nothing_of_its_log_is_left(scene: _Scene) -> None:
    """The files of a torn run are gone before the next, and those of this one after it."""
    scene.write("7\n", "log.3")

    def torn() -> None:
        with scene.log() as log:
            assert list(scene.logs.iterdir()) == []
            log.begin(scene.made, 0.0)
            scene.write("1\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        torn()
    assert list(scene.logs.iterdir()) == []
    assert "log of the run" not in {thread.name for thread in threading.enumerate()}


def test_a_log_is_kept_line_by_line(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of two files that end inside lines are whole lines in the stored one."""
    monkeypatch.setattr(run_log, "UNREAD_BYTES", 0)
    with scene.log(LogPolicy.KEEP, windows_s=10.0) as log:
        log.begin(scene.made, 0.0)
        scene.write("12 34", "log.1")
        assert scene.reader.told.wait(30)
        scene.write("56 7", "log.2")
        scene.write("78\n90\n", "log.1")
        scene.write("\n", "log.2")
        log.result(0.0, 0)
    assert sorted((scene.raw / "r.log").read_text().splitlines()) == ["12 3478", "56 7", "90"]


def test_a_full_disk_of_the_record_is_a_sentence(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is to be kept does not fit: the record's error, and nothing is left in memory."""

    class _Full(BytesIO):
        def write(self, _content: object) -> int:
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(_Store, "raw_file", lambda *_: nullcontext(_Full()))

    def taken() -> None:
        with scene.log(LogPolicy.KEEP) as log:
            log.begin(scene.made, 0.0)
            scene.write("3\n")
            log.result(0.0, 3)

    with pytest.raises(RecordError, match="no space is left"):
        taken()
    assert list(scene.logs.iterdir()) == []


def test_a_log_that_nobody_reads_any_more_fills_no_memory(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading failed early in a long run: what the generator still writes is given back."""
    monkeypatch.setattr(run_log, "UNREAD_BYTES", 0)
    until = time.monotonic() + 30.0

    def broken(_ramp_s: float) -> _Reader:
        scene.reader.told.set()
        raise RecordError("no space is left")

    with scene.log(windows_s=10.0) as log:
        log.begin(broken, 0.0)
        scene.write("3\n")
        assert scene.reader.told.wait(30)
        scene.write("4\n" * 100_000, "log.18")
        while (scene.logs / "log.18").stat().st_blocks and time.monotonic() < until:
            time.sleep(0.01)
        assert (scene.logs / "log.18").stat().st_blocks == 0
        with pytest.raises(RecordError):
            log.result(0.0, 3)


def test_a_log_directory_that_somebody_removed_costs_the_latency_alone(scene: _Scene) -> None:
    """The run has its throughput."""
    with scene.log() as log:
        log.begin(scene.made, 0.0)
        scene.logs.rmdir()
        logged = log.result(0.0, 3)
    assert logged.latency is None
    assert "logs" in logged.trouble


@pytest.mark.parametrize(
    ("log", "processed", "sampled", "told"),
    [
        (_Reader(_text=b"10"), 10, 1.0, ""),
        (_Reader(_text=b"9"), 10, 1.0, "holds 9 transactions, and the load generator counts 10"),
        (_Reader(_text=b"11"), 10, 1.0, "holds 11 transactions"),
        (_Reader(_text=b"9"), 10, 0.5, ""),
        (_Reader(_text=b"11"), 10, 0.5, "holds 11 transactions"),
        (_Reader(_text=b"0"), 10, 0.5, ""),
        (_Reader(_text=b"49000"), 100_000, 0.5, "of which it should log 50 %"),
        (_Reader(_text=b"49900"), 100_000, 0.5, ""),
        (_Reader(_text=b"0"), 0, 1.0, ""),
        (_Reader(_text=b"10", damaged=2), 10, 1.0, "2 lines of the transaction log are damaged"),
        (_Reader(_text=b"10", truncated=("log.1",)), 10, 1.0, "1 files end inside a line"),
    ],
)
def test_a_log_must_hold_what_the_generator_counts(
    log: _Reader, processed: int, sampled: float, told: str
) -> None:
    """A share of all transactions holds what chance draws; without one, all of them."""
    trouble = trouble_of(log, processed, sampled)
    assert (told in trouble) if told else trouble == ""


def _campaign(path: Path, measure: Measure, act: Callable[[Stage], None] = lambda _: None) -> Stage:
    experiment = an_experiment(measure=measure, stop=Stop(budget_s=120.0))
    stage = Stage.new(experiment, path, FakeClock())
    act(stage)
    stage.run()
    return stage


def _measure(log: LogPolicy) -> Measure:
    return Measure(run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, log=log)


def test_every_run_of_a_campaign_has_its_latency(tmp_path: Path) -> None:
    """It comes back from the journal as it was; warm-ups are not logged."""
    _campaign(tmp_path / "c", _measure(LogPolicy.KEEP))
    runs = read_campaign(tmp_path / "c").runs
    assert runs
    for run in runs:
        assert run.latency is not None
        assert run.validity is Validity.VALID
        logged = gzip.decompress(
            (tmp_path / "c" / "raw" / run.raw[:-7]).with_suffix(".log.gz").read_bytes()
        )
        assert int(logged) == from_text(run.latency.scripts[0].latency).total
        assert (tmp_path / "c" / "raw" / run.latency.seconds).exists()
    stored = list((tmp_path / "c" / "raw").glob("*.log.gz"))
    assert len(stored) == len(runs) + 1  # the servers' own


def _on_disk(stage: Stage) -> None:
    stage.world.logs_in_memory = False


@pytest.mark.parametrize(
    ("policy", "act", "place", "codes"),
    [
        (LogPolicy.HISTOGRAMS, lambda _: None, ["memory"], []),
        (LogPolicy.HISTOGRAMS, _on_disk, ["disk"], ["logs-on-disk"]),
        (LogPolicy.OFF, _on_disk, [], []),
    ],
)
def test_a_campaign_tells_where_its_logs_were(
    tmp_path: Path,
    policy: LogPolicy,
    act: Callable[[Stage], None],
    place: list[str],
    codes: list[str],
) -> None:
    """The place is a fact of the record; a disk is a finding; without logs it is neither."""
    _campaign(tmp_path / "c", _measure(policy), act)
    record = read_campaign(tmp_path / "c")
    assert record.environment is not None
    told = [fact.value for fact in record.environment.facts if "logs" in fact.name]
    assert told == place
    assert [f.code for f in record.findings if f.code.startswith("logs")] == codes


def test_without_a_log_there_is_no_latency_and_no_finding(tmp_path: Path) -> None:
    """`off` is a decision, not a fault."""
    _campaign(tmp_path / "c", _measure(LogPolicy.OFF))
    runs = read_campaign(tmp_path / "c").runs
    assert {run.latency for run in runs} == {None}
    assert {finding.code for run in runs for finding in run.findings} == set()
    assert list((tmp_path / "c" / "raw").glob("*.seconds.gz")) == []


def test_a_log_that_lacks_transactions_costs_the_latency_alone(tmp_path: Path) -> None:
    """As on a full tmpfs: the run counts for throughput and says why it has no percentiles."""

    def lose(stage: Stage) -> None:
        stage.world.lost_from_logs = 3

    _campaign(tmp_path / "c", _measure(LogPolicy.HISTOGRAMS), lose)
    runs = read_campaign(tmp_path / "c").runs
    assert runs
    for run in runs:
        assert (run.latency, run.validity) == (None, Validity.VALID)
        assert [finding.code for finding in run.findings] == ["log-unusable"]


def test_a_run_without_a_result_has_no_latency(tmp_path: Path) -> None:
    """Its log is dropped with it, and the block is redone."""

    def fail(stage: Stage) -> None:
        stage.world.faults = {1: generator_fails}

    _campaign(tmp_path / "c", _measure(LogPolicy.HISTOGRAMS), fail)
    failed, *others = read_campaign(tmp_path / "c").runs
    assert (failed.validity, failed.latency) == (Validity.INVALID, None)
    assert all(run.latency is not None for run in others)
    assert not (tmp_path / "c-outside" / "live" / "fake-1").exists()


def test_a_death_during_a_run_leaves_its_log_where_clean_finds_it(tmp_path: Path) -> None:
    """What is left lies in a directory that the journal names."""
    stage = Stage.new(an_experiment(), tmp_path / "c", FakeClock())

    def dies(_world: object, _completed: object) -> None:
        raise Killed

    stage.world.faults = {1: dies}
    # As kill -9: nothing is undone after it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "__exit__", lambda *_: None)
        patch.setattr("steelyard.campaign.run.bench.Bench.destroy", lambda _: None)
        with pytest.raises(Killed):
            stage.run()
    left = list((tmp_path / "c-outside").rglob("log.1"))
    assert len(left) == 1
    text = (tmp_path / "c" / "journal.jsonl").read_text()
    assert f'"name":"{left[0].parent.parent}"' in text


def test_a_foreign_file_among_the_logs_costs_the_latency_alone(scene: _Scene) -> None:
    """A link is refused, and the run keeps its throughput."""
    with scene.log() as log:
        log.begin(scene.made, 0.0)
        (scene.logs / "log.9").symlink_to("/etc/passwd")
        logged = log.result(0.0, 3)
    assert logged.latency is None
    assert logged.trouble


_ENDED = {0: 5, 1: 50, 2: 100, 3: 110, 4: 90, 5: 7}
_COUNTED = {2: 100, 3: 110, 4: 90, 5: 7}
_PRINTED = Measurement(
    transactions=0.0,
    seconds=3.0,
    latency_mean_s=None,
    latency_stddev_s=None,
    failed=0,
    connection_s=None,
    series=(),
)


def _by_log(logged: Logged) -> Measurement:
    """Return what a run of 5 s did, of which 2 are its ramp."""
    return by_log(_PRINTED, logged, 5, 2.0)


def test_the_rate_is_that_of_what_ended_in_the_measured_part() -> None:
    """Neither the ramp counts, nor what ended later than it was asked for; the series has both."""
    latency = RunLatency(
        scripts=(
            ScriptLatency(
                script="own", latency=to_text(histogram_of([4000] * 307)), longest_s=0.004
            ),
        )
    )
    measured = _by_log(Logged(latency=latency, counted=_COUNTED, ended=_ENDED))
    assert (measured.transactions, measured.tps) == (300.0, 100.0)
    assert [second.transactions for second in measured.series] == [5, 50, 100, 110, 90]
    assert measured.latency_mean_s == pytest.approx(0.004, rel=0.01)


def test_a_log_without_latencies_gives_a_rate_alone() -> None:
    """What was not measured is None."""
    measured = _by_log(Logged(latency=None, counted=_COUNTED, ended=_ENDED))
    assert (measured.transactions, measured.latency_mean_s) == (300.0, None)


@pytest.mark.parametrize(
    ("logged", "failure"),
    [
        (Logged(latency=None, trouble="line 7 of it"), "line 7 of it"),
        (Logged(latency=None), "after the start of the run: it is empty"),
        (Logged(latency=None, ended={0: 5, 1: 6}), "its 11 ended 0 s to 1 s after it"),
        (Logged(latency=None, counted={9: 1}, ended={9: 1}), "its 1 ended 9 s to 9 s after it"),
    ],
)
def test_a_log_that_counts_nothing_is_no_result(logged: Logged, failure: str) -> None:
    """The run failed, and why is told: nothing of a program without a rate can stand for it."""
    with pytest.raises(MeasurementError, match=failure):
        _by_log(logged)
