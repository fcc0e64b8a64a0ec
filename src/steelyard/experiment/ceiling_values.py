"""From what was timed to a ceiling, and from a failure to the reason for none."""

from collections.abc import Callable, Sequence

import numpy as np

from steelyard.model.ceilings import Ceiling, CeilingKind
from steelyard.model.errors import MeasurementError, SteelyardError

_FASTEST, _MEDIAN, _SLOWEST = 0.05, 0.5, 0.99


def timed(kind: CeilingKind, subject: str, samples_s: Sequence[float], *, how: str) -> Ceiling:
    """Return a latency with its quantiles.

    Raises:
        MeasurementError: There is no sample.
    """
    if not samples_s:
        raise MeasurementError("nothing was done within its time")
    fastest, median, slowest = np.quantile(samples_s, (_FASTEST, _MEDIAN, _SLOWEST)).tolist()
    return Ceiling(
        kind=kind,
        subject=subject,
        latency_s=median,
        fastest_s=fastest,
        p99_s=slowest,
        samples=len(samples_s),
        how=how,
    )


def or_why_not(
    kind: CeilingKind, subject: str, take: Callable[[], Sequence[Ceiling]]
) -> tuple[Ceiling, ...]:
    """Return what was taken; where that failed, one ceiling with the reason.

    Raises:
        Interrupted: The operator stopped the campaign.
    """
    try:
        return tuple(take())
    except SteelyardError as error:
        reason = error.message
    except OSError as error:
        reason = f"{error.filename or 'a file'}: {error.strerror}"
    return (Ceiling(kind=kind, subject=subject, unknown=reason),)
