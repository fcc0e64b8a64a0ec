"""What takes two places of a file to see about targets: Redis, the host, and Kubernetes.

The kind of the targets says which database system a file is about; everything else in it must be
of that system and of its load generator. What is wrong with ``linux:``, ``kvm:`` and ``manual:`` is
told by the file alone. Checks of whole targets in Kubernetes yield the key they are about, the fact
and the way out; ``inheritance`` finds the line.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from pydantic_core import PydanticCustomError

from steelyard.campaign.file.document import Issue, KeyPath
from steelyard.campaign.file.form import POSTGRES_WORK_KEYS, LevelForm, WorkloadForm
from steelyard.campaign.file.form_parts import ManualForm
from steelyard.campaign.file.form_target import (
    REDIS_WORK_KEYS,
    TargetForm,
)
from steelyard.campaign.file.form_values import BUILTINS, setting_value, shown
from steelyard.campaign.file.kinds import model_of
from steelyard.campaign.file.target_resolution import GENERATORS, redis_work
from steelyard.campaign.file.validation import Draft
from steelyard.core import linux as host_settings
from steelyard.core.command import ServerAddress
from steelyard.core.errors import InputError
from steelyard.core.experiment import GeneratorName, Workload
from steelyard.core.latency import LogPolicy
from steelyard.core.redis import DEFAULT_PORT
from steelyard.core.schedule import Load
from steelyard.core.spelling import choice, did_you_mean
from steelyard.core.target import EngineName
from steelyard.core.units import format_bytes
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis import redis_benchmark as benchmark
from steelyard.systems.redis.settings import refused_names, stays_in_database
from steelyard.tuning.facts.domain_xml import name_of_domain
from steelyard.tuning.profiles import MachineFacts

_SYSTEMS: Final = {EngineName.POSTGRES: "PostgreSQL", EngineName.REDIS: "Redis"}
_SETTING_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*", re.ASCII)
_KEY_BYTES: Final = 85  # Redis documentation, FAQ: a million small keys and values use 85 MB
_SECRETS: Final = re.compile("requirepass|masterauth|.*-pass")
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
_TAKES: Final = frozenset({"lpop", "rpop", "spop", "zpopmin"})  # of one key that nothing fills


def engine_issues(draft: Draft) -> Iterator[Issue]:
    """Yield everything in a file that is not of the database system that its targets are of."""
    yield from _program(draft)
    for home in draft.homes:
        yield from _treatment(draft, home)
    if draft.engine is EngineName.POSTGRES:
        if draft.document.at(("loads", "pipeline")) is not None:
            message = "`pipeline` is for Redis, and the targets are of PostgreSQL"
            yield Issue(path=("loads", "pipeline"), message=message, hint=_KEEP, at_key=True)
        return
    yield from _loads(draft)
    yield from _measure(draft)


def _program(draft: Draft) -> Iterator[Issue]:
    named = draft.document.at(("generator", "program"))
    fitting = GENERATORS[draft.engine]
    if named in tuple(GeneratorName) and named != fitting:
        message = f"{named} puts no load on {_SYSTEMS[draft.engine]}"
        hint = f"Use `{fitting}`, or leave it out."
        if draft.engine is EngineName.POSTGRES:
            hint = f"{hint[:-1]}; for Redis give the targets a kind such as `redis-local`."
        yield Issue(path=("generator", "program"), message=message, hint=hint)


def _treatment(draft: Draft, home: KeyPath) -> Iterator[Issue]:
    """Yield settings of the other system in one treatment or level."""
    if draft.engine is EngineName.POSTGRES:
        if draft.document.at((*home, "redis")) is not None:
            message = "`redis` has settings of Redis, and the targets are of PostgreSQL"
            hint = "Give the treatment `target: {kind: redis-local}`, or remove it."
            yield Issue(path=(*home, "redis"), message=message, hint=hint, at_key=True)
        return
    for key, message, hint in (
        (
            "postgres",
            "`postgres` has settings of PostgreSQL",
            "Write those of Redis below `redis:`.",
        ),
        ("profile", "profiles have settings of PostgreSQL", "Write those of Redis below `redis:`."),
        ("protocol", "`protocol` is pgbench's query mode", _KEEP),
    ):
        if draft.document.at((*home, key)) is not None:
            told = f"{message}, and the targets are of Redis"
            yield Issue(path=(*home, key), message=told, hint=hint, at_key=True)
    yield from _names(draft, (*home, "redis"))
    yield from _names(draft, (*home, "target", "replica"))


def _names(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    given = draft.document.at(path)
    names = list(given) if isinstance(given, dict) else []
    refused = refused_names(names)
    seen: set[str] = set()
    for name in names:
        folded, where = name.lower(), (*path, name)
        if not _SETTING_NAME.fullmatch(name):
            message = f"{shown(name)} is no name of a Redis setting"
            hint = "Write it as in redis.conf."
            yield Issue(path=where, message=message, hint=hint, at_key=True)
        elif _SECRETS.fullmatch(folded):
            message = f"`{name}` is a password, which has no place in an experiment file"
            hint = "Records carry no secrets: the password comes from REDISCLI_AUTH."
            yield Issue(path=where, message=message, hint=hint, at_key=True)
        elif name in refused:
            message = f"Steelyard sets `{name}` itself"
            yield Issue(path=where, message=message, hint=refused[name], at_key=True)
        elif folded in seen:
            message = f"`{name}` is given twice: Redis ignores upper and lower case"
            yield Issue(path=where, message=message, hint="Keep one of the two.", at_key=True)
        seen.add(folded)


def _loads(draft: Draft) -> Iterator[Issue]:
    unknown = "redis-benchmark offers no rate: its clients wait for their answers"
    for path, message in (
        (("loads", "rate"), unknown),
        (("loads", "latency_limit"), unknown),
        (("slo",), "`slo` needs loads at a rate, and redis-benchmark offers none"),
        (("capacity",), "the capacity is for loads at a rate, and redis-benchmark offers none"),
        (("loads", "protocol"), "`protocol` is pgbench's query mode, and the targets are of Redis"),
    ):
        if draft.document.at(path) is not None:
            yield Issue(path=path, message=message, hint=_KEEP, at_key=True)


def _measure(draft: Draft) -> Iterator[Issue]:
    measure = draft.measure
    if measure is None:
        return
    if measure.ramp and "ramp" in measure.model_fields_set:
        message = (
            "redis-benchmark cannot leave out the start of a run; its clients are connected before"
        )
        hint = "Write `ramp: 0`, or leave it out; the discard warms the server up."
        yield Issue(path=("measure", "ramp"), message=message, hint=hint)
    if measure.prewarm:
        message = "Redis has its data in memory, and nothing is to be loaded into it"
        yield Issue(path=("measure", "prewarm"), message=message, hint=_KEEP)
    if measure.log == LogPolicy.KEEP:
        message = "redis-benchmark writes no log of its requests that could be kept"
        hint = "Remove it: its own histogram of latencies is taken."
        yield Issue(path=("measure", "log"), message=message, hint=hint)
    if measure.log_sampling < 1.0:
        message = "redis-benchmark writes no log of its requests: nothing is sampled"
        yield Issue(path=("measure", "log_sampling"), message=message, hint=_KEEP)


def memory_issues(draft: Draft, facts: MachineFacts) -> Iterator[Issue]:
    """Yield that the keys which are loaded do not fit into this machine, where the server is."""
    kinds = {draft.document.at((*home, "target", "kind")) for home in draft.homes}
    if draft.engine is not EngineName.REDIS or kinds - {None, "redis-local"}:
        return
    spaces = {redis_work(form).space: index for index, form in draft.workloads.items()}
    needs = {space: space.loaded * (space.value_bytes + _KEY_BYTES) for space in spaces}
    if sum(needs.values()) > facts.memory_bytes:
        message = (
            f"the keys that are loaded take {format_bytes(sum(needs.values()))}, and this machine"
            f" has {format_bytes(facts.memory_bytes)} of memory"
        )
        largest = max(needs, key=lambda space: needs[space])
        path = ("workloads", spaces[largest], "loaded")
        yield Issue(path=path, message=message, hint="Load fewer keys, or smaller values.")


def stray_keys(path: KeyPath, workload: WorkloadForm, engine: EngineName) -> Iterator[Issue]:
    """Yield the keys of a workload that are of the other database system."""
    strays = POSTGRES_WORK_KEYS if engine is EngineName.REDIS else REDIS_WORK_KEYS
    for key in strays:
        if key in workload.model_fields_set:
            of, here = ("Redis", "PostgreSQL")
            if engine is EngineName.REDIS:
                of, here = here, of
            message = f"`{key}` is of a workload for {of}, and the targets are of {here}"
            hint = "Remove it."
            if engine is EngineName.POSTGRES:
                hint = "Remove it, or give the targets a kind such as `redis-local`."
            yield Issue(path=(*path, key), message=message, hint=hint, at_key=True)


def redis_work_issues(draft: Draft, path: KeyPath, workload: WorkloadForm) -> Iterator[Issue]:
    """Yield what is wrong with what one workload asks of Redis."""
    is_test, is_command = workload.builtin is not None, workload.command is not None
    if is_test and is_command:
        message = "`builtin` and `command` exclude each other"
        hint = "Make two workloads of them."
        yield Issue(path=(*path, "command"), message=message, hint=hint, at_key=True)
    strays = any(key in workload.model_fields_set for key in POSTGRES_WORK_KEYS)
    if not (is_test or is_command or strays):
        message = "the workload has neither `builtin` nor `command`"
        hint = "Add `builtin: set`, or another test of redis-benchmark."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
    if is_command:
        yield from _command((*path, "command"), workload, draft)
    yield from _misses(path, workload)


def builtin_issues(path: KeyPath, name: str, draft: Draft) -> Iterator[Issue]:
    """Yield that a workload's generator brings no such script or test."""
    is_redis = draft.engine is EngineName.REDIS
    known = benchmark.BUILTINS if is_redis else BUILTINS
    if name in known:
        return
    message, hint = f"{shown(name)} is not known", choice(name, known)
    if is_redis:
        message = f"redis-benchmark brings no {shown(name)}"
    elif name in benchmark.BUILTINS:
        message = f"pgbench brings no {shown(name)}: it is a test of redis-benchmark"
        hint = "Name another, or give the targets a kind such as `redis-local`."
    yield Issue(path=path, message=message, hint=hint)


