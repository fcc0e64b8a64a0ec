"""The panels of a chart, as Altair draws them; imported when a chart is drawn, not before.

Datasets are named, so that the drawing of a figure holds each of its rows once.

Marks are Altair's; how they lie over and beside each other is Vega-Lite as it is written, because
Altair copies all that a chart holds whenever something is put around it.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import altair as alt

from steelyard.report.charts import colours, width_of
from steelyard.report.document import Figure, Value

Record = dict[str, Value]
# Altair types a chain of methods as unions that no next method accepts.
Chart: TypeAlias = Any
# A part of a Vega-Lite specification.
Drawing: TypeAlias = dict[str, Any]

CHARACTER_PX = 7.6  # of the widest common font at this size: a page may use another than we
_MOST_IN_LINE = 6  # configurations; more are combinations of factors
_MOST_NAMED = 12  # runs on one axis: with more, Vega's steps are whole numbers
_ON_A_PHONE = 345  # px of a panel, beside the labels of its axis
_SYMBOL_PX = 40  # of a legend's line and the room around it
_SCALES_OF_THEIR_OWN = {"resolve": {"scale": {"x": "independent", "y": "independent"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One part of a chart.

    Attributes:
        dataset: The name its records have in the specification.
        names: What it is called, most general first.
        records: What it shows, in drawing order.
        last: Whether it is the lowest, which carries the axis title for all.
    """

    dataset: str
    names: tuple[str, ...]
    records: list[Record]
    last: bool

    @property
    def title(self) -> str:
        """Return the names in one line."""
        return " · ".join(self.names)

    def values(self, key: str) -> list[Any]:
        """Return the different values of a column in the order of their first appearance."""
        return list(dict.fromkeys(record[key] for record in self.records))


def panels_of(figure: Figure, keys: tuple[str, ...]) -> list[Panel]:
    """Return a panel for every combination of the keys, in the order of their appearance."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for row in figure.rows:
        record = dict(zip(figure.columns, row, strict=True))
        found.setdefault(tuple(str(record[key]) for key in keys), []).append(record)
    return [
        Panel(dataset=f"panel-{place}", names=names, records=records, last=place == len(found))
        for place, (names, records) in enumerate(found.items(), start=1)
    ]


def colour_of(figure: Figure, *, legend: bool) -> alt.Color:
    """Return the colours of the configurations, the same in all charts of a report."""
    names = list(figure.configurations)
    scale = alt.Scale(domain=names, range=colours(figure.configurations))
    return alt.Color("configuration:N", scale=scale, legend=_legend(figure) if legend else None)


def _legend(figure: Figure) -> alt.Legend:
    """Return a legend in one line, or in columns where combinations are too many for that."""
    names = figure.configurations
    if len(names) <= _MOST_IN_LINE and not figure.narrow:
        return alt.Legend()
    widest = max(map(len, names)) * CHARACTER_PX + _SYMBOL_PX
    return alt.Legend(columns=max(1, int(width_of(figure) // widest)), columnPadding=_SYMBOL_PX)


def chart_of(panel: Panel) -> Chart:
    """Return an empty chart of a panel's records."""
    return alt.Chart(alt.NamedData(name=panel.dataset))


def layered(*marks: Chart, title: str, width: int, height: int) -> Drawing:
    """Return a panel of marks that lie over each other, the last on top; sizes in pixels."""
    layers = [mark.to_dict(validate=False, context={"top_level": False}) for mark in marks]
    return {"title": title, "width": width, "height": height, "layer": layers}


def in_columns(drawings: list[Drawing], *, columns: int, row_px: int, column_px: int) -> Drawing:
    """Return panels in so many columns, each with scales of its own, and so far apart."""
    # Flush: panels line up by their frames, whatever room their labels take.
    spacing = {"row": row_px, "column": column_px}
    beside = {"concat": drawings, "columns": columns, "bounds": "flush", "spacing": spacing}
    return beside | _SCALES_OF_THEIR_OWN


def panel_px(figure: Figure, panels: list[Panel], *, half: int, whole: int) -> int:
    """Return how wide a panel is: alone in its row, or one of two; on a phone always alone."""
    return _ON_A_PHONE if figure.narrow else half if len(panels) > 1 else whole


def side_by_side(figure: Figure, drawings: list[Drawing], *, apart: int = 84) -> Drawing:
    """Return panels two by two, on a phone one below the other."""
    columns = 1 if figure.narrow else 2
    return in_columns(drawings, columns=columns, row_px=apart, column_px=84)


def stacked(drawings: list[Drawing]) -> Drawing:
    """Return panels one below the other, each with scales of its own."""
    return {"vconcat": drawings} | _SCALES_OF_THEIR_OWN


def run_ticks(places: list[int]) -> Any:  # noqa: ANN401 - Undefined or places
    """Return the places of runs as an axis's ticks; where they are many, Vega's own choice.

    An axis of few has room for halves, and ``d`` writes 1.5 as 2: the 2 would stand there twice.
    """
    return places if len(places) <= _MOST_NAMED else alt.Undefined
