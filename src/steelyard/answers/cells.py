"""Every configuration in every cell described on its own, without effects against the baseline.

Here are also the stalled slices of the configurations against the baseline's, what a report says of
a single unrepeated pass at every place where it could mislead, and effective settings of
combinations by the factors that move them.
"""

from collections.abc import Sequence

import numpy as np

from steelyard.answers.observations import (
    Observations,
    ResultContrast,
    estimate_of,
    result_contrasts,
)
from steelyard.answers.published import PublishedRow, beside_published
from steelyard.answers.results import (
    LABEL,
    CampaignAnalysis,
    CellSummary,
    SettingDifference,
    StallTest,
    ending,
)
from steelyard.core.experiment import Attribution, Experiment
from steelyard.core.findings import Finding, Validity
from steelyard.core.measurement import Run
from steelyard.core.schedule import CellKey
from steelyard.report.document import (
    MISSING,
    BulletList,
    Column,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    count,
    number_column,
    rate,
)
from steelyard.stats.drift import stalled_slices, stalls_p_value
from steelyard.stats.intervals import BoolArray, FloatArray, median_interval

_WORST_LAST = (Validity.VALID, Validity.SUSPECT, Validity.INVALID)


def summarise_cells(seen: Observations, stalled: BoolArray) -> tuple[CellSummary, ...]:
    """Return a summary of each configuration in each cell; none before the first block.

    Args:
        seen: The observations.
        stalled: Which of the single runs stalled, same shape as ``seen.by_slice``.
    """
    if not seen.blocks:
        return ()
    return tuple(
        _summary(
            configuration,
            cell,
            seen.runs[configuration, cell],
            seen.log_tps[:, side, column],
            int(stalled[:, side, column].sum()),
        )
        for column, cell in enumerate(seen.cells)
        for side, configuration in enumerate(seen.configurations)
    )


def _summary(
    configuration: str, cell: CellKey, runs: Sequence[Run], log_tps: FloatArray, stalled: int
) -> CellSummary:
    return CellSummary(
        configuration=configuration,
        cell=cell,
        runs=len(runs),
        tps=estimate_of(median_interval(np.exp(log_tps))),
        latency_mean_s=_median_latency_s(runs),
        validity=max((run.validity for run in runs), key=_WORST_LAST.index),
        stalled=stalled,
        findings=_distinct_findings(runs),
        percentiles=_printed_percentiles(runs),
    )


def _median_latency_s(runs: Sequence[Run]) -> float | None:
    reported = [
        run.measurement.latency_mean_s
        for run in runs
        if run.measurement is not None and run.measurement.latency_mean_s is not None
    ]
    return float(np.median(reported)) if reported else None


def _printed_percentiles(runs: Sequence[Run]) -> tuple[tuple[float, float], ...]:
    """Return the median over the runs of each percentile that the generator prints."""
    printed: dict[float, list[float]] = {}
    for run in runs:
        for share, seconds in run.measurement.percentiles if run.measurement else ():
            printed.setdefault(share, []).append(seconds)
    return tuple((share, float(np.median(printed[share]))) for share in sorted(printed))


def _distinct_findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Return the first finding of each rule."""
    first: dict[str, Finding] = {}
    for run in runs:
        for finding in run.findings:
            first.setdefault(finding.code, finding)
    return tuple(first.values())


def compare_stalls(seen: Observations, experiment: Experiment) -> tuple[StallTest, ...]:
    """Return one test per workload and result contrast; none before the first block.

    Args:
        seen: The observations of closed loops: an open one makes up for a stall within its slice,
            and shows it in its latency.
        experiment: Names the workloads and what is compared under each.
    """
    if not seen.blocks or not seen.cells:
        return ()
    stalled = stalled_slices(seen.by_slice)
    return tuple(
        _test(seen, stalled, asked, workload.name)
        for workload in experiment.workloads
        for asked in result_contrasts(experiment)
    )


def _test(
    seen: Observations, stalled: BoolArray, asked: ResultContrast, workload: str
) -> StallTest:
    columns = seen.columns_of(workload)

    def counted(places: Sequence[int]) -> tuple[int, int]:
        slices = stalled[:, list(places)][:, :, columns]
        return int(slices.sum()), slices.size

    (theirs, their_runs), (mine, my_runs) = counted(asked.negative), counted(asked.positive)
    return StallTest(
        baseline=asked.baseline,
        configuration=asked.configuration,
        workload=workload,
        baseline_stalled=theirs,
        baseline_runs=their_runs,
        configuration_stalled=mine,
        configuration_runs=my_runs,
        p_value=stalls_p_value((theirs, mine), (their_runs, my_runs)),
    )


STATEMENT = (
    "Single unrepeated pass: no interval, no verdict, order and time confounded. Each cell was run"
    " once, in ascending order; a second pass would give other figures, and nothing here says by"
    " how much."
)
_ORDER = (
    "Whether two of its cells differ: the later one met a server with other caches, more rows and"
    " another phase of checkpoints and vacuum, and a machine with other neighbours."
)
_PUBLISHED = "Beside the published figures (published, other machine)"
_PUBLISHED_S = 60.0
_PUBLISHED_NOTE = (
    "Transactions per second. Published, other machine: pgbench at scale 100, 60 s, one run per"
    " cell, servers of 2 vCPU and 8 GB (CNPG is CloudNativePG); the articles call simple-update RW"
    " and do not print their figures by threads. Standing beside each other is no comparison:"
    " machine, storage, network, version and time all differ."
)
# As narrow as columns must be; the keys are those of the published figures.
_ENVIRONMENTS = {
    "rds-standard-t3.large": "RDS standard",
    "aurora-io-optimized-t3.large": "Aurora I/O-optimized",
    "aurora-standard-t3.large": "Aurora standard",
    "cnpg-local-ssd": "CNPG local SSD",
    "cnpg-longhorn-1r": "CNPG Longhorn 1 replica",
    "cnpg-longhorn-2r": "CNPG Longhorn 2 replicas",
    "cnpg-longhorn-2r-shared-disk": "CNPG Longhorn 2 replicas on shared disk",
    "cnpg-tuning-1-pinning-governor": "CNPG tuning 1: pinning, governor",
    "cnpg-tuning-2-hugepages": "CNPG tuning 2: huge pages",
}


def pass_title(analysis: CampaignAnalysis) -> str:
    """Return the title of the report, which says what it is."""
    return f"{analysis.experiment.name} ({LABEL})"


def pass_result(analysis: CampaignAnalysis) -> Section:
    """Return what stands in the verdicts' place."""
    text = " ".join(filter(None, (STATEMENT, _duration(analysis), _parts(analysis))))
    if not analysis.blocks:
        text = f"The pass is not complete: {ending(analysis)}. {text}"
    remark = Paragraph(text=text, tone=Tone.WARNING)
    return Section(anchor="verdicts", title="No verdict", blocks=(remark,), first=True)


