"""What a file says of one database system: its work, its settings, its load generator.

``engine:`` says which system a file is about; everything else in it must be of that system and of
its load generator. ``SYSTEMS`` registers them. The contract with a load generator
that the file names by ``generator.command`` is in ``docs/generators.md``.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Final

from steelyard.campaign.file.document import Issue, KeyPath
from steelyard.campaign.file.form import MEASURE, RENAMED, Draft
from steelyard.campaign.file.form_values import section_keys
from steelyard.core import experiment
from steelyard.core.outside import ServerAddress
from steelyard.core.quantities import REDIS_SETTING, SETTING, Quantity, shown
from steelyard.core.redis import DEFAULT_PORT
from steelyard.core.schedule import PGBENCH_LOG, Load, LoadCommand
from steelyard.core.target import (
    POSTGRES,
    REDIS,
    TARGETS,
    DatabaseSystem,
    EngineName,
    RedisEndpointTarget,
    kind_here,
)
from steelyard.core.wording import InputError, choice, format_bytes, is_secret_setting, listed
from steelyard.systems.postgres import settings as postgres
from steelyard.systems.postgres.load_programs import (
    OF_A_LOG,
    OF_A_RUN,
    OF_THE_SERVER,
    filled,
    names_in,
)
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis import settings as redis
from steelyard.tuning.profiles import MachineFacts

_BEFORE: Final = ("workload", "directory")  # known when the file is read
_OF_PGBENCH: Final[Mapping[KeyPath, str]] = {
    ("generator", "program"): "`command` names the program already",
    ("generator", "flags"): "the flags of a command stand in `command`",
    ("load", "rate"): "only pgbench is known to offer a rate",
    ("load", "latency_limit"): "`latency_limit` is pgbench's",
    ("load", "generators"): "one process of the command is started for each run",
    ("load", "protocol"): "`protocol` is pgbench's query mode",
    ("slo",): "`slo` needs loads at a rate, which only pgbench is known to offer",
    ("capacity",): "the capacity is for loads at a rate, which only pgbench is known to offer",
    ("sustain",): "a long run is judged by its seconds, of which the command tells nothing",
    ("measure", "calibration"): "a calibration needs every second of a run",
    ("measure", "log_sampling"): "no log of the command is read",
}


def has_command(draft: Draft) -> bool:
    """Return whether the file names a command, sound or not."""
    return draft.document.at(("generator", "command")) is not None


def generator_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what is wrong with a command, and what does not go with one."""
    yield from _unfit_workers(draft)
    if not has_command(draft):
        for key in section_keys(LoadCommand):
            if draft.document.at(("generator", key)) is not None:
                message = f"`{key}` is about a command, and there is none"
                hint = "Add `command`, the program that puts the load on, or remove it."
                yield Issue(path=("generator", key), message=message, hint=hint, at_key=True)
        return
    if draft.generator is not None:
        yield from _unfit_command(draft.generator.command, draft.given(("generator",)))
    yield from _beside(draft)
    yield from _places(draft)
    for index in draft.workloads:
        yield from _workload(draft, ("workloads", index))


def _unfit_workers(draft: Draft) -> Iterator[Issue]:
    """Yield what has no use for workers: one process of a command, and pods that have the load."""
    key = next((key for key in ("hosts", "workers") if _has(draft, key)), None)
    if key is None:
        told = "`{}` is about workers, and `workers` is missing"
        unused: dict[KeyPath, str] = {
            ("generator", key): told.format(key) for key in ("scheduler", "wait", _AT_LEAST)
        }
        yield from _useless_keys(draft, unused)
        return
    path = ("generator", key)
    if has_command(draft):
        message = "a command is one process, which cannot be divided among workers"
        yield Issue(path=path, message=message, hint=_KEEP, at_key=True)
    in_pods = list(filter(partial(_is_in_pods, draft), draft.homes))
    if in_pods and draft.document.at(("sustain",)) is not None:
        message = "the log of a long run is too large to be fetched from pods of workers"
        hint = f"Remove `sustain` or `{key}`."
        yield Issue(path=("sustain",), message=message, hint=hint, at_key=True)
    for home in in_pods if _has(draft, "scheduler") or _has(draft, "hosts") else ():
        message = "the load comes from the cluster there, not from other machines"
        hint = "Write `workers` alone: in the Job of the campaign they are pods."
        yield Issue(path=(*home, "target"), message=message, hint=hint, at_key=True)
    yield from _numbers_of_workers(draft)
    if _has(draft, "scheduler") or _has(draft, "hosts"):
        yield from _elsewhere(draft, "scheduler" if _has(draft, "scheduler") else "hosts")
    else:
        told = "workers of this machine are started again, and not waited for"
        unused = {("generator", key): told for key in ("wait", _AT_LEAST)}
        yield from _useless_keys(draft, unused)


