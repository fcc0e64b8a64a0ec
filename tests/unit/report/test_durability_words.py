"""No verdict that is bought with durability reads like one that is not, wherever it is shown."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes import durable
from fakes.analyses import quick
from steelyard.answers.report import Listed, build_document, listing_document, listing_json
from steelyard.answers.results import CampaignAnalysis
from steelyard.cli.progress import standing
from steelyard.core.findings import Finding, Severity, Verdict
from steelyard.report.document import Tone, VerdictCard, VerdictCards
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal
from support.examples import report_of

LAZY = {"synchronous_commit": "off"}
LOSES = "may lose committed transactions after a crash (synchronous_commit = off)"


def turned(analysis: CampaignAnalysis, **changes: object) -> CampaignAnalysis:
    """Return the campaign with all its comparisons changed alike."""
    told = tuple(replace(c, **changes) for c in analysis.comparisons)
    return replace(analysis, comparisons=told)


def card(analysis: CampaignAnalysis) -> VerdictCard:
    """Return the first card of its report."""
    block = build_document(analysis).sections[0].blocks[0]
    assert isinstance(block, VerdictCards)
    return block.cards[0]


def test_a_faster_side_that_keeps_less_has_a_word_a_tone_and_a_sentence_of_its_own() -> None:
    """It is not plainly faster, and who reads only the card or only the sentence knows why."""
    told = card(durable.traded(fitted=LAZY))
    assert told.word == "faster, less durable"
    assert told.tone is Tone.WARNING
    assert told.price == f"but fitted {LOSES}"
    assert f", but fitted {LOSES}, {quick().blocks} blocks" in told.sentence


def test_a_slower_side_that_keeps_more_is_not_plainly_slower() -> None:
    """The speed of the baseline is what was bought."""
    analysis = turned(durable.traded(default=LAZY), verdict=Verdict.SLOWER)
    told = card(analysis)
    assert told.word == "slower, more durable"
    assert told.tone is Tone.WARNING
    assert told.price == f"but default pays for its speed with durability: it {LOSES}"
    assert told.price in told.sentence


@pytest.mark.parametrize(
    ("weak", "verdict", "word", "tone"),
    [
        ("default", Verdict.FASTER, "faster, more durable", Tone.GOOD),
        ("fitted", Verdict.SLOWER, "slower, less durable", Tone.BAD),
        ("fitted", Verdict.EQUIVALENT, "equivalent within 1 %, less durable", Tone.WARNING),
        ("default", Verdict.EQUIVALENT, "equivalent within 1 %, more durable", Tone.EVEN),
        ("fitted", Verdict.NO_CLEAR_DIFFERENCE, "no clear difference, less durable", Tone.WARNING),
        ("default", Verdict.NO_CLEAR_DIFFERENCE, "no clear difference", Tone.OPEN),
    ],
)
def test_what_the_other_verdicts_say(weak: str, verdict: Verdict, word: str, tone: Tone) -> None:
    """What is worse or better in both ways keeps its tone; a danger is told without a verdict."""
    told = card(turned(durable.traded(**{weak: LAZY}), verdict=verdict))
    assert (told.word, told.tone) == (word, tone)
    assert (LOSES in told.sentence) is (LOSES in told.price) is ("durable" in word)


def test_an_effect_that_depends_on_load_is_told_with_its_price() -> None:
    """Also where there is no single number."""
    analysis = turned(durable.traded(fitted=LAZY), depends_on_load=True)
    told = card(analysis)
    assert (told.word, told.tone) == ("depends on load, less durable", Tone.WARNING)
    assert LOSES in told.sentence


@pytest.mark.usefixtures("undrawn")
def test_every_rendering_of_the_report_says_it() -> None:
    """In words, and where there is colour in another one than that of a plain verdict."""
    analysis = durable.traded(fitted=LAZY)
    document = build_document(analysis)
    assert LOSES in render_markdown(document)
    page = render_html(document)
    assert '<article class="card warning">' in page
    assert '<span class="word">faster, less durable</span>' in page
    assert f'<p class="price">but fitted {LOSES}</p>' in page
    assert '<article class="card good">' not in page
    coloured = render_terminal(document, 200, colour=True)
    assert "\x1b[1;33mfaster\x1b[0m" in coloured
    assert f"\x1b[1;33mbut fitted {LOSES}\x1b[0m" in coloured
    assert "\x1b[1;32m" not in coloured


def test_a_list_of_campaigns_and_a_look_say_it() -> None:
    """Nobody takes a configuration for plainly faster from a line of progress or of a list."""
    analysis = durable.traded(fitted=LAZY)
    listed = (Listed(directory="one", size_bytes=1, analysis=analysis),)
    text = render_terminal(listing_document(listed, "here"), 200, whole=True)
    assert "reads fitted: faster, less durable" in text
    assert "durability_traded" in json.dumps(listing_json(listed))
    assert standing(analysis.results[0]).endswith("interim: faster, less durable")


PLAIN = re.compile(r"(?<!the )\bfaster\b(?!, less durable)")  # "the faster server" is nobody


@pytest.mark.parametrize(
    "form", [render_markdown, lambda document: render_terminal(document, 500, whole=True)]
)
def test_no_place_of_a_report_says_plainly_faster(form: Callable[[object], str]) -> None:
    """Every line of a kept report that calls the lazier side faster says what that may lose."""
    text = form(report_of("cause-commit"))
    lines = [line for line in text.split("\n") if PLAIN.search(line)]
    assert lines
    assert all("may lose committed transactions" in line for line in lines), lines


def found(code: str, severity: Severity, message: str) -> Finding:
    """Return a finding."""
    return Finding(
        code=code,
        severity=severity,
        subject="campaign",
        message=message,
        remedy="Know it.",
        source="here",
    )


THROWN = found("blocks-redone", Severity.WARNING, "some tries were thrown away")
TRADED = found("durability-traded", Severity.WARNING, "fitted: fsync gives up durability")
BROKEN = found("broken", Severity.ERROR, "nothing was measured")


@pytest.mark.parametrize(
    ("findings", "first"),
    [
        ((THROWN, TRADED), "2 findings to read before relying on this. The most severe: fitted:"),
        (
            (THROWN, TRADED, BROKEN),
            "3 findings to read before relying on this. The most severe: no",
        ),
        ((THROWN,), "1 finding to read before relying on this: some tries were thrown away."),
    ],
)
def test_the_banner_names_the_most_severe_finding(
    findings: tuple[Finding, ...], first: str
) -> None:
    """Errors, then what may lose data, then the others; and how many those are."""
    analysis = replace(quick(), findings=findings)
    banner = next(
        line for line in render_markdown(build_document(analysis)).split("\n") if "relying" in line
    )
    assert first in banner
    more = {1: "", 2: "1 more is under Findings.", 3: "2 more are under Findings."}
    assert banner.endswith(more[len(findings)] or "thrown away.")


@pytest.mark.usefixtures("undrawn")
def test_the_banner_links_to_the_finding_that_it_names() -> None:
    """In HTML one click leads there, and the anchor exists once."""
    page = render_html(build_document(replace(quick(), findings=(THROWN, TRADED))))
    assert re.search(r'<p class="remark warning"><a href="#finding-1">[^<]*2 findings', page)
    anchor = page.index('id="finding-1"')
    assert page.count('id="finding-1"') == 1
    assert page.index("fitted: fsync", anchor) < page.index('id="finding-2"')
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\bid="([^"]+)"', page))
