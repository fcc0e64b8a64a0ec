"""Charts: well-formed and honest; and capacity, rates and goal in a report."""

import json
import math
import re
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from altair.vegalite.v6.schema.core import load_schema
from jsonschema import Draft7Validator

from fakes import analyses, latencies, open_loops, reasons
from steelyard.answers.capacity.compute import Goal
from steelyard.answers.capacity.compute import open_loops as of_rates
from steelyard.answers.capacity.section import capacity_section, rate_answers
from steelyard.answers.report import build_document, summary
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.wording import POSTGRES_WORDS
from steelyard.report import charts
from steelyard.report.chart_specs import specification
from steelyard.report.charts import settle
from steelyard.report.document import ChartKind, Figure, Section, Table, filled
from steelyard.report.html import render_chart, render_html, render_markdown
from steelyard.report.terminal import render_terminal
from steelyard.stats.capacity import Reached

SVG = "{http://www.w3.org/2000/svg}"


def figures(analysis: CampaignAnalysis) -> dict[ChartKind, Figure]:
    """Return the figures of a report by their kind."""
    document = build_document(analysis)
    blocks = (block for section in document.sections for block in section.every)
    return {block.kind: block for block in blocks if isinstance(block, Figure)}


@pytest.mark.slow
def test_every_chart_is_a_titled_drawing() -> None:
    """Each is well-formed XML with title and description, and its ids carry its name."""
    drawn = figures(analyses.scalability()) | figures(analyses.noise_floor())
    drawn |= figures(reasons.explained()) | figures(latencies.tails())
    drawn |= figures(open_loops.with_rates())
    assert set(drawn) == set(ChartKind)
    for figure in drawn.values():
        root = ET.fromstring(render_chart(figure) or "")  # noqa: S314 - our own drawing
        assert root.findtext(f"{SVG}title") == figure.title
        assert root.findtext(f"{SVG}desc") == figure.alt
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert all(name and name.startswith(figure.identity) for name in ids)


_STEERING = "<&x\0\x07\x08\x1b\x7f\x9b\u202e\ufffe\uffff"


def _steered(figure: Figure) -> Figure:
    """Return a figure with such characters, and too many, in every text but its keys."""
    changed = {name: f"{name}{_STEERING}{'w' * 20_000}" for name in figure.configurations}
    rows = tuple(
        tuple(changed.get(v, f"{v}{_STEERING}") if isinstance(v, str) else v for v in row)
        for row in figure.rows
    )
    return replace(
        figure,
        title=figure.title + _STEERING,
        alt=figure.alt + _STEERING,
        rows=rows,
        configurations=tuple(changed[name] for name in figure.configurations),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ChartKind))
def test_whatever_a_text_holds_a_chart_is_valid_xml(kind: ChartKind) -> None:
    """The library ends the process for a control character, and draws a long text for minutes."""
    figure = next(each for each in _all_figures() if each.kind is kind)
    drawn = render_chart(_steered(figure)) or ""
    ET.fromstring(drawn)  # noqa: S314 - our own drawing
    assert "\\x1b" in drawn
    assert len(drawn) < 1_000_000


def _all_figures() -> list[Figure]:
    scenes = (
        *(analyses.scalability(), analyses.noise_floor(), reasons.explained()),
        *(latencies.tails(), open_loops.with_rates(), analyses.quick()),
    )
    return [figure for scene in scenes for figure in figures(scene).values()]


@pytest.mark.slow
def test_every_specification_is_one_of_vega_lite() -> None:
    """Altair checks nothing while it draws, because that takes long: it is checked here."""
    drawn = _all_figures()
    assert {figure.kind for figure in drawn} == set(ChartKind)
    known = Draft7Validator(load_schema())
    for figure in drawn:
        assert [
            error.message for error in known.iter_errors(json.loads(specification(figure)))
        ] == []


def test_a_chart_repeated_is_the_same() -> None:
    """The counter behind the drawing's ids leaves no trace."""
    figure = figures(analyses.quick())[ChartKind.EFFECTS]
    assert render_chart(figure) == render_chart(figure)


