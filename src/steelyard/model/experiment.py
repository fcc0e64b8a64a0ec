"""What to compare: an experiment, resolved and validated.

Everything here is concrete: ``extends`` is unrolled, script files are read, profiles are
expanded. What stays open until the machine is known (``discard: auto``, ``reset: auto``) is
None, and the record says what it became.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from steelyard.model.attribution import Attribution
from steelyard.model.latency import LatencyGoal
from steelyard.model.load import Load
from steelyard.model.measure import Measure, SwitchCost
from steelyard.model.schedule import Mode
from steelyard.model.target import (
    AnyLocalTarget,
    CloudNativePgTarget,
    EndpointTarget,
    LocalTarget,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisTarget,
    Target,
    place_of,
)
from steelyard.model.work_words import POSTGRES_WORDS, WorkWords, redis_words
from steelyard.model.workload import Workload


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


class GeneratorName(StrEnum):
    """A program that puts load on a server."""

    PGBENCH = "pgbench"
    REDIS_BENCHMARK = "redis-benchmark"
    MEMTIER = "memtier_benchmark"

    @property
    def takes_time(self) -> bool:
        """Return whether it is told how long to run; the other is told how many requests."""
        return self is not GeneratorName.REDIS_BENCHMARK

    @property
    def logs_transactions(self) -> bool:
        """Return whether it can log each of them; the others print how long they took together."""
        return self is GeneratorName.PGBENCH

    @property
    def longest_latency_s(self) -> float | None:
        """Return the latency above which it tells none apart; None where it tells all.

        CONFIG_LATENCY_HISTOGRAM_MAX_VALUE of redis-benchmark.c, LATENCY_HDR_MAX_VALUE of memtier.
        """
        return {GeneratorName.REDIS_BENCHMARK: 3.0, GeneratorName.MEMTIER: 60.0}.get(self)


class Design(StrEnum):
    """How the runs are brought together."""

    AUTO = "auto"  # alternating where it can be, else one by one
    ALTERNATING = "alternating"  # all up at the same time, the load takes turns within a block
    ONE_BY_ONE = "one-by-one"  # blocks, too: one configuration after another is up
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

    @property
    def server_layer(self) -> Layer:
        """Return the layer of its server's own settings."""
        return Layer.REDIS if isinstance(self.target, RedisTarget) else Layer.POSTGRES

    def asked(self, layer: Layer | None = None) -> dict[str, str]:
        """Return the values that it asks of one layer, by name as written; None: of its server."""
        wanted = layer or self.server_layer
        return {s.name: s.value for s in self.settings if s.layer is wanted}

    def asked_folded(self) -> dict[str, str]:
        """Return what it asks of its server, whose names have no case, by name in small letters."""
        return {name.lower(): value for name, value in self.asked().items()}


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
class OtherDesign:
    """How the treatments of an experiment could be brought together, and are not.

    Attributes:
        block_s: Of one block of the experiment itself, foretold.
    """

    mode: Mode
    block_s: float


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
        other: The design it does not take; None where there is one only.
    """

    name: str
    treatments: int
    stop: Stop
    contrasts: int | None = None
    squares: float = 2.0
    other: OtherDesign | None = None

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
        design: How runs are brought together, as asked; the plan says what it became.
        sustained_s: Least length of one long run per treatment and workload after the last block;
            None: no long runs.
        generator: What puts the load on.
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
    design: Design = Design.AUTO
    sustained_s: float | None = None
    generator: GeneratorName = GeneratorName.PGBENCH
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
    def words(self) -> WorkWords:
        """Return what its work is called."""
        if self.engine is EngineName.REDIS:
            return redis_words(self.generator.value)
        return POSTGRES_WORDS

    @property
    def is_single_pass(self) -> bool:
        """Return whether each cell is run once, in file order, and nothing is compared."""
        return self.design is Design.ONCE

    @property
    def local_targets(self) -> dict[str, LocalTarget]:
        """Return the PostgreSQL targets on this machine by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, LocalTarget)}

    @property
    def places_here(self) -> dict[str, AnyLocalTarget]:
        """Return the targets whose data directories are made here, by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, AnyLocalTarget)}

    @property
    def redis_targets(self) -> dict[str, RedisTarget]:
        """Return the Redis targets by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, RedisTarget)}

    @property
    def endpoint_targets(self) -> dict[str, EndpointTarget]:
        """Return the targets that are there already by treatment."""
        return {t.name: t.target for t in self.treatments if isinstance(t.target, EndpointTarget)}

    @property
    def shared_servers(self) -> dict[EndpointTarget | RedisEndpointTarget, tuple[str, ...]]:
        """Return the servers that are there already and have several treatments, with their names.

        Those in a cluster are not among them.
        """
        found: dict[EndpointTarget | RedisEndpointTarget, list[str]] = {}
        for treatment in self.treatments:
            target = treatment.target
            if isinstance(target, EndpointTarget | RedisEndpointTarget) and not place_of(target):
                found.setdefault(target, []).append(treatment.name)
        return {target: tuple(names) for target, names in found.items() if len(names) > 1}

    @property
    def cluster_targets(self) -> dict[str, CloudNativePgTarget]:
        """Return the targets that CloudNativePG runs by treatment."""
        return {
            t.name: t.target for t in self.treatments if isinstance(t.target, CloudNativePgTarget)
        }

    @property
    def redis_in_kubernetes(self) -> dict[str, RedisKubernetesTarget]:
        """Return the Redis targets that are pods by treatment."""
        return {
            t.name: t.target for t in self.treatments if isinstance(t.target, RedisKubernetesTarget)
        }

    @property
    def made_targets(self) -> dict[str, CloudNativePgTarget | RedisKubernetesTarget]:
        """Return the targets that Steelyard makes in a cluster by treatment."""
        return {
            t.name: t.target
            for t in self.treatments
            if isinstance(t.target, CloudNativePgTarget | RedisKubernetesTarget)
            and t.target.is_made
        }

    @property
    def makes_all_in_kubernetes(self) -> bool:
        """Return whether every server is one that Steelyard makes in a cluster."""
        return len(self.made_targets) == len(self.treatments)

    @property
    def is_in_kubernetes(self) -> bool:
        """Return whether servers and generators are pods; one experiment never has both kinds."""
        return any(place_of(t.target) is not None for t in self.treatments)

    @property
    def is_made_anew(self) -> bool:
        """Return whether every visit makes its server and data from nothing.

        It was asked for, or the treatments have servers in Kubernetes that differ, and Steelyard
        makes them.
        """
        made = set(self.made_targets.values())
        return self.measure.switch is SwitchCost.REPROVISION or len(made) > 1

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