def _is_of_others(draft: Draft) -> bool:
    """Return whether any target is a server that is there already."""
    targets = [draft.document.at((*home, "target")) for home in draft.homes]
    given = [target for target in targets if isinstance(target, dict)]
    return any(t.get("kind") == "redis-endpoint" or "service" in t for t in given)


def _command(path: KeyPath, form: WorkloadForm, draft: Draft) -> Iterator[Issue]:
    """Yield that a command is no load, that it may do harm, or that nobody can send it."""
    words = form.command or ("",)
    if words[0].lower() in _NO_LOAD:
        message = f"{shown(words[0])} is no load: it changes the connection or the server"
        yield Issue(path=path, message=message, hint="Name a command that reads or writes a key.")
        return
    if _is_of_others(draft) and not stays_in_database(words):
        message = (
            f"{shown(' '.join(words))} is not known to stay with the keys of the workload, and the"
            " server is there already: it may hold keys of others"
        )
        hint = (
            "Name a command that reads or writes keys of its own database only (GET, SET, HSET,"
            " LPUSH, ZADD...), or measure a server that Steelyard starts, as `redis-local` does."
        )
        yield Issue(path=path, message=message, hint=hint)
        return
    request = RunRequest(
        workload=Workload(name=form.name, redis=redis_work(form)),
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


def _misses(path: KeyPath, workload: WorkloadForm) -> Iterator[Issue]:
    if workload.builtin in _TAKES:
        message = f"`{workload.builtin}` would take from an empty key: nothing is loaded into it"
        hint = "Weigh what fills it (`lpush`, `rpush`, `sadd`, `zadd`), or a `command` of your own."
        yield Issue(path=(*path, "builtin"), message=message, hint=hint)
    if workload.builtin == "get" and not workload.loaded:
        keys = workload.keys or 100_000
        message = "GET would find no key: `loaded` says how many exist, and none does"
        hint = f"Add `loaded: {keys}`; {keys} x `value_bytes` must fit into memory."
        yield Issue(path=path, message=message, hint=hint, at_key=True)


# In comments too: the record has the whole text. A `<secret>` that only refers to one is none.
_DOMAIN_SECRET: Final = re.compile(
    r"\bpassw(?:or)?d\s*=\s*(?:'[^']|\"[^\"])"
    r"|<secret\b[^>]*(?<!/)>\s*[^<\s]"
    r"|\bsecret,[^'\"]*\bdata="
)
_COMMON: Final = ("vm.nr_hugepages", "vm.swappiness", *host_settings.SHORT_NAMES)


class HasHost(Protocol):
    """A treatment with everything it inherits, as far as it is outside the server."""

    @property
    def target(self) -> TargetForm:
        """Return the keys of its target."""
        ...

    @property
    def linux(self) -> Mapping[str, str]:
        """Return its kernel settings."""
        ...

    @property
    def domain(self) -> str | None:
        """Return the file of its virtual machine."""
        ...

    @property
    def manual(self) -> ManualForm | None:
        """Return what is done by hand."""
        ...


def linux_issues(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    """Yield what is wrong with the names and values of one treatment's or level's ``linux``."""
    given = draft.document.at((*path, "linux"))
    for name, value in given.items() if isinstance(given, dict) else ():
        where = (*path, "linux", name)
        try:
            host_settings.check_name(name)
        except InputError as error:
            hint = did_you_mean(name, _COMMON) or error.hint
            yield Issue(path=where, message=error.message, hint=hint, at_key=True)
            continue
        try:
            text = setting_value(value)
        except PydanticCustomError:
            continue  # the form has said it
        try:
            if text is not None:
                host_settings.check_value(name, text)
        except InputError as error:
            yield Issue(path=where, message=error.message, hint=error.hint)


def manual_issues(path: KeyPath, level: LevelForm) -> Iterator[Issue]:
    """Yield that nobody is told what to do."""
    given = level.manual.model_fields_set
    if given and level.manual.text is None and level.manual.command is None:
        message = "`manual` says neither what to do nor which command does it"
        yield Issue(path=(*path, "manual"), message=message, hint="Add `text` or `command`.")


def host_issues(draft: Draft, merged: Mapping[str, HasHost]) -> Iterator[Issue]:
    """Yield what does not go together once everything is inherited."""
    for name, treatment in merged.items():
        for key, message, hint in _misplaced(name, treatment):
            path: KeyPath = ("treatments", name, key)
            written = draft.document.at(path) is not None
            yield Issue(path=path if written else path[:2], message=message, hint=hint, at_key=True)
    yield from _no_way_back(merged)


def _misplaced(name: str, treatment: HasHost) -> Iterator[tuple[str, str, str]]:
    target = model_of(treatment.target)
    local, pod = target.is_here, target.home is not None
    if treatment.linux and not local:
        what = "a pod" if pod else "an endpoint"
        yield (
            "linux",
            f"the server of `{name}` is {what}, and `linux` turns knobs of this machine",
            "Remove `linux`, use `kind: local`, or turn them by `manual` with a command.",
        )
    if treatment.domain is None:
        return
    if pod:
        yield (
            "kvm",
            f"the server of `{name}` is a pod, whose node is no virtual machine of this libvirt",
            "Remove `kvm`, or name the guest's server with `kind: endpoint`.",
        )
        return
    if local:
        yield (
            "kvm",
            f"the server of `{name}` runs on this machine, which cannot power-cycle itself",
            "Run Steelyard on the hypervisor, with `kind: endpoint` for the server in the guest.",
        )
    elif treatment.manual is None:
        yield (
            "kvm",
            f"nothing power-cycles the virtual machine of `{name}` so that its definition holds",
            "Add `manual` with a command that power-cycles it and waits for the server.",
        )


def _no_way_back(merged: Mapping[str, HasHost]) -> Iterator[Issue]:
    """Yield treatments that nothing leads back to."""
    for key, given in (
        ("manual", {name: each.manual is not None for name, each in merged.items()}),
        ("kvm", {name: each.domain is not None for name, each in merged.items()}),
    ):
        if any(given.values()) and not all(given.values()):
            without = next(name for name, there in given.items() if not there)
            other = next(name for name, there in given.items() if there)
            yield Issue(
                path=("treatments", without),
                message=f"`{other}` has `{key}` and `{without}` has none: nothing leads back",
                hint=f"Give `{key}` to every treatment.",
                at_key=True,
            )


def domain_issue(file: str, text: str) -> tuple[str, str] | None:
    """Return what is wrong with the text of a domain's file, and the way out; None: it is one."""
    if _DOMAIN_SECRET.search(text):
        hint = (
            "Records carry no secrets: remove it, and let the step of `manual` set it, or refer to"
            " one that libvirt keeps (`virsh secret-define`)."
        )
        return f"{shown(file)} has a password in it", hint
    hint = "Write it as `virsh dumpxml` shows one, `<name>` included."
    try:
        name = name_of_domain(text)
    except InputError as error:
        return f"{shown(file)} is no XML of a libvirt domain: {error.message}", hint
    return None if name else (f"{shown(file)} is no XML of a libvirt domain with a name", hint)