_AT_LEAST: Final = "workers_at_least"


def _has(draft: Draft, key: str) -> bool:
    return draft.document.at(("generator", key)) is not None


def _numbers_of_workers(draft: Draft) -> Iterator[Issue]:
    """Yield keys that name different workers, and fewer than are needed."""
    workers = None if draft.generator is None else draft.generator.workers
    if workers is None:
        return
    if workers.hosts and workers.scheduler is not None:
        message = "a scheduler has workers already, and `hosts` are for a scheduler of our own"
        hint = "Remove `scheduler` or `hosts`."
        yield Issue(path=("generator", "hosts"), message=message, hint=hint, at_key=True)
    written = draft.document.at(("generator", "workers"))
    if workers.hosts and written is not None and str(written) != str(len(workers.hosts)):
        message = f"{len(workers.hosts)} hosts have a worker each, and `workers` says {written}"
        hint = "Remove `workers`; a host that is named twice has two."
        yield Issue(path=("generator", "workers"), message=message, hint=hint)
    if (workers.at_least or 0) > workers.number:
        message = f"{workers.at_least} workers are needed at least, and there are {workers.number}"
        hint = f"Lower `{_AT_LEAST}`."
        yield Issue(path=("generator", _AT_LEAST), message=message, hint=hint)


def _elsewhere(draft: Draft, key: str) -> Iterator[Issue]:
    """Yield what workers on other machines cannot do."""
    path = ("generator", key)
    for home in draft.homes:
        target = draft.document.at((*home, "target"))
        if isinstance(target, dict) and str(target.get("kind", "local")) == "local":
            message = "a local server is not reached from workers on other machines"
            hint = f"Remove `{key}`, or name a server that they reach: `kind: existing`."
            yield Issue(path=path, message=message, hint=hint, at_key=True)
            break
    if draft.document.at(("sustain",)) is not None:
        message = "the log of a long run is too large to be fetched from other machines"
        hint = f"Remove `sustain` or `{key}`."
        yield Issue(path=("sustain",), message=message, hint=hint, at_key=True)


def _unfit_command(command: LoadCommand, keys: Collection[str]) -> Iterator[Issue]:
    if command.rate is None and command.log is None:
        message = "nothing says where the command's output has its rate"
        hint = "Add `rate`, as in `rate: 'tps = (?P<rate>[0-9.]+)'`, or `log`."
        yield Issue(path=("generator", "command"), message=message, hint=hint, at_key=True)
    for key in sorted(_useless(command).intersection(keys)):
        reads = "nothing that is printed" if command.log else "no log"
        message = f"`{key}` has no use: {reads} is read"
        if command.log == (PGBENCH_LOG,) and key in _OF_COLUMNS:
            message = f"`{key}` has no use: pgbench's log has units of its own"
        yield Issue(path=("generator", key), message=message, hint=_KEEP, at_key=True)
    known = (*_BEFORE, *OF_THE_SERVER)
    of_a_run = (*OF_A_RUN, *((OF_A_LOG,) if command.log else ()))
    yield from _unknown_names("command", command.argv, (*known, *of_a_run))
    yield from _unknown_names("prepare_command", command.prepare, known)


_OF_COLUMNS: Final = frozenset({"log_time_unit", "latency_unit"})


def _useless(command: LoadCommand) -> frozenset[str]:
    """Return keys that do not go with where the figures are: in a log, or in what is printed."""
    if command.log is None:
        return frozenset({"log_time_unit"})
    printed = frozenset({"rate", "rate_unit", "latency"})
    return printed | _OF_COLUMNS if command.log == (PGBENCH_LOG,) else printed


def _unknown_names(key: str, words: Sequence[str], known: Sequence[str]) -> Iterator[Issue]:
    for name in names_in(words):
        if name in known:
            continue
        why = "is not known before a run" if name in OF_A_RUN else "is no name that is filled in"
        if name == OF_A_LOG and key == "command":
            why = "is filled in where `log` says what its lines hold"
        new = RENAMED[MEASURE.form].get(name, "")
        hint = f"it is called `{{{new}}}` now" if new in known else choice(name, known)
        message = f"`{{{name}}}` {why}"
        yield Issue(path=("generator", key), message=message, hint=hint)


