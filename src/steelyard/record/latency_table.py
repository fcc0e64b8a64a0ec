"""The table of latencies: a row per run, script and bucket that holds a transaction."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from steelyard.model.latency import RunLatency
from steelyard.stats.histogram import bucket_bounds, from_text

LATENCY_COLUMNS: Final = {
    "script": "string",
    "kind": "string",
    "low_us": "int64",
    "high_us": "int64",
    "count": "int64",
}


def latency_columns(
    key: Mapping[str, Any], latency: RunLatency | None
) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of one histogram after the other; none for a run without latency.

    Columns and not rows: a campaign has hundreds of thousands of buckets. Lag and service are
    those of all scripts together, so that their script is null.
    """
    if latency is None:
        return
    for each in latency.scripts:
        yield _columns({**key, "script": each.script, "kind": "latency"}, each.latency)
    for kind, text in (("lag", latency.lag), ("service", latency.service)):
        yield _columns({**key, "script": None, "kind": kind}, text)


def _columns(key: Mapping[str, Any], text: str) -> dict[str, list[Any]]:
    counts = from_text(text).counts
    places = np.flatnonzero(counts)
    low, high = bucket_bounds(places)
    return {
        **{name: [value] * len(places) for name, value in key.items()},
        "low_us": low.tolist(),
        "high_us": high.tolist(),
        "count": counts[places].tolist(),
    }
