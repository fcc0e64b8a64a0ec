"""Rules about the work and about turns, and what all rules beside those for single runs find.

The rules about the work look at what fell into the runs, their shape and size and the client's
part. Those about turns ask whether a comparison changes within a block, where nothing should do so.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from steelyard.answers import turns
from steelyard.answers.observations import Observations
from steelyard.answers.results import Comparison
from steelyard.answers.validity.facts import CampaignFacts, Runs, events_differ
from steelyard.answers.validity.machine_rules import MACHINE_RULES, STORAGE_RULES
from steelyard.answers.validity.redis_rules import KEYSPACE_RULES, PERSISTENCE_RULES
from steelyard.core import findings
from steelyard.core.campaign import RUN_NEEDS, CampaignRecord, missing_for
from steelyard.core.measurement import Evidence, Quantity, Run, Seconds
from steelyard.core.schedule import Ceiling, CeilingKind
from steelyard.core.target import EngineName
from steelyard.core.wording import MS_PER_S, format_log_ratio, format_share
from steelyard.report.document import count
from steelyard.stats.intervals import Interval, block_interval
from steelyard.stats.turns import LEAST_BLOCKS, SUSPECT_LEVEL, is_suspect

_TOLD: Final = {
    turns.TurnChange.OVER_BLOCK: "changes from the first round of a block to the last by",
    turns.TurnChange.WITHIN_TURNS: "changes from the first half of its turns to the second by",
    turns.TurnChange.BY_PREDECESSOR: "in turns after a turn of its own differs from that after"
    " another"
    " one's by",
}


def _writes_in_flight(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for check in turns.writes_after_switches(facts.seen, facts.experiment):
        yield from _judge_trace(check, _told_of_writes)


def _cache_pressure(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for check in turns.pages_from_devices(facts.seen, facts.experiment):
        yield from _judge_trace(check, _told_of_pages)


def _judge_trace(
    check: turns.TraceCheck, told: Callable[[turns.TraceCheck, str], str]
) -> Iterator[findings.Ruling]:
    """Judge one; where too few of enough blocks have writes or reads at all, nothing is missing."""
    found = check.difference
    if found is None:
        if check.blocks and check.of < LEAST_BLOCKS:
            yield findings.lacking(f"{count(LEAST_BLOCKS, 'block')} in turns; {check.of} are there")
    elif is_suspect(found):
        names = check.configuration, check.baseline
        more, less = names if found.estimate > 0 else reversed(names)
        message = f"{more}: under {check.workload} {told(check, less)}"
        yield findings.broken(f"{message}, {count(check.blocks, 'block')})", subject=more)


def _told_of_writes(check: turns.TraceCheck, less: str) -> str:
    share, other = _levels(check)
    return (
        f"{format_share(share)} of what the data's device writes in its turns is written while they"
        f" settle, and {format_share(other)} in those of {less} (difference"
        f" {_interval(check, 100.0)} points"
    )


def _told_of_pages(check: turns.TraceCheck, less: str) -> str:
    pages, other = _levels(check)
    return (
        f"each transaction waited for {pages:.3f} pages of 8 KiB from a device although the server"
        f" is warm and the data fit into memory, and {other:.3f} under {less} (difference"
        f" {_interval(check, 1.0)}"
    )


def _levels(check: turns.TraceCheck) -> tuple[float, float]:
    """Return the higher and the lower level."""
    levels = sorted([check.baseline_level or 0.0, check.configuration_level or 0.0], reverse=True)
    return levels[0], levels[1]


def _interval(check: turns.TraceCheck, scale: float) -> str:
    """Return the bounds of the difference, without its sign."""
    found = check.difference
    bounds = sorted(scale * abs(bound) for bound in (found.low, found.high)) if found else (0, 0)
    return f"{bounds[0]:.3g} to {bounds[1]:.3g}"


def _judge(facts: CampaignFacts, changes: Sequence[turns.TurnChange]) -> Iterator[findings.Ruling]:
    for check in turns.check_turns(facts.seen, facts.experiment, changes):
        if check.change is None:
            yield findings.lacking(
                f"{count(LEAST_BLOCKS, 'block')} in turns; {check.blocks} are there"
            )
        elif check.is_suspect:
            yield findings.broken(_message(check, check.change), subject=check.configuration)


def _message(check: turns.TurnCheck, change: Interval) -> str:
    found, low, high = (
        format_log_ratio(value) for value in (change.estimate, change.low, change.high)
    )
    blocks = count(check.blocks, "block")
    among = blocks if check.blocks == check.of else f"{blocks} of {check.of} that can say"
    return (
        f"{check.configuration}: under {check.workload} its rate vs {check.baseline} (baseline)"
        f" {_TOLD[check.what]} {found} ({100 * (1 - SUSPECT_LEVEL):g} % interval {low} to {high},"
        f" {among})"
    )


TURN_RULES: Final[tuple[findings.ValidityRule[CampaignFacts], ...]] = (
    findings.ValidityRule(
        code="carry-over",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Repeat it with a longer `turn_discard`: more is thrown away at the start of each"
        " turn.",
        source="METHOD 3.17",
        judge=partial(_judge, changes=turns.CARRIED_OVER),
    ),
    findings.ValidityRule(
        code="still-warming",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Repeat it with a longer `measure.warm_up`. Where the experiment declares none, the"
        " blocks that follow warm up longer, in all configurations; those before stay in.",
        source="METHOD 3.17",
        judge=partial(_judge, changes=(turns.TurnChange.OVER_BLOCK,)),
    ),
    findings.ValidityRule(
        code="writes-in-flight",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Repeat it with a longer `turn_discard`, or with `design: one-by-one`.",
        source="METHOD 3.17 (the interval); threshold: a guess",
        judge=_writes_in_flight,
    ),
    findings.ValidityRule(
        code="cache-pressure",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Give the machine more memory or the servers less, or repeat it with `design:"
        " one-by-one`.",
        source="the kernel's counters of the device and of /proc/PID/stat; threshold: a guess",
        judge=_cache_pressure,
    ),
)


TREND: Final = 0.05
TREND_LEVEL: Final = 0.01
TREND_FROM: Final = 8  # blocks; METHOD 3.4's first look
TREND_SECONDS: Final = 4  # of a run: two halves of two
FEW_TRANSACTIONS: Final = 100
TRIP_FACTOR: Final = 1.5
LEAST_TRIP_S: Final = 5e-5


def _events(facts: CampaignFacts, quantity: Quantity, what: str) -> Iterator[findings.Ruling]:
    """Compare how many runs of the sides held an event."""
    return events_differ(facts, what, partial(_has_event, quantity), quantity.value)


def _has_event(quantity: Quantity, evidence: Evidence) -> bool | None:
    """Return whether it happened: an idle server counts checkpoints that it skips."""
    counted = evidence.total(quantity)
    skipped = quantity is Quantity.CHECKPOINTS and evidence.total(Quantity.WAL_BYTES) == 0
    return None if counted is None else counted > 0 and not skipped


def _trend(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    ramp_s = facts.experiment.measure.discard_start_s
    every = [(t, w.name) for t in facts.seen.configurations for w in facts.experiment.workloads]
    for configuration, workload in every:
        runs = [
            run
            for run in facts.runs_of(configuration)
            if run.cell.workload == workload
            and run.measurement is not None
            and run.measurement.transactions >= FEW_TRANSACTIONS
        ]
        by_block: dict[int, list[float]] = {}
        for run in runs:
            change = half_change(run, ramp_s if run.has_ramp else 0.0)
            if change is not None:
                by_block.setdefault(run.block, []).append(change)
        if len(by_block) < TREND_FROM:
            continue
        changes = np.array([np.mean(of_block) for of_block in by_block.values()])
        found = block_interval(changes, TREND_LEVEL / len(every))
        if abs(np.expm1(found.estimate)) > TREND and not found.low <= 0.0 <= found.high:
            yield findings.broken(
                f"{configuration}: its runs of {workload} change by"
                f" {format_log_ratio(found.estimate)} from the first half to the"
                " second",
                subject=configuration,
            )


def half_change(run: Run, ramp_s: float) -> float | None:
    """Return ln of the rate of a run's second half over its first, the ramp left out.

    None where it is too short, or where nothing was done in one half.
    """
    series = Seconds.of(run.measurement.series if run.measurement is not None else ())
    end_s, transactions, seconds, _ = np.frombuffer(series.numbers).reshape(-1, 4).T
    kept = end_s - seconds >= ramp_s - 0.5
    half = int(kept.sum()) // 2
    if kept.sum() < TREND_SECONDS:
        return None
    done, took = transactions[kept].tolist(), seconds[kept].tolist()
    parts = slice(half), slice(-half, None)
    if min(sum(took[part]) for part in parts) <= 0.0:
        return None
    rates = [sum(done[part]) / sum(took[part]) for part in parts]
    return float(np.log(rates[1] / rates[0])) if min(rates) > 0 else None


def _few_transactions(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for configuration in facts.seen.configurations:
        cells = {
            cell: float(np.median([r.measurement.transactions for r in runs if r.measurement]))
            for (name, cell), runs in facts.seen.runs.items()
            if name == configuration
            # In a given order a few are what was asked for.
            and any(run.measurement is not None and not run.is_in_order for run in runs)
        }
        if not cells:
            continue
        cell = min(cells, key=lambda each: cells[each])
        if cells[cell] < FEW_TRANSACTIONS:
            yield findings.broken(
                f"{configuration}: half of the runs of {cell.workload}, {cell.load.label}, have at"
                f" most {cells[cell]:.0f} {facts.experiment.words.many}",
                subject=configuration,
            )


def _round_trip(facts: CampaignFacts) -> Iterator[findings.Ruling]:
    for sides in facts.sides():
        mine, theirs = (_trip_s(facts.ceilings, runs) for runs in (sides.mine, sides.theirs))
        if mine is None or theirs is None:
            yield findings.lacking("the round trip of each side")
            continue
        if trips_differ(mine, theirs):
            apart = f"{abs(mine - theirs) * MS_PER_S:.3f} ms {'more' if mine > theirs else 'less'}"
            yield findings.broken(
                f"{sides.name}: an empty statement came back after {mine * MS_PER_S:.3f} ms, under"
                f" {sides.other} after {theirs * MS_PER_S:.3f} ms: each statement takes {apart}",
                subject=sides.name,
            )


def trips_differ(one_s: float, other_s: float) -> bool:
    """Return whether two round trips differ by more than a busy machine makes them."""
    longer, shorter = max(one_s, other_s), min(one_s, other_s)
    return longer - shorter > LEAST_TRIP_S and longer > TRIP_FACTOR * shorter


def _trip_s(ceilings: Sequence[Ceiling], runs: Runs) -> float | None:
    """Return the median round trip of the runs' servers, in seconds."""
    names = {run.configuration for run in runs}
    found = [
        each.latency_s
        for each in ceilings
        if each.kind is CeilingKind.ROUND_TRIP
        and each.latency_s is not None
        and names & set(each.configurations)
    ]
    return float(np.median(found)) if found else None


