"""The first screen of a report; and HTML: one file, no script, well nested, nothing unescaped."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from statistics import geometric_mean

import pytest

from fakes import analyses
from fakes.factorial import factored
from steelyard.answers.costs import Cost
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.answers.report import build_document
from steelyard.answers.result.cards import level_lines, why
from steelyard.answers.result.section import Ranked, ahead, rankings, ranks
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.experiment import ONE, AttributionKind
from steelyard.report import charts
from steelyard.report.document import Command, Document, Figure, Section, Table
from steelyard.report.html import render_html, render_summary
from steelyard.report.terminal import render_terminal
from support.examples import analysis_of, report_of

MORE = "steelyard report --full campaigns/one"


def test_a_summary_of_a_ranking_is_a_line_per_workload() -> None:
    """Who is ahead, who follows with rank and effect, and how many more the report has."""
    (said,) = (
        line
        for line in render_summary(report_of("redis-published")).splitlines()
        if "ahead" in line
    )
    table = rankings(analysis_of("redis-published"))[0]
    followers = [row.cells for row in table.rows if not row.cells[0].startswith("1")]
    assert f"{followers[0][1]} ({followers[0][2]})" in said
    assert f"{len(followers) - 5} more in the report" in said


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_ranking_has_all_its_intervals(width: int) -> None:
    """They are what a rank rests on: at 60 columns the verdict goes below, and no number breaks."""
    lines = render_terminal(report_of("redis-published"), width, more=MORE).splitlines()
    assert all(len(line) <= width for line in lines)
    (table, *_) = rankings(analysis_of("redis-published"))
    assert not table.spare
    for row in table.rows:
        place, name, change, interval, verdict, lost = row.cells
        found = next(n for n, line in enumerate(lines) if line.split()[:2] == [place, name])
        assert lines[found].split(maxsplit=2)[2].startswith(change)
        assert interval in lines[found]
        below = " ".join(line.strip() for line in lines[found + 1 : found + 3])
        assert width != 60 or below.startswith(f"{verdict}; power cut loses: {lost}")


def test_a_matrix_shows_the_least_and_the_largest_load() -> None:
    """Two rows a workload on the first screen; all of them in the report."""
    section = next(each for each in report_of("published-matrix").sections if each.brief)
    whole = next(block for block in section.blocks if isinstance(block, Table))
    (ends,) = section.brief
    assert isinstance(ends, Table)
    workloads = {row.cells[0] for row in whole.rows}
    assert len(ends.rows) == 2 * len(workloads) < len(whole.rows)
    for name in workloads:
        loads = [int(row.cells[1]) for row in whole.rows if row.cells[0] == name]
        shown = [int(row.cells[1]) for row in ends.rows if row.cells[0] == name]
        assert shown == [min(loads), max(loads)]


@pytest.mark.parametrize("kind", list(AttributionKind))
def test_factors_have_rates_before_and_after(kind: AttributionKind) -> None:
    """The mean of all combinations of a level; the rate after is that before times the effect."""
    analysis = factored(2, kind)
    (first, *_) = analysis.results
    load = analysis.experiment.closed_loads[0]
    cells = {
        cell.configuration: cell.tps.value
        for cell in analysis.cells
        if (cell.cell.workload, cell.cell.load) == (first.workload, load)
    }
    sides = {
        AttributionKind.FACTORS: (("default", "buffers"), ("huge-pages", "huge-pages+buffers")),
        AttributionKind.LADDER: (("default",), ("huge-pages",)),
        AttributionKind.ABLATION: (("buffers",), ("huge-pages+buffers",)),
    }[kind]
    before = geometric_mean([cells[name] for name in sides[0]])
    line = level_lines(analysis, first)[0]
    assert f": about {round(before, -3):,.0f} " in line
    assert line.startswith("means of 2 combinations, ") is (kind is AttributionKind.FACTORS)


def test_a_rank_counts_those_that_are_clearly_faster() -> None:
    """Overlapping intervals share a rank; one below two others comes third."""
    assert ranks([(0.0, 0.0), (0.1, 0.2), (0.05, 0.3), (-0.2, -0.1), (-0.3, -0.15)]) == [
        *((3, 3), (1, 2), (1, 2), (4, 5), (4, 5))
    ]


def test_a_ranking_has_what_a_power_cut_takes_and_its_rule() -> None:
    """The words tell nothing, seconds and everything apart; the rule stands on the first screen."""
    analysis = analysis_of("redis-published")
    lost = {
        each.configuration: each.lost_in_a_power_cut
        for each in analysis.answer(campaign_durability)
    }
    assert len(set(lost.values())) > 3
    for table in rankings(analysis):
        assert {row.cells[1]: row.cells[-1] for row in table.rows} == lost
        assert not [row for row in table.rows if "durable" in row.cells[4]]
    screen = " ".join(render_terminal(report_of("redis-published"), 100, more=MORE).split())
    assert "Who shares a rank, such as 3\N{EN DASH}5, is not clearly apart." in screen


def test_a_legend_names_only_what_is_drawn() -> None:
    """Where no dot is drawn none is explained; where lines are short the legend is left out."""
    dotted = "· of no practical relevance"
    for name in ("cause-commit", "cause-quota"):
        screen = render_terminal(report_of(name), 100, more=MORE)
        drawn = [line for line in screen.splitlines() if "◆" in line and "interval" not in line]
        assert (dotted in screen) is any("·" in line for line in drawn)
    assert dotted not in render_terminal(report_of("quick"), 100, more=MORE)


def test_a_figure_stays_with_its_unit() -> None:
    """A line of any width that begins with a unit has lost its number."""
    document = report_of("quick")
    for width in range(50, 70):
        lines = render_terminal(document, width, more=MORE).splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("GiB", "tps", "ms", "%"))]


@pytest.mark.slow
def test_many_results_are_ranked_and_the_rest_is_folded() -> None:
    """A table per workload with every configuration, one chart of all effects, no cards."""
    analysis = analysis_of("redis-published")
    tables = rankings(analysis)
    assert [len(table.rows) for table in tables] == [8, 8, 8]
    for table in tables:
        changes = [float(row.cells[2].partition(" ")[0]) for row in table.rows]
        assert changes == sorted(changes, reverse=True)
    document = build_document(analysis)
    page = render_html(document)
    assert 'class="card ' not in page
    assert page.count("<details>") == sum(not part.first for part in document.parts)
    shown = [block for section in document.sections if section.first for block in section.blocks]
    assert sum(isinstance(block, Figure) for block in shown) == 1


@pytest.mark.slow
def test_a_ranking_says_who_is_ahead() -> None:
    """One alone, several that have no order, or nobody; in every form of the report."""
    orders = {
        "Under get a is ahead: each of the others is clearly slower than it.": (
            (1, 1),
            (2, 3),
            (2, 3),
        ),
        "Under get a and b are ahead: each of the others is clearly slower than a or b.": (
            (1, 2),
            (1, 2),
            (2, 2),
        ),
        "": ((1, 1),),
    }
    for said, order in orders.items():
        rows = [
            Ranked(configuration=name, places=places)
            for places, name in zip(order, "abc", strict=False)
        ]
        assert ahead(rows, "get") == said
    document = report_of("redis-published")
    first = "Under set rdb and aof-off are ahead"
    none = "Under get no difference is clear: against aof-off the 95 % intervals reach from"
    screen = render_terminal(document, 100, more=MORE)
    for form in (render_html(document), render_summary(document), screen):
        text = " ".join(form.split())
        assert first in text
        assert none in text


@pytest.mark.usefixtures("undrawn")
def test_few_results_are_cards_and_nothing_is_folded() -> None:
    """A report of two workloads is read from top to bottom."""
    analysis = analyses.quick()
    assert rankings(analysis) == ()
    assert "<details>" not in render_html(build_document(analysis))


VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "col"})
SCENES: tuple[Callable[[], CampaignAnalysis], ...] = (
    analyses.quick,
    analyses.many_loads,
    analyses.interrupted,
    analyses.failed_early,
    analyses.hostile,
)


class Nesting(HTMLParser):
    """Follows opening and closing tags, and remembers ids, links and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag; SVG elements that close themselves come as start and end."""
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag that closes itself."""
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be this one."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Remember the text."""
        self.texts.append(data)