def test_without_the_packages_there_is_no_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """None says so; the page then names the extra."""
    monkeypatch.setattr(charts, "find_spec", lambda _: None)
    assert render_chart(figures(analyses.quick())[ChartKind.EFFECTS]) is None


@pytest.mark.parametrize("kind", list(ChartKind))
def test_workloads_never_share_an_axis(kind: ChartKind) -> None:
    """Every panel holds one workload, and its scales are its own."""
    scenes = {
        ChartKind.NOISE: analyses.noise_floor,
        ChartKind.WATERFALL: reasons.explained,
        ChartKind.TIMELINE: reasons.explained,
        ChartKind.LATENCY_TAIL: latencies.tails,
        ChartKind.LATENCY_OVER_TIME: latencies.tails,
        ChartKind.CAPACITY: open_loops.with_rates,
    }
    scene = scenes.get(kind, analyses.scalability)
    spec = json.loads(specification(figures(scene())[kind]))
    panels = spec.get("vconcat") or spec["concat"]
    assert spec["resolve"]["scale"]["y"] == "independent"
    assert spec["resolve"]["scale"]["x"] == "independent"
    for panel in panels:
        names = {part["data"]["name"] for part in (spec, panel, *panel["layer"]) if "data" in part}
        records = [record for name in names for record in spec["datasets"][name]]
        assert len({record["workload"] for record in records}) == 1


def test_the_strip_chart_stays_small() -> None:
    """A long campaign is thinned to every so many blocks, and the caption says so."""
    analysis = analyses.many_loads()
    runs = (replace(r, block=r.block + 14 * i) for i in range(5) for r in analysis.runs)
    many = replace(analysis, runs=tuple(runs))
    figure = figures(many)[ChartKind.STRIPS]
    assert "every 3rd is drawn" in figure.caption
    assert len(figure.rows) < 7000
    assert len(render_chart(figure) or "") < 200_000


def test_strips_fade_the_ramp_and_lift_the_pen_between_runs() -> None:
    """Seconds of the ramp are marked, and a row without rate stands before each run."""
    figure = figures(analyses.quick())[ChartKind.STRIPS]
    tps, ramp = figure.columns.index("tps"), figure.columns.index("ramp")
    assert sum(row[tps] is None for row in figure.rows) == 36
    assert sum(bool(row[ramp]) for row in figure.rows) == 2 * 36


def test_a_single_load_is_drawn_as_rows() -> None:
    """With one load there is no line over loads, and result and cell are not shown twice."""
    drawn = figures(analyses.quick())
    assert drawn[ChartKind.LOADS].title == "Transactions per second"
    assert len(drawn[ChartKind.EFFECTS].rows) == 2


def test_settling_renames_references_with_their_ids() -> None:
    """A clip path keeps its user when its id gets the chart's name."""
    drawn = '<svg viewBox="0 0 9 8"><g clip-path="url(#clip7)"/><clipPath id="clip7"/></svg>'
    settled = settle(drawn, identity="c", title="t", alt="a & b")
    assert 'clip-path="url(#c-0)"' in settled
    assert 'id="c-0"' in settled
    assert "a &amp; b" in settled
    assert 'viewBox="0 0 9 8"' in settled


def test_settling_touches_no_text() -> None:
    """Decimals are cut in geometry, never in what a reader reads."""
    drawn = '<svg viewBox="0 0 9 8"><path d="M1.23456,2"/><text class="x">1.23456</text></svg>'
    settled = settle(drawn, identity="c", title="t", alt="a")
    assert 'd="M1.23,2"' in settled
    assert "<text>1.23456</text>" in settled


@pytest.mark.parametrize(("loads", "aslant"), [(3, False), (13, True)])
def test_every_load_has_its_label(loads: int, aslant: bool) -> None:  # noqa: FBT001
    """Many loads stand aslant, so that none is left out for want of room."""
    figure = figures(analyses.many_loads())[ChartKind.LOADS]
    first = dict(zip(figure.columns, figure.rows[0], strict=True))
    rows = [
        {**first, "clients": f"{n} (4 threads)", "order": n, "place": float(n)}
        for n in range(loads)
    ]
    crowded = replace(figure, rows=tuple(tuple(row.values()) for row in rows))
    drawing = ET.fromstring(render_chart(crowded) or "")  # noqa: S314 - our own drawing
    texts = [element for element in drawing.iter(f"{SVG}text") if "thread" in (element.text or "")]
    assert [text.text for text in texts] == [row["clients"] for row in rows]
    turned = ["rotate" in text.get("transform", "") for text in texts]
    assert turned == [aslant] * loads