WORK_RULES: Final[tuple[findings.ValidityRule[CampaignFacts], ...]] = (
    findings.ValidityRule(
        code="checkpoints-differ",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Cover whole checkpoint cycles with `measure.runs_per_start`, or ask for `sustain`.",
        source="METHOD 3.6 (the test), METHOD 12",
        judge=partial(_events, quantity=Quantity.CHECKPOINTS, what="a checkpoint"),
    ),
    findings.ValidityRule(
        code="autovacuum-differs",
        engine=EngineName.POSTGRES,
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Restore the data per start (`measure.reset`), or ask for `sustain`.",
        source="METHOD 3.6 (the test)",
        judge=partial(_events, quantity=Quantity.AUTOVACUUMS, what="an autovacuum"),
    ),
    findings.ValidityRule(
        code="trend-in-runs",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Set a longer warm-up or ramp; ask for `sustain` to see where it leads.",
        source="METHOD 3.3 (the interval), METHOD 3.7",
        judge=_trend,
    ),
    findings.ValidityRule(
        code="few-transactions",
        judges=findings.Judges.CONFIGURATION,
        severity=findings.Severity.WARNING,
        remedy="Set a longer slice.",
        source="METHOD 8",
        judge=_few_transactions,
    ),
    findings.ValidityRule(
        code="round-trip-differs",
        judges=findings.Judges.COMPARISON,
        severity=findings.Severity.WARNING,
        remedy="Connect both alike, or say that the way is what is compared.",
        source="ceilings; threshold: a guess",
        judge=_round_trip,
    ),
)


