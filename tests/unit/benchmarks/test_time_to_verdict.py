"""The benchmark of verdicts: its table, that it repeats, and that its gate can close."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