def test_a_single_run_is_not_counted() -> None:
    """One run's own strip has no numbers of runs below it."""
    figure = figures(analyses.quick())[ChartKind.STRIPS]
    run = figure.columns.index("run")
    alone = replace(figure, rows=tuple(row for row in figure.rows if row[run] == 1))
    labels = [_strip_labels(each) for each in (figure, alone)]
    assert labels == [True, False]


@pytest.mark.parametrize("runs", [2, 3])
def test_few_runs_are_counted_in_whole_numbers(runs: int) -> None:
    """Each number of a run stands once below its axis: no half is rounded to a neighbour."""
    strips = figures(analyses.quick())[ChartKind.STRIPS]
    panel = dict(zip(strips.columns, strips.rows[0], strict=True))
    counted = range(1, runs + 1)
    rates = tuple(tuple((panel | {"run": run, "at": run + 1.0}).values()) for run in counted)
    first = json.loads(specification(replace(strips, rows=rates)))["vconcat"][0]["layer"][0]
    assert first["encoding"]["x"]["axis"]["values"] == list(counted)


def test_a_run_of_one_second_is_seen() -> None:
    """A line of one point draws nothing: such a run is a dot."""
    figure = figures(analyses.quick())[ChartKind.STRIPS]
    row = dict(zip(figure.columns, figure.rows[0], strict=True)) | {"run": 1, "ramp": False}
    lifted = tuple((row | {"at": 1.0, "tps": None}).values())
    second = tuple((row | {"at": 2.0, "tps": 500.0}).values())
    drawn = [render_chart(replace(figure, rows=rows)) for rows in ((lifted, second), (lifted,))]
    assert [_dots(each or "") for each in drawn] == [1, 0]


def _dots(drawing: str) -> int:
    """Return how many round points a drawing has: nothing else in a strip is an arc."""
    root = ET.fromstring(drawing)  # noqa: S314 - our own drawing
    return sum("A" in path.get("d", "") for path in root.iter(f"{SVG}path"))


def _strip_labels(figure: Figure) -> bool:
    panel = json.loads(specification(figure))["vconcat"][0]
    labels: bool = panel["layer"][0]["encoding"]["x"]["axis"]["labels"]
    return labels


def test_throughput_over_clients_has_points_and_a_line_of_every_configuration() -> None:
    """Seven points and a line through them for each of the four, all with bounds."""
    figure = figures(analyses.scalability())[ChartKind.SCALABILITY]
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    assert sum(not row["line"] for row in rows) == 4 * 7
    assert sum(bool(row["line"]) for row in rows) == 4 * 7
    assert all(math.isfinite(row[end]) for row in rows for end in ("low", "high"))


def test_a_waterfall_begins_where_it_ends() -> None:
    """Each bar begins where the one before ended, and the last two meet."""
    figure = figures(reasons.explained())[ChartKind.WATERFALL]
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    writes = [row for row in rows if row["workload"] == "writes"]
    first, *moves, last = writes
    assert first["whole"]
    assert last["whole"]
    reached = first["end"]
    for move in moves:
        assert move["start"] == pytest.approx(reached, abs=2e-6)
        reached = move["end"]
    assert last["end"] == pytest.approx(reached, abs=2e-6)


def test_a_timeline_has_a_panel_for_every_configuration_and_track() -> None:
    """Both configurations stand side by side with one axis.

    The ramp and the checkpoint are marked.
    """
    figure = figures(reasons.explained())[ChartKind.TIMELINE]
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    panels: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        panels.setdefault((row["workload"], row["track"], row["configuration"]), []).append(row)
    assert len(panels) == 2 * 4 * 2
    for (workload, track, _), records in panels.items():
        assert {record["mark"] for record in records} == {"ramp", "value", "checkpoint"}
        tops = {
            records[0]["top"] for key, records in panels.items() if key[:2] == (workload, track)
        }
        assert len(tops) == 1


