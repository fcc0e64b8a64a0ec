"""What a figure of an answer is drawn by; Altair is imported when a chart is drawn, not before."""

from steelyard.report.document import Figure


def specification(figure: Figure) -> str:
    """Return a figure as Vega-Lite JSON."""
    from steelyard.answers import chart_specs  # noqa: PLC0415 - imports Altair

    return chart_specs.specification(figure)