def _beside(draft: Draft) -> Iterator[Issue]:
    """Yield keys that only a generator of Steelyard's own choice has a use for."""
    yield from _useless_keys(draft, _OF_PGBENCH)
    modes = [(*home, "protocol") for home in draft.homes]
    yield from _useless_keys(draft, dict.fromkeys(modes, "`protocol` is pgbench's query mode"))
    logs = draft.document.at(("generator", "log")) is not None
    if draft.design == experiment.Design.ALTERNATING and not logs:
        message = "the command tells nothing of single transactions, so turns cannot be counted"
        hint = "Let it log them (`generator.log`), write `one-by-one`, or leave it out."
        yield Issue(path=("design",), message=message, hint=hint)
    if draft.measure is not None:
        yield from _measured_by_command(draft, draft.measure)


def _useless_keys(draft: Draft, told: Mapping[KeyPath, str]) -> Iterator[Issue]:
    """Yield keys that are given and have no use here, each with the reason."""
    for path, message in told.items():
        if draft.document.at(path) is not None:
            yield Issue(path=path, message=message, hint=_KEEP, at_key=True)


def _measured_by_command(draft: Draft, measure: experiment.Measure) -> Iterator[Issue]:
    command = draft.generator.command if draft.generator else LoadCommand()
    logs = command.log is not None
    if measure.log == experiment.LogPolicy.KEEP and not logs:
        message = "no log of the command is read, so none can be kept"
        yield Issue(path=("measure", "log"), message=message, hint=_KEEP)
    if measure.log == experiment.LogPolicy.OFF and logs:
        message = "the command is counted by its log"
        yield Issue(path=("measure", "log"), message=message, hint=_KEEP)
    told = logs or "discard_start" in names_in(command.argv)
    given = draft.document.at(("measure", "discard_start")) is not None
    if given and measure.discard_start_s and not told:
        message = "the command does not have `{discard_start}`, so it leaves out nothing"
        hint = "Hand it over if the program can leave out its start, or remove it."
        yield Issue(path=("measure", "discard_start"), message=message, hint=hint)


def _places(draft: Draft) -> Iterator[Issue]:
    """Yield targets whose load is put on by programs that a command cannot be."""
    path = ("generator", "command")
    if not SYSTEMS[draft.engine].takes_command:
        message = "a command puts load on PostgreSQL, and the targets are of another system"
        yield Issue(path=path, message=message, hint=_KEEP, at_key=True)
        return
    for home in draft.homes:
        if _is_in_pods(draft, home):
            message = "the load comes from a pod there, whose programs are the database's own"
            hint = "Name a target that is reached from this machine: `local` or `existing`."
            yield Issue(path=(*home, "target"), message=message, hint=hint, at_key=True)


def _is_in_pods(draft: Draft, home: KeyPath) -> bool:
    """Return whether the load on a target comes from a pod."""
    target = draft.document.at((*home, "target"))
    if not isinstance(target, dict):
        return False
    kind = TARGETS[draft.engine].get(str(target.get("kind")))
    return "kubernetes" in target or (
        kind is not None and "place" in {each.name for each in fields(kind)}
    )


