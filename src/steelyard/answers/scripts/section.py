"""The scripts of a workload by consequence: each change, its interval and its plan."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from steelyard.answers import results
from steelyard.answers.scripts.verdicts import ScriptResult, by_consequence, changed
from steelyard.core.findings import Verdict
from steelyard.core.quantities import SECONDS, Unit
from steelyard.core.wording import format_bytes, format_share
from steelyard.report import document as doc
from steelyard.report.keys import row_of
from steelyard.report.texts import Texts

_TEXTS: Final = Texts(__name__)
_FIRST: Final = 12  # rows that fit on the first screen
_ALL: Final = 6  # scripts of which each has its row there, equivalent or not


def script_section(analysis: results.CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the scripts of each result that has several."""
    compared = [each for each in analysis.results if each.scripts]
    if not compared:
        return ()
    blocks: list[doc.Block] = []
    brief: list[doc.Block] = []
    for result in compared:
        ordered = by_consequence(result.scripts)
        lead = doc.Paragraph(text=_lead(analysis, result))
        blocks += [lead, _table(analysis, result, ordered), *_unstable(analysis, ordered)]
        blocks += _risks(analysis, ordered)
        brief += _brief(analysis, result, ordered) if len(compared) == 1 else (lead,)
        blocks += _used(analysis, result, ordered)
    return (
        doc.Section(
            anchor="scripts", title="Scripts", blocks=tuple(blocks), first=True, brief=tuple(brief)
        ),
    )


def _brief(
    analysis: results.CampaignAnalysis, result: results.Comparison, ordered: Sequence[ScriptResult]
) -> Iterator[doc.Block]:
    """Yield what a first screen has; equivalent scripts have no row if there are many."""
    many = len(ordered) > _ALL
    shown = [each for each in ordered if not (many and each.verdict is Verdict.EQUIVALENT)]
    if shown:
        yield _table(analysis, result, shown[:_FIRST], short=True)
    if len(shown) > _FIRST:
        yield doc.Paragraph(text=f"and {len(shown) - _FIRST} more in the whole report")
    if alike := len(ordered) - len(shown):
        # A script has a row for each number of clients.
        several = len(analysis.experiment.closed_loads) > 1
        what = f"{'more ' if shown else ''}{'result' if several else 'script'}"
        yield doc.Paragraph(text=f"{doc.count(alike, what)} equivalent")
    if unstable := tuple(dict.fromkeys(each.title for each in ordered if each.is_unstable)):
        names = f"unstable: {doc.enumeration(unstable)}"
        yield doc.Paragraph(text=_too_varied(analysis, names))
    yield from _risks(analysis, ordered)


def _lead(analysis: results.CampaignAnalysis, result: results.Comparison) -> str:
    sentence = results.script_sentence(analysis.experiment, result.scripts)
    when = "interim, " if results.is_interim(analysis) else ""
    contest = doc.versus(result.configuration, result.baseline)
    return f"{when}{result.workload}, {contest}: {sentence}."


def _place(analysis: results.CampaignAnalysis, script: ScriptResult) -> str:
    return results.short_load(analysis.experiment, script.load)


def _table(
    analysis: results.CampaignAnalysis,
    result: results.Comparison,
    scripts: Sequence[ScriptResult],
    *,
    short: bool = False,
) -> doc.Table:
    loads = len(analysis.experiment.closed_loads) > 1
    sides = ("baseline", result.baseline), ("configuration", result.configuration)
    return doc.table_of(
        scripts,
        ("script", lambda script: script.title),
        *([doc.numbers("clients", partial(_place, analysis))] if loads else []),
        ("verdict", _verdict),
        doc.numbers("change of time", lambda script: doc.effect_value(script.change)),
        doc.numbers(
            f"{doc.CONFIDENCE} interval", lambda script: doc.effect_interval(script.change)
        ),
        doc.numbers(result.baseline, lambda script: doc.milliseconds(script.medians_s[0]), "ms"),
        doc.numbers(
            result.configuration, lambda script: doc.milliseconds(_after(script, short=short)), "ms"
        ),
        ("plan", _plan),
        *(() if short else _spread()),
        title=f"{result.workload}: {doc.versus(result.configuration, result.baseline)}",
        tone=lambda script: (
            doc.Tone.WARNING
            if script.is_unstable
            else results.weighed(results.TONES[script.verdict], result)
        ),
        tone_column=2 if loads else 1,
        note=_TEXTS.note(
            baseline=result.baseline,
            configuration=result.configuration,
            is_mixed=result.is_mixed,
        ),
        data=lambda script: () if short else row_of(script),
        common=() if short else (("workload", result.workload), *sides),
        reason=None if short else lambda script: script.reason,
    )


