"""What to compare: an experiment, resolved and validated.

Everything here is concrete: ``extends`` is unrolled, script files are read, profiles are
expanded. What stays open until the machine is known (``warm_up: auto``, ``reset: auto``) is
None, and the record says what it became.

Texts that are written once for all engines hold marks where the word for a unit of work belongs
(transactions of PostgreSQL, requests of Redis): characters of Unicode's private use area that
nobody types; who knows the experiment fills them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean
from typing import Annotated, Final, TypeVar

from steelyard.core.findings import Condition
from steelyard.core.money import HERE, CampaignCost, campaign_cost
from steelyard.core.places import KubernetesPlace, WorkersAsked
from steelyard.core.quantities import (
    COMMAND,
    LONG,
    NAME,
    SWITCH,
    TEXT,
    TEXTS,
    Quantity,
    as_command,
    as_text,
    budget,
    counts,
    duration,
    either,
    inside,
    key,
    refusal,
    required,
    several,
    share,
    shown,
    whole,
    word,
)
from steelyard.core.schedule import (
    LEAST_ASKED,
    LatencyGoal,
    Load,
    LoadCommand,
    MachineLimits,
    Mode,
    TurnTimes,
)
from steelyard.core.target import (
    DatabaseSystem,
    EndpointTarget,
    EngineName,
    Here,
    InPods,
    Target,
    There,
    systems,
)
from steelyard.core.wording import OpenWord, WorkWords, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """One setting as the running server reports it.

    Attributes:
        name: As the server spells it.
        value: In the server's own unit.
        unit: The server's unit for it, or None.
        source: Where the server took the value from (``default``, ``configuration file``).
    """

    name: str
    value: str
    unit: str | None = None
    source: str = ""


class LogPolicy(StrEnum):
    """What becomes of the generator's log of every transaction."""

    HISTOGRAMS = "histograms"  # counted into histograms, then dropped
    KEEP = "keep"  # counted, and kept compressed in the record
    OFF = "off"  # not written: there are mean latencies only


TargetT = TypeVar("TargetT", bound=Target)

DEFAULT_NEIGHBOURS: Final = 0.15  # a guess; docs/validity.md says why


