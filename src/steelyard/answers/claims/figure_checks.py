"""Checks of claims about single figures, and about what a step changed and measured."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.answers.claims.grounds import (
    LEVEL,
    Case,
    Check,
    Grade,
    Note,
    asserted,
    by_configuration,
    named,
    rounded,
)
from steelyard.answers.claims.statements import (
    Bound,
    Cause,
    Change,
    Costs,
    Count,
    Counted,
    LackingError,
    Need,
    Same,
    Sum,
    Unchanged,
    figure_of,
)
from steelyard.core.published import metric_of, parse_printed

_BURST: Final = "burst"


def _count(case: Case, counted: Count) -> Iterator[Note]:
    rows = [row for row in case.publication.rows if row.study == counted.article]
    if not rows:
        raise LackingError(f"no table of {counted.article}")
    number = len(by_configuration(rows))
    text = f"{number} configurations have results, {counted.stated} are stated"
    grade = Grade.FOLLOWS if number == counted.stated else Grade.CONTRADICTS
    yield case.note("count", grade, text, {"configurations": float(number)})


def _bound(case: Case, bound: Bound) -> Iterator[Note]:
    metric = metric_of(bound.metric)
    rows = case.rows(workload=bound.workload, clients=bound.clients, configuration=bound.of)
    figure = figure_of(rows, bound.metric).times(metric.per_shown)
    limit = parse_printed(bound.below)
    below = figure.low < limit.value
    text = f"the table says {rounded(figure.value)} {metric.unit}, the limit is {bound.below}"
    yield case.note("bound", Grade.FOLLOWS if below else Grade.CONTRADICTS, text)


def _sum(case: Case, asked: Sum) -> Iterator[Note]:
    given = case.value(asked.formula)
    told = f"{asked.name}: {_precise(given.value)} {asked.unit}"
    numbers = {"computed": given.value}
    if not asked.stated:
        yield case.note("stated-figure", Grade.FOLLOWS, told, numbers)
    elif given.may_be(stated := parse_printed(asked.stated)):
        rounding = f"from {_precise(given.low)} to {_precise(given.high)} by what was rounded"
        near = "" if stated.low <= given.value <= stated.high else f" ({rounding})"
        text = f"{told}{near}, as stated"
        yield case.note("stated-figure", Grade.FOLLOWS, text, numbers)
    else:
        text = f"{told}, not {asked.stated}"
        yield case.note("stated-figure", Grade.CONTRADICTS, text, numbers)


def _precise(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{2 if abs(value) >= 100 else 1}f}"


def _two_sources(case: Case, asked: Sum) -> Iterator[Note]:
    if not asked.other:
        return
    one, two = (case.value(text) for text in (asked.formula, asked.other))
    if not one.may_be(two):
        text = (
            f"two figures of one quantity: the other gives {_precise(two.value)} {asked.unit}"
            f" ({_inputs(case, asked)})"
        )
        numbers = {"computed_otherwise": two.value}
        yield case.note("two-figures", Grade.CONTRADICTS, text, numbers)


def _inputs(case: Case, asked: Sum) -> str:
    """Return the figures that the two formulas do not share."""
    names = [set(_braced(text)) for text in (asked.formula, asked.other)]
    told = sorted(names[0] ^ names[1])
    values = [(name, case.value(f"{{{name}}}").value) for name in told]
    return ", ".join(f"{name}: {value:,.2f}" for name, value in values)


def _braced(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


def _need(case: Case, need: Need) -> Iterator[Note]:
    given = case.value(need.given)
    asked = [case.value(text) for text in need.asked]
    most = max(each.value for each in asked)
    told = ", ".join(f"{each.value:,.0f}" for each in asked)
    text = f"{given.value:,.0f} {need.name} were given, {told} are needed"
    if most > given.value:
        yield case.note("need", Grade.CONTRADICTS, f"{text}: too few")
        return
    unused = 1.0 - most / given.value
    numbers = {"unused_percent": 100.0 * unused}
    grade = Grade.CONTRADICTS if unused > LEVEL else Grade.FOLLOWS
    text = f"{text}: {100.0 * unused:.0f} % of them are never used"
    yield case.note("need", grade, text, numbers)


def _costs(case: Case, costs: Costs) -> Iterator[Note]:
    first, hours, second, other_hours = (
        case.value(text).value
        for text in (costs.first, costs.first_hours, costs.second, costs.second_hours)
    )
    if hours == other_hours:
        yield case.note("periods-differ", Grade.FOLLOWS, f"both pay for {hours:g} hours")
        return
    same = f"{first * other_hours / hours:,.2f}"
    if costs.same_hours:
        same = f"{case.value(costs.same_hours).value:,.2f}"
    text = (
        f"{first:,.2f} pays for {hours:g} hours and {second:,.2f} for {other_hours:g}: for the same"
        f" {other_hours:g} hours it is {same} against {second:,.2f}"
    )
    yield case.note("periods-differ", Grade.CONTRADICTS, text)


# --- what a step changed, and what was measured ---


def _several(case: Case, each: Change | Same | Sum) -> Iterator[Note]:
    if not each.step:
        return
    step = case.step(each.step)
    if step.changed is None:
        yield case.note("several-changes", Grade.LIMIT, "what was changed is not told")
    elif len(step.changed) > 1:
        text = f"{_changes(step.changed)}: which of them did it, the figures cannot say"
        yield case.note("several-changes", Grade.LIMIT, text)


def _changes(changed: Sequence[str]) -> str:
    return f"{len(changed)} changes at once ({'; '.join(changed)})"


def _cause(case: Case, cause: Cause) -> Iterator[Note]:
    step = case.step(cause.step)
    reasons = []
    if step.measured is None:
        reasons.append(f"nothing was measured that shows it ({step.repeated})")
    elif cause.evidence.casefold() not in step.measured.casefold():
        reasons.append(f"{cause.evidence} was not measured, only: {step.measured}")
    if step.changed is None:
        reasons.append("what was changed is not told")
    elif not step.changed:
        reasons.append("nothing was changed to see it")
    elif len(step.changed) > 1:
        reasons.append(_changes(step.changed))
    if reasons:
        text = f"that it is {cause.cause}: {'; '.join(reasons)}"
        yield case.note("no-evidence", Grade.NO_EVIDENCE, text)
    else:
        text = f"{cause.cause} alone was changed, and {cause.evidence} was measured"
        yield case.note("no-evidence", Grade.FOLLOWS, text)


def _idle(case: Case, cause: Cause) -> Iterator[Note]:
    if cause.idle is None:
        return
    one, two = (case.value(text) for text in cause.idle)
    if one.value <= two.value:
        names = [" ".join(_braced(text)) or text for text in cause.idle]
        text = (
            f"{names[0]} is {rounded(one.value)}, {names[1]} is {rounded(two.value)}: the one fits"
            " into the other, so what was raised beyond it cannot matter to this workload"
        )
        yield case.note("idle-setting", Grade.LIMIT, text)


def _besides(case: Case, cause: Cause) -> Iterator[Note]:
    told = []
    for name, text, unit in cause.besides:
        formula = case.formula(text)
        value = _precise(formula.value().value)
        told.append(f"{name} {value} {unit} (from {named(formula.inputs)})")
    if told:
        text = f"nothing separates it from another cause: {'; '.join(told)}"
        yield case.note("other-cause", Grade.NO_EVIDENCE, text)


def _burst(case: Case, cause: Cause) -> Iterator[Note]:
    step = case.step(cause.step)
    stores = [part for part in step.changed or () if _BURST in part.casefold()]
    if stores:
        text = (
            f"{named(stores)} came with the step: what lasts while a store of credits is full need"
            " not last when it is empty, and no figure tells which it was"
        )
        yield case.note("burst-as-sustained", Grade.NO_EVIDENCE, text)


def _unchanged(case: Case, each: Unchanged) -> Iterator[Note]:
    step = case.step(each.step)
    told = []
    for name, before, after in each.pairs:
        one, two = (case.value(text) for text in (before, after))
        if not one.may_be(two):
            told.append(f"{name}: {rounded(one.value)} to {rounded(two.value)}")
    beside = f" Among them {'; '.join(told)}" if told else ""
    if told or len(step.changed or ()) > 1:
        text = f"{_changes(step.changed or ())}.{beside}"
        yield case.note("several-changes", Grade.CONTRADICTS, text)
    else:
        yield case.note("several-changes", Grade.FOLLOWS, "nothing else was changed")


def _counted(case: Case, each: Counted) -> Iterator[Note]:
    step = case.step(each.step)
    units = [part for part in step.changed or () if part.casefold().startswith("unit of")]
    if units:
        text = (
            f"{named(units)} changed with the step, so {each.what} is not counted in the same unit"
            f" on both sides; beside it {_changes(step.changed or ())}"
        )
        yield case.note("units-differ", Grade.NO_EVIDENCE, text)
    if step.measured is None or "picture" in step.measured:
        text = f"no figure of it was published, only: {step.measured or 'nothing'}"
        yield case.note("no-evidence", Grade.NO_EVIDENCE, text)
    elif not units:
        yield case.note("units-differ", Grade.FOLLOWS, "both sides count the same")


FIGURE_CHECKS: Final = (
    Check(
        id="two-figures",
        needs="A quantity that is stated more than once",
        finds="One quantity has two figures that no rounding brings together.",
        examine=asserted(Sum, _two_sources),
    ),
    Check(
        id="count",
        needs="A table",
        finds="Another number of configurations has results than is stated.",
        examine=asserted(Count, _count),
    ),
    Check(
        id="bound",
        needs="The figure",
        finds="It is not within the stated limit.",
        examine=asserted(Bound, _bound),
    ),
    Check(
        id="stated-figure",
        needs="The figures of a formula",
        finds="A stated figure does not follow from them.",
        examine=asserted(Sum, _sum),
    ),
    Check(
        id="need",
        needs="What was given, and what is asked for",
        finds="Less is needed than is said, or more.",
        examine=asserted(Need, _need),
    ),
    Check(
        id="periods-differ",
        needs="Two costs with the hours they pay for",
        finds="Costs of different times are compared.",
        examine=asserted(Costs, _costs),
    ),
    Check(
        id="no-evidence",
        needs="What a step changed, measured, and how often",
        finds="A cause is named, and nothing was measured that tells it from the others.",
        examine=lambda p: (*asserted(Cause, _cause)(p), *asserted(Counted, _counted)(p)),
    ),
    Check(
        id="other-cause",
        needs="What else grows with the effect",
        finds="It may be the cause as well.",
        examine=asserted(Cause, _besides),
    ),
    Check(
        id="idle-setting",
        needs="What a setting provides, and what the work takes",
        finds="The work fits already: more of it can change nothing.",
        examine=asserted(Cause, _idle),
    ),
    Check(
        id="burst-as-sustained",
        needs="What a step changed",
        finds="A store of credits came with it, so its effect may not last.",
        examine=asserted(Cause, _burst),
    ),
    Check(
        id="several-changes",
        needs="What a step changed",
        finds="More than one thing: no figure tells which of them did it.",
        examine=lambda p: (
            *asserted(Change, _several)(p),
            *asserted(Same, _several)(p),
            *asserted(Sum, _several)(p),
            *asserted(Unchanged, _unchanged)(p),
        ),
    ),
)