def _workload(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    for key in ("builtin", "scripts"):
        if draft.document.at((*path, key)):
            message = f"`{key}` is for pgbench, and `generator.command` puts the load on"
            yield Issue(path=(*path, key), message=message, hint=_KEEP, at_key=True)


def load_command(command: LoadCommand, workload: str, base: Path) -> LoadCommand | None:
    """Return the command of one workload; None where the system's own generator is used.

    All checks have passed; ``base`` is the directory of the file.
    """
    if not command.argv:
        return None
    known = {"workload": workload, "directory": str(base)}
    argv, prepare = (
        _located(filled(words, known), base) for words in (command.argv, command.prepare)
    )
    return replace(command, argv=argv, prepare=prepare)


def _located(words: tuple[str, ...], base: Path) -> tuple[str, ...]:
    """Return a command whose program is relative to the file where it has a directory."""
    if not words or "/" not in words[0]:
        return words
    return (str(base / Path(words[0]).expanduser()), *words[1:])


_ENOUGH_OF_REDIS_BENCHMARK: Final = 2  # seen on 2 CPUs: one was at 96 to 99 % in GET and PING
_KEY_BYTES: Final = 85  # Redis documentation, FAQ: a million small keys and values use 85 MB
_KEEP: Final = "Remove it."
# A workload that sends one of these is no load, or reaches beyond its database.
_NO_LOAD: Final = frozenset(
    {
        *("auth", "hello", "select", "swapdb", "flushall", "flushdb", "shutdown", "config"),
        *("debug", "replicaof", "slaveof", "failover", "cluster", "acl", "monitor", "subscribe"),
        *("psubscribe", "ssubscribe", "sync", "psync", "quit", "client", "module", "migrate"),
        *("bgsave", "bgrewriteaof", "save", "multi", "exec", "discard", "watch", "reset"),
        *("script", "function", "slowlog", "latency", "move", "pfdebug", "unwatch", "replconf"),
    }
)
_POSTGRES_KEYS: Final = ("scale", "prepare", "copy_tables", "scripts", "variables")
_TAKES: Final = frozenset({"lpop", "rpop", "spop", "zpopmin"})  # of one key that nothing fills


def _nothing(*_: object) -> Iterator[Issue]:
    """Yield nothing."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One database system, as an experiment file knows it.

    Attributes:
        about: What its records and reports must know; so its name and its generator's.
        other_names: Further names of some of them.
        work_keys: Keys of a workload that no other system has.
        threads: Threads of ``threads: auto`` by CPUs, clients and processes of the generator.
        work: Class of what a workload asks of it beyond scripts; None where that is nothing.
        draft_issues: Yields keys of a file, outside of configurations, that it has no use for.
        configuration_issues: The same of one configuration or level, by its path.
        work_issues: Yields what is wrong with one workload, by its path.
        setting_name: How its settings are called.
        settings_file: Where they stand.
        setting: How a value of one is read.
        refused_names: Those of some that Steelyard sets, with what to do instead.
        has_secret_settings: Whether some of them are passwords.
        takes_profiles: Whether profiles have settings of it.
        takes_command: Whether a program of the user's may put the load on.
        memory_issues: Yields that the data do not fit into this machine.
    """

    about: DatabaseSystem
    other_names: Mapping[str, str] = field(default_factory=dict)
    work_keys: tuple[str, ...] = ()
    threads: Callable[[int, int, int], int] = lambda cpus, clients, _: min(clients, cpus)
    work: type[experiment.RedisWork] | None = None
    draft_issues: Callable[[Draft], Iterator[Issue]] = _nothing
    configuration_issues: Callable[[Draft, KeyPath], Iterator[Issue]] = _nothing
    work_issues: Callable[[Draft, KeyPath, experiment.Workload], Iterator[Issue]] = _nothing
    setting_name: re.Pattern[str] = re.compile(r"[A-Za-z][A-Za-z0-9._-]*", re.ASCII)
    settings_file: str = "its configuration file"
    setting: Quantity = SETTING
    refused_names: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}
    has_secret_settings: bool = False
    takes_profiles: bool = False
    takes_command: bool = False
    memory_issues: Callable[[Draft, MachineFacts], Iterator[Issue]] = _nothing

    @property
    def label(self) -> str:
        """Return what it is called."""
        return self.about.words.server

    @property
    def way_there(self) -> str:
        """Return how a file comes to be about it."""
        return f"write `engine: {self.about.name}` at the top"

    @property
    def generator(self) -> experiment.GeneratorName:
        """Return what puts load on it."""
        return experiment.GeneratorName(self.about.words.generator)

    def one_test(self, builtin: str | None) -> str | None:
        """Return the one test that a word stands for: ``ping`` is ``ping_mbulk``."""
        return None if builtin is None else self.other_names.get(builtin, builtin)


def system_issues(draft: Draft) -> Iterator[Issue]:
    """Yield everything in a file that is not of the database system that its targets are of."""
    system = SYSTEMS[draft.engine]
    yield from _program(draft, system)
    for home in draft.homes:
        yield from _other_settings(draft, home, system)
        yield from _names(draft, (*home, system.about.layer), system)
        yield from system.configuration_issues(draft, home)
    yield from system.draft_issues(draft)


