"""Forms of a report: numbers, verdict words, Markdown, the terminal, and summaries."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import analyses
from fakes.analyses import quick
from steelyard.answers import results
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis, Comparison
from steelyard.core.campaign import Status
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.schedule import Load
from steelyard.core.target import EndpointTarget
from steelyard.report import document
from steelyard.report import document as doc
from steelyard.report.html import escape, render_markdown, render_summary
from steelyard.report.terminal import render_table, render_terminal


def test_an_effect_carries_its_interval_and_unit() -> None:
    """Estimate and interval both have a sign and a percent sign."""
    estimate = Estimate(value=0.123, low=0.081, high=0.169)
    assert document.effect_value(estimate) == "+12.3 %"
    assert document.effect_interval(estimate) == "[+8.1 %, +16.9 %]"


@pytest.mark.parametrize(
    "estimate",
    [
        None,
        Estimate(value=0.1),
        Estimate(value=0.1, low=0.05),
        Estimate(value=0.1, low=-math.inf, high=0.2),
        Estimate(value=0.1, low=math.nan, high=0.2),
    ],
)
def test_half_an_interval_is_none(estimate: Estimate | None) -> None:
    """Without both finite bounds a dash stands where the interval would."""
    assert document.bounds(estimate) is None
    assert document.effect_interval(estimate) == document.MISSING


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_missing_is_a_dash_and_never_zero(value: float | None) -> None:
    """Rates and latencies that are not there are not 0."""
    assert document.rate(value) == document.MISSING
    assert document.milliseconds(value) == document.MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [(51234.4, "51,234"), (999.96, "1,000.0"), (812.35, "812.4"), (7.256, "7.26"), (0.0, "0.00")],
)
def test_rates_have_about_four_digits(value: float, text: str) -> None:
    """Digits follow the size of the rate."""
    assert document.rate(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000_157, "0.157"), (0.003_424, "3.42"), (0.0211, "21.1"), (1.25, "1,250")],
)
def test_latency_is_in_milliseconds(seconds: float, text: str) -> None:
    """Three significant digits, in ms."""
    assert document.milliseconds(seconds) == text


def test_times_are_utc() -> None:
    """The moment of a campaign does not depend on the reader's time zone."""
    assert document.utc(1_795_269_600.0) == "2026-11-21 14:00 UTC"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("done", "done."), ("done.", "done."), (" really? ", "really?"), ("", "")],
)
def test_a_sentence_has_one_full_stop(text: str, sentence: str) -> None:
    """Texts from elsewhere are joined without a doubled or a missing full stop."""
    assert document.ended(text) == sentence


@pytest.mark.parametrize(
    ("names", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")],
)
def test_names_are_listed_in_words(names: tuple[str, ...], text: str) -> None:
    """One to many names read as a sentence does."""
    assert document.enumeration(names) == text


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("in /var/tmp/endpoint-_x1y_ now", "in `/var/tmp/endpoint-_x1y_` now"),
        ("/mnt/_fast_: full.", "`/mnt/_fast_`: full."),
        ("of /proc/diskstats.", "of `/proc/diskstats`."),
        ("(/sys/class/net)", "(`/sys/class/net`)"),
        ("postgresql:///p?host=/t/_x&port=5", "`postgresql:///p?host=/t/_x&port=5`"),
        ("see https://www.example.org/a_b", "see https://www.example.org/a_b"),
        ("100 1/s and 50 reads/s", "100 1/s and 50 reads/s"),
        ("_emphasis_ and *stars*", r"\_emphasis\_ and \*stars\*"),
        ("/srv/a|b", r"`/srv/a`\|b"),
        ("/srv/a`b", r"`/srv/a`\`b"),
    ],
)
def test_paths_and_addresses_are_code_and_all_else_is_escaped(text: str, markdown: str) -> None:
    """What is copied is what was meant; nothing else in a text can format the page."""
    assert escape(text) == markdown


@given(st.text(alphabet="abz019_-", min_size=1, max_size=12))
def test_a_directory_of_any_name_stands_in_the_report_as_it_is(name: str) -> None:
    """Random names of temporary directories have underscores anywhere."""
    home = f"/srv/endpoint-{name}".rstrip("-")
    analysis = quick()
    first, second = analysis.experiment.configurations
    moved = replace(second, target=EndpointTarget(uri=f"postgresql:///postgres?host={home}&port=1"))
    experiment = replace(analysis.experiment, configurations=(first, moved))
    facts = (replace(analysis.facts[0], value=home),)
    told = render_markdown(build_document(replace(analysis, experiment=experiment, facts=facts)))
    assert f"`{home}`" in told


