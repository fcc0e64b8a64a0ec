"""Rules for Redis: what is measured in place of the workload, and persistence on one side only.

Where a rule needs settings, those count that the running server reports.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from steelyard.answers.observations import result_contrasts
from steelyard.answers.validity.facts import (
    CampaignFacts,
    Runs,
    events_differ,
    levels,
    rate,
    ratio,
    totals,
    weighed,
)
from steelyard.core.findings import (
    Judges,
    Ruling,
    Severity,
    ValidityRule,
    broken,
    lacking,
)
from steelyard.core.measurement import Evidence, Quantity
from steelyard.core.redis import Death, PromisedLoss, changes_keys, promised_loss
from steelyard.core.target import EngineName, RedisLocalTarget
from steelyard.core.wording import KIB, MIB, format_bytes, format_share

MISSED_SHARE: Final = 0.01
READS_SHARE: Final = 0.01  # of the commands: fewer reads are not the workload's
PAYLOAD_BYTES: Final = 16 * KIB
EXECUTING_SHARE: Final = 0.2
LEAST_CPU_SHARE: Final = 0.01  # of the time, of the main thread
LINK_SHARE: Final = 0.8
RESIDENT_SHARE: Final = 0.9
LEAST_USED_BYTES: Final = 16 * MIB
SPINNING_CPUS: Final = 0.25  # of threads beside the main one; a guess
_IO_THREADS: Final = "io-threads"


def _evicted(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.configurations:
        found = totals(facts.runs_of(name), Quantity.EVICTED_KEYS)
        if found is None:
            yield lacking(Quantity.EVICTED_KEYS)
        elif found[0] > 0:
            limit = facts.in_force(name).get("maxmemory", "")
            at = f" at maxmemory {limit}" if limit else ""
            yield broken(f"{name}: {found[0]:,.0f} keys were evicted{at}", subject=name)


def _missed(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.configurations:
        found = totals(
            facts.runs_of(name),
            *(Quantity.KEYSPACE_MISSES, Quantity.KEYSPACE_HITS, Quantity.COMMANDS),
        )
        if found is None:
            yield lacking("keyspace_misses, keyspace_hits and commands")
            continue
        misses, reads, commands = found[0], found[0] + found[1], found[2]
        if reads >= max(READS_SHARE * commands, 1.0) and misses / reads > MISSED_SHARE:
            share = format_share(misses / reads)
            yield broken(f"{name}: {share} of the keys that were read did not exist", subject=name)


def _network_bound(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.configurations:
        runs = facts.runs_of(name)
        # The link of a pod is virtual, and what it says of its speed means nothing.
        beside_pods = facts.experiment.is_in_kubernetes
        links = [] if beside_pods else levels(runs, Quantity.LINK_BUSIEST_FRACTION)
        payload = _payload_bytes(runs)
        executing = ratio(runs, Quantity.COMMAND_S, Quantity.MAIN_THREAD_CPU_S)
        if links and max(links) > LINK_SHARE:
            yield broken(
                f"{name}: a network link was used to {format_share(max(links))}: its speed was"
                " measured, not the server's",
                subject=name,
            )
        elif payload is None or executing is None:
            yield lacking("network_in_bytes, network_out_bytes, command_s and main_thread_cpu_s")
        elif (
            payload >= PAYLOAD_BYTES
            and executing < EXECUTING_SHARE
            and (rate(runs, Quantity.MAIN_THREAD_CPU_S) or 0.0) >= LEAST_CPU_SHARE
        ):
            yield broken(
                f"{name}: {format_bytes(payload)} a request went through sockets, and commands took"
                f" {format_share(executing)} of the main thread's CPU time: most of it moves bytes",
                subject=name,
            )


def _payload_bytes(runs: Runs) -> float | None:
    found = totals(runs, Quantity.NETWORK_IN_BYTES, Quantity.NETWORK_OUT_BYTES, Quantity.COMMANDS)
    return None if found is None or found[2] <= 0 else (found[0] + found[1]) / found[2]


def _swapped_out(facts: CampaignFacts) -> Iterator[Ruling]:
    for name in facts.seen.configurations:
        seen = [run.evidence for run in facts.runs_of(name) if run.evidence is not None]
        shares = [share for each in seen if (share := _resident_share(each)) is not None]
        if not shares:
            yield lacking("resident_bytes and used_memory_bytes")
        elif min(shares) < RESIDENT_SHARE:
            yield broken(
                f"{name}: only {format_share(min(shares))} of what the server has allocated was in"
                " memory: the rest may be swapped out",
                subject=name,
            )


def _resident_share(evidence: Evidence) -> float | None:
    used = evidence.level(Quantity.USED_MEMORY_BYTES)
    resident = evidence.level(Quantity.RESIDENT_BYTES)
    if used is None or resident is None:
        return None
    return resident / used if used >= LEAST_USED_BYTES else 1.0


_ADMINISTRATION: Final = "Redis documentation, 'Redis administration'"
KEYSPACE_RULES: Final[tuple[ValidityRule[CampaignFacts], ...]] = (
    ValidityRule(
        code="keys-evicted",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Raise maxmemory, load fewer keys, or say that eviction is what is measured.",
        source="INFO, evicted_keys",
        judge=_evicted,
    ),
    ValidityRule(
        code="keys-missing",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Load as many keys as requests choose among (`loaded` and `keys`).",
        source="INFO, keyspace_misses; threshold: a guess",
        judge=_missed,
    ),
    ValidityRule(
        code="network-bound",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Measure with values of the size that the application has (`value_bytes`), or say"
        " that it holds for large ones.",
        source="INFO, total_net_input_bytes and commandstats; /sys/class/net; thresholds: guesses",
        judge=_network_bound,
    ),
    ValidityRule(
        code="data-swapped-out",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Look at VmSwap in /proc/PID/status of the server; if it is swapped out, load less"
        " or give the machine more memory.",
        source=f"INFO, used_memory_rss; {_ADMINISTRATION}; threshold: a guess",
        judge=_swapped_out,
    ),
)


_THP: Final = "transparent huge pages"  # facts of the machine, as a record calls them
_OVERCOMMIT: Final = "memory overcommit"
_ALWAYS_ALLOWED: Final = "1"
_LOG, _FLUSH, _SNAPSHOTS = "appendonly", "appendfsync", "save"
_WHEN: Final = ((Death.POWER, "when the power fails"), (Death.KILL, "when the process is killed"))


def _events(
    facts: CampaignFacts, quantities: tuple[Quantity, Quantity], what: str
) -> Iterator[Ruling]:
    """Compare how many runs of the sides held some of that work."""
    return events_differ(facts, what, partial(_held_any, quantities), " or ".join(quantities))


def _held_any(quantities: tuple[Quantity, Quantity], evidence: Evidence) -> bool | None:
    """Return whether any of them is more than nothing; None where none was counted."""
    found = [evidence.total(quantity) for quantity in quantities]
    known = [value for value in found if value is not None]
    return max(known) > 0 if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trade:
    """What the weaker side of a comparison may lose by one death, and the other one."""

    when: str
    weaker: str
    loses: str
    stronger: str
    instead: str


def _persistence(facts: CampaignFacts) -> Iterator[Ruling]:
    """Rule on all comparisons; those that one side is the weaker of are told together."""
    needed = "appendonly, appendfsync and save in force"
    writing = {each.name for each in facts.experiment.workloads if changes_keys(each)}
    rates = facts.seen.largest_rates(writing)
    found: dict[str, list[_Trade]] = {}

    def promised(name: str) -> PromisedLoss | None:
        return _promised(facts.in_force(name), rates.get(name))

    def traded(one: tuple[str, PromisedLoss], other: tuple[str, PromisedLoss]) -> tuple[()]:
        trades = tuple(_trades(one, other))
        if trades:
            found.setdefault(trades[0].weaker, []).extend(trades)
        return ()

    for asked in result_contrasts(facts.experiment):
        yield from weighed(facts, asked, promised, traded, needed)
    for weaker, trades in found.items():
        names = {each.weaker for each in trades}
        yield broken(f"{_traded_words(trades)}{_replicas(facts, names)}", subject=weaker)


def _trades(one: tuple[str, PromisedLoss], other: tuple[str, PromisedLoss]) -> Iterator[_Trade]:
    """Yield what the weaker of two sides may lose, by each way to die, and the other."""
    for death, when in _WHEN:
        sides = [(name, loss.after(death)) for name, loss in (one, other)]
        (strong, less), (weak, more) = sorted(sides, key=lambda side: side[1].rank)
        if less.rank != more.rank:
            yield _Trade(
                when=when, weaker=weak, loses=more.words, stronger=strong, instead=less.words
            )


def _traded_words(trades: Sequence[_Trade]) -> str:
    """Return who may lose what and when, each sentence once for all that it is true of."""
    told: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for each in trades:
        others = told.setdefault((each.when, each.weaker, each.loses), {})
        others.setdefault(each.instead, []).append(each.stronger)
    parts = []
    for (when, weaker, loses), others in told.items():
        kept = [
            f"{', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]} {words}"
            for words, names in others.items()
        ]
        parts.append(f"{when} {weaker} may lose {loses}, {', '.join(kept)}")
    return "; ".join(parts)


def _replicas(facts: CampaignFacts, weaker: Container[str]) -> str:
    here = [t.target for t in facts.configurations if t.name in weaker]
    split = any(isinstance(each, RedisLocalTarget) and each.replica is not None for each in here)
    return "; its replica may keep more" if split else ""


def _promised(in_force: Mapping[str, str], per_s: float | None) -> PromisedLoss | None:
    """Return what a server may lose; None where the settings that decide it are not known."""
    needed = (_FLUSH,) if in_force.get(_LOG) == "yes" else (_SNAPSHOTS,)
    known = all(name in in_force for name in (_LOG, *needed))
    return promised_loss(in_force, per_s) if known else None


def _forks_on_huge_pages(facts: CampaignFacts) -> Iterator[Ruling]:
    machine = _fact(facts, _THP)
    for name in facts.seen.configurations:
        persists = _persists(facts.in_force(name))
        allowed = levels(facts.runs_of(name), Quantity.SERVER_TRANSPARENT_HUGE)
        if persists is False:
            continue
        if persists is None or machine is None or not allowed:
            yield lacking("save and appendonly in force, transparent huge pages of the server")
        elif machine == "always" and max(allowed) > 0:
            yield broken(
                f"{name}: it saves while the kernel gives it transparent huge pages (always)",
                subject=name,
            )


def _spins(facts: CampaignFacts) -> Iterator[Ruling]:
    """Rule on threads of input and output that wait for each other without leaving their CPUs."""
    for name in facts.seen.configurations:
        threads = int(facts.in_force(name).get(_IO_THREADS, "1"))
        if threads == 1:
            continue
        runs = facts.runs_of(name)
        cpus = levels(runs, Quantity.CPUS)
        main, others = (
            rate(runs, each) for each in (Quantity.MAIN_THREAD_CPU_S, Quantity.BACKGROUND_CPU_S)
        )
        if not cpus or main is None or others is None:
            yield lacking("cpus, main_thread_cpu_s and background_cpu_s")
        elif threads > min(cpus) and others > max(main, SPINNING_CPUS):
            yield broken(
                f"{name}: {threads} {_IO_THREADS} on {min(cpus):g} CPUs spin while they wait: those"
                f" beside the main thread used {others:.2g} CPUs, the main thread {main:.2g}",
                subject=name,
            )


def _may_not_fork(facts: CampaignFacts) -> Iterator[Ruling]:
    mode = _fact(facts, _OVERCOMMIT)
    for name in facts.seen.configurations:
        persists = _persists(facts.in_force(name))
        if persists is False:
            continue
        if persists is None or mode is None or not _is_here(facts, name):
            yield lacking("save and appendonly in force, vm.overcommit_memory of the server")
        elif mode != _ALWAYS_ALLOWED:
            yield from _ruled_on_room(facts, name, mode)


def _is_here(facts: CampaignFacts, name: str) -> bool:
    """Return whether a server runs on the machine whose facts and memory the record has."""
    started = any(t.name == name and t.target.is_here for t in facts.configurations)
    # This one is read from the server's process: it was seen on this machine.
    return started or bool(levels(facts.runs_of(name), Quantity.SERVER_TRANSPARENT_HUGE))


def _ruled_on_room(facts: CampaignFacts, name: str, mode: str) -> Iterator[Ruling]:
    """Rule on a server that saves where the kernel may refuse the fork for that."""
    used = levels(facts.runs_of(name), Quantity.USED_MEMORY_BYTES)
    free = levels(facts.runs_of(name), Quantity.MEMORY_AVAILABLE_BYTES)
    if not used or not free:
        yield lacking("used_memory_bytes and memory_available_bytes")
    elif max(used) > min(free):
        yield broken(
            f"{name}: it saves with {format_bytes(max(used))} in use while"
            f" {format_bytes(min(free))} were available, and vm.overcommit_memory is {mode}: the"
            " kernel may refuse the fork",
            subject=name,
        )


def _fact(facts: CampaignFacts, name: str) -> str | None:
    """Return a fact of the campaign's machine; None where it is not known."""
    environment = facts.record.environment
    told = () if environment is None else environment.facts
    found = next((fact.value for fact in told if fact.name == name), "not visible")
    return None if found == "not visible" else found