def parsed(page: str) -> Nesting:
    """Return the page after a parse that must end with every element closed."""
    nesting = Nesting()
    nesting.feed(page)
    nesting.close()
    assert nesting.open == []
    return nesting


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_element_is_closed_and_every_id_is_unique(
    scene: Callable[[], CampaignAnalysis],
) -> None:
    """Several drawings in one page do not share ids, and links within the page lead somewhere."""
    page = parsed(render_html(build_document(scene())))
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_page_needs_no_network_and_no_script(scene: Callable[[], CampaignAnalysis]) -> None:
    """Namespaces aside there is no address in it, nothing is loaded and nothing runs."""
    page = render_html(build_document(scene()))
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"@import|url\((?!#)", page)
    assert "script" not in parsed(page).tags


def test_hostile_names_are_text() -> None:
    """Names with markup are shown, in tables and charts alike, and a command to the letter."""
    analysis = analyses.hostile()
    page = render_html(build_document(analysis))
    assert "<script>" not in page
    assert "<b>" not in page
    texts = parsed(page).texts
    assert any("<script>alert('x')</script>" in text for text in texts)
    assert any("a|b<b>`c`" in text for text in texts)
    assert analysis.command in texts


@pytest.mark.usefixtures("undrawn")
def test_results_come_first() -> None:
    """The first thing after the title is a card per workload, interval before estimate."""
    page = render_html(build_document(analyses.quick()))
    assert page.index("<h1>") < page.index('class="card good"') < page.index("</section>")
    assert page.count("<article") == 2
    card = page[page.index("<article") : page.index("</article>")]
    assert card.index("+2.8\N{NO-BREAK SPACE}% to +19.6") < card.index("estimate +10.9")
    assert "stopped early" in card


