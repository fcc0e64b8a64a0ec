"""The benchmarks: their figures are right, they repeat, and their gates can close."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from steelyard.answers.campaign import analyse
from steelyard.core.findings import Verdict
from steelyard.core.measurement import Absence, Evidence, ProbeCost
from steelyard.core.wording import MeasurementError
from steelyard.record.directory import read_campaign
from support.benchmarks import load_script

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "time_to_verdict.py"
ROWS = ("A one 60-s", "A one 6-min", "B 60-s", "C blocks", "Steelyard, with", "Steelyard, back")
# A product that spends fifteen times its error.
BROKEN = """
import runpy, sys
import steelyard.stats.spending as stopping
stopping.SEQUENTIAL_ALPHA = 0.6
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def benchmark(*words: str, broken: bool = False) -> subprocess.CompletedProcess[str]:
    """Return what the benchmark printed."""
    program = ["-c", BROKEN, str(SCRIPT)] if broken else [str(SCRIPT)]
    return subprocess.run(
        [sys.executable, *program, "--campaigns=25", *words],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def printed() -> str:
    """Return what the benchmark prints of the product as it is."""
    done = benchmark()
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_every_design_has_its_figures(printed: str) -> None:
    """Six rows with rates, coverage and minutes; what is no power stands in brackets."""
    lines = printed.splitlines()
    found = {name: next(line for line in lines if line.startswith(name)) for name in ROWS}
    for name, line in found.items():
        assert len(re.findall(r"\d\.\d%", line)) == 5
        assert ("invalid" in line) == (name[0] in "AB")
        assert bool(re.search(r"\(\d+%\)", line)) == (name[0] in "AB")
    shares = {name: float(re.findall(r"([\d.]+)%", line)[0]) for name, line in found.items()}
    assert shares["A one 60-s"] > 30 > shares["Steelyard, with"]
    assert lines[-1] == "passed"


@pytest.mark.slow
def test_the_same_seed_prints_the_same_table(printed: str) -> None:
    """Every figure is a count over seeded campaigns."""
    assert benchmark("--seed=1").stdout == printed


@pytest.mark.slow
def test_a_product_that_errs_too_often_is_exit_code_10() -> None:
    """Levels that spend fifteen times the error leave the binomial bound."""
    done = benchmark(broken=True)
    assert done.returncode == 10, done.stderr + done.stdout
    assert "failed: Steelyard, with restarts: A/A" in done.stdout


@pytest.fixture
def ingest(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    return load_script("ingest", monkeypatch)


def test_a_reading_by_hand_counts_the_same(ingest: ModuleType, tmp_path: Path) -> None:
    """The checksum that all readers must agree on is that of a loop over the lines."""
    path = tmp_path / "log"
    ingest.write_log(path, 3000, 7)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3000
    cells: dict[tuple[int, int, int], int] = {}
    for line in lines:
        _, _, time_us, script, epoch, us = map(int, line.split())
        second = (epoch * 10**6 + us - ingest.STARTED_US) // 10**6
        cell = (second, script, int(ingest.bucket_indices(time_us)))
        cells[cell] = cells.get(cell, 0) + 1
    seconds, scripts, buckets = zip(*cells, strict=True)
    expected = ingest.checksum(seconds, scripts, buckets, list(cells.values()))
    assert ingest.with_steelyard(str(path))[1] == expected
    cells[next(iter(cells))] += 1
    assert ingest.checksum(seconds, scripts, buckets, list(cells.values())) != expected


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
    ingest: ModuleType,
    capsys: pytest.CaptureFixture[str],
    ours: list[float],
    peak_mb: int,
    counts: list[int],
    code: int,
    word: str,
) -> None:
    """Far slower beyond the interval fails; slower within it, as of one slow round, does not."""

    def readings(walls: list[float], peak: int, told: list[int] | None) -> list[object]:
        return [ingest.Reading(wall=wall, cpu=wall, peak_bytes=peak, counts=told) for wall in walls]

    others = [1.0, 1.02, 0.98, 1.0, 1.01, 0.99]
    found = {
        "bytes": readings([0.1] * 6, 10, None),
        "steelyard": readings(ours, peak_mb * 10**6, counts),
        "duckdb": readings([2.0 * wall for wall in others], 10**9, [1, 2]),
        "polars": readings(others, 10**9, [1, 2]),
        "pandas": readings([3.0 * wall for wall in others], 10**9, [1, 2]),
    }
    assert ingest.report(found, 1000, 33_000) == code
    assert word in capsys.readouterr().out


@pytest.fixture
def overhead(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module, beside the one that it builds on."""
    return load_script("probe_overhead", monkeypatch)


def _evidence(cost: ProbeCost | None) -> Evidence:
    absent = (Absence(subject="server", reason="it hung"),)
    return Evidence(
        seconds=5.0,
        totals={},
        levels={},
        waits=None,
        series=(),
        others=(),
        absent=absent,
        cost=cost,
    )


@pytest.mark.parametrize(
    ("own_s", "exit_code", "word"), [(0.0059, 0, "passed"), (0.0061, 10, "FAILED")]
)
def test_one_per_cent_of_what_was_used_is_let_pass(
    overhead: ModuleType,
    capsys: pytest.CaptureFixture[str],
    own_s: float,
    exit_code: int,
    word: str,
) -> None:
    """Threads and sessions count together, against server, pgbench and Steelyard of these runs."""
    watched = overhead.Used(own=0.1, generator=0.3, server=0.6)
    costs = overhead.Costs(
        contrasts=[0.0, 0.01, -0.01], own_s=own_s, server_s=0.004, watched=watched
    )
    assert overhead.report(costs, 5) == exit_code
    printed = capsys.readouterr().out
    assert f": {word}" in printed
    assert "TPS with / without probes  100.0 % [" in printed


@pytest.mark.parametrize("cost", [None, ProbeCost(own_cpu_s=0.01, server_cpu_s=None)])
def test_a_cost_that_is_not_known_is_no_pass(overhead: ModuleType, cost: ProbeCost | None) -> None:
    """Probes that were absent cost little: that must not look like a good result."""
    with pytest.raises(MeasurementError, match="server: it hung"):
        overhead.told_cost(_evidence(cost))
    known = ProbeCost(own_cpu_s=0.01, server_cpu_s=0.02)
    assert overhead.told_cost(_evidence(known)) == (0.01, 0.02)


@pytest.fixture
def report_benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    return load_script("report", monkeypatch)


def test_the_record_is_one_that_can_be_analysed(
    report_benchmark: ModuleType, tmp_path: Path
) -> None:
    """All runs count, with all their seconds; the difference that was put in is found."""
    size = report_benchmark.write_record(tmp_path / "made", runs=240, seconds=8, seed=3)
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


def test_the_seed_makes_the_record(report_benchmark: ModuleType, tmp_path: Path) -> None:
    """The same seed gives the same bytes, another one others."""
    contents = []
    for number, seed in enumerate((1, 1, 2)):
        report_benchmark.write_record(tmp_path / str(number), runs=40, seconds=4, seed=seed)
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
    report_benchmark: ModuleType, peak: int, html: int, names: list[str]
) -> None:
    """What is too large is named; seconds are no goal."""
    told = report_benchmark.missed(peak, html)
    assert [each.partition(" is ")[0] for each in told] == names


def test_what_a_process_took_is_that_of_the_process(report_benchmark: ModuleType) -> None:
    """Its peak memory is in bytes; a failure is one."""
    took = report_benchmark.spent([sys.executable, "-c", "x = bytearray(700_000_000)"])
    assert 700_000_000 < took.peak_bytes < 1_400_000_000
    with pytest.raises(RuntimeError, match="ended with 3"):
        report_benchmark.spent([sys.executable, "-c", "raise SystemExit(3)"])
