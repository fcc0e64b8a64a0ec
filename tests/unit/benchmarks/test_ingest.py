"""The benchmark of reading a log: a log of pgbench's, right counts, a gate that can close."""

from pathlib import Path
from types import ModuleType

import pytest
from benchmark_scripts import load_script


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    return load_script("ingest", monkeypatch)


def test_a_reading_by_hand_counts_the_same(benchmark: ModuleType, tmp_path: Path) -> None:
    """The checksum that all readers must agree on is that of a loop over the lines."""
    path = tmp_path / "log"
    benchmark.write_log(path, 3000, 7)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3000
    cells: dict[tuple[int, int, int], int] = {}
    for line in lines:
        _, _, time_us, script, epoch, us = map(int, line.split())
        second = (epoch * 10**6 + us - benchmark.STARTED_US) // 10**6
        cell = (second, script, int(benchmark.bucket_indices(time_us)))
        cells[cell] = cells.get(cell, 0) + 1
    seconds, scripts, buckets = zip(*cells, strict=True)
    expected = benchmark.checksum(seconds, scripts, buckets, list(cells.values()))
    assert benchmark.with_steelyard(str(path))[1] == expected
    cells[next(iter(cells))] += 1
    assert benchmark.checksum(seconds, scripts, buckets, list(cells.values())) != expected


@pytest.mark.parametrize(
    ("ours", "peak_mb", "counts", "code", "word"),
    [
        (
            [1.0, 1.1, 0.9, 1.0, 1.05, 0.95],
            100,
            [1, 2],
            0,
            "passed (the best of the others: polars",
        ),
        ([1.2, 1.3, 1.1, 1.2, 1.25, 1.15], 100, [1, 2], 0, "passed"),
        ([1.8, 1.9, 1.7, 1.8, 1.85, 1.75], 100, [1, 2], 1, "1.5 times slower than polars"),
        ([0.8, 0.8, 0.9, 1.1, 1.2, 3.5], 100, [1, 2], 0, "passed"),
        ([0.5, 0.5, 0.5, 0.5, 0.51, 0.5], 501, [1, 2], 1, "took 501 MB of at most 500"),
        ([0.5, 0.5, 0.5, 0.5, 0.51, 0.5], 499, [1, 3], 1, "counts differ"),
    ],
)
def test_slower_larger_or_other_counts_fail(
    benchmark: ModuleType,
    capsys: pytest.CaptureFixture[str],
    ours: list[float],
    peak_mb: int,
    counts: list[int],
    code: int,
    word: str,
) -> None:
    """Far slower beyond the interval fails; slower within it, as of one slow round, does not."""

    def readings(walls: list[float], peak: int, told: list[int] | None) -> list[object]:
        return [
            benchmark.Reading(wall=wall, cpu=wall, peak_bytes=peak, counts=told) for wall in walls
        ]

    others = [1.0, 1.02, 0.98, 1.0, 1.01, 0.99]
    found = {
        "bytes": readings([0.1] * 6, 10, None),
        "steelyard": readings(ours, peak_mb * 10**6, counts),
        "duckdb": readings([2.0 * wall for wall in others], 10**9, [1, 2]),
        "polars": readings(others, 10**9, [1, 2]),
        "pandas": readings([3.0 * wall for wall in others], 10**9, [1, 2]),
    }
    assert benchmark.report(found, 1000, 33_000) == code
    assert word in capsys.readouterr().out