SCENES = [analyses.quick, analyses.same_twice, analyses.interrupted, analyses.hostile]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("scene", SCENES)
def test_no_line_is_wider_than_the_terminal(scene: object, width: int) -> None:
    """Spare columns go, headings break, and nothing overflows."""
    assert callable(scene)
    text = render_terminal(build_document(scene()), width)
    assert max(len(line) for line in text.split("\n")) <= width


def test_intervals_are_never_broken() -> None:
    """An interval stands on one line in every table."""
    text = render_terminal(build_document(analyses.many_loads()), 80)
    assert "[+10.6 %, +13.7 %]" in text
    assert "58,452 to 59,542" in text


def test_a_column_that_tells_rows_apart_stays() -> None:
    """A spare column goes where room is short, but not the only one that names its rows."""
    columns = (
        doc.Column(name="configuration"),
        doc.number_column("clients"),
        doc.Column(name="script", spare=True),
        *(doc.number_column(f"p{each}", "ms") for each in range(10, 20)),
        doc.Column(name="remark", spare=True),
    )
    numbers = tuple("12,345" for _ in range(10))
    rows = tuple(doc.Row(cells=("now", "4", name, *numbers, "x")) for name in ("q1.sql", "q3.sql"))
    table = doc.Table(title="Latency", columns=columns, rows=rows)
    for width in range(60, 130):
        text = render_table(table, width)
        assert "q1.sql" in text
        assert "q3.sql" in text
    assert "remark" not in render_table(table, 110)


def test_colour_only_when_asked() -> None:
    """Without colour there is no escape sequence; with colour the words are the same."""
    document = build_document(analyses.quick())
    assert "\x1b[" not in render_terminal(document, 100)
    assert "\x1b[1;32mfaster\x1b[0m" in render_terminal(document, 100, colour=True)


@pytest.mark.slow
@pytest.mark.parametrize("width", range(40, 121, 8))
def test_a_percent_sign_stays_with_its_number(width: int) -> None:
    """No line begins with the sign, or with what closes the bracket around it."""
    text = render_terminal(build_document(analyses.many_loads()), width)
    assert " %" in text
    assert not [line for line in text.split("\n") if line.lstrip().startswith("%")]
    assert "\ue000" not in text


def test_what_is_missing_is_null() -> None:
    """NaN and infinity never reach the file, and half an interval is none."""
    analysis = analyses.quick()
    result, *rest = analysis.comparisons
    cell, *cells = analysis.cells
    odd = replace(
        analysis,
        comparisons=(replace(result, effect=Estimate(value=math.nan, low=0.1)), *rest),
        cells=(replace(cell, tps=Estimate(value=math.nan), latency_mean_s=None), *cells),
    )
    made = json.loads(json.dumps(summary(odd), allow_nan=False))
    assert made["comparisons"][0]["effect_percent"] is None
    assert made["comparisons"][0]["low_percent"] is None
    assert made["cells"][0]["tps"] == {"estimate": None, "low": None, "high": None}
    assert made["cells"][0]["latency_mean_s"] is None


def lines_of(analysis: CampaignAnalysis) -> list[str]:
    """Return the lines of a summary that have a text."""
    return [line for line in render_summary(build_document(analysis)).splitlines() if line]


@pytest.mark.parametrize("analysis", [analyses.quick(), analyses.in_turns()])
def test_it_has_the_verdicts_and_ten_lines(analysis: CampaignAnalysis) -> None:
    """Title, place, a line per verdict and per load, and what to read before relying on it."""
    lines = lines_of(analysis)
    assert lines[0].startswith(f"**{analysis.experiment.name}**: ")
    for result in analysis.results:
        assert sum(line.startswith(f"- **{result.workload}, ") for line in lines) == 1
    assert len(lines) < 10
    assert not any(line.startswith(("#", "|")) for line in lines)


def test_a_campaign_without_a_verdict_says_so() -> None:
    """In its own words, not by an empty text."""
    assert any("No verdict" in line for line in lines_of(analyses.failed_early()))


