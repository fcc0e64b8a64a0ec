"""What single statements take, on the server and of a single client's latency.

From pg_stat_statements, read around each run (``systems.postgres.reader``). Totals are of
the whole run with its ramp, so they are divided by all of its transactions. Statements are the same
by their text, in which constants are parameters.

The latency of a single client is each statement's round trip, or the commit. A penalty that is the
same for every statement is a cost of the round trip (network, waking up the other side), because
work in the server differs from statement to statement. It is no distance of memory, and no storage,
which a transaction meets at its commit.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated, Final, NamedTuple

import numpy as np

from steelyard.answers import observations as obs
from steelyard.answers.costs import SCRIPTS
from steelyard.answers.observations import change
from steelyard.answers.result.compute import Terms, terms_of
from steelyard.answers.results import CampaignAnalysis, Grounds, compared_data, place_name
from steelyard.answers.scripts.compute import JudgedTime, judge_times
from steelyard.core.experiment import ONE, Experiment
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import BEGIN, COMMIT, ROLLBACK, Run, StatementUse
from steelyard.core.quantities import BOUNDS, INLINE, PERCENT, Named
from steelyard.core.schedule import BaselineName, Blocks, CellKey, ConfigurationName
from steelyard.core.wording import format_share
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.report.texts import Texts
from steelyard.stats.intervals import FloatArray, signed_rank_interval
from steelyard.stats.statements import StatementCosts, fit_statements

_TEXTS: Final = Texts(__name__)

# Of a call, by their names in the record: figure, and name in a table.
_PER_CALL: Final = (
    ("seconds", "time"),
    ("rows", "rows"),
    ("pages_hit", "pages hit"),
    ("pages_read", "pages read"),
    ("wal_bytes", "WAL bytes"),
)
_FIGURES: Final = ("calls", *(figure for figure, _ in _PER_CALL))
_CALLS, _SECONDS = 0, 1
_MOST: Final = 30  # statements of a cell that are told, those with the most time
_SHOWN: Final = 10
_DETAILED: Final = 5
_TEXT: Final = 80  # characters of a statement
_PREPARED: Final = "prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerCall:
    """One figure of a call on both sides: medians over blocks.

    Attributes:
        change: Relative where ``relative`` is set, else in the figure's unit.
    """

    baseline: Annotated[float, "Baseline: median over blocks."]
    configuration: Annotated[float, "Configuration: median over blocks."]
    change: Annotated[
        Estimate, "Change: a ratio less 1 if relative, or a difference in the unit of the name."
    ]
    relative: Annotated[bool, "The change is relative: both sides are above 0 in every block."]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTimes:
    """One statement in both configurations of a comparison.

    Attributes:
        calls: Of the baseline and of the configuration, as ``shares``.
        added: With a pointwise interval.
    """

    text: Annotated[str, Named("statement"), "Its text, with parameters for constants."]
    calls: Annotated[
        tuple[float, float],
        Named("calls_per_transaction"),
        "Calls of the baseline and of the configuration.",
    ]
    shares: Annotated[
        tuple[float, float],
        Named("shares_of_time"),
        "Shares of the time of all statements, of the baseline and of the configuration.",
    ]
    added: Annotated[
        Estimate,
        Named("seconds_per_transaction"),
        "Its part of the difference, seconds per transaction.",
    ]
    clear: Annotated[
        bool, "The interval leaves out zero also at the level that all statements share."
    ]
    verdict: Annotated[
        Verdict,
        "The time of a call is faster, slower, equivalent, or has no clear difference.",
    ]
    time_change: Annotated[
        Estimate | None,
        PERCENT,
        BOUNDS,
        "Change of the time of a call, %, at the level that all statements share (Holm).",
    ]
    seconds_per_call: Annotated[
        PerCall | None, "Time of a call on the server, s; null if one side did not call it."
    ]
    rows_per_call: Annotated[PerCall | None, "Rows of a call; may be null."]
    pages_hit_per_call: Annotated[
        PerCall | None, "Pages that a call found in shared memory; may be null."
    ]
    pages_read_per_call: Annotated[PerCall | None, "Pages that a call read; may be null."]
    wal_bytes_per_call: Annotated[PerCall | None, "WAL of a call, bytes; may be null."]

    @property
    def title(self) -> str:
        """Return it in one line, cut to what can be read."""
        text = " ".join(self.text.split())
        return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTally:
    """All statements of a comparison in a cell, those first that add most to the difference.

    Attributes:
        added: All together.
    """

    baseline: BaselineName
    configuration: ConfigurationName
    cell: Annotated[CellKey, INLINE]
    blocks: Annotated[int, "Blocks in which both sides were read."]
    added: Annotated[
        Estimate,
        Named("seconds_per_transaction"),
        "Difference in the time of all statements, seconds per transaction.",
    ]
    statements: Annotated[
        tuple[StatementTimes, ...], "Statements, those first that add most to the difference."
    ]


def tallied(grounds: Grounds) -> tuple[StatementTally, ...]:
    """Return what statements took, of each cell and comparison in which both sides were read."""
    experiment, seen = grounds.record.experiment, grounds.seen
    if grounds.record.plan is None:
        return ()
    terms = terms_of(grounds.record, grounds.record.plan, seen.blocks)
    return tuple(
        tally
        for column, cell in enumerate(seen.cells)
        if (texts := _texts(seen, cell))
        for values in (_values(seen, cell, texts, experiment.measure.discard_start_s),)
        for asked in obs.result_contrasts(experiment)
        for tally in _tally(values, texts, asked, seen.cells[column], terms)
    )


def _texts(seen: obs.Observations, cell: CellKey) -> tuple[str, ...]:
    """Return the statements of a cell, those with the most time first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for name in seen.configurations:
        for run in seen.runs.get((name, cell), ()):
            for each in _used(run) or ():
                seconds[each.text] += each.seconds
    return tuple(sorted(seconds, key=lambda text: -seconds[text])[:_MOST])


