"""Histories of campaigns: what makes one series, what is marked, what changed, what is left out."""

import json
import re
from dataclasses import replace

import pytest

from fakes import analyses, histories
from fakes.histories import STEP_AT, history, listed, on, stepped, with_effect
from steelyard.answers.history import history_document, history_json, history_of
from steelyard.answers.report import Listed
from steelyard.core.campaign import Status
from steelyard.core.wording import InputError
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal


def test_a_step_is_told_with_what_was_marked_there() -> None:
    """Both levels, about where, and the kernel that changed with it."""
    history = histories.history()
    assert {each.lineage.workload.name for each in history.series} == {"reads", "writes"}
    for series in history.series:
        (change,) = series.changes
        assert abs(change.place - STEP_AT) <= 1
        assert series.level_now == pytest.approx(0.05, abs=0.005)
        assert [bool(point.marks) for point in series.points].index(True) == STEP_AT
    told = render_terminal(history_document(history), 100, colour=False, whole=True)
    words = " ".join(told.split())
    assert re.search(r"Changed from \+[78]\.\d % to \+[45]\.\d % about campaign 1[678] ", words)
    assert "marked there: kernel: 6.1.0 x86_64 → 6.12.1 x86_64" in words


def test_levels_are_never_tested() -> None:
    """A machine twice as fast under the same effects is no change; its rates are in the table."""
    found = []
    for day, each in enumerate(stepped()[:STEP_AT] * 2):
        assert each.analysis is not None
        cells = tuple(
            replace(cell, tps=replace(cell.tps, value=cell.tps.value * (1 + (day >= STEP_AT))))
            for cell in each.analysis.cells
        )
        own = replace(each.analysis, cells=cells, campaign_id=str(day))
        found.append(replace(each, analysis=own))
    history = history_of(found, {})
    assert [series.changes for series in history.series] == [(), ()]
    levels = [point.levels for point in history.series[0].points]
    assert levels[0] is not None
    assert levels[STEP_AT] == tuple(2 * level for level in levels[0])


def test_another_machine_begins_another_series() -> None:
    """Other CPUs or memory: the effect may be another one for good reasons."""
    here = [listed(with_effect(0.05, day=day), str(day)) for day in range(3)]
    there = listed(on(with_effect(0.09, day=3), cpus="64 usable of 64"), "big")
    history = history_of([*here, there], {})
    assert sorted(len(each.points) for each in history.series) == [1, 1, 3, 3]


def test_other_work_of_the_same_name_begins_another_series() -> None:
    """A larger scale factor is another workload, whatever it is called."""
    one = with_effect(0.05)
    larger = tuple(replace(each, scale_factor=1000) for each in one.experiment.workloads)
    other = replace(one, experiment=replace(one.experiment, workloads=larger))
    history = history_of([listed(one, "one"), listed(other, "other")], {})
    assert [len(each.points) for each in history.series] == [1, 1, 1, 1]


def test_a_renamed_configuration_goes_on_with_its_series() -> None:
    """Names match, or are said to be the same."""
    one = with_effect(0.05)
    new = tuple(replace(each, configuration="renamed") for each in one.comparisons)
    both = [listed(one, "one"), listed(replace(one, comparisons=new), "two")]
    old = one.comparisons[0].configuration
    assert len(history_of(both, {}).series) == 4
    history = history_of(both, {"renamed": old})
    assert [each.lineage.configuration for each in history.series] == [old, old]
    assert [len(each.points) for each in history.series] == [2, 2]


def test_a_campaign_that_is_found_twice_counts_once() -> None:
    """A link to it, or a copy, is no further evidence of its level."""
    one = listed(with_effect(0.05), "one")
    copied = replace(one, directory="elsewhere/one")
    history = history_of([one, copied, listed(with_effect(0.06, day=1), "two")], {})
    assert history.campaigns == 2
    assert [len(each.points) for each in history.series] == [2, 2]
    assert history.left_out == (
        "elsewhere/one: the same campaign as campaigns/one, which counts once",
    )