@pytest.mark.usefixtures("undrawn")
def test_without_the_extra_the_page_says_what_to_install() -> None:
    """A page without charts is whole otherwise."""
    page = render_html(build_document(analyses.quick()))
    assert "pip install altair vl-convert-python" in page
    assert "One-second rates of 36 runs" in page
    parsed(page)


@pytest.mark.slow
def test_a_report_needs_no_altair() -> None:
    """It is an extra, and slow to import: only a chart that is drawn takes it."""
    words = "import sys; sys.modules['altair'] = None; import steelyard.cli.launching"
    words += ", steelyard.cli.campaigns, steelyard.report.html, steelyard.answers.report"
    subprocess.run([sys.executable, "-c", words], check=True)


def test_the_style_sheet_knows_the_inks_of_the_charts() -> None:
    """In the dark the inks are swapped by their exact value, so both sides must agree."""
    page = render_html(build_document(analyses.failed_early()))
    for ink in (charts.INK, charts.MUTED):
        assert f'.chart [fill="{ink}"]' in page
    for line in (charts.GRID, charts.INK, charts.BASELINE):
        assert f'.chart [stroke="{line}"]' in page


def test_a_campaign_without_blocks_draws_nothing() -> None:
    """No empty chart stands in a report of nothing."""
    page = render_html(build_document(analyses.failed_early()))
    assert "<figure" not in page
    assert "refused to start" in page


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_a_percent_sign_stays_with_its_number(scene: Callable[[], CampaignAnalysis]) -> None:
    """In every text, also of tables, findings and notes; a command is copied as it is."""
    page = re.sub(r"(?s)<(svg|code).*?</\1>", "", render_html(build_document(scene())))
    assert "\N{NO-BREAK SPACE}%" in page or scene is analyses.failed_early
    assert not re.search(r"[0-9] %", page)
    command = Section(anchor="c", title="c", blocks=(Command(text="echo '3 %'"),))
    document = Document(title="t", subtitle="s", sections=(command,))
    assert "echo &#39;3 %&#39;" in render_html(document)


@pytest.mark.parametrize(("blocks", "many"), [(8, True), (5, True), (5, False)])
def test_a_verdict_of_few_blocks_has_its_reason_without_an_interval(
    blocks: int, *, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one side has many times over is said as a median; else how many blocks it takes."""
    analysis = analysis_of("quick")
    known = analysis.answer(campaign_reasons)
    assert known is not None
    changes = [
        replace(
            change,
            costs=tuple(
                replace(each, blocks=blocks, clear=each.clear and blocks == 8)
                for each in change.costs
                if many or each.cost is not Cost.PAGES_READ
            ),
        )
        for change in known.ledger.changes
    ]
    ledger, budget = known.ledger, replace(known.budget, changes=())
    few = replace(known, ledger=replace(ledger, changes=tuple(changes)), budget=budget)
    monkeypatch.setattr(CampaignAnalysis, "answer", lambda *_: few)
    said = why(analysis, replace(analysis.results[0], blocks=blocks))
    pages = f"1.59 pages per {ONE} came from the operating system under small, none under large"
    expected = {
        (8, True): pages,
        (5, True): f"{pages} (5 blocks, no interval)",
        (5, False): "reasons need 6 blocks",
    }
    assert said == expected[blocks, many]
