"""The parts of the noise, from arrays that were made of known parts."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from chance import lowest_rate

from steelyard.core.campaign import ASSUMED_NOISE, WorkloadNoise
from steelyard.core.schedule import Mode
from steelyard.stats.noise import NoiseParts, NoiseSample, mean_variance, noise_parts
from steelyard.stats.planning import BlockShape, optimal_run_time_s


@dataclass(frozen=True, kw_only=True)
class Made:
    """Parts to make an A/A campaign of."""

    second: float = 0.05
    rho: float = 0.5
    piece: float = 0.03
    start: float = 0.04
    same_start: bool = False


def sample(
    made: Made, *, blocks: int = 200, cells: int = 4, seconds: int = 6, seed: int = 1
) -> NoiseSample:
    """Return what such a campaign gives; its level walks, which no contrast may see."""
    rng = np.random.default_rng(seed)
    shape = (blocks, 2, cells, seconds)
    noise = np.empty(shape)
    noise[..., 0] = rng.standard_normal(shape[:-1])
    for second in range(1, seconds):
        step = np.sqrt(1 - made.rho**2) * rng.standard_normal(shape[:-1])
        noise[..., second] = made.rho * noise[..., second - 1] + step
    arms = 1 if made.same_start else 2
    starts = made.start * rng.standard_normal((blocks, arms, 1, 1))
    pieces = made.piece * rng.standard_normal((blocks, 2, cells, 1))
    level = np.cumsum(0.02 * rng.standard_normal((blocks, 1, 1, 1)), axis=0)
    logs = np.log(1000.0) + level + starts + pieces + made.second * noise
    means = logs.mean(axis=-1)
    return NoiseSample(
        contrasts=means[:, 1] - means[:, 0],
        seconds=logs,
        companions=np.empty((blocks, 0)),
        same_start=made.same_start,
    )


def centres(parts: NoiseParts) -> tuple[float, float, float, float | None]:
    """Return the four estimates."""
    start = None if parts.restart_sd is None else parts.restart_sd.estimate
    return (
        parts.second_sd.estimate,
        parts.autocorrelation.estimate,
        parts.slice_sd.estimate,
        start,
    )


def test_known_parts_are_found() -> None:
    """With 200 blocks every part is within a tenth of what it was made of."""
    made = Made()
    found = centres(noise_parts(sample(made)))
    assert found == pytest.approx((made.second, made.rho, made.piece, made.start), rel=0.1)


def test_back_to_back_the_start_cancels() -> None:
    """Both arms share it: it is not guessed, and it is not taken for slices."""
    made = Made(same_start=True, start=0.2)
    parts = noise_parts(sample(made))
    assert parts.restart_sd is None
    assert parts.slice_sd.estimate == pytest.approx(made.piece, rel=0.1)


def test_with_one_run_per_start_the_sum_is_split() -> None:
    """Slice and start cannot be told apart; their variances are halves of what is measured."""
    made = Made()
    parts = noise_parts(sample(made, cells=1, blocks=600))
    assert not parts.separated
    assert parts.restart_sd == parts.slice_sd
    whole = np.hypot(made.piece, made.start)
    assert parts.slice_sd.estimate * np.sqrt(2) == pytest.approx(whole, rel=0.1)


def test_another_workload_of_the_starts_tells_them_apart() -> None:
    """What two workloads share in a start is the start's."""
    both = sample(Made(), cells=2, blocks=600)
    one = replace(
        both,
        contrasts=both.contrasts[:, :1],
        seconds=both.seconds[:, :, :1],
        companions=both.contrasts[:, 1:],
    )
    parts = noise_parts(one)
    assert parts.separated
    assert centres(parts)[2:] == pytest.approx((0.03, 0.04), rel=0.2)


def test_stalls_do_not_count() -> None:
    """A stall in one run of fifty would treble the parts; they barely move."""
    clean = sample(Made())
    stalled = clean.seconds.copy()
    stalled[::25, 0, 2, 2:] += np.log(0.1)
    means = stalled.mean(axis=-1)
    spoilt = replace(clean, contrasts=means[:, 1] - means[:, 0], seconds=stalled)
    assert spoilt.contrasts.std() > 1.5 * clean.contrasts.std()
    assert centres(noise_parts(spoilt)) == pytest.approx(centres(noise_parts(clean)), rel=0.15)