def _other_settings(draft: Draft, home: KeyPath, system: System) -> Iterator[Issue]:
    """Yield settings of another database system in one configuration or level."""
    for other in SYSTEMS.values():
        layer = other.about.layer
        if other is not system and draft.document.at((*home, layer)) is not None:
            yield Issue(
                path=(*home, layer),
                message=f"`{layer}` has settings of {other.label}, and the targets are of"
                f" {system.label}",
                hint=f"Write those of {system.label} below `{system.about.layer}:`; for"
                f" {other.label} {other.way_there}.",
                at_key=True,
            )


def _program(draft: Draft, system: System) -> Iterator[Issue]:
    named = draft.document.at(("generator", "program"))
    for other in SYSTEMS.values():
        if other is not system and named == other.generator:
            yield Issue(
                path=("generator", "program"),
                message=f"{named} puts no load on {system.label}",
                hint=f"Use `{system.generator}`, or leave it out; for {other.label}"
                f" {other.way_there}.",
            )


def stray_keys(path: KeyPath, draft: Draft) -> Iterator[Issue]:
    """Yield the keys of a workload that are of another database system."""
    system = SYSTEMS[draft.engine]
    for other in SYSTEMS.values():
        for key in other.work_keys:
            if other is not system and key in draft.given(path):
                yield Issue(
                    path=(*path, key),
                    message=f"`{key}` is of a workload for {other.label}, and the targets are of"
                    f" {system.label}",
                    hint=f"Remove it, or {other.way_there}.",
                    at_key=True,
                )


def builtin_issues(path: KeyPath, name: str, draft: Draft) -> Iterator[Issue]:
    """Yield that a workload's generator brings no such script or test."""
    system = SYSTEMS[draft.engine]
    if name in system.about.builtins:
        return
    message = f"{system.generator} brings no {shown(name)}"
    hint = choice(name, system.about.builtins)
    for other in SYSTEMS.values():
        if name in other.about.builtins:
            message += f": {other.generator} does"
            hint = f"Name another, or {other.way_there}."
    yield Issue(path=path, message=message, hint=hint)


def _of_redis(draft: Draft) -> Iterator[Issue]:
    """Yield what is for Redis alone in a file about PostgreSQL."""
    message = "`pipeline` is for Redis, and the targets are of PostgreSQL"
    yield from _useless_keys(draft, {("load", "pipeline"): message})


def _postgres_work(draft: Draft, path: KeyPath, workload: experiment.Workload) -> Iterator[Issue]:
    if draft.document.at(("generator", "command")) is not None:
        return  # ``generators`` says what goes with it
    if workload.builtin and workload.scripts:
        message = "`builtin` and `scripts` exclude each other"
        hint = "Make two workloads of them."
        yield Issue(path=(*path, "scripts"), message=message, hint=hint, at_key=True)
    if workload.copied and (workload.scale is not None or workload.builtin):
        message = "`copy_tables` and pgbench's own tables exclude each other"
        hint = "Make two workloads of them."
        yield Issue(path=(*path, "copy_tables"), message=message, hint=hint, at_key=True)
    is_stray = "command" in draft.given(path)
    if workload.builtin is None and not workload.scripts and not is_stray:
        message = "the workload has neither `builtin` nor `scripts`"
        hint = f"Add `builtin`: {listed(POSTGRES.builtins)}."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
    if workload.builtin in POSTGRES.builtins and workload.scale is None:
        message = f"`{workload.builtin}` needs pgbench's tables, and `scale` is missing"
        hint = "Add `scale: 10` (about 150 MB) or what your memory calls for."
        yield Issue(path=(*path, "builtin"), message=message, hint=hint)


def _redis_benchmark_threads(cpus: int, clients: int, processes: int) -> int:
    """Return the threads of ``threads: auto``, of all processes of redis-benchmark together.

    One of redis-benchmark is about as fast as the thread of the server that answers it, and would
    be measured itself: each process has two where clients and CPUs are there.
    """
    return max(processes, min(clients, cpus, _ENOUGH_OF_REDIS_BENCHMARK * processes))


