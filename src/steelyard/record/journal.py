"""The append-only journal: what its lines can say, and the campaign that they tell of.

Kinds and fields of entries are a stored format: only additions. Each line is a JSON object with its
own checksum, and fsync'd. Invariant: a line that ``append`` returned from is on disk and will be
read back. What stands after the last newline was torn by a death in the middle of a write; it was
never acknowledged and is cut off. A damaged line is an error, because what follows it may rest on
it.
"""

import json
import os
import threading
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from steelyard.core import outside
from steelyard.core.campaign import BlockOutcome, CampaignPlan, CampaignRecord, ServerMade, Status
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding
from steelyard.core.measurement import Environment, ProviderSeries, Run, SustainedRun
from steelyard.core.stack import Knob
from steelyard.core.wording import LONGEST_NAME, NAME, RecordError, format_bytes, is_label
from steelyard.gateways.files import sync_directory, translated
from steelyard.gateways.host import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A campaign begins: the first entry of every journal."""

    kind: Literal["started"] = "started"
    campaign_id: str
    experiment: Experiment
    command: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Work goes on after a stop or a death; the block in flight is redone."""

    kind: Literal["resumed"] = "resumed"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """Something outside the record is about to be made; written before it is.

    What a journal says so is a claim, which may come from anybody: nothing is undone for it.

    Attributes:
        name: Its path, or what it is called in lists.
        thing: What undoing it takes; None: its path does, or the line was made by hand.
    """

    kind: Literal["created"] = "created"
    resource: outside.Word
    name: str
    thing: outside.OnServer | outside.InCluster | outside.InAws | outside.TurnedKnob | None = None

    @classmethod
    def of(cls, made: outside.Outside) -> "Created":
        """Return the entry of something that is about to be made."""
        thing = None if isinstance(made, outside.MadeDirectory | outside.ControlGroup) else made
        return cls(resource=made.word, name=made.label, thing=thing)

    @property
    def is_path(self) -> bool:
        """Return whether it is called by its path."""
        return self.resource in {"directory", "cgroup"}

    @property
    def key(self) -> tuple[str, object]:
        """Return what two entries of one thing share, whatever it is called."""
        return self.resource, self.thing or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Something that was made is gone again, or as it was."""

    kind: Literal["removed"] = "removed"
    resource: outside.Word
    name: str

    @classmethod
    def of(cls, made: "outside.Outside | Created") -> "Removed":
        """Return the entry of something that is undone."""
        if isinstance(made, Created):
            return cls(resource=made.resource, name=made.name)
        return cls(resource=made.word, name=made.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRead:
    """Facts of machine and servers; a later one replaces an earlier."""

    kind: Literal["environment"] = "environment"
    environment: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRead:
    """What providers counted of servers; a later one replaces an earlier."""

    kind: Literal["provider"] = "provider"
    series: tuple[ProviderSeries, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is frozen before the first block."""

    kind: Literal["planned"] = "planned"
    plan: CampaignPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStarted:
    """One try of a block begins."""

    kind: Literal["block-started"] = "block-started"
    index: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """A server was made for one start, where nodes and volumes are others each time."""

    kind: Literal["provisioned"] = "provisioned"
    server: ServerMade


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """One run with everything measured in it."""

    kind: Literal["run"] = "run"
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedFinished:
    """One long run after the last block, with everything measured in it."""

    kind: Literal["sustained"] = "sustained"
    run: SustainedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEnded:
    """One try of a block is complete or thrown away."""

    kind: Literal["block-ended"] = "block-ended"
    outcome: BlockOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A finding about the campaign as a whole."""

    kind: Literal["finding"] = "finding"
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The campaign stopped, for whatever reason; a resume may follow."""

    kind: Literal["ended"] = "ended"
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCluster:
    """A Kubernetes cluster whose objects a plan turns.

    Attributes:
        context: Of the kubeconfig.
        server: URL of its API: it tells clusters apart.
        namespace: Of the objects that have one.
    """

    context: str
    server: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackBegun:
    """A stack plan is about to be applied; the record's own copy of what it turns.

    Attributes:
        server: Of its PostgreSQL settings, without the password; None: it has none.
        system_identifier: Of that server's data, so that no other is changed in its place.
        server_place: What tells that server from a standby, which has the same data; empty where
            its user may not see it.
        machine: Its ``/etc/machine-id``; empty where it has none.
        cluster: Whose objects are turned; None: none are.
    """

    kind: Literal["stack-begun"] = "stack-begun"
    knobs: tuple[Knob, ...]
    version: str
    server: outside.OnServer | None = None
    system_identifier: str = ""
    server_place: str = ""
    machine: str = ""
    cluster: AppliedCluster | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobKept:
    """What was there before a knob is turned; written before it is.

    Attributes:
        snapshot: As its door understands it.
    """

    kind: Literal["knob-kept"] = "knob-kept"
    knob: Knob
    snapshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobTurned:
    """A knob was turned and looked at.

    Attributes:
        name: Of the knob.
        pending: What must still happen until it is in effect; empty: it is.
    """

    kind: Literal["knob-turned"] = "knob-turned"
    name: str
    pending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobPutBack:
    """What was there before a knob was turned is there again."""

    kind: Literal["knob-put-back"] = "knob-put-back"
    knob: Knob


