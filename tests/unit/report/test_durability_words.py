"""Durability and crash tests in reports: what is promised, what was lost, what nobody may miss."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes import durable
from fakes.analyses import quick
from fakes.crashes import ALWAYS, EVERYSEC, NO, OFF, a_crash, a_test
from steelyard.answers.crashes import crash_document, crash_json, crash_summaries
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.report import Listed, build_document, listing_document, listing_json, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.cli.progress import standing
from steelyard.core.crash import CrashMode, CrashTest
from steelyard.core.findings import Finding, Severity, Verdict
from steelyard.core.redis import Death
from steelyard.report.document import BulletList, Section, Tone, VerdictCard, VerdictCards
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
    assert f", but fitted {LOSES}; {quick().blocks} blocks" in told.sentence


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
    text = render_terminal(listing_document(listed, "here"), 200)
    assert "reads fitted: faster, less durable" in text
    assert "durability_traded" in json.dumps(listing_json(listed))
    assert standing(analysis.results[0]).endswith("interim: faster, less durable")


PLAIN = re.compile(r"(?<!the )\bfaster\b(?!, less durable)")  # "the faster server" is nobody


@pytest.mark.parametrize("form", [render_markdown, lambda document: render_terminal(document, 500)])
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
OTHER = found("drift", Severity.WARNING, "rates fell")
BROKEN = found("broken", Severity.ERROR, "nothing was measured")


@pytest.mark.parametrize(
    ("findings", "first"),
    [
        ((THROWN, TRADED), ("fitted: fsync", "some tries")),
        ((THROWN, TRADED, BROKEN, OTHER), ("nothing was", "fitted: fsync", "some tries")),
        ((THROWN,), ("some tries",)),
    ],
)
def test_three_findings_stand_before_the_use(
    findings: tuple[Finding, ...], first: tuple[str, ...]
) -> None:
    """Errors, then what may lose data, then the others; and how many of these are left."""
    analysis = replace(quick(), findings=findings)
    told = render_markdown(build_document(analysis)).partition("**Before you use this")[2].strip()
    lead, *lines = told.partition("\n\n#")[0].strip().split("\n")
    assert lead == ("(1 more in the report, under Warnings)**" if len(findings) > 3 else "**")
    bullets = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    assert len(bullets) == len(first)
    assert all(each.startswith(start) for each, start in zip(bullets, first, strict=True))


@pytest.mark.usefixtures("undrawn")
def test_a_bullet_links_to_its_finding() -> None:
    """In HTML one click leads there, and the anchor exists once."""
    page = render_html(build_document(replace(quick(), findings=(THROWN, TRADED))))
    assert re.search(r'<li>fitted: fsync[^<]*<a href="#finding-1">more', page)
    anchor = page.index('id="finding-1"')
    assert page.count('id="finding-1"') == 1
    assert page.index("fitted: fsync", anchor) < page.index('id="finding-2"')
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\bid="([^"]+)"', page))


def section(analysis: CampaignAnalysis) -> Section:
    """Return the section of a report."""
    document = build_document(analysis)
    return next(each for each in document.sections if each.anchor == "durability")


def test_reasons_are_told_once_for_configurations_that_are_alike() -> None:
    """Two configurations of which the same is to be said share a list; no failure is left out."""
    analysis = durable.high_availability()
    local = analysis.answer(campaign_durability)[0]
    twice = analysis.with_answer(
        campaign_durability, (local, replace(local, configuration="again"))
    )
    lists = [each for each in section(twice).blocks if isinstance(each, BulletList)]
    assert [each.lead for each in lists] == ["local and again"]
    told = " ".join(lists[0].items)
    for loss in ("server killed", "power lost", "node lost", "disk lost", "site lost"):
        assert told.count(loss) == 1
    assert len([each for each in section(analysis).blocks if isinstance(each, BulletList)]) == 4


def test_without_a_workload_that_writes_there_is_no_word_on_latency() -> None:
    """Then the table holds failures alone."""
    analysis = durable.high_availability()
    reading = tuple(replace(each, latencies=()) for each in analysis.answer(campaign_durability))
    text = render_markdown(build_document(analysis.with_answer(campaign_durability, reading)))
    assert "| configuration | server killed |" in text
    assert "Latencies are" not in text


def test_a_latency_that_was_not_measured_is_null() -> None:
    """The latency is null where nothing was measured."""
    analysis = durable.high_availability()
    unmeasured = tuple(
        replace(each, latencies=tuple(replace(x, mean_s=None) for x in each.latencies))
        for each in analysis.answer(campaign_durability)
    )
    empty = json.loads(json.dumps(summary(analysis.with_answer(campaign_durability, unmeasured))))
    assert empty["durability"][0]["write_latency"][0]["mean_s"] is None


def _text(test: CrashTest) -> str:
    return render_markdown(crash_document(test, crash_summaries(test)))


def test_a_row_says_all_there_is() -> None:
    """Losses with their interval, the worst, the seconds, the chance and the promise in one row."""
    row = "| everysec | 20 | 20 | 1,000 | 105 [60, 150] | 200 | 0.21 [0.12, 0.30] | 0.40 | 100 % |"
    text = _text(a_test(*[a_crash(EVERYSEC, 10 * (n + 1)) for n in range(20)]))
    assert f"{row} 2 s of writes |" in text


def test_a_kill_says_that_it_shows_little() -> None:
    """Who sees no loss after kills is told that the cache lived on, and no cut's caveat."""
    text = _text(a_test(a_crash(NO, death=Death.KILL)))
    assert "The kernel and its cache live on" in text
    assert "A loop device" not in text