def _redis_configuration(draft: Draft, home: KeyPath) -> Iterator[Issue]:
    """Yield settings of PostgreSQL of one configuration, and what is wrong with its own."""
    for key, message, hint in (
        ("profile", "profiles have settings of PostgreSQL", "Write those of Redis below `redis:`."),
        ("protocol", "`protocol` is pgbench's query mode", _KEEP),
        ("prepare", "`prepare` is for psql", _KEEP),
        ("ddl", "`ddl` is SQL", _KEEP),
        ("scripts", "`scripts` are pgbench's", _KEEP),
    ):
        if draft.document.at((*home, key)) is not None:
            told = f"{message}, and the targets are of Redis"
            yield Issue(path=(*home, key), message=told, hint=hint, at_key=True)
    yield from _names(draft, (*home, "target", "replica"), SYSTEMS[EngineName.REDIS])


def _names(draft: Draft, path: KeyPath, system: System) -> Iterator[Issue]:
    """Yield what is wrong with the names of a server's settings."""
    held = draft.document.at(path)
    names = list(held) if isinstance(held, dict) else []
    refused = system.refused_names(names)
    seen: set[str] = set()
    for name in names:
        message, hint = "", ""
        if not system.setting_name.fullmatch(name):
            message = f"{shown(name)} is no name of a {system.label} setting"
            hint = f"Write it as in {system.settings_file}."
        elif system.has_secret_settings and is_secret_setting(name):
            message = f"`{name}` is a password, which has no place in an experiment file"
            hint = f"Records carry no secrets: the password comes from {system.about.passwords}."
        elif name in refused:
            message, hint = f"Steelyard sets `{name}` itself", refused[name]
        elif name.lower() in seen:
            message = f"`{name}` is given twice: {system.label} ignores upper and lower case"
            hint = "Keep one of the two."
        if message:
            yield Issue(path=(*path, name), message=message, hint=hint, at_key=True)
        seen.add(name.lower())


def _of_postgres(draft: Draft) -> Iterator[Issue]:
    """Yield what is for PostgreSQL and pgbench alone in a file about Redis."""
    yield from _useless_keys(draft, _RATES_AND_MODES)
    yield from _measure(draft)


_NO_RATE: Final = "redis-benchmark offers no rate: its clients wait for their answers"
_RATES_AND_MODES: Final[Mapping[KeyPath, str]] = {
    ("load", "rate"): _NO_RATE,
    ("load", "latency_limit"): _NO_RATE,
    ("slo",): "`slo` needs loads at a rate, and redis-benchmark offers none",
    ("capacity",): "the capacity is for loads at a rate, and redis-benchmark offers none",
    ("load", "protocol"): "`protocol` is pgbench's query mode, and the targets are of Redis",
}


def _measure(draft: Draft) -> Iterator[Issue]:
    measure = draft.measure
    if measure is None:
        return
    if measure.discard_start_s and draft.document.at(("measure", "discard_start")) is not None:
        message = (
            "redis-benchmark cannot leave out the start of a run; its clients are connected before"
        )
        hint = "Write `discard_start: 0`, or leave it out; the warm-up warms the server up."
        yield Issue(path=("measure", "discard_start"), message=message, hint=hint)
    if measure.prewarm:
        message = "Redis has its data in memory, and nothing is to be loaded into it"
        yield Issue(path=("measure", "prewarm"), message=message, hint=_KEEP)
    if measure.log == experiment.LogPolicy.KEEP:
        message = "redis-benchmark writes no log of its requests that could be kept"
        hint = "Remove it: its own histogram of latencies is taken."
        yield Issue(path=("measure", "log"), message=message, hint=hint)
    if measure.log_sampling < 1.0:
        message = "redis-benchmark writes no log of its requests: nothing is sampled"
        yield Issue(path=("measure", "log_sampling"), message=message, hint=_KEEP)


def _key_memory(draft: Draft, facts: MachineFacts) -> Iterator[Issue]:
    """Yield that the keys which are loaded do not fit into this machine, where the server is."""
    kinds = [draft.document.at((*home, "target", "kind")) for home in draft.homes]
    here = (None, kind_here(draft.engine))
    if any(kind not in here for kind in kinds):  # a file may have a list there
        return
    spaces = {_work(each).space: index for index, each in draft.workloads.items()}
    needs = {space: space.loaded * (space.value_bytes + _KEY_BYTES) for space in spaces}
    if sum(needs.values()) > facts.memory_bytes:
        message = (
            f"the keys that are loaded take {format_bytes(sum(needs.values()))}, and this machine"
            f" has {format_bytes(facts.memory_bytes)} of memory"
        )
        largest = max(needs, key=lambda space: needs[space])
        path = ("workloads", spaces[largest], "loaded")
        yield Issue(path=path, message=message, hint="Load fewer keys, or smaller values.")


