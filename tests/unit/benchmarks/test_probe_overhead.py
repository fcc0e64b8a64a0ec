"""The gate on what the probes cost: on both sides of its threshold, and never by a gap."""

from types import ModuleType

import pytest
from benchmark_scripts import load_script

from steelyard.core.measurement import Absence, Evidence, ProbeCost
from steelyard.core.wording import MeasurementError


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
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
    benchmark: ModuleType,
    capsys: pytest.CaptureFixture[str],
    own_s: float,
    exit_code: int,
    word: str,
) -> None:
    """Threads and sessions count together, against server, pgbench and Steelyard of these runs."""
    watched = benchmark.Used(own=0.1, generator=0.3, server=0.6)
    costs = benchmark.Costs(
        contrasts=[0.0, 0.01, -0.01], own_s=own_s, server_s=0.004, watched=watched
    )
    assert benchmark.report(costs, 5) == exit_code
    printed = capsys.readouterr().out
    assert f": {word}" in printed
    assert "TPS with / without probes  100.0 % [" in printed


@pytest.mark.parametrize("cost", [None, ProbeCost(own_cpu_s=0.01, server_cpu_s=None)])
def test_a_cost_that_is_not_known_is_no_pass(benchmark: ModuleType, cost: ProbeCost | None) -> None:
    """Probes that were absent cost little: that must not look like a good result."""
    with pytest.raises(MeasurementError, match="server: it hung"):
        benchmark.told_cost(_evidence(cost))
    known = ProbeCost(own_cpu_s=0.01, server_cpu_s=0.02)
    assert benchmark.told_cost(_evidence(known)) == (0.01, 0.02)
