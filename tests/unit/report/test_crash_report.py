"""A crash test as a document: its table, and what must not be overlooked."""

from dataclasses import replace

from fakes.crashes import ALWAYS, EVERYSEC, NO, OFF, a_crash, a_test
from steelyard.answers.crashes import crash_document, crash_json, crash_summaries
from steelyard.core.crash import CrashTest
from steelyard.core.redis import Death
from steelyard.report.html import render_html, render_markdown


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
