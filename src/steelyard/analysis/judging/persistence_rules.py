"""Rules for Redis about its persistence: what it keeps, and what it does for that on one side only.

Where a rule needs settings, those count that the running server reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from steelyard.analysis.contrasts import headline_contrasts
from steelyard.analysis.judging.events import BY_RUNS, events_differ
from steelyard.analysis.judging.facts import CampaignFacts, levels
from steelyard.analysis.judging.promises import weighed
from steelyard.model.evidence import Evidence, Quantity
from steelyard.model.experiment import EngineName
from steelyard.model.findings import Severity
from steelyard.model.persistence import Death, PromisedLoss, promised_loss
from steelyard.model.rules import (
    KEPT,
    NOTHING_TO_JUDGE,
    Judges,
    Rule,
    Ruling,
    Threshold,
    broken,
    lacking,
)
from steelyard.model.target import AnyLocalTarget, RedisLocalTarget
from steelyard.model.units import format_bytes

_THP: Final = "transparent huge pages"  # facts of the machine, as a record calls them
_OVERCOMMIT: Final = "memory overcommit"
_ALWAYS_ALLOWED: Final = "1"
_LOG, _FLUSH, _SNAPSHOTS = "appendonly", "appendfsync", "save"
_WHEN: Final = ((Death.POWER, "when the power fails"), (Death.KILL, "when the process is killed"))


def _saves(facts: CampaignFacts) -> Iterator[Ruling]:
    quantities = (Quantity.RDB_SAVING_S, Quantity.RDB_SAVES)
    yield from _events(facts, quantities, "the saving of a snapshot")


def _rewrites(facts: CampaignFacts) -> Iterator[Ruling]:
    quantities = (Quantity.AOF_REWRITING_S, Quantity.AOF_REWRITES)
    yield from _events(facts, quantities, "a rewrite of the append-only file")


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


def _persistence(facts: CampaignFacts) -> Iterator[Ruling]:
    needed = "appendonly, appendfsync and save in force"
    for asked in headline_contrasts(facts.experiment):
        yield weighed(facts, asked, _promised, partial(_traded, facts), needed)


def _traded(
    facts: CampaignFacts, one: tuple[str, PromisedLoss], other: tuple[str, PromisedLoss]
) -> Ruling:
    """Rule on two sides, by each way to die: what the weaker one may lose, and the other."""
    told, weaker = [], []
    for death, when in _WHEN:
        sides = [(name, loss.after(death)) for name, loss in (one, other)]
        (strong, less), (weak, more) = sorted(sides, key=lambda side: side[1].rank)
        if less.rank != more.rank:
            told.append(f"{when} {weak} may lose {more.words}, {strong} {less.words}")
            weaker.append(weak)
    if not told:
        return KEPT
    return broken("; ".join(told) + _replicas(facts, weaker), subject=weaker[0])


def _replicas(facts: CampaignFacts, weaker: Sequence[str]) -> str:
    here = [t.target for t in facts.treatments if t.name in weaker]
    split = any(isinstance(each, RedisLocalTarget) and each.replica is not None for each in here)
    return "; its replica may keep more" if split else ""


def _promised(in_force: Mapping[str, str]) -> PromisedLoss | None:
    """Return what a server may lose; None where the settings that decide it are not known."""
    needed = (_FLUSH,) if in_force.get(_LOG) == "yes" else (_SNAPSHOTS,)
    known = all(name in in_force for name in (_LOG, *needed))
    return promised_loss(in_force) if known else None


def _forks_on_huge_pages(facts: CampaignFacts) -> Iterator[Ruling]:
    machine = _fact(facts, _THP)
    for name in facts.seen.treatments:
        persists = _persists(facts.in_force(name))
        allowed = levels(facts.runs_of(name), Quantity.SERVER_TRANSPARENT_HUGE)
        if persists is False:
            yield NOTHING_TO_JUDGE
        elif persists is None or machine is None or not allowed:
            yield lacking("save and appendonly in force, transparent huge pages of the server")
        elif machine == "always" and max(allowed) > 0:
            yield broken(
                f"{name}: it saves while the kernel gives it transparent huge pages (always)",
                subject=name,
            )
        else:
            yield KEPT


def _may_not_fork(facts: CampaignFacts) -> Iterator[Ruling]:
    mode = _fact(facts, _OVERCOMMIT)
    for name in facts.seen.treatments:
        persists = _persists(facts.in_force(name))
        if persists is False:
            yield NOTHING_TO_JUDGE
        elif persists is None or mode is None or not _is_here(facts, name):
            yield lacking("save and appendonly in force, vm.overcommit_memory of the server")
        elif mode == _ALWAYS_ALLOWED:
            yield KEPT
        else:
            yield _ruled_on_room(facts, name, mode)


def _is_here(facts: CampaignFacts, name: str) -> bool:
    """Return whether a server runs on the machine whose facts and memory the record has."""
    started = any(t.name == name and isinstance(t.target, AnyLocalTarget) for t in facts.treatments)
    # This one is read from the server's process: it was seen on this machine.
    return started or bool(levels(facts.runs_of(name), Quantity.SERVER_TRANSPARENT_HUGE))


def _ruled_on_room(facts: CampaignFacts, name: str, mode: str) -> Ruling:
    """Rule on a server that saves where the kernel may refuse the fork for that."""
    used = levels(facts.runs_of(name), Quantity.USED_MEMORY_BYTES)
    free = levels(facts.runs_of(name), Quantity.MEMORY_AVAILABLE_BYTES)
    if not used or not free:
        return lacking("used_memory_bytes and memory_available_bytes")
    if max(used) <= min(free):
        return KEPT
    return broken(
        f"{name}: it saves with {format_bytes(max(used))} in use while {format_bytes(min(free))}"
        f" were available, and vm.overcommit_memory is {mode}: the kernel may refuse the fork",
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


_ADMINISTRATION: Final = "Redis documentation, 'Redis administration'"
_COPY: Final = (
    "It forks, copies every page that is written meanwhile, and writes beside the append-only"
    " file. Where a treatment asks for it that is a part of its effect, at this length of a run"
)

PERSISTENCE_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    Rule(
        code="snapshots-differ",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="A snapshot (RDB) was saved in more runs of one side than of the other.",
        why=f"{_COPY}; elsewhere the save points, by number of writes, make the faster side save"
        " more often.",
        thresholds=BY_RUNS,
        remedy='Set `save: ""` on both sides, or ask for `sustain`, so that saves fall into all.',
        source="METHOD 3.6 (the test); Redis documentation, 'Redis persistence'",
        judge=_saves,
    ),
    Rule(
        code="rewrites-differ",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="The append-only file was rewritten in more runs of one side than of the other.",
        why=f"{_COPY}; it begins by the growth of the file, so the faster side rewrites sooner.",
        thresholds=BY_RUNS,
        remedy="Set `auto-aof-rewrite-percentage: 0` on both sides, or ask for `sustain`.",
        source="METHOD 3.6 (the test); redis.conf, auto-aof-rewrite-percentage",
        judge=_rewrites,
    ),
    Rule(
        code="persistence-traded",
        engine=EngineName.REDIS,
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="One side may lose more than the other when the power fails or the process is killed,"
        " by the settings in force.",
        why="A part of the speed is bought with acknowledged writes that may be gone. When only the"
        " process dies next to nothing is lost with an append-only file, however it is flushed."
        " Judged by the worst that the settings allow, as in the table of what may be lost.",
        remedy="Compare at equal persistence, or say what the speed costs; `steelyard redis"
        " crash-test` measures it.",
        source="Redis documentation, 'Redis persistence'",
        judge=_persistence,
    ),
    Rule(
        code="fork-on-huge-pages",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="The server saves snapshots or rewrites its log while transparent huge pages are"
        " always given to it.",
        why="After the fork every write copies a page: of 2 MiB in place of 4 KiB, while all"
        " clients wait.",
        remedy="Leave `disable-thp yes` as it is, or set transparent_hugepage/enabled to madvise.",
        source="Redis documentation, 'Diagnosing latency issues'; redis.conf, disable-thp",
        judge=_forks_on_huge_pages,
    ),
    Rule(
        code="fork-may-fail",
        engine=EngineName.REDIS,
        judges=Judges.TREATMENT,
        severity=Severity.WARNING,
        what="The server saves, the kernel does not promise memory beyond what there is"
        " (vm.overcommit_memory is not 1), and less is available than the server uses.",
        why="A fork may be refused; then nothing is saved, and Redis refuses writes once a save"
        " has failed (stop-writes-on-bgsave-error).",
        thresholds=(
            Threshold(
                value=1.0,
                shown="available memory less than used_memory",
                reason="a child can come to copy as much as the server holds",
            ),
        ),
        remedy="sysctl -w vm.overcommit_memory=1 (root), or leave as much memory free again.",
        source=_ADMINISTRATION,
        judge=_may_not_fork,
    ),
)