def test_runs_of_different_length_are_used_as_they_are() -> None:
    """Seconds that a run does not have change nothing but the number of steps."""
    made = sample(Made())
    cut = made.seconds.copy()
    cut[::2, :, :, -1] = np.nan
    found = noise_parts(replace(made, seconds=cut))
    assert found.second_sd.estimate == pytest.approx(0.05, rel=0.1)


def test_no_part_is_negative() -> None:
    """Without noise between runs the variances come out on both sides of 0; none is below it."""
    for seed in range(40):
        parts = noise_parts(sample(Made(piece=0.0, start=0.0), blocks=10, seed=seed))
        assert parts.restart_sd is not None
        for part in (parts.slice_sd, parts.restart_sd):
            assert 0.0 <= part.low <= part.estimate <= part.high


def test_a_machine_without_noise_has_none() -> None:
    """The same rate in every second is no division by zero."""
    flat = NoiseSample(
        contrasts=np.zeros((6, 2)),
        seconds=np.full((6, 2, 2, 5), 7.0),
        companions=np.empty((6, 0)),
        same_start=False,
    )
    parts = noise_parts(flat)
    assert max(value or 0.0 for value in centres(parts)) < 1e-9


@pytest.mark.parametrize(("blocks", "seconds"), [(3, 6), (8, 2)])
def test_too_little_is_refused(blocks: int, seconds: int) -> None:
    """Below 4 blocks or 3 seconds there is no estimate, and no number that looks like one."""
    with pytest.raises(ValueError, match="no parts of noise"):
        noise_parts(sample(Made(), blocks=blocks, seconds=seconds))


def test_the_intervals_cover_the_parts() -> None:
    """Of 300 campaigns of 20 blocks at least nine tenths have each part in its interval."""
    made = Made()
    truth = (made.second, made.rho, made.piece, made.start)
    found = [noise_parts(sample(made, blocks=20, seed=seed)) for seed in range(300)]
    for name, true in zip(
        ("second_sd", "autocorrelation", "slice_sd", "restart_sd"), truth, strict=True
    ):
        intervals = [getattr(parts, name) for parts in found]
        covered = np.mean([each.low <= true <= each.high for each in intervals])
        assert covered >= lowest_rate(0.95, 300) - 0.02, name


def a_noise(**parts: float) -> WorkloadNoise:
    """Return the assumed noise without drift, with some parts changed."""
    return replace(ASSUMED_NOISE.workloads[0], **{"drift_sd": 0.0, **parts})


ALONE = BlockShape(mode=Mode.STARTS, configurations=2, cells=1, run_time_s=5.0, step_s=60.0)


def best_slice_s(noise: WorkloadNoise, *, overhead_s: float) -> float:
    """Return the best length for a single cell."""
    return optimal_run_time_s([noise], ALONE, overhead_s=overhead_s)


def test_between_whole_seconds_the_variance_of_a_mean_goes_on() -> None:
    """No jump where a slice is no whole number of seconds, and never less with less time."""
    values = [mean_variance(1.0, 0.5, seconds) for seconds in (4.0, 4.2, 4.5, 4.999999, 5.0)]
    assert values == sorted(values, reverse=True)
    assert values[3] == pytest.approx(values[4], rel=1e-4)
    assert mean_variance(1.0, 0.5, 0.5) == 1.0


def test_the_best_slice_is_the_one_of_the_method() -> None:
    """METHOD 3.1: 8 to 12 s for five loads in the typical profile, 15 s and more for one."""
    typical = a_noise()
    assert 8 <= best_slice_s(typical, overhead_s=25 / 5 + 2) <= 12
    assert best_slice_s(typical, overhead_s=25 + 2) >= 15


def test_the_best_slice_is_whole_and_within_limits() -> None:
    """Three to thirty seconds: as short as may be where averaging does not help, else longer."""
    assert best_slice_s(a_noise(second_sd=0.0), overhead_s=5.0) == 3.0
    assert best_slice_s(a_noise(slice_sd=0.0, restart_sd=0.0), overhead_s=5.0) == 30.0
    assert best_slice_s(a_noise(autocorrelation=1.0), overhead_s=5.0) == 3.0
    assert best_slice_s(a_noise(), overhead_s=7.3) == int(best_slice_s(a_noise(), overhead_s=7.3))
