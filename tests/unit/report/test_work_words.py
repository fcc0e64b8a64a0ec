"""Words of a report: of the work, of listings, cells and waits; none is split."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache

import pytest

from fakes import analyses, latencies, open_loops, reasons, redis_campaigns, single_clients
from fakes.analyses import analysis_of, quick
from fakes.campaigns import an_experiment
from fakes.scenes import Scene
from steelyard.answers.reasons.section import Choice, explain_document, explain_json
from steelyard.answers.report import (
    Listed,
    _asked,
    build_document,
    campaign_document,
    short_verdicts,
    summary,
)
from steelyard.answers.result.method import method_section
from steelyard.answers.result.section import result_section
from steelyard.answers.results import CampaignAnalysis, verdict_sentence
from steelyard.answers.statements.section import (
    WAITS_TITLE,
    WaitCause,
    WaitReasoning,
    statement_section,
    wait_blocks,
    waits_of,
)
from steelyard.answers.tables import comparison_section
from steelyard.core import experiment as work_words
from steelyard.core.campaign import Status
from steelyard.core.experiment import Layer, Setting
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import Ceiling, CeilingKind, Load
from steelyard.core.wording import REDIS_WORDS
from steelyard.report.chart_specs import specification
from steelyard.report.document import (
    Axis,
    BulletList,
    Document,
    Figure,
    KeyValues,
    Table,
    filled,
)
from steelyard.report.html import render_html, render_markdown
from steelyard.report.keys import keys_of
from steelyard.report.terminal import render_terminal
from support.examples import CAMPAIGNS, report_of

_MARKS = re.compile("[\ue000-\uf8ff]")
# What Redis has not; the statement of where a rule comes from may name another's documentation.
_OF_POSTGRES = re.compile(
    r"transaction|\btps\b|pgbench(?!,)|vacuum|checkpoint|\bWAL\b|protocol simple", re.IGNORECASE
)


# Every kind of section is in one of them.
_SCENES: tuple[Callable[[], CampaignAnalysis], ...] = (
    analyses.many_loads,
    reasons.explained,
    latencies.tails,
    open_loops.with_rates,
    analyses.scalability,
    redis_campaigns.aof,
)


def _figures(document: Document) -> list[Figure]:
    blocks = [block for section in document.sections for block in section.every]
    return [block for block in blocks if isinstance(block, Figure)]


@pytest.mark.slow
@pytest.mark.parametrize("scene", _SCENES, ids=lambda scene: str(scene.__name__))
def test_no_mark_is_left_in_any_report(scene: Callable[[], CampaignAnalysis]) -> None:
    """Markdown, terminal, HTML, charts, reasons and JSON have words where texts had marks."""
    analysis = scene()
    document = build_document(analysis)
    charts = [specification(figure) for figure in _figures(document)]
    explained = render_markdown(explain_document(analysis, Choice()))
    json_text = json.dumps(summary(analysis), ensure_ascii=False)
    pages = [render_markdown(document), render_terminal(document, 100), render_html(document)]
    found = _MARKS.search("\n".join([*pages, *charts, explained, json_text]))
    assert found is None


def test_a_report_of_redis_speaks_of_requests() -> None:
    """Not a word of transactions, their rate, pgbench, vacuum or checkpoints."""
    analysis = redis_campaigns.aof()
    document = build_document(analysis)
    text = render_markdown(document) + render_terminal(document, 100)
    text += "".join(specification(figure) for figure in _figures(document))
    # The name of a column of numbers behind a chart.
    text = re.sub(r'"tps"|tps:Q|datum\.tps', "", text)
    told = [line for line in text.splitlines() if _OF_POSTGRES.search(line)]
    assert not told
    for words in (
        "Requests per second",
        "effect on ops/s",
        "| requests |",
    ):
        assert words in text


def _latency_table(analysis: CampaignAnalysis) -> tuple[str, Table]:
    (section,) = [s for s in build_document(analysis).sections if s.anchor == "latency"]
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return render_markdown(build_document(analysis)), tables[0]


def test_latencies_are_labelled_by_what_the_generator_tells() -> None:
    """redis-benchmark's tables are rounded and end at 3 s; pipelines have a label of their own."""
    analysis = redis_campaigns.aof()
    text, table = _latency_table(analysis)
    assert "Counts are exact, and p50, p95 and p99 are within 8 µs or 0.4 %" in text
    assert "first answer of a batch" not in text
    assert "each is within 0.4 % of that of its" not in table.note
    longest = [row.cells[-1] for row in table.rows]
    assert [cell.startswith("at least 3,000") for cell in longest] == [False, True] * 4
    experiment = analysis.experiment
    piped = (*experiment.loads, Load(clients=1, threads=1, pipeline=16))
    text, _ = _latency_table(replace(analysis, experiment=replace(experiment, loads=piped)))
    assert "first answer of a batch" in text


def test_words_fill_their_own_marks() -> None:
    """Every mark has a word of each engine, and what has no mark stays as it is."""
    marks = [getattr(work_words, name) for name in ("ONE", "MANY", "RATE", "GENERATOR")]
    told = filled(" ".join(marks), REDIS_WORDS)
    assert told == "request requests ops/s redis-benchmark"
    assert filled(("tps", 5, None), REDIS_WORDS) == ("tps", 5, None)