CAMPAIGN_RULES: Final[tuple[findings.ValidityRule[CampaignFacts], ...]] = (
    *MACHINE_RULES,
    *STORAGE_RULES,
    *WORK_RULES,
    *TURN_RULES,
    *PERSISTENCE_RULES,
    *KEYSPACE_RULES,
)


def judged(
    record: CampaignRecord, seen: Observations, results: tuple[Comparison, ...] = ()
) -> tuple[findings.Finding, ...]:
    """Return what the rules find, in their order, and at last what could not be judged.

    Where no run was watched, as in records of versions without probes, nothing is said of that.
    """
    facts = CampaignFacts(record=record, seen=seen, results=results)
    if not facts.runs:
        return ()
    rules = [rule for rule in CAMPAIGN_RULES if rule.concerns(facts.experiment.engine)]
    rulings = [(rule, ruling) for rule in rules for ruling in rule.judge(facts)]
    found = [
        rule.finding(ruling) for rule, ruling in rulings if ruling.state is findings.State.VIOLATED
    ]
    missing = [(rule.code, ruling.missing) for rule, ruling in rulings if ruling.missing]
    missing += _missing_of_runs(facts)
    return (*found, *(findings.not_judged(missing, "campaign") if facts.watched else ()))


def _missing_of_runs(facts: CampaignFacts) -> list[tuple[str, str]]:
    """Return the rules for runs that lacked a fact, and in how many runs they did."""
    watched = [run.evidence for run in facts.runs if run.evidence is not None]
    found = []
    for code in RUN_NEEDS:
        lacked = [missing for each in watched if (missing := missing_for(code, each))]
        if lacked:
            told = ", ".join(dict.fromkeys(name for missing in lacked for name in missing))
            found.append((code, f"{told}; {len(lacked)} of {count(len(watched), 'run')}"))
    return found