def _after(script: ScriptResult, *, short: bool) -> float | None:
    """Return the time of the configuration, s; by the change where both stand side by side.

    The change compares executions that ran one after the other, so medians may not agree with it.
    """
    before, after = script.medians_s
    if not short or before is None or script.change is None:
        return after
    return before * (1.0 + script.change.value)


def _spread() -> tuple[doc.Cells, ...]:
    return (
        doc.numbers("executions", _executions, spare=True),
        doc.numbers("varies", lambda script: doc.proportion(script.block_sd), spare=True),
        doc.column("blocks", lambda script: script.blocks, doc.WHOLE, spare=True),
    )


def _verdict(script: ScriptResult) -> str:
    weight = ", below the margin" if script.no_practical_weight else ""
    return f"{script.word}{weight}"


def _plan(script: ScriptResult) -> str:
    return {True: "changed", False: "same", None: doc.MISSING}[script.plan_differs]


def _executions(script: ScriptResult) -> str:
    return ", ".join(f"{number:,}" for number in script.executions)


def _risks(
    analysis: results.CampaignAnalysis, scripts: Sequence[ScriptResult]
) -> Iterator[doc.Paragraph]:
    """Yield those with another plan whose change of time is open: the new plan may be worse."""
    for each in scripts:
        pair = doc.bounds(each.change)
        if not each.plan_differs or pair is None or each.verdict is not Verdict.NO_CLEAR_DIFFERENCE:
            continue
        if pair[1] > analysis.experiment.stop.margin:
            text = _TEXTS.other_plan(name=each.title, most=format_share(pair[1]))
            yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)


def _too_varied(analysis: results.CampaignAnalysis, names: str) -> str:
    return _TEXTS.unstable(names=names, margin=doc.share(analysis.experiment.stop.margin))


def _unstable(
    analysis: results.CampaignAnalysis, scripts: Sequence[ScriptResult]
) -> Iterator[doc.Paragraph]:
    """Yield a paragraph on those that vary too much, with their spread."""
    items = [
        f"{each.title} ({changed(each)}; from block to block {_share(each.block_sd)}, between the"
        f" quartiles of its executions {_share(each.quartiles)} of the median)"
        for each in scripts
        if each.is_unstable
    ]
    if items:
        names = f"{doc.count(len(items), 'script')} unstable: {'; '.join(items)}"
        text = f"{_too_varied(analysis, names)} {_TEXTS.no_waits()}"
        yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)


def _share(fraction: float | None) -> str:
    return doc.MISSING if fraction is None else format_share(fraction)


class _Used(NamedTuple):
    """A script in one configuration; the title stands once."""

    script: ScriptResult
    title: str
    configuration: str


def _used(
    analysis: results.CampaignAnalysis,
    result: results.Comparison,
    scripts: Sequence[ScriptResult],
) -> Iterator[doc.Table]:
    """Yield a table of what one execution used, if both sides of a script are known."""
    sides = (result.baseline, result.configuration)
    first = analysis.experiment.closed_loads[0]
    rows = [
        _Used(each, "" if place else each.title, name)
        for each in scripts
        if each.load == first and all(name in each.used for name in sides)
        for place, name in enumerate(sides)
    ]

    def figure(name: str, row: _Used) -> float | None:
        value: float | None = getattr(row.script.used[row.configuration], name)
        return value

    if rows:
        yield doc.table_of(
            rows,
            ("script", lambda row: row.title),
            doc.column("configuration", lambda row: row.configuration),
            *(
                doc.column(heading, partial(figure, name), form)
                for name, heading, form in _FIGURES
                if any(figure(name, row) for row in rows)
            ),
            title=f"One execution of each script of {result.workload}",
            note=_TEXTS.used(),
            data=lambda row: (("workload", result.workload), ("script", row.script.script)),
        )


_MS: Final = doc.Form(show=doc.milliseconds, unit=SECONDS, heading="ms")
_FIGURES: Final = (
    ("execution_s", "execution", _MS),
    ("pages_read", "read", doc.Form(show="{:,.0f}".format, heading="pages")),
    (
        "temporary_bytes",
        "temporary files",
        doc.Form(show=format_bytes, unit=Unit("_bytes", 1.0, "B")),
    ),
    ("jit_s", "JIT", _MS),
)
