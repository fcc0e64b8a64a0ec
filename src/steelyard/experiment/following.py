"""Following a campaign that runs in a cluster, by its journal: what it tells, told again here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from steelyard.analysis.campaign import analyse
from steelyard.experiment.progress import Progress
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import MeasurementError, PrivilegeError, TargetError
from steelyard.model.kubernetes import ContainerRef
from steelyard.model.measurement import Run, SustainedRun
from steelyard.platforms.job.finding import Stand, Standing, standing
from steelyard.platforms.job.manifests import RECORD
from steelyard.platforms.job.plan import JobPlan
from steelyard.platforms.job.record_files import JOURNAL, Piece, RecordFiles
from steelyard.record.entries import (
    BlockEnded,
    BlockStarted,
    Line,
    Planned,
    Resumed,
    RunFinished,
    SustainedFinished,
)
from steelyard.record.journal import JournalTail
from steelyard.record.replay import replay

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