def test_an_empty_value_is_named() -> None:
    """A setting that is given as nothing does not read like a sentence that was cut off."""
    configuration = an_experiment().configurations[0]
    none = Setting(layer=Layer.REDIS, name="save", value="")
    assert _asked(replace(configuration, settings=(none,))).endswith("save = (empty)")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("status", [Status.RUNNING, Status.INTERRUPTED, Status.FAILED])
def test_a_verdict_before_the_end_is_called_interim(status: Status) -> None:
    """More blocks may change it: in a list, in full, on the card and in the sentence alike."""
    analysis = replace(quick(), status=status)
    listed = Listed(directory="one", size_bytes=1, held=True, analysis=analysis)
    assert short_verdicts(analysis).startswith("interim: reads fitted: faster")
    for document in (campaign_document(listed, analysis), build_document(analysis)):
        assert "reads, fitted vs default (baseline): faster" in " ".join(
            render_terminal(document, 300).split()
        )
    assert '<span class="word">interim: faster</span>' in render_html(build_document(analysis))
    assert "these are interim results after 9 blocks" in render_markdown(build_document(analysis))


@pytest.mark.parametrize("status", [Status.DECIDED, Status.BUDGET, Status.PRECISION])
def test_a_verdict_at_the_end_is_none_that_changes(status: Status) -> None:
    """The campaign is over: nothing is called interim any more."""
    analysis = replace(quick(), status=status)
    listed = Listed(directory="one", size_bytes=1, analysis=analysis)
    assert "interim" not in short_verdicts(analysis)
    document = campaign_document(listed, analysis)
    assert ", interim:" not in render_terminal(document, 300)
    assert ", interim:" not in render_markdown(build_document(analysis))
    assert "these are interim results" not in render_markdown(build_document(analysis))


def test_many_verdicts_of_a_campaign_are_told_together() -> None:
    """By workload and word; of three configurations with two workloads as few as can be."""
    analysis = quick()
    reads = analysis.results[0]
    names = ("one", "two", "three")
    results = [
        replace(reads, workload=workload, configuration=name)
        for workload in ("reads", "writes")
        for name in names
    ]
    results[1] = replace(results[1], verdict=Verdict.SLOWER)
    told = short_verdicts(replace(analysis, comparisons=tuple(results)))
    assert told == "reads faster: one, three; reads slower: two; writes faster: all 3"


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
    listed = [block for block in method_section(analysis).every if isinstance(block, KeyValues)]
    return {name: value for block in listed for name, value in block.pairs}


def test_eleven_cells_keep_the_false_discovery_rate() -> None:
    """The table's note and the method name the rule, and what it promises."""
    assert "11 cells (from block 8)" in note(over(11))
    assert "are wrong in 5 % of cases at most (false discovery rate)" in note(over(11))
    assert "the others have wider, simultaneous intervals" in note(over(11))
    assert rules(over(11))["cells"].startswith("11 per result: those called different by Benj")


def test_ten_cells_hold_together() -> None:
    """Up to ten the words are those of simultaneous intervals."""
    assert note(over(10)).startswith("Simultaneous intervals (from block 8)")
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


DRAWN = set(" ─│·━┿◆")


def texts(part: object) -> Iterator[str]:
    """Yield every text of a document; figures are not shown on a terminal."""
    if type(part) is str:
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from texts(each)
    elif isinstance(part, Axis):
        yield from map(part.label, part.ticks)
    elif is_dataclass(part) and not isinstance(part, Figure):
        for field in fields(part):
            yield from texts(getattr(part, field.name))


def words(text: str) -> set[str]:
    """Return the words of a text without what a sentence or a list puts around them."""
    return {word.strip(",;:()") for word in text.split() if not set(word) <= DRAWN}


@cache
def own_words(name: str) -> frozenset[str]:
    """Return the words of a kept example, with those of its chapters and of their details."""
    report = report_of(name)
    names = [*(each.title for each in report.parts), *(each.more_title for each in report.sections)]
    return frozenset().union(*(words(text) for text in (*texts(report), *names)))


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_number_and_no_word_is_split(name: str, width: int) -> None:
    """What stands in the terminal are words of the report, each whole, and no line overflows.

    But for a word that is longer than a line, such as a setting that lists many things.
    """
    own = own_words(name)
    text = render_terminal(report_of(name), width)
    assert max(len(line) for line in text.split("\n")) <= width
    lone = {word for word in own if len(word) >= width - 4}
    glue = {"", "-", *words("no difference of practical relevance interval and estimate why")}
    strange = {
        word
        for word in words(text) - own - glue
        if not any(word.strip("─") in long for long in lone)
    }
    assert strange == set()