class SwitchCost(StrEnum):
    """What it takes to go from one configuration to another, cheapest first."""

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

    START = "start"
    BLOCK = "block"
    CAMPAIGN = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How the warm-up after a restart is measured, before the first block."""

    restarts: int = key(5, whole(), "Starts per configuration.", 5)
    run_time_s: float = key(90.0, LONG, "Length of the run after each.", "90s")
    at_least_s: float = key(20.0, duration(), "The warm-up is never shorter than this.", "20s")


RUN: Final = duration(1.0, whole=True)
PREWARM_BYTES: Final = 4 * 1024**3  # read from the page cache within seconds; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a run is taken.

    None is what a file calls auto, of ``max_other_load`` ignore.

    Attributes:
        calibration: None: the warm-up is declared, or the floor of METHOD 3.7.
        prewarm: None: where ``Experiment.prewarms`` finds that it is cheap and right.
        turns: Lengths inside a block whose configurations alternate.
    """

    run_time_s: float = key(5.0, RUN, "Measured length of a run.", "5s")
    discard_start_s: float = key(
        2.0, duration(whole=True), "Thrown away at the start of each run; 0 for Redis.", "2s"
    )
    warm_up_s: float | None = key(
        None,
        either("auto", duration()),
        "Thrown away after each start, the same for all configurations.",
        "auto",
    )
    calibration: Calibration | None = key(
        None,
        Calibration,
        "Measures the warm-up; only with `warm_up: auto`.",
        {"restarts": 5, "run_time": "90s", "at_least": "20s"},
    )
    reset: Reset | None = key(
        None, either("auto", word(Reset)), "When the data go back to the prepared state."
    )
    switch: SwitchCost | None = key(
        None,
        either("auto", word(SwitchCost)),
        "The least that is done to go from one configuration to another.",
    )
    runs_per_start: int | None = key(
        None,
        either("auto", whole()),
        "Runs of each cell in a start; auto is one, unless the differences or the making of"
        " servers call for more.",
        "auto",
    )
    executions: int | None = key(None, either("auto", whole()), "How often each script runs.", 5)
    turns: TurnTimes = inside(TurnTimes)
    prewarm: bool | None = key(
        None,
        either("auto", SWITCH, empty=True),
        "Load the data into memory after each start; auto: up to 4 GiB, on servers that Steelyard"
        " makes.",
        True,
    )
    machine_limits: MachineLimits = key(
        MachineLimits.AUTO,
        word(MachineLimits),
        "Measure before the first block what the place can do at most; auto leaves the device out"
        " where that costs more than 2 % of the budget.",
        "on",
    )
    max_other_load: float | None = key(
        DEFAULT_NEIGHBOURS,
        either("ignore", share()),
        "Share of the machine that other processes may use during a run before its block is redone,"
        " but in turns; ignore only notes it.",
        "15%",
        "ignore",
    )
    log: LogPolicy = key(
        LogPolicy.HISTOGRAMS,
        word(LogPolicy),
        "What becomes of the generator's log of every transaction: counted, counted and kept, or"
        " not written.",
        "keep",
    )
    log_sampling: float = key(
        1.0, share(all_of_it=True), "Share of the transactions that are logged.", "10%"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script file of a workload.

    Attributes:
        name: File name as given.
        text: Its content, so that the record needs no other file; empty until it is read.
        rewritten_in: File of the text, where a configuration has its own for a script of that name.
    """

    name: str = required(
        TEXT, "File with the script, relative to the experiment file.", "new-order.sql", name="file"
    )
    text: str = ""
    rewritten_in: str = ""
    weight: int = key(1, whole(), "How often it runs relative to the workload's others.", 9)


NAMES_OF_TABLES: Final = several(Quantity(read=as_text, schema=TEXT.schema))
FILES: Final = several(Quantity(read=lambda name: Script(name=as_text(name)), schema=TEXT.schema))


def _as_words(value: object) -> tuple[str, ...]:
    words = as_command(value)
    if any(re.search(r"[\0\r\n]", word) for word in words):
        raise refusal("the command has a line break or NUL in it", "Write one command.")
    return words


_LARGEST_VALUE: Final = 512 * 1024**2  # Redis, "Strings": 512 MB by default (proto-max-bulk-len)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpace:
    """The keys of a Redis workload, and which of them are there before it.

    Attributes:
        loaded: So many of the first keys, or of further ones where there are more.
    """

    # redis-benchmark fills a key's number into twelve digits.
    keys: int = key(
        100_000,
        whole(1, 10**12),
        "Redis: requests choose among so many keys at random; 1: all use one key.",
        100000,
    )
    loaded: int = key(0, whole(0), "Redis: so many keys exist when a start begins.", 100000)
    value_bytes: int = key(
        3,
        whole(1, _LARGEST_VALUE),
        "Redis: size of each value, loaded or written.",
        1024,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisWork:
    """What is asked of a Redis server.

    Attributes:
        command: Empty where ``Workload.builtin`` names a test.
    """

    space: KeySpace = inside(KeySpace)
    command: tuple[str, ...] = key(
        (),
        Quantity(read=_as_words, schema=TEXTS),
        "Redis: one command with its arguments, in which __rand_int__ stands for the number of a"
        " key and __data__ for a value.",
        ["HGET", "user:__rand_int__", "name"],
    )


def _as_variables(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, dict | None):
        raise refusal(f"{shown(value)} is not a mapping", "Write `{warehouses: 4}`.")
    read = whole(0, 2**62).read
    for name in value or {}:
        if not re.fullmatch("[a-z][a-z_]*", str(name)) or name in _OF_PGBENCH:
            raise refusal(
                f"{shown(name)} is no name of a variable",
                "Use small letters and underscores, and none of "
                f"{listed(_OF_PGBENCH)}, which pgbench sets.",
            )
    return tuple(sorted((name, read(number)) for name, number in (value or {}).items()))


_OF_PGBENCH: Final = ("client_id", "default_seed", "random_seed", "scale")
_VARIABLES: Final = Quantity(
    read=_as_variables, schema={"type": "object", "additionalProperties": {"type": "integer"}}
)
_BUILTIN: Final = Quantity(
    read=as_text, schema={"enum": [name for each in systems() for name in each.builtins]}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of the server.

    Attributes:
        redis: None for every other engine.
        command: Puts the load on in place of the system's own generator; None: that does.
        run_time_s: None: that of all workloads.
    """

    name: str = required(NAME, "Unique among the workloads.", "reads")
    builtin: str | None = key(
        None,
        _BUILTIN,
        "A script that pgbench brings, or a test of redis-benchmark.",
        "select-only",
        "set",
    )
    scale: int | None = key(
        None, whole(), "Size of pgbench's own tables: 100,000 accounts (about 16 MB) each.", 100
    )
    prepare: tuple[Script, ...] = key(
        (),
        FILES,
        "SQL files that are run once, after pgbench's own tables are made.",
        ["orders.sql"],
    )
    copied: tuple[str, ...] = key(
        (),
        NAMES_OF_TABLES,
        "The scripts run on copies of these tables of the target's database, in databases of"
        " Steelyard's own on the same server; auto: the tables that the scripts name.",
        "auto",
        ["orders", "sales.customers"],
        name="copy_tables",
    )
    scripts: tuple[Script, ...] = key(
        (), list[Script], "Own pgbench scripts.", [{"file": "new-order.sql", "weight": 9}]
    )
    variables: tuple[tuple[str, int], ...] = key(
        (),
        _VARIABLES,
        "Whole numbers that `prepare` and `scripts` name as `:name`.",
        {"warehouses": 4},
    )
    redis: RedisWork | None = inside(RedisWork, optional=True)
    command: LoadCommand | None = None
    run_time_s: float | None = key(
        None, RUN, "Measured length of its runs; as `measure.run_time` where it is missing.", "10s"
    )


# In the order of ``WorkWords``; its last word, of the server, has no place in a text.
ONE: Final = "\ue101"  # transaction
MANY: Final = "\ue102"  # transactions
MANY_FIRST: Final = "\ue103"  # Transactions, at the beginning of a sentence
RATE: Final = "\ue104"  # tps
RATE_UNIT: Final = "\ue105"  # the unit of a column of that name; empty where the name has it
GENERATOR: Final = "\ue106"  # pgbench


Combination = tuple[int, ...]  # one 0 (first level) or 1 (second level) per factor
Effect = tuple[int, ...]  # places of the factors in a main effect (one) or an interaction (more)


class AttributionKind(StrEnum):
    """How the combinations are chosen; the names are the keys of the experiment file."""

    FACTORS = "factors"  # complete or fractional factorial: every factor beside every other
    LADDER = "ladder"  # one after another on top of those before
    ABLATION = "ablation"  # one at a time taken away from all


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A thing that is varied between two levels."""

    name: Annotated[str, "Name."]
    first: Annotated[str, "Name of the level on the baseline's side."]
    second: Annotated[str, "Name of the other level."]

    @property
    def off(self) -> str:
        """Return the first level as it stands in reports: ``buffers=128MB``."""
        return f"{self.name}={self.first}"

    @property
    def on(self) -> str:
        """Return the second level likewise: ``buffers=2GB``."""
        return f"{self.name}={self.second}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which configuration of an experiment is which combination of levels.

    Attributes:
        combinations: One per configuration, in configuration order.
        words: All defining words of a fraction but the empty one, up to sign; () otherwise.
    """

    kind: Annotated[AttributionKind, "How the combinations are chosen."]
    factors: Annotated[tuple[Factor, ...], "Factors, in the order of the file."]
    combinations: tuple[Combination, ...]
    resolution: Annotated[
        int | None, "Length of the shortest defining word; null unless the design is a fraction."
    ] = None
    words: tuple[Effect, ...] = ()

    @property
    def is_full(self) -> bool:
        """Return whether every combination of levels is measured."""
        return self.kind is AttributionKind.FACTORS and not self.words

    def named(self, effect: Effect) -> str:
        """Return an effect as people write it: ``huge-pages x buffers``."""
        return " x ".join(self.factors[place].name for place in effect)


class Layer(OpenWord):
    """One storey of the stack that settings belong to; each database system has one."""

    LINUX = "linux"
    KUBERNETES = "kubernetes"
    POSTGRES = "postgres"
    REDIS = "redis"
    CGROUP = "cgroup"

    def name_of(self, setting: str) -> str:
        """Return what tables call a setting: alone where it is the database's, else after us."""
        return f"{self}: {setting}" if self in _AROUND else setting


_AROUND: Final = (Layer.LINUX, Layer.KUBERNETES, Layer.CGROUP)


class GeneratorName(OpenWord):
    """A program that puts load on a server."""

    PGBENCH = "pgbench"
    REDIS_BENCHMARK = "redis-benchmark"


class Design(StrEnum):
    """How the runs are brought together."""

    AUTO = "auto"  # alternating where it can be, else one by one
    ALTERNATING = "alternating"  # all up at the same time, the load takes turns within a block
    ONE_BY_ONE = "one-by-one"  # blocks, too: one configuration after another is up
    ONCE = "single-pass"  # one run per cell in file order: no interval and no verdict


class ServerTerms(StrEnum):
    """On what terms servers in different places are compared; ``matched`` asks for equal ones."""

    AS_SHIPPED = "as-shipped"  # as the vendor ships it: what differs is a part of the offer
    MATCHED = "matched"


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
    """What is done by a person or a user's command before a configuration is measured."""

    text: str = key(
        "",
        TEXT,
        "What the operator is asked to do; it waits until that is confirmed.",
        "Power-cycle the VM pg-node-1.",
    )
    command: tuple[str, ...] = key(
        (),
        COMMAND,
        "Run on this machine without a shell instead of asking; it must end with 0.",
        "./power-cycle pg-node-1",
    )
    timeout_s: float = key(600.0, LONG, "How long the operator or the command may take.", "10m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One combination of levels.

    Attributes:
        name: As in the experiment file.
        target: Where its server runs.
        settings: Asked for, sorted by layer and name, without duplicates.
        protocol: pgbench query mode when it is what varies; None means the experiment's.
        prepare: SQL scripts run once after those of the workloads, in each of its data sets.
        scripts: Its own scripts in place of those of the workloads that have their names.
        profiles: Names of the settings profiles that went into ``settings``.
        manual: Done when it comes into force after another one.
    """

    name: str
    target: Target
    settings: tuple[Setting, ...] = ()
    protocol: str | None = None
    prepare: tuple[Script, ...] = ()
    scripts: tuple[Script, ...] = ()
    profiles: tuple[str, ...] = ()
    manual: ManualStep | None = None

    @property
    def server_layer(self) -> Layer:
        """Return the layer of its server's own settings."""
        return Layer(self.target.system.layer)

    def asked(self, layer: Layer | None = None) -> dict[str, str]:
        """Return the values that it asks of one layer, by name as written; None: of its server."""
        wanted = layer or self.server_layer
        return {s.name: s.value for s in self.settings if s.layer is wanted}

    def runs(self, workload: Workload) -> Workload:
        """Return a workload as it runs it: rewritten scripts keep their names and weights."""
        own = {each.name: each for each in self.scripts}
        scripts = (
            replace(own[each.name], weight=each.weight) if each.name in own else each
            for each in workload.scripts
        )
        return replace(workload, scripts=tuple(scripts))

    def asked_folded(self) -> dict[str, str]:
        """Return what it asks of its server, whose names have no case, by name in small letters."""
        return {name.lower(): value for name, value in self.asked().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAsked:
    """How the capacity is found before the first block, where loads are shares of it.

    Once resolved ``clients`` are there, rising.
    """

    clients: tuple[int, ...] = key(
        (),
        counts(),
        "Of the closed loops that are tried; powers of two up to the largest number of clients"
        " when left out.",
        [1, 2, 4, 8],
    )
    # A median of two is a mean.
    runs: int = key(6, whole(LEAST_ASKED), "Runs of each, interleaved by coin.", 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When the campaign ends.

    At a verdict or a width, at the latest with the budget.

    Attributes:
        detect: Relative effect (0.03 = 3 %); used for "N more minutes".
        width: When given, verdicts do not stop the campaign.
    """

    budget_s: float = key(3600.0, budget(), "Time for everything, preparation included.", "60m")
    detect: float = key(0.03, share(), "Effect that is worth detecting.", "3%")
    width: float | None = key(
        None, share(), "Stop at this half-width of the interval instead of at a verdict.", "1%"
    )
    margin: float = key(0.01, share(), "A difference below it has no practical weight.", "1%")
    # Two have one degree of freedom: their interval is 13 standard errors wide.
    blocks: int | None = key(
        None,
        whole(LEAST_ASKED),
        "Take so many blocks and look once, after the last: for few long runs.",
        4,
    )
    early: bool = key(
        True, SWITCH, "End at a verdict before block 6, from which on the design is checked.", False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDesign:
    """How the configurations of an experiment could be brought together, and are not.

    Attributes:
        block_s: Of one block of the experiment itself, foretold.
    """

    mode: Mode
    block_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinOf:
    """The experiment whose noise an A/A campaign measures in its place.

    Attributes:
        configurations: How many it compares, the baseline included.
        stop: Its own rules for stopping, which say at what level it will look.
        contrasts: How many results it has under each workload; None: one for each configuration
            beside the baseline, which combinations of factors have not.
        squares: Sum of the squared weights of its configurations in a result: 2 for a pair, less
            for a main effect, to which all combinations contribute.
        other: The design it does not take; None where there is one only.
    """

    name: str
    configurations: int
    stop: Stop
    contrasts: int | None = None
    squares: float = 2.0
    other: OtherDesign | None = None

    @property
    def results(self) -> int:
        """Return how many results it has under each workload, at least 1."""
        contrasts = self.configurations - 1 if self.contrasts is None else self.contrasts
        return max(contrasts, 1)


def generator_place(configurations: Iterable[Configuration]) -> KubernetesPlace | None:
    """Return the place in a cluster where the load comes from; None: from this machine.

    A server that is started on this machine is not reached from a cluster.
    """
    targets = [configuration.target for configuration in configurations]
    if any(target.is_here for target in targets):
        return None
    return next((target.home for target in targets if target.home is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A validated experiment.

    Attributes:
        engine: The database system all its targets run.
        design: How runs are brought together, as asked; the plan says what it became.
        sustained_s: Least length of one long run per configuration and workload after the last
            block; None: no long runs.
        generator: What puts the load on.
        generator_flags: Flags handed to the generator unchanged (after ``--``).
        workers: Have the load generators; None: this machine has them.
        generator_host: The host that pgbench ran on; only in records of when it need not be this
            machine.
        description: Why the question is asked; empty when the file does not say.
        attribution: What the configurations stand for when factors were varied; None when they were
            written one by one.
        twin_of: What an A/A campaign measures the noise for; None for every other experiment.
        capacity: How the capacity is found; None where no load is a share of it.
        goal: The highest rate that meets it is looked for; None: none is.
        terms: On what terms its servers are compared; None: the file does not say.
        gate: Conditions; where there are some and no width, the campaign ends when each has failed
            or passed on every result.
        no_verdict: It is taken also where no interim result falls into its budget.
    """

    name: str
    baseline: str
    configurations: tuple[Configuration, ...]
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
    workers: WorkersAsked | None = None
    generator_host: str | None = None
    description: str = ""
    attribution: Attribution | None = None
    twin_of: TwinOf | None = None
    capacity: CapacityAsked | None = None
    goal: LatencyGoal | None = None
    terms: ServerTerms | None = None
    gate: tuple[Condition, ...] = ()
    no_verdict: bool = False

    def configuration(self, name: str) -> Configuration:
        """Return the configuration of that name."""
        return next(t for t in self.configurations if t.name == name)

    def with_targets(self, changed: Callable[[Target], Target]) -> "Experiment":
        """Return the experiment with the target of each configuration changed."""
        configurations = (replace(t, target=changed(t.target)) for t in self.configurations)
        return replace(self, configurations=tuple(configurations))

    def workload(self, name: str) -> Workload:
        """Return the workload of that name."""
        return next(w for w in self.workloads if w.name == name)

    @property
    def variants(self) -> tuple[Workload, ...]:
        """Return the workloads as configurations run them, each variant once."""
        all_of_them = (c.runs(each) for each in self.workloads for c in self.configurations)
        return tuple(dict.fromkeys(all_of_them))

    def run_time_s(self, workload: str) -> float:
        """Return the measured length of a run of a workload, in seconds."""
        own = self.workload(workload).run_time_s
        return self.measure.run_time_s if own is None else own

    @property
    def mean_run_time_s(self) -> float:
        """Return the measured seconds of a run, in the mean over the workloads."""
        return fmean(self.run_time_s(each.name) for each in self.workloads)

    @property
    def slices(self) -> str:
        """Return the measured lengths of runs: ``5 s``, or ``3 s (reads) or 9 s (writes)``."""
        named: dict[float, list[str]] = {}
        for each in self.workloads:
            named.setdefault(self.run_time_s(each.name), []).append(each.name)
        if len(named) == 1:
            return f"{next(iter(named)):g} s"
        return " or ".join(f"{long:g} s ({', '.join(names)})" for long, names in named.items())

    def targets_of(self, kind: type[TargetT]) -> dict[str, TargetT]:
        """Return the targets of a class by configuration."""
        return {t.name: t.target for t in self.configurations if isinstance(t.target, kind)}

    @property
    def words(self) -> WorkWords:
        """Return what its work is called."""
        return self.system.words

    @property
    def system(self) -> DatabaseSystem:
        """Return the database system of its servers, under what puts the load on."""
        system, command = self.configurations[0].target.system, self.workloads[0].command
        return system if command is None else command.seen_in(system)

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Return the words of all commands that workloads name, each once."""
        named = [workload.command for workload in self.workloads if workload.command is not None]
        words = (each for command in named for each in (command.prepare, command.argv) if each)
        return tuple(dict.fromkeys(words))

    @property
    def is_single_pass(self) -> bool:
        """Return whether each cell is run once, in file order, and nothing is compared."""
        return self.design is Design.ONCE

    @property
    def prewarms(self) -> bool:
        """Return whether the data are loaded into memory after each start, if they are not large.

        Else a server with larger shared buffers is measured while it fills them, longer than
        others, and the slower one of two has filled less. Where it is not asked for it is done on
        servers that are made here, unless the experiment keeps the data out of memory on purpose.
        """
        asked = self.measure.prewarm
        if asked is not None:
            return asked
        return all(
            each.target.is_made and "memory" not in each.asked(Layer.CGROUP)
            for each in self.configurations
        ) and not any(place.store for place in self.targets_of(Here).values())

    @property
    def is_all_here(self) -> bool:
        """Return whether Steelyard starts every server on this machine."""
        return all(configuration.target.is_here for configuration in self.configurations)

    @property
    def uses_found_data(self) -> bool:
        """Return whether all data were there before: Steelyard prepares none, and restores none."""
        targets = self.targets_of(EndpointTarget)
        is_made = any(w.scale is not None or w.prepare or w.command for w in self.workloads)
        allowed = all(each.allow_existing for each in targets.values())
        return allowed and len(targets) == len(self.configurations) and not is_made

    @property
    def data_read_together(self) -> str:
        """Return which data configurations on one server read and do not write, for people."""
        differs = any(each.prepare for each in self.configurations)
        return "data of their own" if differs else "the same data"

    @property
    def shared_servers(self) -> dict[There, tuple[str, ...]]:
        """Return servers that are there already and have several configurations, with their names.

        Those in a cluster are not among them.
        """
        found: dict[There, list[str]] = {}
        for name, target in self.targets_of(There).items():
            if target.home is None:
                found.setdefault(target, []).append(name)
        return {target: tuple(names) for target, names in found.items() if len(names) > 1}

    @property
    def made_targets(self) -> dict[str, InPods]:
        """Return the targets that Steelyard makes in a cluster by configuration."""
        return {name: pod for name, pod in self.targets_of(InPods).items() if pod.is_made}

    @property
    def makes_all_in_kubernetes(self) -> bool:
        """Return whether servers are in Kubernetes, and Steelyard makes all of those."""
        homes = [each for each in self.configurations if each.target.home is not None]
        return 0 < len(homes) == len(self.made_targets)

    @property
    def is_in_kubernetes(self) -> bool:
        """Return whether a server is in a Kubernetes cluster."""
        return any(t.target.home is not None for t in self.configurations)

    @property
    def is_made_anew(self) -> bool:
        """Return whether starts make their server and data from nothing, where Steelyard can.

        It was asked for, or the configurations have servers in Kubernetes that differ, and
        Steelyard makes them.
        """
        made = set(self.made_targets.values())
        return self.measure.switch is SwitchCost.REPROVISION or len(made) > 1

    def is_remade(self, name: str) -> bool:
        """Return whether every start makes the server and data of this configuration from nothing.

        A server that is there already, or rented for the campaign, stays beside others that are.
        """
        made = name in self.made_targets or self.configuration(name).target.is_here
        return self.is_made_anew and made

    def cost(self, seconds: float) -> CampaignCost | None:
        """Return what its servers cost that are there for so long; None: nobody says any price."""
        return campaign_cost(
            (
                (each.name, HERE if each.target.is_here else each.target.identity, each.target.cost)
                for each in self.configurations
            ),
            seconds,
        )

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
        """Return whether configurations are weighed by their transactions per second."""
        return len(self.configurations) > 1 and bool(self.closed_loads)

    @property
    def awaits_verdict(self) -> bool:
        """Return whether a campaign is of use only with an interim result."""
        is_single = self.is_single_pass or self.sustained_s is not None
        return self.compares_throughput and not is_single and not self.no_verdict

    @property
    def contenders(self) -> tuple[str, ...]:
        """Return the names of all configurations but the baseline, in file order."""
        return tuple(t.name for t in self.configurations if t.name != self.baseline)