def test_no_configuration_has_the_colour_of_a_verdict_or_of_a_part() -> None:
    """Green is faster, orange slower, purple equivalent: no line of a configuration says so.

    So it is in the dark, too, and what seconds were spent on has tints of its own.
    """
    style = (Path(charts.__file__).parent / "templates" / "report.css").read_text("utf-8")
    verdicts = set(re.findall(r"--(?:good|bad|even|open|warning|error)(?:-mark)?: (#\w{6})", style))
    assert len(verdicts) > 10
    own = charts.colours(tuple("abcdefgh"))
    assert len(set(own)) == 8
    dark = dict(re.findall(r'\.chart \[stroke="(#\w{6})"\] { stroke: (#\w{6})', style))
    assert verdicts.isdisjoint(own)
    assert verdicts.isdisjoint(dark.get(colour, colour) for colour in own)
    parts = {charts.part_colour(name) for name in _PARTS}
    assert parts.isdisjoint({*own, *verdicts})


_PARTS = ("CPU", "data files", "WAL", "LWLock", "locks", "client", "server", "generator", "idle")


def test_a_configuration_has_one_colour_in_all_charts() -> None:
    """Every scale of configurations gives each the same colour; a timeline's rates have it, too."""
    for analysis in (reasons.explained(), latencies.tails()):
        own = dict(zip(analysis.names, charts.colours(analysis.names), strict=True))
        for figure in figures(analysis).values():
            spec = json.loads(specification(figure))
            panels = spec.get("vconcat") or spec["concat"]
            for encoding in (layer["encoding"] for panel in panels for layer in panel["layer"]):
                scale = encoding.get("color", {}).get("scale", {})
                drawn = dict(zip(scale.get("domain", ()), scale.get("range", ()), strict=True))
                assert {name: drawn[name] for name in own if name in drawn}.items() <= own.items()
    figure = figures(reasons.explained())[ChartKind.TIMELINE]
    rates = json.loads(specification(figure))["concat"][:2]
    assert [each["layer"][0]["encoding"]["color"]["value"] for each in rates] == charts.colours(
        figure.configurations
    )


def test_the_grid_of_a_timeline_holds_where_a_track_is_missing() -> None:
    """One configuration without waits: its place stays empty, and the next track begins a row."""
    whole = figures(reasons.explained())[ChartKind.TIMELINE]
    track, side = (whole.columns.index(name) for name in ("track", "configuration"))
    first, second = dict.fromkeys(row[side] for row in whole.rows)
    fewer = tuple(row for row in whole.rows if (row[track], row[side]) != ("sessions", first))
    spec = json.loads(specification(replace(whole, rows=fewer)))
    rows = {record["track"]: set() for data in spec["datasets"].values() for record in data}
    for place, panel in enumerate(spec["concat"]):
        for layer in panel["layer"]:
            for record in spec["datasets"].get(layer["data"].get("name"), ()):
                assert record["configuration"] == (first, second)[place % 2]
                rows[record["track"]].add(place // 2)
    assert all(len(places) == 2 for places in rows.values())  # one of each workload
    assert (
        sum("mark" in p["layer"][0] and "values" in p["layer"][0]["data"] for p in spec["concat"])
        == 2
    )


@pytest.mark.parametrize("analysis", [analyses.quick(), analyses.in_turns()], ids=["runs", "turns"])
def test_a_chart_of_an_article_is_that_of_its_report(analysis: CampaignAnalysis) -> None:
    """It has the name of the report's with the number of the campaign, and is drawn alike."""
    for figure in figures(analysis).values():
        second = replace(figure, identity=f"{figure.identity}-of-2")
        assert specification(second) == specification(figure)


def test_turns_stand_where_they_ran() -> None:
    """Two configurations alternate: so do their dashes, within the place of their block."""
    analysis = analyses.in_turns()
    figure = figures(analysis)[ChartKind.STRIPS]
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]
    assert (figure.identity, figure.title) == ("turns", "Turn by turn")
    for block in (0, 1):
        runs = [r for r in analysis.runs if (r.block, r.cell.workload) == (block, "writes")]
        turns = [(t.began_s, r.configuration, t) for r in runs for t in r.turns]
        _, names, first = zip(*sorted(turns, key=itemgetter(0)), strict=True)
        drawn = [row for row in rows if (row["run"], row["workload"]) == (block + 1, "writes")]
        assert tuple(row["configuration"] for row in drawn[::3]) == names
        assert set(names[:2]) == {"default", "fitted"}  # a round of both, and the next
        places = [row["at"] for row in drawn]
        assert places == sorted(places)
        assert block + 1 <= places[0] < places[-1] < block + 2
        rate = pytest.approx(first[0].transactions / first[0].seconds, abs=0.01)
        assert [row["tps"] for row in drawn[:3]] == [rate, rate, None]


