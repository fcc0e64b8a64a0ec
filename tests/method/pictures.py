"""Draws the pictures of docs/methods.md: ``python tests/method/pictures.py`` rewrites them all.

The same bytes every time: the scenes are seeded and the drawing library is pinned by the lock.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import further_scenes
import scenes
import vl_convert

from steelyard.report import charts as theme
from steelyard.report.charts import settle

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH, HEIGHT = 620, 220
BLUE, ORANGE, GREEN = theme.CONTENDERS[:3]
PALE = "#b8c0c9"
Chart = Any


def _table(rows: list[dict[str, object]]) -> alt.Data:
    return alt.Data(values=rows)


def _colour(field: str, names: list[str], inks: list[str], **options: object) -> alt.Color:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=inks), **options)


def _dots() -> alt.Legend:
    return alt.Legend(symbolType="circle", symbolStrokeWidth=0, symbolSize=90)


def _x(field: str, title: str, **options: object) -> alt.X:
    return alt.X(field, title=title, **options)


def _y(field: str, title: str | None, **options: object) -> alt.Y:
    return alt.Y(field, title=title, **options)


def _zero() -> Chart:
    return alt.Chart(_table([{"zero": 0}])).mark_rule(color=theme.INK).encode(y="zero:Q")


def long_runs() -> Chart:
    """Two runs of one system whose naive intervals exclude each other."""
    base = alt.Chart(_table(scenes.long_runs()))
    colour = _colour("run", ["A", "A again"], [theme.BASELINE, BLUE])
    scale = alt.Scale(zero=False)
    line = base.mark_line(strokeWidth=1.2).encode(
        x=_x("second:Q", "seconds"),
        y=_y("tps:Q", "transactions per second", scale=scale),
        color=colour,
    )
    band = base.mark_area(opacity=0.35).encode(
        x="second:Q", y=_y("low:Q", None, scale=scale), y2="high:Q", color=colour
    )
    return band + line


def block_order() -> Chart:
    """Four blocks as scheduled: the coin decides who goes first, loads in one order for both."""
    base = alt.Chart(_table(scenes.block_order()))
    settling = alt.datum.load == ""
    bars = base.mark_bar(height=26, stroke="white").encode(
        x=_x("begin:Q", "seconds since the block began", axis=alt.Axis(grid=False)),
        x2="end:Q",
        y=_y("block:N", None, axis=alt.Axis(grid=False)),
        color=_colour("configuration", ["A", "B"], [theme.BASELINE, BLUE], legend=_dots()),
        opacity=alt.condition(settling, alt.value(0.25), alt.value(1)),
    )
    words = (
        base.mark_text(color="white", fontWeight="bold")
        .encode(x="middle:Q", y="block:N", text="load:N")
        .transform_calculate(middle="(datum.begin + datum.end) / 2")
    )
    return bars + words


def turns() -> Chart:
    """Six rounds of two servers that are up together: who runs when, and what of it counts."""
    base = alt.Chart(_table(further_scenes.turns()))
    y = _y("server:N", None, axis=alt.Axis(grid=False, labelColor=theme.INK))
    bars = base.mark_bar(height=44).encode(
        x=_x("begin:Q", "seconds since the first turn", scale=alt.Scale(nice=False)),
        x2="end:Q",
        y=y,
        color=_colour("server", ["server A", "server B"], [theme.BASELINE, BLUE], legend=None),
        opacity=alt.condition(alt.datum.part == "settles", alt.value(0.3), alt.value(1)),
    )
    rounds = alt.Chart(_table([{"at": 0.5 * number} for number in range(1, 6)]))
    return bars + rounds.mark_rule(color=theme.INK, strokeDash=[3, 3], opacity=0.5).encode(x="at:Q")


def pooling() -> Chart:
    """Contrasts of five loads per block, their plain mean, and the pooled value."""
    base = alt.Chart(_table(scenes.pooling()))
    names = ["one load", "plain mean", "pooled"]
    points = base.mark_point(filled=True, opacity=0.9).encode(
        x=_x("block:O", "block", axis=alt.Axis(labelAngle=0)),
        y=_y("effect:Q", "difference, %", scale=alt.Scale(domain=[-25, 35], clamp=True)),
        color=_colour("what", names, [PALE, ORANGE, BLUE], legend=_dots()),
        size=alt.Size("what:N", scale=alt.Scale(domain=names, range=[45, 80, 110]), legend=None),
    )
    return _zero() + points


def walsh_averages() -> Chart:
    """All averages of two blocks, sorted; the interval is what the exact test leaves."""
    rows, centre = scenes.walsh_averages()
    points = (
        alt.Chart(_table(rows))
        .mark_point(filled=True, size=28, opacity=1)
        .encode(
            x=_x("effect:Q", "average of two blocks, %"),
            y=_y("rank:Q", "rank"),
            color=_colour("part", ["within", "cut off"], [BLUE, PALE], legend=_dots()),
        )
    )
    line = alt.Chart(_table([{"centre": centre}])).mark_rule(color=ORANGE, strokeWidth=2)
    return points + line.encode(x="centre:Q")


def looks() -> Chart:
    """One campaign with a true effect of 3 %: the interval at each look, and the naive one."""
    base = alt.Chart(_table(scenes.looks()))
    x = _x("blocks:Q", "blocks seen", scale=alt.Scale(zero=False, nice=False))
    naive = base.mark_area(color=theme.GRID).encode(
        x=x, y=_y("naive_low:Q", "difference, %"), y2="naive_high:Q"
    )
    colour = _colour("decided", ["goes on", "decided"], [theme.BASELINE, BLUE])
    rule = base.mark_rule(strokeWidth=2.5).encode(x=x, y="low:Q", y2="high:Q", color=colour)
    point = base.mark_point(filled=True, size=45, opacity=1).encode(x=x, y="effect:Q", color=colour)
    return naive + _zero() + rule + point


def any_false_claim() -> Chart:
    """How often equal systems differ in at least one cell, by the number of cells."""
    base = alt.Chart(_table(scenes.any_false_claim()))
    names = ["each cell at 5 %", "5 % shared by all"]
    return base.mark_line(point=alt.OverlayMarkDef(filled=True, size=50)).encode(
        x=_x("cells:Q", "cells", scale=alt.Scale(type="log", domain=[1, 40], nice=False)),
        y=_y("share:Q", "any false claim, %"),
        color=_colour("rule", names, [ORANGE, BLUE]),
    )


def verdict_examples() -> Chart:
    """Five intervals and the word for each; the shaded band has no practical weight."""
    base = alt.Chart(_table(scenes.verdict_examples()))
    rows = alt.Y("place:O", sort=None, axis=None)
    numbered = base.transform_window(place="row_number()")
    band = alt.Chart(_table([{"low": -1, "high": 1}])).mark_rect(color=theme.BASELINE, opacity=0.16)
    zero = alt.Chart(_table([{"zero": 0}])).mark_rule(color=theme.INK).encode(x="zero:Q")
    x = _x("low:Q", "difference, %", scale=alt.Scale(domain=[-5, 8]))
    rule = numbered.mark_rule(strokeWidth=3, color=BLUE).encode(x=x, x2="high:Q", y=rows)
    point = numbered.mark_point(filled=True, size=70, opacity=1, color=BLUE).encode(
        x="effect:Q", y=rows
    )
    words = numbered.mark_text(align="left", color=theme.INK, fontSize=13).encode(
        x=alt.datum(4.9), y=rows, text="word:N"
    )
    return band.encode(x="low:Q", x2="high:Q") + zero + rule + point + words


def warm_up() -> Chart:
    """Throughput after a restart, mean of five; the warm-up is where both have settled."""
    rows, warm_up_s = scenes.warm_up()
    names = ["A", "B, twice as slow"]
    line = (
        alt.Chart(_table(rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=_x("second:Q", "seconds since the restart"),
            y=_y("share:Q", "of the settled throughput, %", scale=alt.Scale(zero=False)),
            color=_colour("configuration", names, [theme.BASELINE, BLUE]),
        )
    )
    thrown = alt.Chart(_table([{"begin": 0, "end": warm_up_s}])).mark_rect(
        color=ORANGE, opacity=0.15
    )
    return thrown.encode(x="begin:Q", x2="end:Q") + line


def false_alarms() -> Chart:
    """How often equal systems are called different in an hour."""
    base = alt.Chart(_table(scenes.false_alarms()))
    y = _y("design:N", None, sort=None, axis=alt.Axis(grid=False, labelColor=theme.INK))
    bars = base.mark_bar(height=24, color=BLUE).encode(
        x=_x("share:Q", "equal systems called different, %", scale=alt.Scale(domain=[0, 100])),
        y=y,
    )
    words = base.mark_text(align="left", dx=5, color=theme.INK).encode(
        x="share:Q", y=y, text=alt.Text("share:Q", format=".0f")
    )
    return bars + words


def attribution() -> Chart:
    """A factorial of three factors: each effect with its interval, and the truth as a tick."""
    base = alt.Chart(_table(further_scenes.attribution()))
    y = _y("name:N", None, sort=None, axis=alt.Axis(grid=False, labelColor=theme.INK))
    x = _x("low:Q", "effect, %")
    zero = alt.Chart(_table([{"zero": 0}])).mark_rule(color=theme.INK).encode(x="zero:Q")
    rule = base.mark_rule(strokeWidth=3, color=BLUE).encode(x=x, x2="high:Q", y=y)
    point = base.mark_point(filled=True, size=70, opacity=1, color=BLUE).encode(x="effect:Q", y=y)
    truth = base.mark_tick(color=ORANGE, thickness=3, size=18).encode(x="truth:Q", y=y)
    return zero + rule + point + truth


def burst_cliff() -> Chart:
    """A bucket of credits runs empty after about five minutes; the interval of the instant."""
    rows, split = further_scenes.burst_cliff()
    line = alt.Chart(_table(rows)).mark_line(color=BLUE, strokeWidth=1.2)
    where = alt.Chart(_table([split])).mark_rect(color=ORANGE, opacity=0.35)
    return where.encode(x="low:Q", x2="high:Q") + line.encode(
        x=_x("second:Q", "seconds"), y=_y("tps:Q", "transactions per second")
    )


def noise_floor() -> Chart:
    """Half-width to expect over the minutes, on three machines, foreseen from twelve blocks."""
    base = alt.Chart(_table(further_scenes.noise_floor()))
    names = ["calm", "typical", "hostile"]
    return base.mark_line(point=alt.OverlayMarkDef(filled=True, size=50)).encode(
        x=_x("minutes:Q", "minutes", scale=alt.Scale(type="log", domain=[18, 130], nice=False)),
        y=_y("half:Q", "half-width, ±%"),
        color=_colour("profile", names, [GREEN, BLUE, ORANGE], sort=names),
    )


def planning() -> Chart:
    """Minutes until half, and nine in ten, of the campaigns call an effect within an hour."""
    base = alt.Chart(_table(further_scenes.planning()))
    names = ["with restarts", "back to back"]
    dash = alt.StrokeDash(
        "share:N",
        scale=alt.Scale(domain=["half", "nine in ten"], range=[[1, 0], [5, 4]]),
        legend=None,
    )
    return base.mark_line(point=alt.OverlayMarkDef(filled=True, size=40)).encode(
        x=_x("effect:Q", "true effect, %"),
        y=_y("minutes:Q", "minutes"),
        color=_colour("mode", names, [BLUE, ORANGE]),
        strokeDash=dash,
    )


def two_servers() -> Chart:
    """Thirty campaigns on two equal servers that stay, and thirty on one that is restarted."""
    base = alt.Chart(_table(further_scenes.two_servers()))
    names = ["holds zero", "called different"]
    rule = base.mark_rule(strokeWidth=3).encode(
        x=_x("campaign:O", "campaign", axis=alt.Axis(labels=False, grid=False)),
        y=_y("low:Q", "difference, %"),
        y2="high:Q",
        color=_colour("claim", names, [theme.BASELINE, ORANGE]),
    )
    zero = base.mark_rule(color=theme.INK).encode(y=alt.datum(0))
    panels = ["two servers that stay", "one server, restarted"]
    header = alt.Header(title=None, labelFontSize=12, labelColor=theme.INK)
    return (
        alt.layer(zero, rule)
        .properties(width=WIDTH // 2 - 20, height=HEIGHT)
        .facet(column=alt.Column("what:N", sort=panels, header=header))
    )


# Name of the file -> what is drawn, title.
PICTURES: dict[str, tuple[Callable[[], Chart], str]] = {
    "long-runs": (long_runs, "One system, two runs of a minute, two intervals"),
    "block-order": (block_order, "Four blocks; pale: restart and warm-up; numbers: clients"),
    "turns": (
        turns,
        "Six rounds of turns; pale: thrown away; where there is no bar it stands still",
    ),
    "pooling": (pooling, "Five loads per block, their mean, and the pooled value"),
    "walsh-averages": (walsh_averages, "All averages of two of 12 blocks, sorted"),
    "looks": (looks, "One campaign, true effect 3 %: a look after every block"),
    "any-false-claim": (any_false_claim, "Equal systems: a difference claimed in any cell"),
    "verdicts": (verdict_examples, "Intervals and their words; shaded: within 1 %"),
    "warm-up": (warm_up, "After a restart; shaded: the warm-up, the same for both"),
    "false-alarms": (false_alarms, "Two equal systems, one hour"),
    "attribution": (attribution, "Three factors, 15 blocks; orange: the truth"),
    "burst-cliff": (burst_cliff, "A token bucket runs empty; orange: when, with its interval"),
    "noise-floor": (noise_floor, "What a set-up can see, from twelve blocks of itself"),
    "planning": (planning, "Until a verdict, typical profile; dashed: nine in ten campaigns"),
    "two-servers": (two_servers, "No difference but the servers: 30 campaigns each"),
}


def draw(name: str) -> str:
    """Return a picture as SVG."""
    scene, title = PICTURES[name]
    look = {**theme.configuration(), "background": "white"}
    scaled = scene()
    if not isinstance(scaled, alt.FacetChart):
        scaled = scaled.properties(width=WIDTH, height=HEIGHT)
    chart = scaled.properties(title=title).configure(**look)
    drawn = vl_convert.vegalite_to_svg(chart.to_json(), allowed_base_urls=[])
    alt_text = " ".join((scene.__doc__ or title).split())
    return settle(drawn, identity=name, title=title, alt=alt_text) + "\n"


def main() -> None:
    """Draw the pictures that are named, or all."""
    PLACE.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (PLACE / f"{name}.svg").write_text(draw(name), encoding="utf-8")
        print(f"{name}.svg", file=sys.stderr)  # noqa: T201 - progress for whoever draws


if __name__ == "__main__":
    main()