def test_two_configurations_of_a_campaign_do_not_become_one() -> None:
    """Nothing is compared with itself, and no campaign stands twice in a series."""
    one = with_effect(0.05)
    result = next(each for each in one.comparisons if each.load is None)
    with pytest.raises(InputError, match="makes one of"):
        history_of([listed(one, "one")], {result.configuration: result.baseline})
    third = replace(result, configuration="third")
    both = replace(one, comparisons=(*one.comparisons, third))
    with pytest.raises(InputError, match=r"campaigns/one has both"):
        history_of([listed(both, "one")], {"third": result.configuration})
    swapped = {result.configuration: result.baseline, result.baseline: result.configuration}
    assert len(history_of([listed(one, "one")], swapped).series) == 2


def test_what_is_in_no_series_is_said_with_the_reason() -> None:
    """Damaged, unfinished, without an interval, or without a comparison."""
    running = replace(with_effect(0.1), status=Status.RUNNING)
    found = [
        Listed(directory="campaigns/broken", size_bytes=1, problem="line 3 is damaged"),
        listed(running, "running"),
        listed(analyses.failed_early(), "early"),
        listed(with_effect(0.1), "good"),
    ]
    history = history_of(found, {})
    assert history.campaigns == 1
    assert len(history.left_out) == 3
    assert "line 3 is damaged" in history.left_out[0]
    assert "not finished" in history.left_out[1]
    assert "Left out" in render_terminal(history_document(history), 80, colour=False, whole=True)


def test_what_was_measured_once_is_one_line() -> None:
    """With a count, whatever their number; programs get them all the same."""
    many = [listed(on(with_effect(0.05), cpus=f"{n} CPUs"), f"{n}") for n in range(1, 6)]
    found = history_of((*stepped(), *many), {})
    alone = [each for each in found.series if len(each.points) == 1]
    document = history_document(found)
    repeated = history_document(history())
    assert len(document.sections) == len(repeated.sections)
    text = render_markdown(document)
    assert text.count("measured once only") == 1
    assert f"{len(alone)} effects measured once only" in text
    assert not [each.points[0].directory for each in alone if each.points[0].directory in text]
    assert len(history_json(found)["series"]) == len(found.series)


def test_no_campaign_is_said() -> None:
    """An empty directory has no history, and no error."""
    document = history_document(history_of([], {}))
    assert "No series" in render_terminal(document, 80, colour=False, whole=True)


def test_programs_get_every_campaign_and_change() -> None:
    """The same numbers as the table, in per cent, without NaN."""
    made = history_json(histories.history())
    told = json.loads(json.dumps(made, allow_nan=False))
    series = told["series"][0]
    assert len(series["campaigns"]) == 30
    (change,) = series["changes"]
    assert change["before_percent"] == pytest.approx(8.0, abs=0.5)
    assert series["level_since"] == change["campaign"]


def test_the_page_has_a_chart_for_each_workload() -> None:
    """One file, a drawing for the reads and one for the writes, with the marks."""
    page = render_html(history_document(histories.history()))
    assert page.count("<svg") >= 2
    assert "history-1-title" in page
    assert "history-2-title" in page


def test_a_name_that_no_campaign_has_cannot_be_renamed() -> None:
    """It is refused with the names that there are; without campaigns nobody knows them."""
    one = with_effect(0.05)
    with pytest.raises(InputError, match="--as renames nosuch") as caught:
        history_of([listed(one, "one")], {"nosuch": "x"})
    assert one.comparisons[0].configuration in caught.value.hint
    assert history_of([], {"nosuch": "x"}).series == ()


def test_an_empty_history_says_where_it_looked() -> None:
    """The directories that were named, or the usual one."""
    document = history_document(history_of([], {}, ["nightly", "weekly"]))
    told = " ".join(render_terminal(document, 80, colour=False, whole=True).split())
    assert "below nightly, weekly no finished campaign" in told