def test_a_dot_alone_is_no_chart() -> None:
    """One configuration under one load has a rate in a table, and no axis for it."""
    analysis = analyses.quick()
    alone = replace(analysis, cells=analysis.cells[:1], runs=analysis.runs[:1])
    assert {ChartKind.LOADS, ChartKind.STRIPS} <= set(figures(analysis))
    assert {ChartKind.LOADS, ChartKind.STRIPS}.isdisjoint(figures(alone))


def test_rates_are_drawn_from_zero() -> None:
    """A difference of a few percent is as small in the picture as it is."""
    spec = json.loads(specification(figures(analyses.quick())[ChartKind.LOADS]))
    marks = [layer for panel in spec["vconcat"] for layer in panel["layer"]]
    scales = [
        layer["encoding"]["x"]["scale"] for layer in marks if "scale" in layer["encoding"]["x"]
    ]
    assert scales
    assert all(scale["zero"] for scale in scales)


def section_of(analysis: CampaignAnalysis) -> Section:
    """Return the section of a campaign with open loops."""
    found = analysis.answer(of_rates)
    assert found is not None
    (section,) = capacity_section(analysis, found)
    return section


@pytest.fixture
def section() -> Section:
    """Return the section of a campaign with every kind of answer."""
    return filled(section_of(open_loops.with_rates()), POSTGRES_WORDS)


def _table(section: Section, title: str) -> list[dict[str, str]]:
    (table,) = [b for b in section.blocks if isinstance(b, Table) and b.title.startswith(title)]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row.cells, strict=True)) for row in table.rows]


@pytest.mark.usefixtures("undrawn")
def test_the_answers_stand_where_the_results_do() -> None:
    """Capacity and goal are sentences there, each with its interval or what it lies beyond."""
    capacity, goal = filled(rate_answers(open_loops.with_rates()), POSTGRES_WORDS)
    assert capacity.items[0] == (
        "reads: 20,000/s [19,600, 20,400], from 8 clients on (default, before the first block)."
    )
    assert goal.lead == "The highest rate with p99 < 10 ms"
    assert goal.items[0] == "default, reads, 16 clients: about 16,100/s, [14,000, 18,000]."
    above, below = "above 18,000/s, the highest rate", "below 1,500/s, the lowest rate"
    assert f"fitted, reads, 16 clients: {above} that was measured (at least" in goal.items[1]
    assert f"default, writes, 16 clients: {below} that was measured (at most" in goal.items[2]
    assert "not enough transactions at any of the rates" in goal.items[3]
    assert goal.items[4] == (
        "fitted vs default (baseline), reads, 16 clients: at least +10.0 % with 95 %."
    )
    markdown = render_markdown(build_document(open_loops.with_rates()))
    assert markdown.index(goal.items[0]) < markdown.index("## Capacity and rates")
    assert goal.items[0] in render_html(build_document(open_loops.with_rates()))
    assert "about 16,100/s" in render_terminal(build_document(open_loops.with_rates()), 100)