def _redis_work_issues(
    draft: Draft, path: KeyPath, workload: experiment.Workload
) -> Iterator[Issue]:
    """Yield what is wrong with what one workload asks of Redis."""
    is_test, is_command = workload.builtin is not None, "command" in draft.given(path)
    if is_test and is_command:
        message = "`builtin` and `command` exclude each other"
        hint = "Make two workloads of them."
        yield Issue(path=(*path, "command"), message=message, hint=hint, at_key=True)
    strays = bool(draft.given(path).intersection(_POSTGRES_KEYS))
    if not (is_test or is_command or strays):
        message = "the workload has neither `builtin` nor `command`"
        hint = "Add `builtin: set`, or another test of redis-benchmark."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
    if is_command:
        yield from _command((*path, "command"), workload, draft)
    yield from _misses(path, workload)


def _is_of_others(draft: Draft) -> bool:
    """Return whether any target is a server that is there already."""
    targets = [draft.document.at((*home, "target")) for home in draft.homes]
    given = [target for target in targets if isinstance(target, dict)]
    return any(t.get("kind") == RedisEndpointTarget().kind or "service" in t for t in given)


def _command(path: KeyPath, workload: experiment.Workload, draft: Draft) -> Iterator[Issue]:
    """Yield that a command is no load, that it may do harm, or that nobody can send it."""
    words = _work(workload).command or ("",)
    if words[0].lower() in _NO_LOAD:
        message = f"{shown(words[0])} is no load: it changes the connection or the server"
        yield Issue(path=path, message=message, hint="Name a command that reads or writes a key.")
        return
    if _is_of_others(draft) and not redis.stays_in_database(words):
        message = (
            f"{shown(' '.join(words))} is not known to stay with the keys of the workload, and the"
            " server is there already: it may hold keys of others"
        )
        hint = (
            "Name a command that reads or writes keys of its own database only (GET, SET, HSET,"
            " LPUSH, ZADD...), or measure a server that Steelyard starts, as `kind: local` does."
        )
        yield Issue(path=path, message=message, hint=hint)
        return
    request = RunRequest(
        workload=replace(workload, builtin=None),
        load=Load(clients=1, threads=1),
        address=ServerAddress(host="localhost", port=DEFAULT_PORT),
        seconds=1,
        protocol="",
        flags=(),
    )
    try:
        benchmark.run_arguments(request, requests=1, dbnum=0)
    except InputError as error:
        yield Issue(path=path, message=error.message, hint=error.hint)


def _work(workload: experiment.Workload) -> experiment.RedisWork:
    return workload.redis or experiment.RedisWork()


def _misses(path: KeyPath, workload: experiment.Workload) -> Iterator[Issue]:
    if workload.builtin in _TAKES:
        message = f"`{workload.builtin}` would take from an empty key: nothing is loaded into it"
        hint = "Weigh what fills it (`lpush`, `rpush`, `sadd`, `zadd`), or a `command` of your own."
        yield Issue(path=(*path, "builtin"), message=message, hint=hint)
    space = _work(workload).space
    if workload.builtin == "get" and not space.loaded:
        message = "GET would find no key: `loaded` says how many exist, and none does"
        hint = f"Add `loaded: {space.keys}`; {space.keys} x `value_bytes` must fit into memory."
        yield Issue(path=path, message=message, hint=hint, at_key=True)


SYSTEMS: Final[dict[EngineName, System]] = {
    EngineName.POSTGRES: System(
        about=POSTGRES,
        work_keys=_POSTGRES_KEYS,
        setting_name=re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*", re.ASCII),
        settings_file="postgresql.conf",
        refused_names=postgres.refused_names,
        draft_issues=_of_redis,
        work_issues=_postgres_work,
        takes_profiles=True,
        takes_command=True,
    ),
    EngineName.REDIS: System(
        about=REDIS,
        other_names=redis.OTHER_NAMES,
        work_keys=section_keys(experiment.RedisWork),
        threads=_redis_benchmark_threads,
        work=experiment.RedisWork,
        settings_file="redis.conf",
        setting=REDIS_SETTING,
        refused_names=redis.refused_names,
        has_secret_settings=True,
        draft_issues=_of_postgres,
        configuration_issues=_redis_configuration,
        work_issues=_redis_work_issues,
        memory_issues=_key_memory,
    ),
}
