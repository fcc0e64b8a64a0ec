"""Following a campaign that runs in a cluster, by its journal: what it tells, told again here.

A way to a record that is opened again when it breaks.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, Self, TypeVar

from steelyard.answers.campaign import analyse
from steelyard.campaign.run.runner import Progress
from steelyard.core.errors import MeasurementError, PrivilegeError, SteelyardError, TargetError
from steelyard.core.kubernetes import ContainerRef
from steelyard.core.measurement import Run, SustainedRun
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.job.finding import Stand, Standing, standing
from steelyard.places.job.manifests import RECORD, JobPlan
from steelyard.places.job.record_files import JOURNAL, Piece, RecordFile, RecordFiles
from steelyard.record.entries import (
    BlockEnded,
    BlockStarted,
    Line,
    Planned,
    Resumed,
    RunFinished,
    SustainedFinished,
)
from steelyard.record.journal import JournalTail, replay

_PAUSE_S: Final = 5.0  # each look starts a short program in the Job's pod
_PIECE_BYTES: Final = 1024**2
_STUCK_S: Final = 300.0  # with a reason not to run; a guess: a large image takes a few minutes


@dataclass(kw_only=True)
class Echo:
    """Tells what a journal tells, as the campaign itself did.

    Attributes:
        lines: What was read so far.
    """

    progress: Progress
    tail: JournalTail
    lines: list[Line] = field(default_factory=list)
    read_bytes: int = 0

    def hear(self, piece: bytes) -> None:
        """Take the next piece of the journal.

        Raises:
            RecordError: It is damaged.
        """
        self.read_bytes += len(piece)
        new = self.tail.feed(piece)
        self.lines += new
        for line in new:
            self._tell(line)
        ended = [line.entry for line in new if isinstance(line.entry, BlockEnded)]
        if any(entry.outcome.complete for entry in ended):
            analysis = analyse(replay(self.lines))
            self.progress.looked(analysis, elapsed_s=self.lines[-1].elapsed_s)

    @property
    def is_planned(self) -> bool:
        """Return whether the blocks begin."""
        return any(isinstance(line.entry, Planned) for line in self.lines)

    def _tell(self, line: Line) -> None:
        entry = line.entry
        if isinstance(entry, Planned):
            self.progress.planned(entry.plan, elapsed_s=line.elapsed_s)
        elif isinstance(entry, BlockStarted):
            self.progress.run_started(block=entry.index, label="begins")
        elif isinstance(entry, RunFinished):
            self.progress.run_started(block=entry.run.block, label=f"{_named(entry.run)} is done")
        elif isinstance(entry, SustainedFinished):
            self.progress.stage(f"the long run of {_named(entry.run)} is done")
        elif isinstance(entry, BlockEnded):
            self.progress.block_ended(entry.outcome)
        elif isinstance(entry, Resumed):
            self.progress.stage("it goes on after an interruption")


def _named(run: Run | SustainedRun) -> str:
    return f"{run.treatment}, {run.cell.workload}, {run.cell.load.label}"


class Follower:
    """Follows one campaign until its Job is over, across lost connections.

    Args:
        plan: Which one.
        api: The cluster.
        clock: Waits between two looks.
        progress: Hears what the journal tells.
        told: Hears what is to say of the Job and of the connection; each once.
    """

    def __init__(
        self,
        plan: JobPlan,
        api: KubernetesApi,
        clock: Clock,
        progress: Progress,
        told: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._api = api
        self._clock = clock
        self._told = told
        self._progress = progress
        self._echo = Echo(progress=progress, tail=JournalTail("the journal in the cluster"))
        self._said = self._stage = ""
        self._stuck_since: float | None = None

    def follow(self) -> Standing:
        """Return how the Job ended.

        Raises:
            TargetError: It cannot begin; it waits in the cluster until its deadline.
            RecordError: Its journal is damaged.
        """
        while True:
            try:
                now = self._look()
            except (TargetError, MeasurementError) as error:
                self._say(f"{error.message}; the campaign goes on there, trying again")
            else:
                if now.is_over:
                    return now
                self._require_beginning(now)
            self._clock.sleep(_PAUSE_S)

    def _look(self) -> Standing:
        now = standing(self._plan, self._api)
        if now.pod is None:
            if now.reason:
                self._say(f"it waits: {now.reason}")
            return now
        files = RecordFiles(self._api, now.pod, RECORD)
        while True:
            piece = Piece(name=JOURNAL, offset=self._echo.read_bytes, size_bytes=_PIECE_BYTES)
            (content,) = files.read([piece])
            self._echo.hear(content)
            if len(content) < _PIECE_BYTES:
                break
        if not self._echo.is_planned:
            self._tell_stage(now.pod)
        self._said = ""
        return now

    def _tell_stage(self, pod: ContainerRef) -> None:
        """Tell what the campaign said last; the steps before the plan are not in its journal."""
        try:
            said = self._api.logs(pod, lines=1).strip().removesuffix(" ...")
        except PrivilegeError:
            return
        if said and said != self._stage:
            self._stage = said
            self._progress.stage(said)

    def _require_beginning(self, now: Standing) -> None:
        """Raise when something has kept the Job from running for minutes.

        Raises:
            TargetError: With what the cluster says.
        """
        if now.stand is not Stand.WAITING or not now.reason:
            self._stuck_since = None
            return
        since = self._stuck_since = self._stuck_since or self._clock.monotonic()
        if self._clock.monotonic() - since > _STUCK_S:
            raise TargetError(
                f"campaign {self._plan.campaign_id} does not begin: {now.reason}",
                hint="Mend it and attach again, or remove it:"
                f" steelyard attach {self._plan.campaign_id} --remove",
            )

    def _say(self, text: str) -> None:
        if text != self._said:
            self._told(text)
        self._said = text


_PATIENCE_S: Final = 900.0  # without any answer; a guess: a laptop changes its network
_T = TypeVar("_T")


class Source(Protocol):
    """Where a record is."""

    def listed(self) -> tuple[RecordFile, ...]:
        """Return its files with their checksums, the journal first."""
        ...

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of them."""
        ...


class PatientSource:
    """A source that bears lost connections, and pods that end.

    Args:
        opened: Opens a way to the record.
        clock: Waits between tries.
        told: Hears of a way that broke, once.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Source]],
        clock: Clock,
        told: Callable[[str], None],
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._told = told
        self._stack = ExitStack()
        self._source: Source | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def listed(self) -> tuple[RecordFile, ...]:
        """Return the files of the record."""
        return self._answer(lambda source: source.listed())

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of them."""
        return self._answer(lambda source: source.read(pieces))

    def _answer(self, asked: Callable[[Source], _T]) -> _T:
        """Return what a source answers, in time.

        Raises:
            TargetError: None does.
        """
        deadline = self._clock.monotonic() + _PATIENCE_S
        said = False
        while True:
            try:
                return asked(self._way())
            except (TargetError, MeasurementError) as error:
                self._close()
                if self._clock.monotonic() > deadline:
                    hint = "What came is kept; attach again, and it goes on there."
                    raise TargetError(error.message, hint=hint) from error
                if not said:
                    self._told(f"{error.message}; trying again")
                said = True
            self._clock.sleep(_PAUSE_S)

    def _way(self) -> Source:
        if self._source is None:
            self._source = self._stack.enter_context(self._opened())
        return self._source

    def _close(self) -> None:
        self._source = None
        # A pod that cannot be removed now has its deadline, and goes with the volume.
        with suppress(SteelyardError):
            self._stack.close()
