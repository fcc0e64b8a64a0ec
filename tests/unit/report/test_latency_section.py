"""Sections on percentiles, noise, statements and turns: what they say, and what nobody may miss."""

from dataclasses import replace

import pytest

from fakes import analyses, latencies, reasons, redis_campaigns, single_clients
from steelyard.answers.latency.compute import (
    Basis,
    LatencyAnalysis,
    PercentileLevel,
    campaign_latency,
)
from steelyard.answers.latency.section import latency_section, level_text
from steelyard.answers.noise.compute import NoiseFloor, analyse_noise
from steelyard.answers.noise.section import noise_section
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.statements.compute import StatementDifference, fit_of_statements
from steelyard.answers.statements.section import statement_section
from steelyard.answers.timeline import timeline_section
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import Ceiling, CeilingKind, CellKey, Load, Mode
from steelyard.report.document import (
    BulletList,
    ChartKind,
    Figure,
    Paragraph,
    Section,
    Table,
    Tone,
    filled,
)
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal


@pytest.fixture(scope="module")
def tails() -> CampaignAnalysis:
    """Return writes that are faster with a longer tail."""
    return latencies.tails()


def latency_of(analysis: CampaignAnalysis) -> LatencyAnalysis:
    """Return the percentiles of an analysis that has some."""
    assert analysis.answer(campaign_latency) is not None
    return analysis.answer(campaign_latency)


def remarks(analysis: CampaignAnalysis) -> list[str]:
    """Return what stands below the verdicts as a warning."""
    blocks = build_document(analysis).sections[0].blocks
    return [b.text for b in blocks if isinstance(b, Paragraph) and b.tone is Tone.WARNING]


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section on latency."""
    (section,) = latency_section(analysis)
    return filled(section, analysis.experiment.words)


def test_a_tail_that_goes_the_same_way_is_no_warning(tails: CampaignAnalysis) -> None:
    """Slower with a longer tail is what people expect; nor is one that is not clear told."""
    slower = tuple(replace(c, verdict=Verdict.SLOWER) for c in tails.comparisons)
    assert not remarks(replace(tails, comparisons=slower))
    unclear = tuple(replace(c, clear=False) for c in latency_of(tails).changes)
    latency = replace(latency_of(tails), changes=unclear)
    assert not remarks(tails.with_answer(campaign_latency, latency))


def test_slower_with_a_shorter_tail_is_told_too(tails: CampaignAnalysis) -> None:
    """The other way round, in its own words."""
    slower = tuple(replace(c, verdict=Verdict.SLOWER) for c in tails.comparisons)
    turned = tuple(
        c if c.change is None else replace(c, change=Estimate(value=-0.3, low=-0.4, high=-0.2))
        for c in latency_of(tails).changes
    )
    latency = replace(latency_of(tails), changes=turned)
    made = replace(tails, comparisons=slower).with_answer(campaign_latency, latency)
    told = remarks(made)
    assert "batched is slower than default, but its slowest transactions take shorter" in told[-1]


def test_a_result_that_is_undecided_warns_of_nothing(tails: CampaignAnalysis) -> None:
    """Where throughput is not known to differ, there is no other direction."""
    open_verdicts = tuple(
        replace(c, verdict=Verdict.NO_CLEAR_DIFFERENCE) for c in tails.comparisons
    )
    assert not remarks(replace(tails, comparisons=open_verdicts))


@pytest.mark.parametrize(
    ("basis", "value", "text"),
    [
        (Basis.BLOCKS, Estimate(value=0.0123, low=0.012, high=0.0126), "12.3 [12.0, 12.6]"),
        (Basis.BLOCKS, Estimate(value=0.0123), "12.3"),
        (Basis.TOGETHER, Estimate(value=0.0123), "12.3 [no interval]"),
        (Basis.TOO_FEW, None, "not enough [3,120 of 10,000]"),
        (Basis.LONGEST, Estimate(value=1.5), "1,500"),
    ],
)
def test_a_level_says_what_it_rests_on(basis: Basis, value: Estimate | None, text: str) -> None:
    """With an interval, without, or with how many transactions there are and how many it takes."""
    level = PercentileLevel(share=0.999, basis=basis, value_s=value, there=3120, needed=10_000)
    assert level_text(level) == text


def test_a_sampled_log_is_told(tails: CampaignAnalysis) -> None:
    """Who reads a maximum must know that the longest may be missing."""
    levels = tuple(replace(each, sampled=0.1) for each in latency_of(tails).levels)
    part = tails.with_answer(campaign_latency, replace(latency_of(tails), levels=levels))
    for analysis, name in ((tails, "transactions"), (part, "transactions logged")):
        assert name in [column.name for column in tables(analysis)[0].columns]
    lead = section_of(
        tails.with_answer(campaign_latency, replace(latency_of(tails), levels=levels))
    ).blocks[0]
    assert isinstance(lead, Paragraph)
    assert "10.0 % of the transactions" in lead.text


def tables(analysis: CampaignAnalysis) -> list[Table]:
    """Return the tables of the section."""
    return [block for block in section_of(analysis).blocks if isinstance(block, Table)]


def test_of_many_cells_the_largest_loads_are_drawn(tails: CampaignAnalysis) -> None:
    """More than six panels are not: then one per workload, and the caption says so."""
    latency = latency_of(tails)
    curves = tuple(
        replace(curve, cell=CellKey(workload=curve.cell.workload, load=Load(clients=n, threads=1)))
        for curve in latency.tails
        for n in (2, 4, 16, 32)
    )
    many = tails.with_answer(campaign_latency, replace(latency, tails=curves))
    figure = next(block for block in section_of(many).blocks if isinstance(block, Figure))
    assert {(row[0], row[1]) for row in figure.rows} == {
        ("orders", "32 clients"),
        ("writes", "32 clients"),
    }
    assert "Largest loads alone" in figure.caption


def changed(**parts: object) -> CampaignAnalysis:
    """Return the scene with parts of its noise floor replaced."""
    analysis = analyses.noise_floor()
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    return analysis.with_answer(analyse_noise, replace(floor, **parts))


def blocks_of(analysis: CampaignAnalysis, kind: type) -> list:
    """Return the section's blocks of one kind."""
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    (section,) = noise_section(analysis, floor)
    return [block for block in section.blocks if isinstance(block, kind)]


