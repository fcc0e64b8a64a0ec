"""The generator's log of one run: read behind it, counted, kept where asked, and removed.

What a slice logs is read after it, so that nothing disturbs it while it is measured, and a faster
configuration no more than a slower one. Only the log of a long run is read while it goes on, and
that of a slice for which memory has no room left.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self

from steelyard.core.experiment import LogPolicy
from steelyard.core.measurement import RunLatency
from steelyard.core.wording import MIB, MeasurementError, RecordError
from steelyard.gateways.files import GrowingFiles, free_bytes, translated
from steelyard.stats.intervals import chance_of_so_few
from steelyard.systems.protocol import LogReader, TransactionLog

UNREAD_BYTES: Final = 16 * MIB  # of a long run; a guess: half a minute at 15,000 per second
# A guess: two seconds of 400,000 lines per second. A full tmpfs would lose lines, and stop servers.
SCARCE_BYTES: Final = 32 * MIB
_LOOK_S: Final = 1.0
WINDOW_S: Final = 10.0  # METHOD 7: means of 10 s
FULL_BYTES: Final = 64 * 1024  # a guess: with less than that left a line may have been lost
# A guess: how long opening the connections may take, from which the ramp counts. What ends
# before lies in memory until the ramp is known.
CONNECTING_S: Final = 30.0
# A guess: of a billion whole logs one is called incomplete.
LOST_LEVEL: Final = 1e-9


class RawStore(Protocol):
    """Where the record keeps raw output."""

    def write_raw(self, name: str, text: str) -> str:
        """Store a text, compressed; return the name it is stored under."""
        ...

    def raw_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that is compressed as it is written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrder:
    """That a run is logged.

    Attributes:
        name: Of what is stored of it below ``raw/``, without an ending.
        windows_s: Length of the windows that long runs are cut into; None: none.
    """

    name: str
    store: RawStore
    policy: LogPolicy = LogPolicy.HISTOGRAMS
    windows_s: float | None = None


class _NoStore:
    """Keeps nothing."""

    def write_raw(self, name: str, text: str) -> str:  # noqa: ARG002 - by its protocol
        return ""

    def raw_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        raise NotImplementedError


UNRECORDED: Final = LogOrder(name="", store=_NoStore())  # a run of which nothing is kept


def log_order(
    policy: LogPolicy, *, name: str, store: RawStore, windows_s: float | None = None
) -> LogOrder | None:
    """Return that a run is logged, or None where the experiment wants no log."""
    if policy is LogPolicy.OFF:
        return None
    return LogOrder(name=name, store=store, policy=policy, windows_s=windows_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What came of a log.

    Attributes:
        latency: None where the log cannot be used, or tells none.
        trouble: Why it cannot; empty where it can.
        counted: How many count in each second; of a run in turns in each half of a stretch.
        shared: The same of a run in turns, with transactions over an edge by their share.
        ended: How many ended in each, ramp included.
    """

    latency: RunLatency | None
    trouble: str = ""
    counted: Mapping[int, int] = field(default_factory=dict)
    shared: Mapping[int, float] = field(default_factory=dict)
    ended: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Copy:
    """The logs of all files in one, line by line; a RecordError where the disk takes no more."""

    file: BinaryIO
    path: Path
    _rests: dict[str, bytes] = field(default_factory=dict)

    def feed(self, source: str, chunk: bytes) -> None:
        """Write whole lines; what is left waits for its end."""
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            with translated(self.path, RecordError):
                self.file.write(self._rests.pop(source, b"") + whole + newline)
        self._rests[source] = self._rests.get(source, b"") + rest

    def finish(self) -> None:
        """Write the lines that have no end."""
        with translated(self.path, RecordError):
            self.file.writelines(rest + b"\n" for rest in self._rests.values() if rest)


