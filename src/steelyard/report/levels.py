"""Effective settings of combinations, told by the factors that move them."""

from steelyard.analysis.results import CampaignAnalysis, SettingDifference
from steelyard.model.attribution import Attribution
from steelyard.report.document import Column, Row, Section, Table
from steelyard.report.formats import MISSING, count

_NOTE = (
    "As the running servers reported them, not as they were asked for; by factor where one alone"
    " moves a setting."
)


def level_settings(analysis: CampaignAnalysis, attribution: Attribution, title: str) -> Section:
    """Return the settings that differ, with their values by level: combinations are too many."""
    columns = (Column(name="setting"), Column(name="values"), Column(name="asked for"))
    rows = tuple(
        Row(
            cells=(
                difference.name,
                _values(attribution, difference),
                "yes" if difference.requested else "no",
            )
        )
        for difference in analysis.settings
    )
    table = Table(title=title, columns=columns, rows=rows, note=_NOTE)
    return Section(anchor="settings", title=title, blocks=(table,))


def _values(attribution: Attribution, difference: SettingDifference) -> str:
    shown = [MISSING if value is None else value for value in difference.values]
    for place, factor in enumerate(attribution.factors):
        first, second = (
            {
                value
                for value, levels in zip(shown, attribution.combinations, strict=True)
                if levels[place] == level
            }
            for level in (0, 1)
        )
        if len(first) == len(second) == 1 and first != second:
            return f"{factor.off}: {first.pop()}; {factor.on}: {second.pop()}"
    several = {value: shown.count(value) for value in dict.fromkeys(shown)}
    return "; ".join(f"{value} in {count(n, 'combination')}" for value, n in several.items())