def advice(analysis: CampaignAnalysis) -> str:
    """Return everything under `What to use`."""
    (bullets,) = blocks_of(analysis, BulletList)
    return " ".join(bullets.items)


def test_a_difference_is_said_first_and_plainly() -> None:
    """That it is one between equal arms, how often chance does this, and what to do."""
    analysis = analyses.noise_floor()
    first, *others = analysis.comparisons
    found = replace(analysis, comparisons=(replace(first, verdict=Verdict.SLOWER), *others))
    paragraph = blocks_of(found, Paragraph)[0]
    assert paragraph.tone is Tone.WARNING
    for words in ("found a difference where there is none", "reads slower", "4 of 100", "Repeat"):
        assert words in paragraph.text
    assert blocks_of(analysis, Paragraph)[0].tone is Tone.PLAIN


def test_without_blocks_nothing_is_claimed() -> None:
    """No table, no chart, no advice: a sentence."""
    empty = replace(changed(workloads=()), blocks=1)
    assert "1 complete block cannot say" in blocks_of(empty, Paragraph)[0].text
    assert len(blocks_of(empty, object)) == 1


@pytest.mark.parametrize(
    ("narrower", "said"),
    [(0.8, "Set measure.run_time to 3s instead of 5 s"), (0.95, "Keep slices of 5 s")],
)
def test_a_length_is_advised_only_where_it_pays(narrower: float, said: str) -> None:
    """The optimum is flat: a few percent are not worth a change."""
    assert said in advice(changed(width_ratio=narrower))


def test_an_unknown_length_is_said_to_be_unknown() -> None:
    """Without the parts there is no advice, and the present length is named."""
    assert "not known" in advice(changed(advised_run_time_s=None, width_ratio=None))


def test_back_to_back_the_restart_cancels() -> None:
    """The table says so, and the advice says what was not measured."""
    analysis = changed(mode=Mode.BACK_TO_BACK)
    assert "--switch restart" in advice(analysis)
    parts = blocks_of(analysis, Table)[1]
    row = next(row for row in parts.rows if row.cells[0] == "from start to start")
    assert set(row.cells[1:]) == {"cancels"}
    assert "--switch session" in advice(changed())


def test_what_is_too_noisy_is_said_with_what_can_be_seen() -> None:
    """Where two hours do not suffice, the effect that they would decide is named."""
    analysis = analyses.noise_floor()
    stop = replace(analysis.experiment.stop, detect=0.001)
    asked = replace(analysis, experiment=replace(analysis.experiment, stop=stop))
    assert "reads: an effect of 0.1 % is not reliably decided in 120 minutes" in advice(asked)
    assert "reads: nine of ten campaigns of 60 minutes decide an effect of 3 %" in advice(analysis)


def test_the_chart_has_what_the_table_has() -> None:
    """A point per row with an interval; rows without a look are left out."""
    analysis = analyses.noise_floor()
    (figure,) = blocks_of(analysis, Figure)
    assert figure.kind is ChartKind.NOISE
    tables = blocks_of(analysis, Table)
    shown = [row for table in (tables[0], tables[2]) for row in table.rows]
    assert len(figure.rows) == sum("no interim result" not in row.cells for row in shown)
    assert "reads: ±1.8 % in 20 min" in figure.alt


def test_a_floor_without_any_look_has_no_chart() -> None:
    """There is nothing to draw, and no axis without data."""
    analysis = analyses.noise_floor()
    floor = analysis.answer(analyse_noise)
    assert isinstance(floor, NoiseFloor)
    blind = tuple(
        replace(
            workload,
            comparisons=tuple(
                replace(
                    reach,
                    expected=tuple(
                        replace(sight, half_width=None, smallest_visible=None)
                        for sight in reach.expected
                    ),
                )
                for reach in workload.comparisons
            ),
        )
        for workload in floor.workloads
    )
    assert blocks_of(changed(workloads=blind), Figure) == []
    assert "nothing is then" in advice(changed(workloads=blind))