class RunLog:
    """The log of one run, from before its start until it is read.

    Used as a context around the run; whatever ends it, nothing of the log is left.

    The generator alone writes into its directory.
    """

    def __init__(self, directory: Path, order: LogOrder) -> None:
        self.prefix = directory / "log"
        self._directory = directory
        self._files = GrowingFiles(directory)
        self._order = order
        self._make: Callable[[float], LogReader] | None = None
        self._ramp_s = 0.0
        self._reader: LogReader | None = None
        self._copy: _Copy | None = None
        self._stack = ExitStack()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._was_full = False

    def __enter__(self) -> Self:
        self._files.remove()  # of a run that was torn
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
            self._stack.close()
        finally:
            self._files.remove()

    def begin(
        self, reader: Callable[[float], LogReader], ramp_s: float, *, read_at_end: bool = False
    ) -> None:
        """Watch the log grow from now on.

        Args:
            reader: Makes what reads it, from the latest end of the ramp in seconds.
            ramp_s: When the ramp will be over, if connecting takes no time.
            read_at_end: It is written on another machine, or in turns of which nobody knows yet.
        """
        self._make, self._ramp_s = reader, ramp_s
        if read_at_end:
            return  # also because nobody knows before when its clock says that it began
        self._thread = threading.Thread(target=self._follow, name="log of the run", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Watch no longer; a second time changes nothing."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def result(self, ramp_s: float | None, processed: int | None) -> Logged:
        """Return what all of it says, after the end of the run.

        Args:
            ramp_s: When the ramp was over; None where that is not known.
            processed: How many transactions the generator counts; None: its log alone does.

        Raises:
            RecordError: What is to be kept cannot be written.
        """
        try:
            log = self._whole(self._ramp_s if ramp_s is None else ramp_s)
        except MeasurementError as error:  # no reason to lose the run
            return Logged(latency=None, trouble=self._explained(error.message))
        latency = log.run_latency(windows_s=self._order.windows_s)
        held = log.transactions if processed is None else processed
        trouble = trouble_of(log, held, 1.0 if latency is None else latency.sampled)
        if trouble:
            return Logged(latency=None, trouble=self._explained(trouble))
        if latency is not None:
            text = log.seconds_text()
            stored = self._order.store.write_raw(f"{self._order.name}.seconds", text)
            latency = replace(latency, seconds=stored)
        return Logged(latency=latency, counted=log.counted, shared=log.shared, ended=log.ended)

    def _explained(self, trouble: str) -> str:
        """Return what is wrong with a log, after that there was no room for all of it."""
        if not self._was_full:
            return trouble
        return (
            f"the disk was full meanwhile: {self._directory}, where the load generator logs its"
            f" transactions, had no room left; {trouble}"
        )

    def _whole(self, ramp_s: float) -> TransactionLog:
        self.end()
        if self._failure is not None:
            raise self._failure
        if free_bytes(self._directory) < FULL_BYTES:
            raise MeasurementError(
                f"there is no room left in {self._directory}, where the load generator logs its"
                " transactions: lines may be missing",
                hint="Give it more room (a container: --shm-size=1g), or measure shorter slices.",
            )
        self._read(ramp_s)
        log = self._read_by(ramp_s).finish(ramp_s=ramp_s)
        if self._copy is not None:
            self._copy.finish()
        return log

    def _follow(self) -> None:
        try:
            while not self._over.wait(_LOOK_S):
                if self._is_too_much(self._files.unread_bytes()):
                    self._read(self._ramp_s + CONNECTING_S)
        except Exception as error:  # noqa: BLE001 - told in the thread that waits for the run
            self._failure = error
            self._waste()

    def _is_too_much(self, unread_bytes: int) -> bool:
        """Return whether what is unread cannot wait for the end of the run."""
        free = free_bytes(self._directory)
        # Seen here alone: what is read gives its room back, and the cut line has then no reason.
        self._was_full = self._was_full or free < FULL_BYTES
        if self._order.windows_s is not None:
            return unread_bytes > UNREAD_BYTES
        return unread_bytes > 0 and free < SCARCE_BYTES

    def _waste(self) -> None:
        """Let a log that nobody reads any more take no room in memory, to the end of the run."""
        self._files.drop()
        while not self._over.wait(_LOOK_S):
            with suppress(MeasurementError):
                self._files.unread_bytes()  # opens what is new
            self._files.drop()

    def _read(self, ramp_s: float) -> None:
        for source, chunk in self._files.read():
            self._read_by(ramp_s).feed(source, chunk)
            if self._copy is not None:
                self._copy.feed(source, chunk)

    def _read_by(self, ramp_s: float) -> LogReader:
        """Return what reads the log, made when first needed by the latest end of the ramp then."""
        if self._reader is None:
            assert self._make is not None  # noqa: S101 - begin comes before result
            self._reader = self._make(ramp_s)
            if self._order.policy is LogPolicy.KEEP:
                name = f"{self._order.name}.log"
                file = self._stack.enter_context(self._order.store.raw_file(name))
                self._copy = _Copy(file=file, path=Path("raw", name))
        return self._reader


def trouble_of(log: TransactionLog, processed: int, sampled: float) -> str:
    """Return why a log cannot be used; empty where it holds what the generator counts."""
    if log.damaged or log.truncated:
        cut = f", {len(log.truncated)} files end inside a line" if log.truncated else ""
        return f"{log.damaged} lines of the transaction log are damaged{cut}"
    held, share = log.transactions, min(sampled, 1.0)
    if held <= processed and chance_of_so_few(held, of=processed, share=share) >= LOST_LEVEL:
        return ""
    drawn = f", of which it should log {100.0 * share:g} %" if share < 1.0 else ""
    return (
        f"the transaction log holds {held} transactions, and the load generator counts"
        f" {processed}{drawn}"
    )