def test_the_capacity_is_marked_among_its_points(section: Section) -> None:
    """Each number of clients has its throughput; the fewest that reach it have the capacity."""
    rows = _table(section, "Capacity")
    assert [row["clients"] for row in rows if row["capacity"]] == ["8", "8"]
    assert rows[2]["capacity"] == "20,000/s [19,600, 20,400]"
    assert rows[0]["tps"] == "6,000 [5,880, 6,120]"
    (table,) = [b for b in section.blocks if isinstance(b, Table) and b.title == "Capacity"]
    assert "held in 91 to 96 % of simulated campaigns" in table.note
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    marked = figure.columns.index("capacity")
    assert sum(bool(row[marked]) for row in figure.rows) == 2
    assert "20,000/s" in (render_chart(figure) or "")


def test_rates_say_what_was_offered_and_how_late_it_was(section: Section) -> None:
    """Offered with its share, achieved, percentiles with intervals, late and skipped."""
    row = _table(section, "Rates")[2]
    assert (row["clients"], row["offered"]) == ("16", "18,000 (90 %)")
    assert row["p99"] == "10.0 [9.00, 11.0]"
    assert (row["late"], row["skipped"]) == ("0.70 %", "0.30 %")
    assert row["lag p99"] == "not enough [500 of 1,000]"


def test_the_goal_says_what_it_rests_on(section: Section) -> None:
    """Censored values and bounds are words; pooled blocks and rates without an answer are told."""
    rows = _table(section, "The highest rate with p99 < 10 ms")
    assert [row["highest rate"] for row in rows] == [
        "16,100",
        "above 18,000",
        "below 1,500",
        "not enough transactions",
    ]
    assert rows[0]["95 % interval"] == "14,000 to 18,000"
    assert rows[1]["95 % interval"] == "18,000 to above 18,000"
    assert rows[2]["95 % interval"] == "below 1,500 to 1,500"
    note = next(b.note for b in section.blocks if isinstance(b, Table))
    assert "3 neighbouring blocks were added up" in note
    assert "not enough transactions at 2,700/s" in note


def test_json_has_the_keys_only_where_there_is_something() -> None:
    """``capacity``, ``rates`` and ``goal`` are strict JSON, and absent from other campaigns."""
    told = summary(open_loops.with_rates())
    text = json.dumps({key: told[key] for key in ("capacity", "rates", "goal")}, allow_nan=False)
    again = json.loads(text)
    assert again["capacity"][0]["clients"] == 8
    assert again["capacity"][0]["points"][0]["runs_tps"] == [6000.0] * 6
    assert again["rates"][0]["offered_per_s"] == 10_000.0
    assert again["rates"][0]["logged_transactions"] == 50_000
    assert (again["rates"][0]["skipped_percent"], again["rates"][0]["late_percent"]) == (0.3, 0.7)
    assert again["goal"]["percentile"] == 99.0
    first, second, third, fourth = again["goal"]["rates"]
    assert first["rate_per_s"] == {"estimate": 16_100.0, "low": 14_000.0, "high": 18_000.0}
    assert (first["beyond"], second["beyond"], third["beyond"]) == (None, "above", "below")
    assert second["rate_per_s"] == {"estimate": None, "low": 18_000.0, "high": None}
    assert fourth["rate_per_s"] is None
    assert again["goal"]["comparisons"][0]["low_percent"] == pytest.approx(10.0)
    assert again["goal"]["comparisons"][0]["high_percent"] is None
    assert not {"capacity", "rates", "goal"} & set(summary(analyses.quick()))


def test_without_open_loops_nothing_is_said() -> None:
    """Other reports have neither the section nor the sentences; a capacity alone has no goal."""
    assert "capacity" not in [each.anchor for each in build_document(analyses.quick()).sections]
    assert rate_answers(analyses.quick()) == ()
    alone = replace(open_loops.rates(), goal=None, points=())
    found = section_of(replace(analyses.quick(), answers={of_rates: alone}))
    assert len(found.blocks) == 2
    assert len(rate_answers(replace(analyses.quick(), answers={of_rates: alone}))) == 1