def test_of_a_long_ranking_the_best_are_shown() -> None:
    """The others are counted."""
    rows = tuple(doc.Row(cells=(str(place), f"c{place}")) for place in range(1, 22))
    columns = (doc.Column(name="rank"), doc.Column(name="configuration"))
    ranking = doc.Table(title="reads", columns=columns, rows=rows, note="how to read it")
    told = replace(ranking, title="writes", gist="c1 is ahead.")
    text = summary_of(doc.VerdictCards(cards=(), rankings=(ranking, told)))
    assert text.splitlines()[2:] == [
        "- reads: a table of 21 rows, in the report.",
        "- c1 is ahead.",
    ]


def summary_of(*blocks: doc.Block) -> str:
    """Return the summary of a report that has these blocks first."""
    section = doc.Section(anchor="verdicts", title="Verdicts", blocks=blocks, first=True)
    return render_summary(doc.Document(title="t", subtitle="s", sections=(section,)))


@pytest.mark.parametrize(("answers", "remarks"), [(40, 1), (2, 30), (30, 30), (9, 0), (0, 40)])
def test_what_has_no_room_is_counted(answers: int, remarks: int) -> None:
    """Ten lines, the gravest remark among them, and nothing is dropped in silence."""
    cards = doc.KeyValues(title="", pairs=tuple((f"r{n}", "faster") for n in range(answers)))
    notes = [doc.Paragraph(text=f"passed {n}", tone=doc.Tone.GOOD) for n in range(1, remarks)]
    failed = [doc.Paragraph(text="failed", tone=doc.Tone.ERROR)] if remarks else []
    lines = summary_of(cards, *notes, *failed).splitlines()
    assert len(lines) == 10
    assert (sum("failed" in line for line in lines)) == len(failed)
    shown = sum(line.startswith("- ") and not line.startswith("- and ") for line in lines)
    assert f"- and {answers + remarks - shown} more, in the report" in lines


def test_rates_stand_beside_their_verdict_where_lines_are_short() -> None:
    """Below it where there is room."""
    for many, below in ((3, True), (6, False)):
        lists = [doc.BulletList(lead=f"r{n}", items=("8 clients",)) for n in range(many)]
        lines = summary_of(*lists).splitlines()
        assert ("  - 8 clients" in lines) is below
        assert ("- r0; 8 clients" in lines) is not below


FASTER = Comparison(
    baseline="default",
    configuration="fitted",
    workload="reads",
    load=None,
    effect=Estimate(value=0.123, low=0.081, high=0.169),
    verdict=Verdict.FASTER,
    blocks=9,
    level=0.01,
    contrasts=(),
)
SLOWER = replace(
    FASTER, verdict=Verdict.SLOWER, effect=Estimate(value=-0.04, low=-0.051, high=-0.029)
)
EQUAL = replace(
    FASTER, verdict=Verdict.EQUIVALENT, effect=Estimate(value=0.002, low=-0.006, high=0.008)
)
TINY = replace(
    FASTER, no_practical_weight=True, effect=Estimate(value=0.006, low=0.002, high=0.009)
)
OPEN = replace(
    FASTER,
    verdict=Verdict.NO_CLEAR_DIFFERENCE,
    effect=Estimate(value=0.006, low=-0.011, high=0.024),
    minutes_to_decide=14.2,
)


@pytest.fixture
def full() -> CampaignAnalysis:
    """Return a campaign that used its whole budget."""
    return replace(analyses.quick(), status=Status.BUDGET)


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (
            FASTER,
            (
                "reads, fitted vs default (baseline): faster, +8.1 % to +16.9 % (95 %), estimate"
                " +12.3 %; 9 blocks"
            ),
        ),
        (
            SLOWER,
            (
                "reads, fitted vs default (baseline): slower, -5.1 % to -2.9 % (95 %), estimate"
                " -4.0 %; 9 blocks"
            ),
        ),
        (
            EQUAL,
            (
                "reads, fitted vs default (baseline): equivalent within 1 %, -0.60 % to +0.80 %"
                " (95 %), estimate +0.20 %; 9 blocks"
            ),
        ),
        (
            TINY,
            (
                "reads, fitted vs default (baseline): faster, by less than 1 %, +0.20 % to"
                " +0.90 % (95 %), estimate +0.60 %; 9 blocks"
            ),
        ),
        (
            OPEN,
            (
                "reads, fitted vs default (baseline): no clear difference, -1.1 % to +2.4 %"
                " (95 %), estimate +0.60 %; about 14 more minutes would decide 3 %; 9 blocks"
            ),
        ),
    ],
)
def test_a_verdict_is_one_sentence(
    full: CampaignAnalysis, comparison: Comparison, sentence: str
) -> None:
    """Word, effect, interval, confidence and blocks stand in one sentence."""
    assert results.verdict_sentence(full, comparison) == sentence


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.PRECISION, Status.BUDGET])
def test_only_a_verdict_stops_early(status: Status) -> None:
    """An end that did not depend on the effect does not bias it."""
    assert not results.stopped_early(replace(analyses.quick(), status=status))