def _used(run: Run) -> Sequence[StatementUse] | None:
    return None if run.evidence is None else run.evidence.statements


def _values(
    seen: obs.Observations, cell: CellKey, texts: Sequence[str], ramp_s: float
) -> FloatArray:
    """Return what statements used per transaction; NaN where a run of the block was not read.

    Returns:
        Shape (blocks, configurations, statements + 1, figures); 0 where one was not called. The
        last one is all others together, so that sums are those of all statements.
    """
    shape = (seen.blocks, len(seen.configurations), len(texts) + 1, len(_FIGURES))
    values = np.full(shape, np.nan)
    for side, name in enumerate(seen.configurations):
        of_cell = obs.runs_by_block(seen.runs.get((name, cell), ()))
        for row, runs in enumerate(of_cell[: seen.blocks]):
            found = _of_block(runs, texts, ramp_s)
            if found is not None:
                values[row, side] = found
    return values


def _of_block(runs: obs.RunsOfBlock, texts: Sequence[str], ramp_s: float) -> FloatArray | None:
    places = {text: place for place, text in enumerate(texts)}
    total, transactions = np.zeros((len(texts) + 1, len(_FIGURES))), 0.0
    for run in runs:
        statements = _used(run)
        number_of = obs.whole_transactions(run, ramp_s)
        if statements is None or number_of is None:
            return None
        transactions += number_of
        for each in statements:
            place = places.get(each.text, len(texts))
            total[place] += [getattr(each, figure) for figure in _FIGURES]
    return total / transactions


def _tally(
    values: FloatArray,
    texts: Sequence[str],
    asked: obs.ResultContrast,
    cell: CellKey,
    terms: Terms,
) -> Iterator[StatementTally]:
    """Yield the tally of a comparison; nothing where no block has both sides."""
    places = [*asked.negative, *asked.positive]
    whole = values[np.isfinite(values[:, places]).all(axis=(1, 2, 3))]
    if not len(whole):
        return
    pair = (_side(whole, asked, asked.negative), _side(whole, asked, asked.positive))
    judged = judge_times(_ratios(*pair)[:, : len(texts)], terms)
    found = [
        _times(text, pair, place, judged[place], len(texts)) for place, text in enumerate(texts)
    ]
    yield StatementTally(
        baseline=asked.baseline,
        configuration=asked.configuration,
        cell=cell,
        added=change((pair[1] - pair[0])[..., _SECONDS].sum(axis=1)),
        blocks=len(whole),
        statements=tuple(sorted(found, key=lambda each: -abs(each.added.value))),
    )


