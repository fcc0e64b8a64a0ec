"""The estimate of a server's shared memory, against what the programs of three versions said."""

import csv
from pathlib import Path

import pytest

from steelyard.core.wording import MIB
from steelyard.tuning.plan.arithmetic import (
    FORMULA_ERROR,
    formula_counter,
    least_shared_memory_bytes,
    shared_memory_bytes,
)

RECORDED = Path(__file__).parents[2] / "recordings" / "shared_memory" / "sizes.csv"
SETTINGS = (
    "shared_buffers",
    "max_connections",
    "wal_buffers",
    "max_worker_processes",
    "min_dynamic_shared_memory",
)


def recorded() -> list[tuple[int, dict[str, str], int]]:
    """Return version, settings, and shared_memory_size in bytes, which is rounded up to a MiB."""
    rows = []
    with RECORDED.open(newline="") as file:
        for row in csv.DictReader(file):
            settings = {
                name: f"{row[f'{name}_mb']}MB" if f"{name}_mb" in row else row[name]
                for name in SETTINGS
            }
            rows.append((int(row["version"]), settings, int(row["shared_memory_size_mb"]) * MIB))
    return rows


@pytest.mark.parametrize(("version", "settings", "said"), recorded())
def test_it_is_within_the_error_that_is_told(
    version: int, settings: dict[str, str], said: int
) -> None:
    """From 512 MB to 64 GB half a percent and a rounded MiB; 3 MiB below; above, 0.3 % too much."""
    estimate = shared_memory_bytes(settings, version)
    buffers = int(settings["shared_buffers"].removesuffix("MB"))
    if buffers > 64 * 1024:
        assert said - MIB <= estimate <= 1.003 * said
    else:
        allowed = FORMULA_ERROR * said + MIB if buffers >= 512 else 3 * MIB
        assert abs(estimate - said) <= allowed


def test_the_lower_bound_is_one() -> None:
    """Never above what any program said: so nobody is refused a start that would succeed."""
    assert all(
        least_shared_memory_bytes(settings, version) <= said
        for version, settings, said in recorded()
    )
    assert all(least_shared_memory_bytes(settings, 15) <= said for _, settings, said in recorded())


def test_defaults_and_units() -> None:
    """An empty configuration has 128 MB; bare numbers count blocks; wal_buffers follow buffers."""
    default = shared_memory_bytes({}, 18)
    assert default == shared_memory_bytes({"shared_buffers": "16384", "wal_buffers": "4MB"}, 18)
    assert shared_memory_bytes({"shared_buffers": "lots"}, 18) < default
    assert (
        shared_memory_bytes({"min_dynamic_shared_memory": "512"}, 18) == default + 512 * MIB
    )  # a bare number of that setting counts MB


def test_the_counter_never_lacks_a_page() -> None:
    """It counts as many as any program said, or more, and nobody takes it for the program."""
    for version, settings, said in recorded():
        count = formula_counter(version)(settings, 2 * MIB)
        assert said <= count.pages * 2 * MIB
        assert count.pages * 2 * MIB <= max(1.01 * said, said + 8 * MIB) + 2 * MIB
        assert count.counted_by == f"a formula for PostgreSQL {version}"