Entry = (
    Started
    | Resumed
    | Created
    | Removed
    | EnvironmentRead
    | ProviderRead
    | Planned
    | BlockStarted
    | Provisioned
    | RunFinished
    | BlockEnded
    | SustainedFinished
    | Noted
    | Ended
    | StackBegun
    | KnobKept
    | KnobTurned
    | KnobPutBack
)

# Made when the first line is read or written: it takes 50 ms, and many commands need none.
ENTRY: TypeAdapter[Entry] = TypeAdapter(
    Annotated[Entry, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One journal line: an entry with its place and time.

    Attributes:
        at: Wall clock, seconds since the epoch.
        elapsed_s: Seconds of work so far, over all sessions of the campaign.
    """

    sequence: int
    at: float
    elapsed_s: float
    entry: Entry


FORMAT = 2
# A guess: a hundred times what campaigns of a day had.
_LARGEST_BYTES = 2 << 30
_ROOM_FOR_THE_END = 16 << 20  # so that a full journal still says how its campaign ended
_CHECKSUM = ',"crc32":"{:08x}"}}'
_CHECKSUM_LENGTH = len(_CHECKSUM.format(0))


class Journal:
    """An open journal; ``append`` is the only way to write."""

    def __init__(self, path: Path, clock: Clock, *, mode: int = 0o644) -> None:
        """Open for appending, after cutting off a torn last line; a new file gets the mode.

        Raises:
            RecordError: The journal is damaged or cannot be written.
        """
        self._path = path
        self._clock = clock
        lines, good_bytes = read_lines(path) if path.exists() else ((), 0)
        # The next line's number, and the bytes of all lines that were acknowledged.
        self._next = (len(lines), good_bytes)
        self._elapsed_before = lines[-1].elapsed_s if lines else 0.0
        self._opened = clock.monotonic()
        self._writing = threading.Lock()  # servers that start side by side note what they make
        with translated(path, RecordError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, mode)
            sync_directory(path.parent)

    @property
    def elapsed_s(self) -> float:
        """Return seconds of work so far, over all sessions of the campaign."""
        return self._elapsed_before + self._clock.monotonic() - self._opened

    def append(self, entry: Entry) -> Line:
        """Write one entry and return once it is on disk.

        Raises:
            RecordError: The disk is full or fails, or the journal would be too large to be read.
        """
        with self._writing:
            return self._append(entry)

    def _append(self, entry: Entry) -> Line:
        sequence, good_bytes = self._next
        line = Line(sequence=sequence, at=self._clock.now(), elapsed_s=self.elapsed_s, entry=entry)
        content = encode(line)
        room = 0 if isinstance(entry, Ended | Removed) else _ROOM_FOR_THE_END
        if good_bytes + len(content) + room > _LARGEST_BYTES:
            raise RecordError(
                f"{self._path} is full: a journal has at most {format_bytes(_LARGEST_BYTES)}",
                hint="`steelyard report` shows all that it holds. For more, begin another campaign"
                " with fewer runs.",
            )
        with translated(self._path, RecordError):
            # A full disk or Ctrl-C may have ended an append before this one half-way.
            os.ftruncate(self._descriptor, good_bytes)
            view = memoryview(content)
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fsync(self._descriptor)
        self._next = (sequence + 1, good_bytes + len(content))
        return line

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def encode(line: Line) -> bytes:
    """Return a line as JSON with the checksum of everything before it."""
    entry = ENTRY.dump_json(line.entry).decode()
    head = json.dumps(
        {
            "format": FORMAT,
            "sequence": line.sequence,
            "at": round(line.at, 6),
            "elapsed_s": round(line.elapsed_s, 6),
        },
        separators=(",", ":"),
    )
    body = f'{head[:-1]},"entry":{entry}'
    return (body + _CHECKSUM.format(zlib.crc32(body.encode())) + "\n").encode()


def read_lines(path: Path) -> tuple[tuple[Line, ...], int]:
    """Return all good lines and how many bytes they take; a torn last line is left out.

    Raises:
        RecordError: The file cannot be read, or a line is damaged.
    """
    with translated(path, RecordError):
        if path.stat().st_size > _LARGEST_BYTES:
            raise RecordError(
                f"{path} is larger than any journal", hint="Name the directory of a campaign."
            )
        lines, good_bytes = [], 0
        with path.open("rb") as file:  # line by line: a large one is not held twice
            for number, raw in enumerate(file):
                if not raw.endswith(b"\n"):
                    break
                lines.append(_line(raw[:-1], number, str(path)))
                good_bytes += len(raw)
    return tuple(lines), good_bytes


class JournalTail:
    """A journal that is read while another machine writes it, in pieces that end anywhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0
        self._torn = b""

    def feed(self, piece: bytes) -> tuple[Line, ...]:
        """Return the lines that are whole now and were not before.

        Raises:
            RecordError: A line is damaged.
        """
        *whole, self._torn = (self._torn + piece).split(b"\n")
        first, self._next = self._next, self._next + len(whole)
        return tuple(_line(raw, number, self._name) for number, raw in enumerate(whole, first))


def beginning(raw: bytes, name: str) -> tuple[str, float]:
    """Return the experiment's name and when its campaign began, from the bytes of a first line.

    The experiment is not looked at: a list of a thousand campaigns needs only this.

    Raises:
        RecordError: It is damaged, or says no start.
    """
    try:
        fields = _fields(raw.removesuffix(b"\n"), 0)
        if fields["entry"]["kind"] != "started":
            raise ValueError("it is not the start of a campaign")
        return str(fields["entry"]["experiment"]["name"]), float(fields["at"])
    except _DAMAGE as error:
        raise _damaged(name, 0, error) from error


_DAMAGE = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


class _OtherFormatError(ValueError):
    """A line is of a format that this version does not read."""


def _damaged(name: str, sequence: int, error: Exception) -> RecordError:
    if isinstance(error, _OtherFormatError):
        return RecordError(
            f"{name} is a record of format {error}, and this version of Steelyard reads {FORMAT}",
            hint="Read it with the version that wrote it; the first line of the journal names it.",
        )
    return RecordError(
        f"{name} is damaged at line {sequence + 1}: {error}",
        hint="Restore it from a copy, or keep what is before that line in a copy of it.",
    )


def _line(raw: bytes, sequence: int, name: str) -> Line:
    try:
        return _decode(raw, expected_sequence=sequence)
    except _DAMAGE as error:
        raise _damaged(name, sequence, error) from error


def _fields(raw: bytes, expected_sequence: int) -> Any:  # noqa: ANN401 - JSON
    body, tail = raw[:-_CHECKSUM_LENGTH], raw[-_CHECKSUM_LENGTH:]
    if tail != _CHECKSUM.format(zlib.crc32(body)).encode():
        raise ValueError("its checksum does not fit")
    fields = from_json(body + b"}")
    if fields["format"] != FORMAT:
        raise _OtherFormatError(int(fields["format"]))
    if fields["sequence"] != expected_sequence:
        raise ValueError(f"it is number {fields['sequence']}, expected {expected_sequence}")
    return fields


def _decode(raw: bytes, *, expected_sequence: int) -> Line:
    fields = _fields(raw, expected_sequence)
    try:
        entry = ENTRY.validate_python(fields["entry"])
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{first['msg']} at {'.'.join(map(str, first['loc']))}") from error
    return Line(
        sequence=fields["sequence"],
        at=float(fields["at"]),
        elapsed_s=float(fields["elapsed_s"]),
        entry=entry,
    )


IN_FLIGHT = "Steelyard ended while it ran"


def replay(lines: Sequence[Line]) -> CampaignRecord:
    """Return the campaign that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign, or tells what cannot
            have been.
    """
    start = _start(lines)
    entries = [line.entry for line in lines]
    known = _Known.of(start.experiment)
    for number, entry in enumerate(entries, start=1):
        if wrong := _what_cannot_be(entry, known):
            raise RecordError(f"line {number} of the journal: {wrong}", hint=_RESTORE)
    plan = [entry.plan for entry in entries if isinstance(entry, Planned)]
    planned_at = [line.elapsed_s for line in lines if isinstance(line.entry, Planned)]
    environment = [entry.environment for entry in entries if isinstance(entry, EnvironmentRead)]
    return CampaignRecord(
        campaign_id=start.campaign_id,
        experiment=start.experiment,
        status=_status(entries),
        plan=plan[-1] if plan else None,
        environment=environment[-1] if environment else None,
        runs=tuple(entry.run for entry in entries if isinstance(entry, RunFinished)),
        blocks=_outcomes(entries),
        findings=tuple(entry.finding for entry in entries if isinstance(entry, Noted)),
        started_at=lines[0].at,
        elapsed_s=lines[-1].elapsed_s,
        command=start.command,
        sustained=tuple(entry.run for entry in entries if isinstance(entry, SustainedFinished)),
        planned_at_s=planned_at[-1] if planned_at else None,
        made=tuple(entry.server for entry in entries if isinstance(entry, Provisioned)),
        provider=next((e.series for e in reversed(entries) if isinstance(e, ProviderRead)), ()),
    )


_RESTORE: Final = "Restore it from a copy."
_MOST: Final = 1e15  # transactions of a run, and seconds since 1970: far beyond any
_LATEST_S: Final = 1e11
_WITHOUT: Final = "without-"  # a factor that is taken away from all
_LAST: Final = 2**31 - 1  # block, start or try, as tables can hold it
_MOST_ROUNDS: Final = 1000  # of a start; the best number is a handful


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What runs may be of: asked a hundred thousand times."""

    configurations: frozenset[str]
    workloads: frozenset[str]
    loads: frozenset[Hashable]

    @classmethod
    def of(cls, experiment: Experiment) -> "_Known":
        return cls(
            configurations=frozenset(each.name for each in experiment.configurations),
            workloads=frozenset(each.name for each in experiment.workloads),
            loads=frozenset(experiment.loads),
        )


def _what_cannot_be(entry: Entry, known: _Known) -> str:
    """Return what of an entry no campaign can have written, though its form is right; or nothing.

    Journals may come from anybody. What follows from them rests on this.
    """
    if isinstance(entry, Started):
        for wrong in _wrong_names(entry.experiment):
            return f"{wrong[:LONGEST_NAME]!a} is not a valid name"
        named = _Known.of(entry.experiment).configurations
        return "" if entry.experiment.baseline in named else "its baseline is no configuration"
    for stranger in _names(entry) - known.configurations - known.workloads - {""}:
        return f"the experiment has no {stranger[:LONGEST_NAME]!a}"
    if isinstance(entry, Planned):
        rule = entry.plan.stopping
        sound = 0.0 < rule.alpha < 1.0 and rule.results > 0 and rule.max_blocks >= 0
        sound = sound and 0 < entry.plan.rounds <= _MOST_ROUNDS
        sound = sound and 0.0 <= entry.plan.block_s < _LATEST_S
        return "" if sound else "its plan has no level, no results, no rounds or no time"
    if isinstance(entry, RunFinished | SustainedFinished):
        return _no_run(entry.run, known)
    return ""


def _wrong_names(experiment: Experiment) -> Iterator[str]:
    """Yield names that no experiment file can have given."""
    factors = experiment.attribution.factors if experiment.attribution else ()
    names = [*(each.name for each in experiment.workloads), *(each.name for each in factors)]
    yield from (name for name in names if not NAME.fullmatch(name))
    for name in (each.name for each in experiment.configurations):
        parts = name.removeprefix(_WITHOUT).split("+")  # of a combination of factors
        if len(name) > LONGEST_NAME + len(_WITHOUT) or not all(map(NAME.fullmatch, parts)):
            yield name
    levels = (level for each in factors for level in (each.first, each.second))
    yield from (level for level in levels if not is_label(level))


def _names(entry: Entry) -> set[str]:
    """Return the configurations and workloads that an entry without a run speaks of."""
    if isinstance(entry, Planned):
        plan = entry.plan
        names = {each.configuration for each in plan.capacities} | {*dict(plan.restores)}
        names |= {each.workload for each in plan.capacities} | {t.workload for t in plan.turns}
        names |= {order.workload for order in plan.in_order}
        return names | {rate.cell.workload for rate in plan.rates}
    if isinstance(entry, EnvironmentRead):
        return {server.configuration for server in entry.environment.servers}
    if isinstance(entry, ProviderRead):
        return {name for series in entry.series for name in series.configurations}
    if isinstance(entry, Provisioned):
        return {entry.server.configuration}
    return {entry.outcome.configuration} if isinstance(entry, BlockEnded) else set()


def _no_run(run: Run | SustainedRun, known: _Known) -> str:
    if not 0.0 <= run.started_at < _LATEST_S:
        return "its run began at no time"
    if run.configuration not in known.configurations:
        return "its run is of no configuration of the experiment"
    if run.cell.workload not in known.workloads:
        return "its run is of no workload of the experiment"
    if isinstance(run, Run) and run.cell.load not in known.loads:
        return "its run has a load that the experiment has not"
    if isinstance(run, Run) and not (
        all(0 <= number <= _LAST for number in (*run.place, run.attempt))
        and 0 <= run.sub_block < len(known.configurations)
    ):
        return "its run has no place in a block"
    taken = run.measurement
    sound = taken is None or (0.0 < taken.seconds < _LATEST_S and 0.0 <= taken.transactions < _MOST)
    return "" if sound else "its run has no rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a campaign stands, as far as those need to know who clear up after it.

    Attributes:
        left: Made or changed outside the record and not undone again, last made first.
        ever: All that was made or changed, undone or not.
    """

    campaign_id: str
    status: Status
    left: tuple[Created, ...]
    ever: tuple[Created, ...]


def standing(lines: Sequence[Line]) -> Standing:
    """Return where the campaign stands that journal lines tell of.

    Raises:
        RecordError: The journal does not begin with the start of a campaign.
    """
    return Standing(
        campaign_id=_start(lines).campaign_id,
        status=_status([line.entry for line in lines]),
        left=_left(lines),
        ever=tuple(line.entry for line in lines if isinstance(line.entry, Created)),
    )


def _start(lines: Sequence[Line]) -> Started:
    if not lines or not isinstance(lines[0].entry, Started):
        raise RecordError(
            "the journal does not begin with the start of a campaign",
            hint="Name the directory of a campaign.",
        )
    return lines[0].entry


def _left(lines: Sequence[Line]) -> tuple[Created, ...]:
    left: list[Created] = []
    for line in lines:
        entry = line.entry
        if isinstance(entry, Created):
            left.append(entry)
        elif isinstance(entry, Removed):
            gone = [m for m in left if (m.resource, m.name) == (entry.resource, entry.name)]
            if gone:
                left.remove(gone[0])
    return tuple(reversed(left))


def _status(entries: Sequence[Entry]) -> Status:
    last = entries[-1]
    for entry in reversed(entries):
        if not isinstance(entry, Removed):  # clearing up comes after the end
            last = entry
            break
    return last.status if isinstance(last, Ended) else Status.RUNNING


def _outcomes(entries: Sequence[Entry]) -> tuple[BlockOutcome, ...]:
    """Return one outcome per try; a try that never ended was in flight at a death."""
    outcomes: list[BlockOutcome] = []
    open_try: BlockStarted | None = None
    for entry in entries:
        if isinstance(entry, BlockStarted):
            if open_try is not None:
                outcomes.append(_in_flight(open_try))
            open_try = entry
        elif isinstance(entry, BlockEnded):
            outcomes.append(entry.outcome)
            open_try = None
    if open_try is not None:
        outcomes.append(_in_flight(open_try))
    return tuple(outcomes)


def _in_flight(started: BlockStarted) -> BlockOutcome:
    return BlockOutcome(
        index=started.index, attempt=started.attempt, complete=False, reason=IN_FLIGHT
    )