WAITING = WaitReasoning(
    baseline="default",
    configuration="fitted",
    cause=WaitCause.WAITING,
    per_statement_s=Estimate(value=-1.0e-3, low=-1.1e-3, high=-0.9e-3),
    cpu_s=(-0.02e-3, 0.01e-3),
    run_queue_s=-0.3e-3,
)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (WAITING, "of which at most 2.0 % is CPU time, and -0.300 ms is the queue for a CPU"),
        (WAITING, "the network, and not distance of memory."),
        (
            replace(WAITING, cause=WaitCause.CPU, cpu_s=(-0.9e-3, -0.6e-3), run_queue_s=None),
            "of which 60.0 % to 90.0 % is CPU time; so it is mainly work of the CPU",
        ),
        (
            replace(WAITING, cause=WaitCause.BOTH, cpu_s=(-0.4e-3, -0.3e-3)),
            "so part of it is waiting, and part work",
        ),
        (
            replace(WAITING, cause=WaitCause.UNDECIDED, cpu_s=(-2.0e-3, 1.0e-3)),
            "so these runs do not tell whether it is waiting or work of the CPU",
        ),
        (
            replace(WAITING, one_node=True),
            "one memory node, so none of it is distance of memory, unless a hypervisor",
        ),
        (replace(WAITING, one_node=False), "and not distance of memory."),
        (
            replace(WAITING, cause=WaitCause.UNKNOWN, cpu_s=None, missing="no run was watched"),
            "how much of it is CPU time is not known (no run was watched).",
        ),
    ],
)
def test_each_cause_has_its_words(told: WaitReasoning, words: str) -> None:
    """With the share that CPU time can be at most, and the queue where it is known."""
    (block,) = wait_blocks((told,))
    assert words in block.items[0]
    assert block.items[0].startswith(
        "fitted vs default (baseline): each statement -1.00 [-1.10, -0.900]"
    )


def test_suspects_are_named_once_and_only_where_something_waits() -> None:
    """Two comparisons share a machine; where all is work of the CPU no wake-up is suspected."""
    told = replace(WAITING, suspects=("idle CPUs enter C6",))
    other = replace(told, configuration="other")
    _, suspects = wait_blocks((told, other))
    assert suspects.items == ("idle CPUs enter C6",)
    assert len(wait_blocks((replace(told, cause=WaitCause.CPU, cpu_s=(-0.9e-3, -0.6e-3)),))) == 1
    assert keys_of(told)["suspects"] == ["idle CPUs enter C6"]


def test_the_report_reasons_beside_the_fit() -> None:
    """A list of its own; none where no statement surely changed."""
    analysis = single_clients.statements().with_answer(waits_of, (WAITING,))
    (section,) = statement_section(analysis)
    leads = [block.lead for block in section.blocks if isinstance(block, BulletList)]
    assert sum(WAITS_TITLE in lead for lead in leads) == 1
    (plain,) = statement_section(single_clients.statements())
    assert not any(WAITS_TITLE in b.lead for b in plain.blocks if isinstance(b, BulletList))


def test_the_summary_has_the_reasoning_where_there_is_one() -> None:
    """Cause, range of CPU time and queue in seconds; the key is absent without a sure change."""
    told = summary(single_clients.statements().with_answer(waits_of, (WAITING,)))["statements"]
    assert isinstance(told, dict)
    assert told["waits"] == [
        {
            "baseline": "default",
            "configuration": "fitted",
            "cause": "waiting",
            "per_statement_s": {"estimate": -1.0e-3, "low": -1.1e-3, "high": -0.9e-3},
            "cpu_s": [-0.02e-3, 0.01e-3],
            "run_queue_s": -0.3e-3,
            "missing": None,
            "one_memory_node": None,
        }
    ]
    plain = summary(single_clients.statements())["statements"]
    assert isinstance(plain, dict)
    assert "waits" not in plain
    assert "statements" not in summary(analyses.quick())


def test_explain_has_a_section_of_its_own() -> None:
    """With the ping-pong of the place beside it; a chosen cell is not about all three scripts."""
    probe = Ceiling(kind=CeilingKind.PING_PONG, subject="two CPUs", latency_s=0.04e-3)
    analysis = replace(reasons.explained(), ceilings=(probe,)).with_answer(waits_of, (WAITING,))
    found = {section.anchor: section for section in explain_document(analysis, Choice()).sections}
    reasoning, apart = found["waits"].blocks
    assert isinstance(reasoning, BulletList)
    assert isinstance(apart, BulletList)
    assert apart.items == ("ping-pong of two processes, two CPUs: 0.040 ms",)
    assert list(found)[-1] == "watching"
    chosen = explain_document(analysis, Choice(workload="reads")).sections
    assert "waits" not in [section.anchor for section in chosen]
    plain = explain_document(reasons.explained(), Choice()).sections
    assert "waits" not in [section.anchor for section in plain]


def test_explain_tells_programs_too() -> None:
    """An empty list where there is nothing, also without evidence."""
    analysis = reasons.explained().with_answer(waits_of, (WAITING,))
    (told,) = explain_json(analysis, Choice())["waits"]  # type: ignore[misc, union-attr]
    assert told["cause"] == "waiting"  # type: ignore[call-overload, index]
    assert explain_json(reasons.explained(), Choice())["waits"] == []
    assert explain_json(analyses.quick(), Choice())["waits"] == []
