"""A gate of a pipeline: what its conditions make of the effects of a campaign.

A result that depends on the load is judged load by load: pooled it would hide what it averages.
Where a workload has several scripts each of them is judged, too, by the change of its time.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final
from xml.etree import ElementTree as ET

from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.answers.scripts.verdicts import ScriptResult
from steelyard.core.findings import Condition, Estimate, Outcome
from steelyard.core.quantities import OPTIONAL, Computed, Named
from steelyard.core.schedule import CLIENTS, BaselineName, ConfigurationName, WorkloadName
from steelyard.report import document as doc
from steelyard.report.keys import Declared

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TONES: Final = {
    Outcome.FAILED: doc.Tone.ERROR,
    Outcome.UNDECIDED: doc.Tone.WARNING,
    Outcome.PASSED: doc.Tone.GOOD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one condition makes of one effect.

    Attributes:
        script: Of the comparison, which is judged alone; None: the comparison is.
    """

    comparison: Comparison
    script: ScriptResult | None = None
    of_script: ClassVar = Computed(
        lambda judged: judged.script and judged.script.script,
        Annotated[str | None, Named("script"), OPTIONAL, "Script that is judged alone."],
    )
    condition: Condition
    written: ClassVar = Computed(
        lambda judged: str(judged.condition),
        Annotated[str, Named("condition"), "As it was written."],
    )
    outcome: Annotated[Outcome, "failed, passed or undecided."]
    baseline: ClassVar = Computed(lambda judged: judged.comparison.baseline, BaselineName)
    configuration: ClassVar = Computed(
        lambda judged: judged.comparison.configuration, ConfigurationName
    )
    workload: ClassVar = Computed(lambda judged: judged.comparison.workload, WorkloadName)
    clients: ClassVar = Computed(
        lambda judged: (judged.script.load if judged.script else judged.comparison.under).clients,
        Annotated[int | str, CLIENTS],
    )
    why: Annotated[str, "Cause that keeps it undecided; null if that is the interval."] = ""

    @property
    def name(self) -> str:
        """Return who is compared, and where."""
        compared = self.comparison
        under = compared.load if self.script is None else self.script.load
        load = f", {under.label}" if under is not None else ""
        what = f"{compared.workload}, {self.script.title}" if self.script else compared.workload
        return f"{doc.versus(compared.configuration, compared.baseline)}, {what}{load}"

    @property
    def effect(self) -> Estimate | None:
        """Return the effect on throughput, or the change of a script's time."""
        return self.comparison.effect if self.script is None else self.script.change

    @property
    def line(self) -> str:
        """Return it in a line: outcome, effect with its interval, condition."""
        interval = doc.effect_interval(self.effect) if self.effect else doc.MISSING
        interval = "without an interval yet" if interval == doc.MISSING else interval
        seen = f"{doc.effect_value(self.effect)} {interval}" if self.effect else "no effect yet"
        seen += " in time" if self.script and self.effect else ""
        why = f"; {self.why}" if self.why else ""
        return f"{self.outcome}: {self.name}: {seen}; the gate fails where {self.condition}{why}"


def judge_results(
    comparisons: Sequence[Comparison], conditions: Sequence[Condition]
) -> tuple[Judged, ...]:
    """Return every condition's outcome on every result."""
    return tuple(
        _judged(comparison, script, condition)
        for comparison, script in _decisive(comparisons)
        for condition in conditions
    )


def judge(analysis: CampaignAnalysis, conditions: Sequence[Condition]) -> tuple[Judged, ...]:
    """Return the same of a campaign; one that did not come to its end passes nothing."""
    judged = judge_results(analysis.comparisons, conditions)
    if analysis.status.is_finished:
        return judged
    return tuple(_unfinished(each, str(analysis.status)) for each in judged)


def _decisive(
    comparisons: Sequence[Comparison],
) -> Iterator[tuple[Comparison, ScriptResult | None]]:
    """Yield the results, or the loads of those that depend on the load; then their scripts."""
    for result in comparisons:
        if result.load is not None:
            continue
        key = (result.baseline, result.configuration, result.workload)
        cells = (c for c in comparisons if c.load)
        loads = (c for c in cells if (c.baseline, c.configuration, c.workload) == key)
        yield from ((each, None) for each in (loads if result.depends_on_load else (result,)))
        yield from ((result, script) for script in result.scripts)


def _judged(comparison: Comparison, script: ScriptResult | None, condition: Condition) -> Judged:
    if comparison.is_suspect:
        why = f"`{comparison.control}` differs too, which nothing that was changed can touch"
        outcome = Outcome.UNDECIDED
    else:
        why = ""
        outcome = condition.judge(comparison.effect if script is None else script.effect)
    return Judged(
        comparison=comparison, script=script, condition=condition, outcome=outcome, why=why
    )


def _unfinished(judged: Judged, status: str) -> Judged:
    if judged.outcome is Outcome.FAILED:
        return judged  # intervals hold at whatever block a campaign stopped
    why = f"the campaign did not come to its end ({status})"
    return replace(judged, outcome=Outcome.UNDECIDED, why=why)