def _persists(in_force: Mapping[str, str]) -> bool | None:
    """Return whether a server forks to write what it holds; None where it is not known."""
    save, log = in_force.get("save"), in_force.get("appendonly")
    if save is None or log is None:
        return None
    return bool(save.replace('"', "").strip()) or log == "yes"


PERSISTENCE_RULES: Final[tuple[ValidityRule[CampaignFacts], ...]] = (
    ValidityRule(
        code="snapshots-differ",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        remedy='Set `save: ""` on both sides, or ask for `sustain`, so that saves fall into all.',
        source="METHOD 3.6 (the test); Redis documentation, 'Redis persistence'",
        judge=partial(
            _events,
            quantities=(Quantity.RDB_SAVING_S, Quantity.RDB_SAVES),
            what="the saving of a snapshot",
        ),
    ),
    ValidityRule(
        code="rewrites-differ",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        remedy="Set `auto-aof-rewrite-percentage: 0` on both sides, or ask for `sustain`.",
        source="METHOD 3.6 (the test); redis.conf, auto-aof-rewrite-percentage",
        judge=partial(
            _events,
            quantities=(Quantity.AOF_REWRITING_S, Quantity.AOF_REWRITES),
            what="a rewrite of the append-only file",
        ),
    ),
    ValidityRule(
        code="persistence-traded",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        remedy="Compare at equal persistence, or say what the speed costs; `steelyard crash-test"
        " redis` measures it.",
        source="Redis documentation, 'Redis persistence'",
        judge=_persistence,
    ),
    ValidityRule(
        code="fork-on-huge-pages",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Leave `disable-thp yes` as it is, or set transparent_hugepage/enabled to madvise.",
        source="Redis documentation, 'Diagnosing latency issues'; redis.conf, disable-thp",
        judge=_forks_on_huge_pages,
    ),
    ValidityRule(
        code="io-threads-spin",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="Lower `io-threads` below the number of CPUs, or leave it at 1.",
        source="redis.conf, io-threads; thresholds: guesses",
        judge=_spins,
    ),
    ValidityRule(
        code="fork-may-fail",
        engine=EngineName.REDIS,
        judges=Judges.CONFIGURATION,
        severity=Severity.WARNING,
        remedy="sysctl -w vm.overcommit_memory=1 (root), or leave as much memory free again.",
        source=_ADMINISTRATION,
        judge=_may_not_fork,
    ),
)