def _side(values: FloatArray, asked: obs.ResultContrast, places: Sequence[int]) -> FloatArray:
    """Return the mean over the configurations of a side, shape (blocks, statements, figures)."""
    weights = np.abs(np.asarray(asked.weights))[list(places)]
    return np.asarray(np.tensordot(values[:, list(places)], weights, axes=(1, 0)))


def _ratios(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the log ratio of the time of a call, shape (blocks, statements); NaN without one."""
    shape = before.shape[:2]
    times = []
    for side in (before, after):
        ran = (side[..., _CALLS] > 0) & (side[..., _SECONDS] > 0)
        times.append(
            np.divide(side[..., _SECONDS], side[..., _CALLS], where=ran, out=np.full(shape, np.nan))
        )
    return np.asarray(np.log(times[1] / times[0]))


def _times(
    text: str, pair: tuple[FloatArray, FloatArray], place: int, judged: JudgedTime, family: int
) -> StatementTimes:
    """Return one statement; both sides have the shape (blocks, statements + 1, figures)."""
    before, after = (side[:, place] for side in pair)
    differences = after[:, _SECONDS] - before[:, _SECONDS]
    return StatementTimes(
        text=text,
        calls=(float(np.median(before[:, _CALLS])), float(np.median(after[:, _CALLS]))),
        shares=(_share(pair[0], place), _share(pair[1], place)),
        added=change(differences),
        clear=obs.is_clear(differences, family),
        verdict=judged.verdict,
        time_change=judged.change,
        **{
            f"{figure}_per_call": _per_call(before, after, _FIGURES.index(figure))
            for figure, _ in _PER_CALL
        },
    )


def _share(side: FloatArray, place: int) -> float:
    seconds = side[..., _SECONDS]
    whole = seconds.sum(axis=1)
    return float(np.median(np.divide(seconds[:, place], whole, where=whole > 0, out=0.0 * whole)))


def _per_call(before: FloatArray, after: FloatArray, figure: int) -> PerCall | None:
    called = (before[:, _CALLS] > 0) & (after[:, _CALLS] > 0)
    if not called.any():
        return None
    one, other = (side[called, figure] / side[called, _CALLS] for side in (before, after))
    relative = bool((one > 0).all() and (other > 0).all())
    found = change(np.log(other / one) if relative else other - one)
    return PerCall(
        baseline=float(np.median(one)),
        configuration=float(np.median(other)),
        change=obs.as_ratio(found) if relative else found,
        relative=relative,
    )


def use_section(
    analysis: CampaignAnalysis, every: Sequence[StatementTally]
) -> tuple[doc.Section, ...]:
    """Return what statements took at the largest load; nothing where no server told it."""
    tallies = [each for each in every if each.cell.load == analysis.experiment.largest_load]
    if not tallies:
        return ()
    blocks: list[doc.Block] = [doc.Paragraph(text=_TEXTS.lead())]
    if _is_control_uncounted(analysis, tallies):
        blocks.append(doc.Paragraph(text=_TEXTS.first_only()))
    for tally in tallies:
        blocks += _blocks(analysis, tally)
    return (doc.Section(anchor="uses", title="Statements on the server", blocks=tuple(blocks)),)


def _is_control_uncounted(analysis: CampaignAnalysis, tallies: Sequence[StatementTally]) -> bool:
    """Return whether scripts control transactions under a protocol that hides what that takes."""
    experiment = analysis.experiment
    protocols = {each.protocol or experiment.protocol for each in experiment.configurations}
    texts = {each.text for tally in tallies for each in tally.statements}
    return _PREPARED in protocols and not texts.isdisjoint((BEGIN, COMMIT, ROLLBACK))


def _blocks(analysis: CampaignAnalysis, tally: StatementTally) -> list[doc.Block]:
    place = place_name(analysis.experiment, tally.cell)
    names = f"{place}: {doc.versus(tally.configuration, tally.baseline)}"
    shown = [each for each in tally.statements if max(each.shares) > 0][:_SHOWN]
    return [
        doc.Paragraph(text=_said(tally, names)),
        _time_table(names, tally, shown),
        _call_table(names, tally, shown[:_DETAILED]),
    ]


def _said(tally: StatementTally, names: str) -> str:
    clear = [each for each in tally.statements if each.clear]
    added = doc.with_interval(tally.added, doc.changed_ms)
    whole = f"{names}: the time of all statements differs by {added} ms per {ONE}"
    if doc.bounds(tally.added) is None:
        return f"{whole}; so few blocks have no interval, and nothing is called clear."
    if not clear:
        return f"{whole}; of no statement does the time clearly differ."
    first = doc.with_interval(clear[0].added, doc.changed_ms)
    return f"{whole}; most of what is clear is `{clear[0].title}` with {first} ms."


def _sides(
    name: str, of: Callable[[StatementTimes], tuple[float, float]], form: doc.Form, *, spare: bool
) -> doc.Cells:
    """Return a column with a figure of the baseline and that of the configuration."""
    keys = [f"{re.sub(' ', '_', name)}_{side}" for side in ("baseline", "configuration")]
    return doc.Cells(
        doc.number_column(name, spare=spare),
        lambda each: ", ".join(map(form.show, of(each))),
        lambda each: tuple(chain(*map(form.data, keys, of(each)))),
    )


def _time_table(names: str, tally: StatementTally, shown: Sequence[StatementTimes]) -> doc.Table:
    def call(side: str, each: StatementTimes) -> str:
        return doc.milliseconds(getattr(each.seconds_per_call, side, None))

    return doc.table_of(
        shown,
        ("statement", lambda each: each.title),
        _sides("calls", lambda each: each.calls, _SIGNIFICANT, spare=True),
        _sides("share of time", lambda each: each.shares, _SHARE, spare=False),
        doc.numbers(f"a call, {tally.baseline}", partial(call, "baseline"), "ms"),
        doc.numbers(f"a call, {tally.configuration}", partial(call, "configuration"), "ms"),
        doc.numbers(
            "difference",
            lambda each: doc.effect_value(getattr(each.seconds_per_call, "change", None)),
        ),
        doc.numbers(
            f"adds per {ONE}", lambda each: doc.with_interval(each.added, doc.changed_ms), "ms"
        ),
        ("verdict", lambda each: each.verdict.value),
        title=f"{names}: time on the server",
        note=f"Medians over {tally.blocks} blocks; calls per {ONE} and shares of the time of all"
        f" statements: {tally.baseline}, then {tally.configuration}. {doc.POINTWISE}",
        common=compared_data(tally),
        data=row_of,
    )


class _Used(NamedTuple):
    """A figure of the calls of a statement, whose title stands once."""

    statement: StatementTimes
    title: str
    name: str
    per_call: PerCall


def _call_table(names: str, tally: StatementTally, shown: Sequence[StatementTimes]) -> doc.Table:
    return doc.table_of(
        (used for each in shown for used in _call_rows(each)),
        ("statement", lambda used: used.title),
        doc.column("per call", lambda used: used.name),
        doc.numbers(tally.baseline, lambda used: doc.significant(used.per_call.baseline)),
        doc.numbers(tally.configuration, lambda used: doc.significant(used.per_call.configuration)),
        doc.numbers("difference", lambda used: _changed(used.per_call)[0]),
        doc.numbers("95 % interval", lambda used: _changed(used.per_call)[1]),
        title=f"{names}: what a call used",
        common=compared_data(tally),
        data=lambda used: (
            ("statement", used.statement.text),
            *row_of(used.per_call, "value_"),
        ),
    )


def _call_rows(each: StatementTimes) -> Iterator[_Used]:
    """Yield a row for each figure that is not 0 on both sides."""
    title = each.title
    for figure, name in _PER_CALL[1:]:
        found: PerCall | None = getattr(each, f"{figure}_per_call")
        if found is not None and (found.baseline or found.configuration):
            yield _Used(each, title, name, found)
            title = ""


_SIGNIFICANT: Final = doc.Form(show=doc.significant)
_SHARE: Final = doc.Form(show=format_share, unit=PERCENT)


def _changed(found: PerCall) -> tuple[str, str]:
    if found.relative:
        return doc.effect_value(found.change), doc.effect_interval(found.change)
    signed = partial(doc.significant, signed=True)
    return signed(found.change.value), doc.in_brackets(found.change, signed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCost:
    """The two costs in one configuration."""

    name: Annotated[str, "Name of the configuration."]
    blocks: Blocks
    latency_s: Annotated[
        Mapping[str, float], "Latency at one client by script, s: medians over blocks."
    ]
    per_statement_s: Annotated[Estimate, "Cost of a statement, s."]
    per_commit_s: Annotated[Estimate, "Cost of a commit, s."]
    residual_s: Annotated[
        float,
        "Largest miss of the fit, s; three scripts and two costs leave one degree of freedom.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDifference:
    """How both costs differ between two configurations, block by block."""

    baseline: BaselineName
    configuration: ConfigurationName
    per_statement_s: Annotated[Estimate, "Change of the cost of a statement, s."]
    per_commit_s: Annotated[Estimate, "Change of the cost of a commit, s."]

    @property
    def is_of_round_trips(self) -> bool:
        """Return whether the cost of every statement surely differs."""
        return self.per_statement_s.leaves_out_zero

    @property
    def is_of_commits(self) -> bool:
        """Return whether the cost of a commit surely differs."""
        return self.per_commit_s.leaves_out_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFit:
    """Both costs of all configurations, and their differences.

    Attributes:
        one_statement: The cell whose script is a single statement.
    """

    one_statement: CellKey | None = None
    costs: Annotated[tuple[StatementCost, ...], "Costs in each configuration."]
    differences: Annotated[
        tuple[StatementDifference, ...], "Each configuration against the baseline."
    ]


LEVEL = 0.05


def fit_of_statements(grounds: Grounds) -> StatementFit | None:
    """Return the fit at one client; None unless all three scripts ran with one client."""
    seen, experiment = grounds.closed, grounds.record.experiment
    columns = _columns(seen, experiment)
    if columns is None or not seen.blocks:
        return None
    fitted = {
        name: _fit(np.exp(-seen.log_tps[:, side, columns]))
        for side, name in enumerate(seen.configurations)
    }
    return StatementFit(
        one_statement=seen.cells[columns[0]],
        costs=tuple(_cost(name, seen.blocks, *found) for name, found in fitted.items()),
        differences=tuple(
            _difference(experiment.baseline, name, fitted[experiment.baseline][1], fitted[name][1])
            for name in experiment.contenders
        ),
    )


def _columns(seen: obs.Observations, experiment: Experiment) -> list[int] | None:
    """Return the column of each script at one client, on the one size of data that has all."""
    by_size: dict[int | None, dict[str, int]] = {}
    for column, cell in enumerate(seen.cells):
        workload = experiment.workload(cell.workload)
        script = workload.builtin or ""
        if script in SCRIPTS and cell.load.clients == 1 and not cell.load.is_open:
            by_size.setdefault(workload.scale, {}).setdefault(script, column)
    whole = [found for found in by_size.values() if set(found) == set(SCRIPTS)]
    return [whole[0][script] for script in SCRIPTS] if len(whole) == 1 else None


def _fit(latency_s: FloatArray) -> tuple[FloatArray, StatementCosts]:
    statements, commits = np.array(list(SCRIPTS.values()), dtype=float).T
    return latency_s, fit_statements(latency_s, statements, commits)


def _cost(name: str, blocks: int, latency_s: FloatArray, costs: StatementCosts) -> StatementCost:
    return StatementCost(
        name=name,
        blocks=blocks,
        latency_s=dict(zip(SCRIPTS, map(float, np.median(latency_s, axis=0)), strict=True)),
        per_statement_s=_estimate(costs.per_statement),
        per_commit_s=_estimate(costs.per_commit),
        residual_s=costs.residual,
    )


def _difference(
    baseline: str, configuration: str, before: StatementCosts, after: StatementCosts
) -> StatementDifference:
    return StatementDifference(
        baseline=baseline,
        configuration=configuration,
        per_statement_s=_estimate(after.per_statement - before.per_statement),
        per_commit_s=_estimate(after.per_commit - before.per_commit),
    )


def _estimate(blocks: FloatArray) -> Estimate:
    """Return the centre over blocks; bounds where there are blocks enough for them."""
    return obs.estimate_of(signed_rank_interval(blocks, LEVEL))
