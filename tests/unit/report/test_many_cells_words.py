"""Reports of more than ten cells say by which rule those were called different."""

from fakes.analyses import analysis_of
from fakes.scenes import Scene
from steelyard.answers.result.method import method_section
from steelyard.answers.result.section import result_section
from steelyard.answers.results import CampaignAnalysis, verdict_sentence
from steelyard.answers.tables import comparison_section
from steelyard.core.campaign import Status
from steelyard.report.document import KeyValues, Table


def over(cells: int) -> CampaignAnalysis:
    """Return a campaign with so many loads whose effect grows with the load."""
    scene = Scene(
        clients=tuple(range(1, cells + 1)),
        workloads=("reads",),
        load_slope=0.4,
        noise=0.005,
        status=Status.BUDGET,
    )
    return analysis_of(scene)


def note(analysis: CampaignAnalysis) -> str:
    """Return the note below the table of comparisons."""
    table = comparison_section(analysis).blocks[0]
    assert isinstance(table, Table)
    return table.note


def rules(analysis: CampaignAnalysis) -> dict[str, str]:
    """Return the method section's lines by their names."""
    block = method_section(analysis).blocks[0]
    assert isinstance(block, KeyValues)
    return dict(block.pairs)


def test_eleven_cells_keep_the_false_discovery_rate() -> None:
    """The table's note and the method name the rule, and what it does not promise."""
    assert "11 cells (from block 6)" in note(over(11))
    assert "at most 5 % of them are expected to be wrong" in note(over(11))
    assert "no evidence of being equal" in note(over(11))
    assert rules(over(11))["cells"].startswith("11 per result: those called different by Benj")


def test_ten_cells_hold_together() -> None:
    """Up to ten the words are those of simultaneous intervals."""
    assert note(over(10)).startswith("Simultaneous intervals (from block 6)")
    assert "cells" not in rules(over(10))


def test_an_effect_that_depends_on_load_names_its_intervals() -> None:
    """The sentence calls intervals simultaneous only where they are."""
    for cells, words in ((10, "(simultaneous 95 %)"), (11, "(95 %, on average over the cells")):
        analysis = over(cells)
        (result,) = analysis.results
        assert result.depends_on_load
        assert words in verdict_sentence(analysis, result)
        card = result_section(analysis).blocks[0].cards[0]
        assert words.strip("(").split(",")[0].removesuffix(")") in card.details[-1]
