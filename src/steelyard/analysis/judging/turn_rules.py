"""Rules about turns: whether a comparison changes within a block, where nothing should do so."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from steelyard.analysis.judging.facts import CampaignFacts
from steelyard.analysis.numerals import count
from steelyard.analysis.turn_traces import (
    ENOUGH_WRITTEN_BYTES,
    TraceCheck,
    pages_from_devices,
    writes_after_switches,
)
from steelyard.analysis.turns import CARRIED_OVER, TurnChange, TurnCheck, check_turns
from steelyard.model.findings import Severity
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
from steelyard.model.units import format_percent, format_share
from steelyard.stats.confidence import Interval
from steelyard.stats.turns import LEAST_BLOCKS, SUSPECT_BEYOND, SUSPECT_LEVEL, is_suspect

_TOLD: Final = {
    TurnChange.OVER_BLOCK: "changes from the first round of a block to the last by",
    TurnChange.WITHIN_TURNS: "changes from the first half of its turns to the second by",
    TurnChange.BY_PREDECESSOR: "in turns after a turn of its own differs from that after another"
    " one's by",
}
_BEYOND: Final = Threshold(
    value=SUSPECT_BEYOND,
    shown=f"the interval at level {100 * SUSPECT_LEVEL:g} % lies wholly beyond plus or minus"
    f" {100 * SUSPECT_BEYOND:g} % of the ratio, from {LEAST_BLOCKS} blocks on",
    reason="as small as a difference without practical weight",
)
_BEYOND_POINTS: Final = Threshold(
    value=SUSPECT_BEYOND,
    shown=f"the interval at level {100 * SUSPECT_LEVEL:g} % of the difference lies wholly beyond"
    f" {100 * SUSPECT_BEYOND:g} point of the share, from {LEAST_BLOCKS} blocks on",
    reason="a guess: the same as for the ratio of the rates",
)


def _still_warming(facts: CampaignFacts) -> Iterator[Ruling]:
    return _judge(facts, (TurnChange.OVER_BLOCK,))


def _carry_over(facts: CampaignFacts) -> Iterator[Ruling]:
    return _judge(facts, CARRIED_OVER)


def _writes_in_flight(facts: CampaignFacts) -> Iterator[Ruling]:
    for check in writes_after_switches(facts.seen, facts.experiment):
        yield _judge_trace(check, _told_of_writes)


def _cache_pressure(facts: CampaignFacts) -> Iterator[Ruling]:
    for check in pages_from_devices(facts.seen, facts.experiment):
        yield _judge_trace(check, _told_of_pages)


def _judge_trace(check: TraceCheck, told: Callable[[TraceCheck, str], str]) -> Ruling:
    """Judge one; where too few of enough blocks have writes or reads at all, nothing is missing."""
    found = check.difference
    if found is None and (check.of >= LEAST_BLOCKS or not check.blocks):
        return NOTHING_TO_JUDGE
    if found is None:
        return lacking(f"{count(LEAST_BLOCKS, 'block')} in turns; {check.of} are there")
    if not is_suspect(found):
        return KEPT
    names = check.treatment, check.baseline
    more, less = names if found.estimate > 0 else reversed(names)
    message = f"{more}: under {check.workload} {told(check, less)}"
    return broken(f"{message}, {count(check.blocks, 'block')})", subject=more)


def _told_of_writes(check: TraceCheck, less: str) -> str:
    share, other = _levels(check)
    return (
        f"{format_share(share)} of what the data's device writes in its turns is written while they"
        f" settle, and {format_share(other)} in those of {less} (difference"
        f" {_interval(check, 100.0)} points"
    )


def _told_of_pages(check: TraceCheck, less: str) -> str:
    pages, other = _levels(check)
    return (
        f"each transaction waited for {pages:.3f} pages of 8 KiB from a device although the server"
        f" is warm and the data fit into memory, and {other:.3f} under {less} (difference"
        f" {_interval(check, 1.0)}"
    )


def _levels(check: TraceCheck) -> tuple[float, float]:
    """Return the higher and the lower level."""
    levels = sorted([check.baseline_level or 0.0, check.treatment_level or 0.0], reverse=True)
    return levels[0], levels[1]


def _interval(check: TraceCheck, scale: float) -> str:
    """Return the bounds of the difference, without its sign."""
    found = check.difference
    bounds = sorted(scale * abs(bound) for bound in (found.low, found.high)) if found else (0, 0)
    return f"{bounds[0]:.3g} to {bounds[1]:.3g}"


def _judge(facts: CampaignFacts, changes: Sequence[TurnChange]) -> Iterator[Ruling]:
    for check in check_turns(facts.seen, facts.experiment, changes):
        if check.change is None:
            yield lacking(f"{count(LEAST_BLOCKS, 'block')} in turns; {check.blocks} are there")
        elif check.is_suspect:
            yield broken(_message(check, check.change), subject=check.treatment)
        else:
            yield KEPT


def _message(check: TurnCheck, change: Interval) -> str:
    found, low, high = (_percent(value) for value in (change.estimate, change.low, change.high))
    blocks = count(check.blocks, "block")
    among = blocks if check.blocks == check.of else f"{blocks} of {check.of} that can say"
    return (
        f"{check.treatment}: under {check.workload} its rate against {check.baseline}"
        f" {_TOLD[check.what]} {found} ({100 * (1 - SUSPECT_LEVEL):g} % interval {low} to {high},"
        f" {among})"
    )


def _percent(log_ratio: float) -> str:
    return format_percent(float(np.expm1(log_ratio)))


TURN_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    Rule(
        code="carry-over",
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="What another configuration's turn leaves behind costs one side of a comparison more"
        " than the other: its rate against the other side's differs between the halves of its"
        " turns, or between turns after one of its own and after another one's.",
        why="The comparison then holds a cost of the switching, which no server pays that runs"
        " alone. METHOD 3.17 says how much is left of a loss of given size.",
        thresholds=(_BEYOND,),
        remedy="Repeat it with a longer `settling`: more is thrown away at the start of each turn.",
        source="METHOD 3.17",
        judge=_carry_over,
    ),
    Rule(
        code="still-warming",
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="The rate of one side against the other changes from the first round of a block to"
        " the last.",
        why="One configuration still warms up while it is measured, and the other does not, or"
        " not as long: the effect is not that of warm servers, and mostly too small.",
        thresholds=(_BEYOND,),
        remedy="Repeat it with a longer `measure.discard`. Where the experiment declares none, the"
        " blocks that follow warm up longer, in all configurations; those before stay in.",
        source="METHOD 3.17",
        judge=_still_warming,
    ),
    Rule(
        code="writes-in-flight",
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="Of what the device of the data writes in the turns of one side, more is written right"
        " after the switch than in those of the other: what another configuration handed to the"
        " kernel is still on its way when that one stands still.",
        why="Reads and syncs of the side whose turn it is wait behind it, so one configuration pays"
        " for the writes of another.",
        thresholds=(
            _BEYOND_POINTS,
            Threshold(
                value=ENOUGH_WRITTEN_BYTES,
                shown="1 MiB in the turns of a block",
                reason="a guess: less is the journal of the file system",
            ),
        ),
        remedy="Repeat it with a longer `settling`, or with `design: one-by-one`.",
        source="METHOD 3.17 (the interval); threshold: a guess",
        judge=_writes_in_flight,
    ),
    Rule(
        code="cache-pressure",
        judges=Judges.COMPARISON,
        severity=Severity.WARNING,
        what="Under a workload that only reads, transactions of one side wait for pages from a"
        " device more often than those of the other: for data, or for memory that the kernel had"
        " taken from the server (major faults). The servers are warm, and the data of all of them"
        " fit into memory together.",
        why="The servers that are up together take the page cache from each other: alone, neither"
        " would read.",
        thresholds=(
            Threshold(
                value=SUSPECT_BEYOND,
                shown=f"the interval at level {100 * SUSPECT_LEVEL:g} % of the difference lies"
                f" wholly beyond {SUSPECT_BEYOND:g} pages of 8 KiB per transaction, from"
                f" {LEAST_BLOCKS} blocks on",
                reason="a guess: then one transaction in a hundred waits for a device",
            ),
        ),
        remedy="Give the machine more memory or the servers less, or repeat it with `design:"
        " one-by-one`.",
        source="the kernel's counters of the device and of /proc/PID/stat; threshold: a guess",
        judge=_cache_pressure,
    ),
)
