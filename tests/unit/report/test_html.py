"""The HTML report: one file, no network, no script, well nested, nothing unescaped."""

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from fakes import analyses
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.report import charts
from steelyard.report.document import Command, Document, Section
from steelyard.report.html import render_html

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
    assert page.index("<h1>") < page.index('class="card good"') < page.index("<nav")
    assert page.count("<article") == 2
    card = page[page.index("<article") : page.index("</article>")]
    assert card.index("+6.5\N{NO-BREAK SPACE}% to +15.6") < card.index("estimate +10.9")
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