def under_conditions(
    analysis: CampaignAnalysis, conditions: tuple[Condition, ...]
) -> CampaignAnalysis:
    """Return a campaign as its report shows it under other conditions than its own."""
    return replace(analysis, experiment=replace(analysis.experiment, gate=conditions))


def gate_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return what the experiment's conditions come to."""
    judged = judge(analysis, analysis.experiment.gate)
    if not judged:
        return ()
    blocks = tuple(
        doc.Paragraph(text=f"{_capital(each)}.", tone=_TONES[each.outcome]) for each in judged
    )
    return (doc.Section(anchor="gate", title="Gate", blocks=blocks, first=True),)


def _capital(judged: Judged) -> str:
    return judged.line[:1].upper() + judged.line[1:]


GATE: Final = Declared(
    tuple[Judged, ...], "gate", "Outcome of each condition of the experiment for each result."
)


def gate_json(analysis: CampaignAnalysis) -> dict[str, doc.Json]:
    """Return the same for programs; nothing where the experiment has no condition."""
    return GATE.of(judge(analysis, analysis.experiment.gate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What kept a campaign from its end.

    Attributes:
        kind: ``error``, ``interrupted`` or another state of a campaign.
    """

    kind: str
    message: str


def junit(
    name: str,
    judged: Sequence[Judged],
    *,
    undecided_fails: bool,
    analysis: CampaignAnalysis | None = None,
    broken: Broken | None = None,
) -> str:
    """Return a JUnit report: a test case for each condition and effect, times in seconds.

    Args:
        name: Of the experiment.
        judged: The cases.
        undecided_fails: Whether an undecided case is a failure; else it is skipped.
        analysis: Has times and rates; None: there is none.
        broken: Is a case of its own, an error.
    """
    cases = [(each, _element(each, undecided_fails=undecided_fails)) for each in judged]
    kinds = [None if child is None else child.tag for _, child in cases]
    counts = {
        "name": _clean(name),
        "tests": str(len(cases) + (broken is not None)),
        "failures": str(kinds.count("failure")),
        "errors": str(int(broken is not None)),
        "skipped": str(kinds.count("skipped")),
    }
    suite = ET.Element("testsuite", counts | _time(analysis.elapsed_s if analysis else 0.0))
    if broken is not None:
        case = ET.SubElement(suite, "testcase", classname=_clean(name), name="campaign")
        ET.SubElement(case, "error", type=_clean(broken.kind), message=_clean(broken.message))
    for each, child in cases:
        title = _clean(f"{each.name}: {each.condition}")
        times = {} if analysis is None else _time(_measured_s(each, analysis))
        named = {"classname": _clean(name), "name": title}
        case = ET.SubElement(suite, "testcase", named | times)
        if child is not None:
            case.append(child)
        rates = [] if analysis is None else list(_rates(each, analysis))
        said = rates if child is not None and rates else [each.line, *rates]
        ET.SubElement(case, "system-out").text = _clean("\n".join(said))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _time(seconds: float) -> dict[str, str]:
    """Return the attribute for a time; none where it is not known."""
    return {"time": f"{seconds:.3f}"} if seconds > 0.0 else {}


def _measured_s(judged: Judged, analysis: CampaignAnalysis) -> float:
    """Return the measured seconds of the runs, or the executions, that an outcome rests on."""
    compared = judged.comparison
    if judged.script is not None:
        sides = zip(judged.script.executions, judged.script.medians_s, strict=True)
        return sum(number * (median_s or 0.0) for number, median_s in sides)
    return sum(
        run.measurement.seconds
        for run in analysis.runs
        if run.measurement is not None
        and run.configuration in (compared.baseline, compared.configuration)
        and run.cell.workload == compared.workload
        and compared.load in (None, run.cell.load)
    )


def _rates(judged: Judged, analysis: CampaignAnalysis) -> Iterator[str]:
    """Yield the rates of both sides, a line for each load."""
    compared, unit = judged.comparison, analysis.experiment.words.rate
    if judged.script is not None:
        return
    found = {
        (cell.configuration, cell.cell.load): cell.tps.value
        for cell in analysis.cells
        if cell.cell.workload == compared.workload and cell.runs
    }
    for load in dict.fromkeys(load for _, load in found):
        before, after = (
            found.get((side, load)) for side in (compared.baseline, compared.configuration)
        )
        if compared.load in (None, load) and before is not None and after is not None:
            yield (
                f"{load.label}: {compared.baseline} {doc.rate(before)} {unit} -> "
                f"{compared.configuration} {doc.rate(after)} {unit}"
            )


def _element(judged: Judged, *, undecided_fails: bool) -> ET.Element | None:
    """Return what a case that did not pass says."""
    if judged.outcome is Outcome.PASSED:
        return None
    fails = judged.outcome is Outcome.FAILED or undecided_fails
    if not fails:
        return ET.Element("skipped", message=_clean(judged.line))
    return ET.Element("failure", type=str(judged.outcome), message=_clean(judged.line))


def _clean(text: str) -> str:
    """Return it without what XML has no place for."""
    return _NOT_XML.sub("�", text)
