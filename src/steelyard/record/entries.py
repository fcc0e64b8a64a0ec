"""What a journal line can say. Kinds and fields are a stored format: only additions."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from steelyard.core.campaign import BlockOutcome, ServerMade
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding
from steelyard.core.measurement import Environment, Run, SustainedRun
from steelyard.core.outside import InCluster, OnServer, TurnedKnob
from steelyard.core.plan import CampaignPlan, Status
from steelyard.core.stack import Knob


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

    Attributes:
        resource: ``directory`` (a tree to remove, after stopping the processes in it),
            ``on-server`` (made or changed on a server that is not Steelyard's), ``cgroup`` (a
            control group to remove, when no process is in it), ``knob`` (of the stack, to put
            back), or ``in-cluster`` (an object in a Kubernetes cluster).
        name: Its path, or what it is called in lists.
        thing: What is on a server, and how to undo it.
        knob: What was turned, and what was there before.
        placed: What is in a cluster, and how to undo it.
    """

    kind: Literal["created"] = "created"
    resource: Literal["directory", "on-server", "cgroup", "knob", "in-cluster"]
    name: str
    thing: OnServer | None = None
    knob: TurnedKnob | None = None
    placed: InCluster | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Something that was made is gone again."""

    kind: Literal["removed"] = "removed"
    resource: Literal["directory", "on-server", "cgroup", "knob", "in-cluster"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRead:
    """Facts of machine and servers; a later one replaces an earlier."""

    kind: Literal["environment"] = "environment"
    environment: Environment


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
    server: OnServer | None = None
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

ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


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