def test_threads_are_told_where_clients_do_not_tell_loads_apart() -> None:
    """16 clients on 2 and on 8 threads are two rows, so each says which it is."""
    given, goal = open_loops.rates(), open_loops.goal()
    two = [replace(open_loops.POOL, threads=threads) for threads in (2, 8)]
    goals = tuple(replace(goal.rates[0], load=load) for load in two)
    cells = [replace(given.points[0].cell, load=replace(load, share=0.5)) for load in two]
    points = tuple(replace(given.points[0], cell=cell) for cell in cells)
    contrasts = tuple(replace(goal.contrasts[0], load=load) for load in two)
    goal = replace(goal, rates=goals, contrasts=contrasts)
    analysis = open_loops.with_rates()
    analysis = replace(
        analysis,
        experiment=replace(analysis.experiment, loads=tuple(cell.load for cell in cells)),
        answers={of_rates: replace(given, points=points, goal=goal)},
    )
    found = section_of(analysis)
    told = ["16 (2 threads)", "16 (8 threads)"]
    assert [row["clients"] for row in _table(found, "Rates")] == told
    assert [row["clients"] for row in _table(found, "The highest rate")] == told
    items = rate_answers(analysis)[1].items
    assert len(set(items)) == 4
    assert items[0].startswith("default, reads, 16 clients, 2 threads: about")


def with_goal(goal: Goal) -> CampaignAnalysis:
    """Return a campaign of open loops with this goal."""
    return replace(
        open_loops.with_rates(), answers={of_rates: replace(open_loops.rates(), goal=goal)}
    )


@pytest.mark.parametrize(
    ("low", "high", "beyond", "told"),
    [
        (-math.inf, math.inf, 1, "not comparable, both lie above the measured rates."),
        (-math.inf, math.inf, -1, "not comparable, both lie below the measured rates."),
        (-math.inf, math.inf, 0, "undecided with 12 blocks."),
        (-math.inf, math.log(0.9), 0, "at most -10.0 % with 95 %."),
        (None, None, 0, "+12.0 %, no interval below 6 blocks."),
    ],
)
def test_a_ratio_says_what_it_does_not_know(
    low: float | None, high: float | None, beyond: int, told: str
) -> None:
    """Open bounds are no censored values; a single bound says how sure it is.

    A program gets no figure for a difference that blocks beyond all rates may move.
    """
    goal = open_loops.goal()
    ratio = Reached(value=math.log(1.12), low=low, high=high)
    contrast = replace(goal.contrasts[0], ratio=ratio, beyond=beyond)
    analysis = with_goal(replace(goal, contrasts=(contrast,)))
    assert rate_answers(analysis)[1].items[-1].endswith(f"16 clients: {told}")
    effect = summary(analysis)["goal"]["comparisons"][0]["effect_percent"]
    assert effect == (None if low is not None else pytest.approx(12.0))


def test_few_blocks_beyond_all_rates_tell_no_ratio() -> None:
    """One side meets the goal at every rate: the edge of what was measured is not its rate."""
    goal = open_loops.goal()
    ratio = Reached(value=math.log(5 / 3), low=None, high=None)
    contrast = replace(goal.contrasts[0], ratio=ratio, censored=True, blocks=4)
    analysis = with_goal(replace(goal, contrasts=(contrast,)))
    assert rate_answers(analysis)[1].items[-1].endswith("undecided with 4 blocks.")
    assert summary(analysis)["goal"]["comparisons"][0]["effect_percent"] is None


def test_blocks_on_both_sides_of_all_rates_are_no_rate() -> None:
    """Neither above nor below: the sentence, the table and the JSON say so."""
    goal = open_loops.goal()
    split = Reached(value=None, low=-math.inf, high=math.inf)
    goal = replace(goal, rates=(replace(goal.rates[0], reached=split),))
    analysis = with_goal(goal)
    (sentence, _) = rate_answers(analysis)[1].items
    assert "undecided, as many blocks lie below all measured rates as above them" in sentence
    section = section_of(analysis)
    (row,) = _table(section, "The highest rate")
    assert row["highest rate"] == "undecided"
    told = summary(analysis)["goal"]["rates"][0]
    assert (told["beyond"], told["rate_per_s"]["estimate"]) == ("both", None)
