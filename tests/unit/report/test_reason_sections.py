"""The sections that say why: where the time goes, what a transaction costs, the timeline."""

from dataclasses import replace

from fakes import reasons
from steelyard.answers.budget import Budget
from steelyard.answers.costs import Ledger, campaign_ledger
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.reasons.section import Step, bars, steps
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.timeline import timelines
from steelyard.report.document import Figure, Section, Table, part_ms, significant
from steelyard.report.html import render_chart, render_markdown


def section(analysis: CampaignAnalysis, anchor: str) -> Section | None:
    """Return a section of the report with its details among its blocks, or None."""
    sections = (replace(s, blocks=s.every) for s in build_document(analysis).sections)
    return next((each for each in sections if each.anchor == anchor), None)


def blinded(analysis: CampaignAnalysis) -> CampaignAnalysis:
    """Return the campaign as if every probe had failed in every run."""
    found = analysis.answer(campaign_reasons)
    assert found is not None
    budget = Budget(
        cells=tuple(
            replace(each, latency=None, parts={}, blocks=0, missing="refused")
            for each in found.budget.cells
        ),
        changes=tuple(
            replace(
                each,
                change=None,
                baseline_s=None,
                configuration_s=None,
                parts=(),
                missing="refused",
            )
            for each in found.budget.changes
        ),
    )
    ledger = Ledger(
        cells=tuple(
            replace(
                each, costs=tuple(replace(c, value=None, missing="refused") for c in each.costs)
            )
            for each in found.ledger.cells
        ),
        changes=tuple(
            replace(
                each, costs=tuple(replace(c, change=None, missing="refused") for c in each.costs)
            )
            for each in found.ledger.changes
        ),
    )
    made = analysis.with_answer(campaign_reasons, replace(found, budget=budget, ledger=ledger))
    return made.with_answer(campaign_ledger, ledger).with_answer(timelines, ())


def test_what_nobody_saw_makes_no_empty_table() -> None:
    """The time's section says what was not visible; costs and timeline are not there."""
    blind = blinded(reasons.explained())
    time = section(blind, "time")
    assert time is not None
    assert not any(isinstance(block, Table) for block in time.blocks)
    assert section(blind, "costs") is None
    assert section(blind, "timeline") is None
    assert "may not read `/proc/PID/smaps`" in render_markdown(build_document(blind))


def test_bars_stand_on_one_scale() -> None:
    """A whole latency fills the line, half of it half; what is too small for a bar is a dot."""
    drawn = bars(
        (
            Step(label="a", start_ms=0.0, end_ms=4.0, whole=True),
            Step(label="b", start_ms=4.0, end_ms=2.0),
            Step(label="c", start_ms=2.0, end_ms=2.001),
        )
    )
    assert drawn == ("█" * 32, " " * 16 + "█" * 16, " " * 16 + "·")


def test_a_waterfall_that_dips_below_zero_is_drawn() -> None:
    """Unseen time below 0 takes the scale along; no bar begins before the line."""
    drawn = bars(
        (Step(label="a", start_ms=1.0, end_ms=-1.0), Step(label="b", start_ms=0, end_ms=1))
    )
    assert drawn == ("█" * 32, " " * 16 + "█" * 16)


def test_without_a_latency_there_are_no_steps() -> None:
    """What was not split has no way to draw."""
    found = reasons.explained().answer(campaign_reasons)
    assert found is not None
    missing = replace(found.budget.changes[0], baseline_s=None, configuration_s=None, parts=())
    assert steps(missing) == ()


def test_numbers_of_any_size_have_three_digits() -> None:
    """And none is written as a power of ten."""
    told = [significant(value) for value in (0.0, 0.000123, 0.0123, 1.234, 56.78, 999.4, 123456.7)]
    assert told == ["0", "0.000123", "0.0123", "1.23", "56.8", "999", "123,457"]
    assert significant(-0.5, signed=True) == "-0.500"


def test_parts_have_four_decimals_at_most() -> None:
    """A part of nothing is 0, without sign and decimals."""
    told = [part_ms(value, signed=True) for value in (1e-9, -2e-8, 4.56e-5, -0.00123, 0.0456, 0.2)]
    assert told == ["0", "0", "+0.0456", "-1.23", "+45.6", "+200"]


def test_cpu_time_beyond_the_samples_is_told_where_it_weighs() -> None:
    """From a twentieth of the latency on, below the table of all cells."""
    analysis = reasons.explained()
    assert analysis.answer(campaign_reasons) is not None
    first, *others = analysis.answer(campaign_reasons).budget.cells
    assert first.latency is not None
    for share, told in ((0.04, False), (0.06, True)):
        beyond = replace(first, cpu_beyond_class_s=share * first.latency.value)
        budget = replace(analysis.answer(campaign_reasons).budget, cells=(beyond, *others))
        odd = analysis.with_answer(
            campaign_reasons, replace(analysis.answer(campaign_reasons), budget=budget)
        )
        text = render_markdown(build_document(odd))
        assert ("that the samples do not cover" in text) is told


def test_runs_too_short_for_a_sample_leave_their_track_empty() -> None:
    """A run of a second may end before the first look at the machine."""
    analysis = reasons.explained()
    empty = tuple(
        replace(
            line,
            tracks=tuple(
                replace(track, end_s=(), lines=tuple((name, ()) for name, _ in track.lines))
                for track in line.tracks
            ),
        )
        for line in analysis.answer(timelines)
    )
    drawn = section(analysis.with_answer(timelines, empty), "timeline")
    assert drawn is not None
    (figure,) = (block for block in drawn.blocks if isinstance(block, Figure))
    assert "svg" in (render_chart(figure) or "")