def test_a_decision_at_the_last_look_is_not_early() -> None:
    """A campaign that used all its blocks did not stop early."""
    analysis = analyses.quick()
    assert analysis.plan is not None
    assert not results.stopped_early(replace(analysis, blocks=analysis.plan.stopping.max_blocks))


def test_an_effect_that_depends_on_load_without_cells_points_to_them() -> None:
    """Even when no cell has an interval yet, no single number stands for all."""
    analysis = replace(analyses.many_loads(), comparisons=())
    sentence = results.verdict_sentence(analysis, replace(FASTER, depends_on_load=True))
    assert "see the loads" in sentence


def test_before_the_first_look_there_is_no_verdict(full: CampaignAnalysis) -> None:
    """An estimate without interval is called what it is."""
    early = replace(
        FASTER, effect=Estimate(value=0.1), note="3 blocks; the first interim result is at 6"
    )
    assert results.verdict_sentence(full, early) == (
        "reads, fitted vs default (baseline): no verdict yet, 3 blocks; the first interim result is"
        " at 6; +10.0 % so far, without an interval"
    )
    assert results.verdict_word(early, 0.01) == "no verdict yet"


def test_before_any_block_nothing_is_measured(full: CampaignAnalysis) -> None:
    """No block, no number."""
    assert results.pending(replace(FASTER, effect=None)) == "no block is complete"


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (14.2, "about 14 more minutes would decide 3 %"),
        (0.4, "about 1 more minute would decide 3 %"),
        (200.0, "about 3 h 20 min more would decide 3 %"),
        (1061.0, "about 18 h more would decide 3 %"),
        (None, ""),
    ],
)
def test_more_time(minutes: float | None, text: str) -> None:
    """The time that would decide is said in minutes, from two hours on in hours."""
    assert results.more_minutes(replace(OPEN, minutes_to_decide=minutes), 0.03) == text


@pytest.mark.parametrize(
    ("status", "blocks", "text"),
    [
        (Status.DECIDED, 9, "decided, stopped early, after 9 of at most 24 blocks"),
        (Status.DECIDED, 24, "decided, after all 24 blocks"),
        (Status.BUDGET, 20, "budget of 6 min used up, after 20 blocks"),
        (Status.INTERRUPTED, 3, "interrupted, after 3 of at most 24 blocks"),
        (Status.RUNNING, 3, "not finished, after 3 of at most 24 blocks"),
        (Status.FAILED, 0, "failed before the first block was complete"),
    ],
)
def test_how_it_ended(status: Status, blocks: int, text: str) -> None:
    """Every way to end has its words."""
    assert results.ending(replace(analyses.quick(), status=status, blocks=blocks)) == text


def test_the_asked_precision_is_named() -> None:
    """A campaign that ended at its half-width says which."""
    analysis = analyses.quick()
    stop = replace(analysis.experiment.stop, width=0.015)
    experiment = replace(analysis.experiment, stop=stop)
    ended = replace(analysis, status=Status.PRECISION, experiment=experiment)
    assert results.ending(ended).startswith("asked half-width of ±1.5 % reached, after 9")


def test_threads_are_named_only_where_clients_do_not_tell_loads_apart() -> None:
    """Two loads with as many clients differ by their threads."""
    experiment = analyses.quick().experiment
    both = replace(experiment, loads=(Load(clients=8, threads=1), Load(clients=8, threads=4)))
    assert results.cell_name(experiment, experiment.loads[0]) == "8 clients"
    assert results.cell_name(both, both.loads[1]) == "8 clients, 4 threads"
    assert results.short_load(both, both.loads[0]) == "8 (1 thread)"
    assert results.short_load(both, Load(clients=2, threads=1, rate_per_s=500.0)) == "2 at 500/s"
