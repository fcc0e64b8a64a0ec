"""The benchmark of a large report: a record as the product writes it, and goals it can miss."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_scripts import load_script

from steelyard.answers.campaign import analyse
from steelyard.core.findings import Verdict
from steelyard.record.directory import read_campaign


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    return load_script("report", monkeypatch)


def test_the_record_is_one_that_can_be_analysed(benchmark: ModuleType, tmp_path: Path) -> None:
    """All runs count, with all their seconds; the difference that was put in is found."""
    size = benchmark.write_record(tmp_path / "made", runs=240, seconds=8, seed=3)
    assert size == (tmp_path / "made" / "journal.jsonl").stat().st_size
    record = read_campaign(tmp_path / "made")
    assert len(record.counted_runs) == 240
    measured = [run.measurement for run in record.runs if run.measurement is not None]
    assert sum(len(each.series) for each in measured) == 240 * 8
    for each in measured:
        counted = sum(second.transactions for second in each.series[2:])
        assert each.transactions == pytest.approx(counted)
    results = analyse(record).results
    assert {each.verdict for each in results} == {Verdict.FASTER}
    assert all(each.effect is not None and 0.01 < each.effect.value < 0.05 for each in results)


def test_the_seed_makes_the_record(benchmark: ModuleType, tmp_path: Path) -> None:
    """The same seed gives the same bytes, another one others."""
    contents = []
    for number, seed in enumerate((1, 1, 2)):
        benchmark.write_record(tmp_path / str(number), runs=40, seconds=4, seed=seed)
        contents.append((tmp_path / str(number) / "journal.jsonl").read_bytes())
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


@pytest.mark.parametrize(
    ("peak", "html", "names"),
    [
        (999_000_000, 4_999_999, []),
        (1_000_000_001, 1, ["peak memory"]),
        (1, 5_000_001, ["report.html"]),
        (2_000_000_000, 6_000_000, ["peak memory", "report.html"]),
    ],
)
def test_goals_are_of_memory_and_bytes(
    benchmark: ModuleType, peak: int, html: int, names: list[str]
) -> None:
    """What is too large is named; seconds are no goal."""
    told = benchmark.missed(peak, html)
    assert [each.partition(" is ")[0] for each in told] == names


def test_what_a_process_took_is_that_of_the_process(benchmark: ModuleType) -> None:
    """Its peak memory is in bytes; a failure is one."""
    took = benchmark.spent([sys.executable, "-c", "x = bytearray(700_000_000)"])
    assert 700_000_000 < took.peak_bytes < 1_400_000_000
    with pytest.raises(RuntimeError, match="ended with 3"):
        benchmark.spent([sys.executable, "-c", "raise SystemExit(3)"])
