"""What to compare: an experiment, resolved and validated.

Everything here is concrete: ``extends`` is unrolled, script files are read, profiles are
expanded. What stays open until the machine is known (``discard: auto``, ``reset: auto``) is
None, and the record says what it became.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from steelyard.model.attribution import Attribution
from steelyard.model.ceilings import CeilingsAsked
from steelyard.model.latency import LatencyGoal, LogPolicy
from steelyard.model.load import Load
from steelyard.model.target import EndpointTarget, LocalTarget, Target

DEFAULT_NEIGHBOURS: Final = 0.15  # a guess; docs/validity.md says why


class Layer(StrEnum):
    """One storey of the stack that settings belong to."""

    KVM = "kvm"
    LINUX = "linux"
    KUBERNETES = "kubernetes"
    POSTGRES = "postgres"
    REDIS = "redis"
    CGROUP = "cgroup"

    def name_of(self, setting: str) -> str:
        """Return what tables call a setting: alone where it is the database's, else after us."""
        return setting if self in (Layer.POSTGRES, Layer.REDIS) else f"{self}: {setting}"


class EngineName(StrEnum):
    """A database system that can be weighed."""

    POSTGRES = "postgres"
    REDIS = "redis"


class SwitchCost(StrEnum):
    """What it takes to go from one treatment to another, cheapest first."""

    SESSION = "session"
    RELOAD = "reload"
    RESTART = "restart"
    REPROVISION = "reprovision"

    @property
    def rank(self) -> int:
        """Return the place in the order of cost, 0 for the cheapest."""
        return list(SwitchCost).index(self)


class Reset(StrEnum):
    """When the data go back to the prepared state."""

    VISIT = "visit"
    BLOCK = "block"
    CAMPAIGN = "campaign"


