"""How even a long run is: the spread of its windows, and the worst of them."""

from dataclasses import dataclass

from steelyard.stats.confidence import FloatArray

WINDOW_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """The windows of one long run; a description, never a comparison.

    Attributes:
        windows: How many whole windows there are.
        variation: Standard deviation of the window means over their mean (divides by n - 1);
            None below two windows.
        worst: The least window mean, in the unit of the rates; None without a window.
    """

    windows: int
    variation: float | None
    worst: float | None


def consistency(rates: FloatArray, window: int = WINDOW_S) -> Consistency:
    """Return how even a series of one-second rates is.

    Args:
        rates: Shape (n,), 1/s, one per second in order, any n; a last part that fills no window
            is left out.
        window: Seconds of a window, at least 1.

    Returns:
        The windows follow one another without overlap. A coefficient of variation of 0.05 says
        that ten-second means vary by 5 % of their mean.
    """
    count = len(rates) // window
    if not count:
        return Consistency(windows=0, variation=None, worst=None)
    means = rates[: count * window].reshape(count, window).mean(axis=1)
    mean = float(means.mean())
    variation = float(means.std(ddof=1)) / mean if count > 1 and mean > 0.0 else None
    return Consistency(windows=count, variation=variation, worst=float(means.min()))
