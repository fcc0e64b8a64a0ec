"""The section on the noise floor: a difference, the modes, and what is missing."""

from dataclasses import replace

import pytest

from fakes import analyses
from steelyard.answers.noise.compute import NoiseFloor, analyse_noise
from steelyard.answers.noise.section import noise_section
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Verdict
from steelyard.core.schedule import Mode
from steelyard.report.document import BulletList, ChartKind, Figure, Paragraph, Table, Tone


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
    [(0.8, "Set measure.slice to 9s instead of 5 s"), (0.95, "Keep slices of 5 s")],
)
def test_a_length_is_advised_only_where_it_pays(narrower: float, said: str) -> None:
    """The optimum is flat: a few percent are not worth a change."""
    assert said in advice(changed(narrower=narrower))


def test_an_unknown_length_is_said_to_be_unknown() -> None:
    """Without the parts there is no advice, and the present length is named."""
    assert "not known" in advice(changed(advised_slice_s=None, narrower=None))


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
    stop = replace(analysis.experiment.stop, decide=0.001)
    asked = replace(analysis, experiment=replace(analysis.experiment, stop=stop))
    assert "reads: an effect of 0.1 % is not reliably decided in 120 minutes" in advice(asked)
    assert "reads: nine of ten campaigns of 20 minutes decide an effect of 3 %" in advice(analysis)


def test_the_chart_has_what_the_table_has() -> None:
    """A point per row with an interval; rows without a look are left out."""
    analysis = analyses.noise_floor()
    (figure,) = blocks_of(analysis, Figure)
    assert figure.kind is ChartKind.NOISE
    tables = blocks_of(analysis, Table)
    shown = [row for table in (tables[0], tables[2]) for row in table.rows]
    assert len(figure.rows) == sum("no interim result" not in row.cells for row in shown)
    assert "reads: ±0.86 % in 20 min" in figure.alt


def test_a_floor_without_any_look_has_no_chart() -> None:
    """There is nothing to draw, and no axis without data."""
    analysis = analyses.noise_floor()
    floor = analysis.answer(analyse_noise)
    assert isinstance(floor, NoiseFloor)
    blind = tuple(
        replace(
            workload,
            reaches=tuple(
                replace(
                    reach,
                    sights=tuple(
                        replace(sight, half_width=None, visible=None) for sight in reach.sights
                    ),
                )
                for reach in workload.reaches
            ),
        )
        for workload in floor.workloads
    )
    assert blocks_of(changed(workloads=blind), Figure) == []
    assert "nothing is then" in advice(changed(workloads=blind))