def pass_limits(analysis: CampaignAnalysis) -> Section:
    """Return what a single pass shows and does not show."""
    shown = BulletList(
        lead="It shows",
        items=("What this server did once, in this order, at that time.",),
    )
    hidden = BulletList(
        lead="It does not show",
        items=(
            STATEMENT,
            _ORDER,
            "Whether this machine is faster or slower than any other, published or not.",
            f"What a repetition would give: {analysis.unit}.",
        ),
    )
    title = "What this does and does not show"
    return Section(anchor="limits", title=title, blocks=(shown, hidden))


def published_section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    """Return the table beside the published figures, or nothing where there are none."""
    figures = beside_published(analysis.experiment, analysis.cells)
    if figures is None:
        return ()
    columns = (
        Column(name="workload"),
        number_column("clients"),
        number_column("here (threads)"),
        *(
            number_column(_ENVIRONMENTS.get(name, name), spare=place > 1)
            for place, name in enumerate(figures.environments)
        ),
    )
    rows = tuple(_row(row) for row in figures.rows)
    table = Table(title=_PUBLISHED, columns=columns, rows=rows, note=_published_note(analysis))
    return (Section(anchor="published", title=_PUBLISHED, blocks=(table,), first=True),)


def _published_note(analysis: CampaignAnalysis) -> str:
    experiment = analysis.experiment
    run_s = experiment.measure.slice_s
    changed = "" if run_s == _PUBLISHED_S else f", not {_PUBLISHED_S:g} s"
    here = f"Here: {run_s:g} s per cell{changed}, one run per cell, protocol {experiment.protocol}."
    return f"{_PUBLISHED_NOTE} {here}"


def _parts(analysis: CampaignAnalysis) -> str:
    """Return that the pass was not taken in one go, or nothing."""
    parts = len({run.attempt for run in analysis.runs})
    return f"It was interrupted and taken in {parts} parts, see the findings." if parts > 1 else ""


def _duration(analysis: CampaignAnalysis) -> str:
    """Return how its runs differ in length from the published ones, or nothing."""
    run_s = analysis.experiment.measure.slice_s
    if run_s == _PUBLISHED_S or not beside_published(analysis.experiment, analysis.cells):
        return ""
    word = "shorter" if run_s < _PUBLISHED_S else "longer"
    return (
        f"Its runs of {run_s:g} s are {word} than the published {_PUBLISHED_S:g} s: they meet"
        " another share of checkpoints, vacuum and cold caches."
    )


def _row(row: PublishedRow) -> Row:
    own = " · ".join(f"{rate(tps)} ({threads})" for threads, tps in row.own_tps)
    told = (MISSING if tps is None else f"{tps:,.0f}" for tps in row.published_tps)
    return Row(cells=(row.builtin, str(row.clients), own, *told))


_NOTE = (
    "As the running servers reported them, not as they were asked for; by factor where one alone"
    " moves a setting."
)


def level_settings(analysis: CampaignAnalysis, attribution: Attribution, title: str) -> Section:
    """Return the settings that differ, with their values by level: combinations are too many."""
    columns = (Column(name="setting"), Column(name="values"), Column(name="asked for"))
    rows = tuple(
        Row(
            cells=(
                difference.name,
                _values(attribution, difference),
                "yes" if difference.requested else "no",
            )
        )
        for difference in analysis.settings
    )
    table = Table(title=title, columns=columns, rows=rows, note=_NOTE)
    return Section(anchor="settings", title=title, blocks=(table,))


def _values(attribution: Attribution, difference: SettingDifference) -> str:
    shown = [MISSING if value is None else value for value in difference.values]
    for place, factor in enumerate(attribution.factors):
        first, second = (
            {
                value
                for value, levels in zip(shown, attribution.combinations, strict=True)
                if levels[place] == level
            }
            for level in (0, 1)
        )
        if len(first) == len(second) == 1 and first != second:
            return f"{factor.off}: {first.pop()}; {factor.on}: {second.pop()}"
    several = {value: shown.count(value) for value in dict.fromkeys(shown)}
    return "; ".join(f"{value} in {count(n, 'combination')}" for value, n in several.items())