class Design(StrEnum):
    """How the runs are brought together."""

    BLOCKS = "blocks"  # interleaved and repeated: what every interval and verdict rests on
    ONCE = "single-pass"  # one run per cell in file order: no interval and no verdict


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Setting:
    """One setting asked for: the layer it belongs to, its name, its value as written."""

    layer: Layer
    name: str
    value: str

    @property
    def label(self) -> str:
        """Return its name in tables: ``work_mem``, ``cgroup: cpus``."""
        return self.layer.name_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualStep:
    """What is done by a person or a user's command before a treatment is measured.

    Attributes:
        text: What the operator is asked to do; empty where only a command runs.
        command: Run instead of asking; empty where a person does it.
        timeout_s: How long either may take.
    """

    text: str = ""
    command: tuple[str, ...] = ()
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """One combination of levels.

    Attributes:
        name: As in the experiment file.
        target: Where its server runs.
        settings: Asked for, sorted by layer and name, without duplicates.
        protocol: pgbench query mode when it is what varies; None means the experiment's.
        profiles: Names of the settings profiles that went into ``settings``.
        domain_xml: Text of the file that the setting ``domain`` of the layer ``kvm`` names.
        manual: Done when it comes into force after another one.
    """

    name: str
    target: Target
    settings: tuple[Setting, ...] = ()
    protocol: str | None = None
    profiles: tuple[str, ...] = ()
    domain_xml: str = ""
    manual: ManualStep | None = None

    def asked(self, layer: Layer = Layer.POSTGRES) -> dict[str, str]:
        """Return the values that it asks of one layer, by name as written."""
        return {s.name: s.value for s in self.settings if s.layer is layer}

    def asked_folded(self) -> dict[str, str]:
        """Return what it asks of PostgreSQL, whose names have no case, by name in small letters."""
        return {name.lower(): value for name, value in self.asked().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script file with its text, so that the record needs no other file.

    Attributes:
        name: File name as given.
        text: Its content.
        weight: Relative frequency among the workload's scripts.
    """

    name: str
    text: str
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of the server.

    Attributes:
        name: As in the experiment file.
        builtin: Name of a builtin script, or None when ``scripts`` are given.
        scale_factor: Size of the generator's own data set; None when ``prepare`` makes the data.
        prepare: SQL scripts run once; their result is part of the prepared state.
        scripts: Own scripts with weights.
    """

    name: str
    builtin: str | None = None
    scale_factor: int | None = None
    prepare: tuple[Script, ...] = ()
    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How the discard after a restart is measured.

    Attributes:
        restarts: Activations per treatment.
        run_s: Length of the run after each.
        at_least_s: The discard is never shorter than this.
    """

    restarts: int = 5
    run_s: float = 90.0
    at_least_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a run is taken.

    Attributes:
        slice_s: Measured length of a run.
        ramp_s: Thrown away at the start of each run, while connections open.
        discard_s: Thrown away after each activation, the same for all treatments; None: auto.
        calibration: Measures the discard before the first block; None: it is declared, or the
            floor of METHOD 3.7.
        reset: When the data are restored; None: auto.
        switch: Least switch cost to assume; None: what the differences need.
        rounds: Runs of each cell in a visit; None: auto.
        prewarm: Load the data into memory after each activation, before the discard.
        ceilings: What the place can do at most is measured before the first block.
        neighbours: Share of the machine's CPU and disk time that other processes may use in a run;
            None: as much as they like, and it is noted.
        log: What becomes of the generator's log of every transaction.
        log_sampling: Share of the transactions that are logged.
    """

    slice_s: float = 5.0
    ramp_s: float = 2.0
    discard_s: float | None = None
    calibration: Calibration | None = None
    reset: Reset | None = None
    switch: SwitchCost | None = None
    prewarm: bool = False
    rounds: int | None = None
    ceilings: CeilingsAsked = CeilingsAsked.AUTO
    neighbours: float | None = DEFAULT_NEIGHBOURS
    log: LogPolicy = LogPolicy.HISTOGRAMS
    log_sampling: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAsked:
    """How the capacity is found before the first block, where loads are shares of it.

    Attributes:
        clients: Of the closed loops that are tried, rising.
        rounds: Slices of each, interleaved by coin.
    """

    clients: tuple[int, ...]
    rounds: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When the campaign ends.

    Attributes:
        budget_s: Seconds from the start of preparation to the end of the last block.
        decide: Relative effect the user wants decided (0.03 = 3 %); used for "N more minutes".
        precision: Half-width asked for; when given, verdicts do not stop the campaign.
        equivalence: Margin within which a difference has no practical weight.
    """

    budget_s: float = 3600.0
    decide: float = 0.03
    precision: float | None = None
    equivalence: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinOf:
    """The experiment whose noise an A/A campaign measures in its place.

    Attributes:
        treatments: How many it compares, the baseline included.
        stop: Its own rules for stopping, which say at what level it will look.
        contrasts: How many headlines it has under each workload; None: one for each treatment
            beside the baseline, which combinations of factors have not.
        squares: Sum of the squared weights of its treatments in a headline: 2 for a pair, less
            for a main effect, to which all combinations contribute.
    """

    name: str
    treatments: int
    stop: Stop
    contrasts: int | None = None
    squares: float = 2.0

    @property
    def headlines(self) -> int:
        """Return how many headlines it has under each workload, at least 1."""
        contrasts = self.treatments - 1 if self.contrasts is None else self.contrasts
        return max(contrasts, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A validated experiment.

    Attributes:
        engine: The database system all its targets run.
        design: Blocks, or a single unrepeated pass of one treatment.
        sustained_s: Least length of one long run per treatment and workload after the last block;
            None: no long runs.
        generator_flags: Flags handed to the generator unchanged (after ``--``).
        description: Why the question is asked; empty when the file does not say.
        attribution: What the treatments stand for when factors were varied; None when they were
            written one by one.
        twin_of: What an A/A campaign measures the noise for; None for every other experiment.
        capacity: How the capacity is found; None where no load is a share of it.
        goal: The highest rate that meets it is looked for; None: none is.
    """

    name: str
    baseline: str
    treatments: tuple[Treatment, ...]
    workloads: tuple[Workload, ...]
    loads: tuple[Load, ...]
    protocol: str = "simple"
    measure: Measure = field(default_factory=Measure)
    stop: Stop = field(default_factory=Stop)
    seed: int
    engine: EngineName = EngineName.POSTGRES
    design: Design = Design.BLOCKS
    sustained_s: float | None = None
    generator_flags: tuple[str, ...] = ()
    description: str = ""
    attribution: Attribution | None = None
    twin_of: TwinOf | None = None
    capacity: CapacityAsked | None = None
    goal: LatencyGoal | None = None

    def treatment(self, name: str) -> Treatment:
        """Return the treatment of that name."""
        return next(t for t in self.treatments if t.name == name)

    def workload(self, name: str) -> Workload:
        """Return the workload of that name."""
        return next(w for w in self.workloads if w.name == name)

    @property
    def is_single_pass(self) -> bool:
        """Return whether each cell is run once, in file order, and nothing is compared."""
        return self.design is Design.ONCE

    @property
    def local_targets(self) -> dict[str, LocalTarget]:
        """Return the targets on this machine by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, LocalTarget)}

    @property
    def endpoint_targets(self) -> dict[str, EndpointTarget]:
        """Return the targets that are there already by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, EndpointTarget)}

    @property
    def closed_loads(self) -> tuple[Load, ...]:
        """Return the loads whose throughput is an answer: that of an open loop was asked for."""
        return tuple(load for load in self.loads if not load.is_open)

    @property
    def largest_load(self) -> Load:
        """Return the load that stands for all: a closed loop with the most clients, if any."""
        return max(self.loads, key=lambda load: load.size)

    @property
    def compares_throughput(self) -> bool:
        """Return whether treatments are weighed by their transactions per second."""
        return len(self.treatments) > 1 and bool(self.closed_loads)

    @property
    def contenders(self) -> tuple[str, ...]:
        """Return the names of all treatments but the baseline, in file order."""
        return tuple(t.name for t in self.treatments if t.name != self.baseline)