def test_a_cut_says_what_it_does_not_model() -> None:
    """Disks that lie about flushes lose more than a loop device shows."""
    assert "disks that answer a flush before they have it" in _text(a_test(a_crash(NO, 900)))


def test_no_loss_without_a_control_is_doubted() -> None:
    """Nothing lost counts only beside cuts that are known to cut; kill-like losses are none."""
    doubt = "find such a loss is not shown"
    assert doubt in _text(a_test(a_crash(ALWAYS)))
    assert doubt in _text(a_test(a_crash(ALWAYS), a_crash(OFF, 1000)))
    assert doubt not in _text(a_test(a_crash(ALWAYS), a_crash(NO, 900)))


def test_a_broken_promise_is_an_error_in_words() -> None:
    """It is marked in every rendering and in the JSON."""
    test = a_test(a_crash(ALWAYS, 3), a_crash(NO, 900))
    sentence = "always promises that nothing is lost, and 1 of 1 crashes lost something"
    assert f"**Attention:** {sentence}" in _text(test)
    assert sentence in render_html(crash_document(test, crash_summaries(test)))
    assert crash_json(crash_summaries(test))["broken"] is True
    assert crash_json(crash_summaries(a_test(a_crash(NO, 900))))["broken"] is False


def test_a_server_that_did_not_come_back_is_quoted() -> None:
    """Its words are in the report, beside how often."""
    text = _text(a_test(a_crash(NO, 1000, unusable="Bad file format"), a_crash(NO, 900)))
    assert "After 1 of 2 crashes of no the server did not come back" in text
    assert "Bad file format" in text


def test_a_loss_of_the_whole_load_is_called_so() -> None:
    """Its seconds are those of the load: a longer one would lose more."""
    assert "a longer load would lose more" in _text(a_test(a_crash(NO, 1000)))
    assert "a longer load would lose more" not in _text(a_test(a_crash(NO, 900)))


def test_what_was_asked_is_told() -> None:
    """Settings of each mode, also empty ones, the seed, and that it was ended early."""
    text = _text(replace(a_test(a_crash(OFF, 1000)), interrupted=True))
    assert "appendonly no, save (empty)" in text
    assert "seed 1, ended before its time" in text


def test_what_does_not_count_is_told() -> None:
    """Answers that came while the cut was under way are no promise, and are named all the same."""
    text = _text(a_test(a_crash(ALWAYS, late_lost=3), a_crash(NO, 900)))
    assert "always 3, of which 3 are gone" in text
    assert "**Attention:**" not in text


def test_each_cut_is_its_own_control() -> None:
    """Nothing lost counts where each of these cuts took what was not flushed, whoever is beside."""
    cut = replace(a_crash(ALWAYS), took_unflushed=True, window_s=0.0042)
    text = _text(a_test(cut, cut))
    assert "in cuts each of which took a file with it" in text
    assert "is not shown" not in text
    assert "The call that cuts took 4.2 ms at most" in text
    doubted = _text(a_test(cut, replace(cut, took_unflushed=False), a_crash(NO, 900)))
    assert "outlived 1 of 2 cuts: these did not cut" in doubted
    assert "in cuts each of which" not in doubted


SPLIT = CrashMode(name="split", settings=OFF.settings, replica=(("appendonly", "yes"),))


def taken(*behind: int | None) -> CrashTest:
    """Return a test of deaths before which a replica was so far behind."""
    crashes = [replace(a_crash(SPLIT, death=Death.KILL), behind_bytes=each) for each in behind]
    return a_test(*crashes, modes=(SPLIT,))


def text_of(test: CrashTest) -> str:
    """Return the report in one line."""
    return " ".join(render_markdown(crash_document(test, crash_summaries(test))).split())


def test_no_time_bounds_what_a_replica_lacks() -> None:
    """The promise names the replica, no seconds and not everything; it is not broken."""
    (found,) = crash_summaries(taken(0))
    assert found.promised.words == "what the replica lacked"
    assert found.promised.most_s is None
    assert not found.is_broken
    assert not found.exceeds


def test_the_worst_lag_is_told_with_what_it_is_of() -> None:
    """The most of all crashes, how many were seen, and the replica's own settings."""
    text = text_of(taken(0, 3 * 1024**2, None))
    assert "behind by at most 3.0 MiB of the stream (the worst of 2 crashes)" in text
    assert "its replica: appendonly yes" in text


def test_a_cut_that_a_replica_does_not_feel_shows_nothing_of_the_cut() -> None:
    """Its disk was not cut: that nothing is lost is no sign that these cuts lose nothing."""
    kept = a_test(a_crash(SPLIT), a_crash(OFF, 1000), modes=(SPLIT, OFF))
    assert "split: nothing was lost, in cuts" not in text_of(kept)


def test_without_a_look_nothing_is_said_of_the_lag() -> None:
    """What nobody saw is not told as 0."""
    assert "behind by" not in text_of(taken(None))
    assert "behind by" not in text_of(a_test(a_crash(OFF, 1000, death=Death.KILL), modes=(OFF,)))