def with_difference(statement: Estimate, commit: Estimate) -> CampaignAnalysis:
    """Return a campaign whose configurations differ so."""
    analysis = single_clients.statements()
    fit = analysis.answer(fit_of_statements)
    assert fit is not None
    difference = StatementDifference(
        baseline="default", configuration="fitted", per_statement_s=statement, per_commit_s=commit
    )
    return analysis.with_answer(fit_of_statements, replace(fit, differences=(difference,)))


SURE = Estimate(value=-0.9e-3, low=-1.0e-3, high=-0.8e-3)
UNSURE = Estimate(value=0.1e-3, low=-0.2e-3, high=0.3e-3)


@pytest.mark.parametrize(
    ("statement", "commit", "words"),
    [
        (SURE, UNSURE, "a cost of the round trip"),
        (UNSURE, SURE, "What a commit waits for differs"),
        (SURE, SURE, "Both the round trips"),
        (UNSURE, UNSURE, "neither cost surely differs"),
        (replace(SURE, low=None, high=None), UNSURE, "neither cost surely differs"),
    ],
)
def test_the_words_follow_the_intervals(statement: Estimate, commit: Estimate, words: str) -> None:
    """Only a cost whose interval leaves out zero is named."""
    (section,) = statement_section(with_difference(statement, commit))
    (told,) = [block for block in section.blocks if isinstance(block, BulletList)]
    assert words in told.items[0]


def test_round_trips_and_wake_ups_stand_beside_the_fit() -> None:
    """As measured before the first block; what is not known is left out."""
    ceilings = (
        Ceiling(
            kind=CeilingKind.ROUND_TRIP,
            subject="PostgreSQL 18, socket",
            latency_s=0.03e-3,
            configurations=("default", "fitted"),
        ),
        Ceiling(kind=CeilingKind.PING_PONG, subject="two CPUs", latency_s=0.017e-3),
        Ceiling(kind=CeilingKind.PING_PONG, subject="one CPU", unknown="refused"),
    )
    analysis = replace(single_clients.statements(), ceilings=ceilings)
    (section,) = statement_section(analysis)
    _, told = [block for block in section.blocks if isinstance(block, BulletList)]
    assert told.items == (
        "round trip of an empty statement (default, fitted): 0.030 ms",
        "ping-pong of two processes, two CPUs: 0.017 ms",
    )


def _in_turns() -> CampaignAnalysis:
    explained = reasons.explained()
    assert explained.plan is not None
    return replace(explained, plan=replace(explained.plan, mode=Mode.ALTERNATING))


def _timeline(analysis: CampaignAnalysis) -> Figure:
    ((section,), kind) = timeline_section(analysis), ChartKind.TIMELINE
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    assert figure.kind is kind
    return figure


def test_no_ramp_is_shaded_where_seconds_leave_the_pauses_out() -> None:
    """A run in turns has none; one in a single piece has it in every panel."""
    turns, starts = _timeline(_in_turns()), _timeline(reasons.explained())
    mark = turns.columns.index("mark")
    assert "ramp" not in {row[mark] for row in turns.rows}
    assert "ramp" in {row[mark] for row in starts.rows}
    assert "pauses left out" in turns.caption
    assert "ramp" not in turns.caption
    assert "The shaded start is the ramp" in starts.caption
    assert [row for row in starts.rows if row[mark] != "ramp"] == list(turns.rows)


def test_figures_of_turns_say_what_they_are_of() -> None:
    """Costs of all the time a run went on; latencies of what counts; no word of a ramp in them."""
    text = " ".join(render_markdown(build_document(_in_turns())).split())
    other = " ".join(render_markdown(build_document(reasons.explained())).split())
    for words in ("pauses are left out", "shared in part"):
        assert words in text, words
        assert words not in other, words
    for words in ("of the whole runs with their ramp", "has the ramp in it"):
        assert words in other, words
        assert words not in text, words


@pytest.fixture(scope="module")
def analysis() -> CampaignAnalysis:
    """Return a campaign of Redis in turns."""
    return redis_campaigns.in_turns()


def test_the_reason_stands_where_percentiles_would(analysis: CampaignAnalysis) -> None:
    """With the way to have them; no percentile is made up of what the generator printed."""
    text = " ".join(render_markdown(build_document(analysis)).split())
    assert "No request was timed: redis-benchmark keeps no log" in text
    assert "one-by-one" in text
    assert "p50" not in text
    assert "latency" not in summary(analysis)


def test_throughput_is_told_without_latencies(analysis: CampaignAnalysis) -> None:
    """Results, cells and explanations do without them; an absent mean is no zero."""
    assert [result.effect is not None for result in analysis.results] == [True, True]
    assert all(cell.latency_mean_s is None for cell in analysis.cells)
    text = render_terminal(build_document(analysis), 100, files=())
    assert "aof-always" in text
    assert "0.000" not in text
