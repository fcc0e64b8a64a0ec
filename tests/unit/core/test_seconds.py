"""The seconds of a run as plain numbers: what is written and read is what a tuple would be."""

import json
from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from steelyard.core.measurement import Measurement, Second, Seconds

FORM = TypeAdapter(Measurement)
SERIES = (
    Second(end_s=1.0, transactions=10.0, seconds=1.0, latency_mean_s=0.1, failed=0),
    Second(end_s=2.5, transactions=0.0, seconds=1.5, latency_mean_s=None, failed=3),
)
TAKEN = Measurement(
    transactions=10.0,
    seconds=2.5,
    latency_mean_s=None,
    latency_stddev_s=None,
    failed=3,
    connection_s=None,
    series=SERIES,
)


def test_what_is_read_is_what_was_written() -> None:
    """Equal to the tuple, item by item, in slices; written as the same bytes."""
    written = FORM.dump_json(TAKEN)
    read = FORM.validate_json(written)
    assert isinstance(read.series, Seconds)
    assert read.series == SERIES
    assert (read, hash(read.series), repr(read)) == (TAKEN, hash(SERIES), repr(TAKEN))
    assert (read.series[0], read.series[-1:], len(read.series)) == (SERIES[0], SERIES[1:], 2)
    assert FORM.dump_json(read) == written
    assert read.series != SERIES[:1]
    with pytest.raises(IndexError):
        read.series[2]


def test_a_number_of_failures_that_all_have_is_kept_once() -> None:
    """And given to each."""
    series = Seconds.of([replace(each, failed=2) for each in SERIES])
    assert len(series.failed) == 1
    assert [second.failed for second in series] == [2, 2]
    assert list(Seconds.of(())) == []


@pytest.mark.parametrize(
    "change",
    [{"end_s": "x"}, {"end_s": None}, {"failed": 0.5}, {"transactions": []}],
)
def test_what_is_no_series_is_refused(change: dict[str, object]) -> None:
    """As it would be without the short way."""
    given = json.loads(FORM.dump_json(TAKEN))
    given["series"][1] |= change
    with pytest.raises(ValidationError, match=f"series.1.{next(iter(change))}"):
        FORM.validate_python(given)


def test_fields_that_have_defaults_may_lack() -> None:
    """Records of versions that did not write them are read as before."""
    given = json.loads(FORM.dump_json(TAKEN))
    for second in given["series"]:
        del second["failed"]
    assert [second.failed for second in FORM.validate_python(given).series] == [0, 0]
