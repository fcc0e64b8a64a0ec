"""A lasting drop is found, and what only looks like one is not."""

import numpy as np
import pytest

from steelyard.stats.capacity import LEAST_S, scan_for_cliff

SECONDS = 900


def series(seed: int = 1, sd: float = 0.05) -> np.ndarray:
    """Return a steady run of 15 minutes at 1000/s with noise that hangs together."""
    rng = np.random.default_rng(seed)
    noise = np.convolve(rng.standard_normal(SECONDS + 2), np.ones(3) / np.sqrt(3), "valid")
    return np.asarray(1000.0 * np.exp(sd * noise))


def test_an_emptied_bucket_is_measured() -> None:
    """A drop to 600/s at 300 s: its time, both rates, and a bucket of 120 000 transactions."""
    rates = series()
    rates[300:] *= 0.6
    scan = scan_for_cliff(rates)
    assert scan.found
    assert scan.at_low_s <= 300.0 <= scan.at_high_s
    assert scan.at_high_s - scan.at_low_s <= 40.0
    assert scan.drop == pytest.approx(0.4, abs=0.02)
    assert scan.sustained == pytest.approx(600.0, rel=0.02)
    assert scan.least_capacity == pytest.approx(120_000.0, rel=0.1)
    assert scan.refill_s == pytest.approx(200.0, rel=0.1)
    assert not scan.late


def test_a_steady_run_has_none() -> None:
    """Noise alone is no cliff, over fifty runs."""
    assert not any(scan_for_cliff(series(seed)).found for seed in range(50))


def test_a_rise_is_no_cliff() -> None:
    """Warming up is the opposite."""
    rates = series()
    rates[:300] *= 0.6
    scan = scan_for_cliff(rates)
    assert not scan.found


def test_a_dip_that_ends_is_no_cliff() -> None:
    """A neighbour of four minutes goes away again."""
    rates = series()
    rates[400:640] *= 0.6
    assert not scan_for_cliff(rates).found


def test_a_drop_that_was_there_before_is_no_cliff() -> None:
    """What comes and goes is no bucket, even when it ends low."""
    rates = series()
    rates[100:340] *= 0.6
    rates[640:] *= 0.6
    assert not scan_for_cliff(rates).found


def test_a_small_drop_is_not_worth_a_word() -> None:
    """Eight percent, however sure, is below the ten that count."""
    rates = series(sd=0.01)
    rates[300:] *= 0.92
    scan = scan_for_cliff(rates)
    assert scan.z > 4.5
    assert not scan.found


def test_a_late_drop_asks_for_a_longer_run() -> None:
    """A split in the last quarter is marked, found or not."""
    rates = series()
    rates[800:] *= 0.5
    assert scan_for_cliff(rates).late


def test_a_short_run_is_refused() -> None:
    """A run of 139 s cannot show a cliff, and nobody may take silence for steadiness."""
    with pytest.raises(ValueError, match="139 s"):
        scan_for_cliff(series()[: LEAST_S - 1])
    assert not scan_for_cliff(np.full(LEAST_S, 1000.0)).found
