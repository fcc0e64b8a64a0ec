"""The warm-up: declared, the floor, or measured from the warm-up of every configuration."""

from pathlib import Path

from fakes.campaigns import Stage, an_experiment
from steelyard.campaign.run.beside_blocks import (
    calibrate,
    choose_warm_up,
    declared_warm_up,
)
from steelyard.core.experiment import Calibration, Measure
from steelyard.core.measurement import Measurement, Second

_FULL = Calibration(restarts=5, run_time_s=90.0, at_least_s=20.0)


def _warming(seconds: int, settled_after: int, loss: float = 0.5) -> Measurement:
    """Return a run whose throughput is lower until it has settled."""
    series = tuple(
        Second(
            end_s=n + 1.0,
            transactions=1000.0 * (1.0 - loss if n < settled_after else 1.0) + (n % 3),
            seconds=1.0,
            latency_mean_s=0.001,
        )
        for n in range(seconds)
    )
    return Measurement(
        transactions=1.0,
        seconds=float(seconds),
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=series,
    )


def _collected(
    *settled_after: int, restarts: int = 5, seconds: int = 90
) -> list[dict[str, list[Measurement]]]:
    return [
        {"reads": [_warming(seconds, after) for _ in range(restarts)]} for after in settled_after
    ]


def test_a_declared_warm_up_is_taken_with_its_risk() -> None:
    """What the file says counts, and the record says that nobody measured it."""
    choice = declared_warm_up(an_experiment(measure=Measure(warm_up_s=7.0)))
    assert choice is not None
    assert (choice.warm_up_s, choice.how) == (7.0, "declared")
    assert "not measured" in choice.risk


def test_without_a_calibration_the_floor_counts() -> None:
    """Twenty seconds, as the method asks for at least."""
    choice = declared_warm_up(an_experiment(measure=Measure()))
    assert choice is not None
    assert (choice.warm_up_s, choice.how) == (20.0, "floor")


def test_a_calibration_is_to_be_measured() -> None:
    """Then nothing is declared."""
    assert declared_warm_up(an_experiment(measure=Measure(calibration=_FULL))) is None


def test_the_slowest_configuration_decides_for_all() -> None:
    """One that settles after 40 s makes both wait at least as long."""
    choice = choose_warm_up(_collected(0, 40), _FULL, 5)
    assert choice.how == "measured"
    assert choice.warm_up_s == max(choice.measured_s)
    assert choice.measured_s[0] < choice.measured_s[1]
    assert 40 <= choice.warm_up_s <= 60
    assert choice.restarts == 5
    assert all(loss is None or loss < 0.01 for loss in choice.residual_fraction)


def test_the_warm_up_is_never_below_its_floor() -> None:
    """Configurations that need no warm-up still wait for the least asked for."""
    choice = choose_warm_up(_collected(0, 0), _FULL, 5)
    assert choice.warm_up_s == 20.0
    assert "on 5 starts per configuration" in choice.risk


def test_a_short_calibration_says_what_it_may_have_missed() -> None:
    """Fewer and shorter runs than the method asks for are told with their numbers."""
    short = Calibration(restarts=2, run_time_s=20.0, at_least_s=3.0)
    choice = choose_warm_up(_collected(0, 0, restarts=2, seconds=20), short, 2)
    assert "only 2 starts of 20 s" in choice.risk
    assert "would go unseen" in choice.risk


def test_runs_of_different_length_are_cut_to_the_shortest() -> None:
    """A generator that missed its last second is no reason to fail."""
    collected = _collected(0, 0)
    collected[0]["reads"][0] = _warming(89, 0)
    assert choose_warm_up(collected, _FULL, 5).warm_up_s == 20.0


def test_every_configuration_and_workload_is_calibrated() -> None:
    """Workloads take turns over the starts; there are at least as many as workloads."""
    experiment = an_experiment(workloads=("reads", "more-reads", "other-reads"))
    asked: list[tuple[str, str, int]] = []

    def take(configuration: str, workload: str, seconds: int) -> Measurement:
        asked.append((configuration, workload, seconds))
        return _warming(seconds, 0)

    calibration = Calibration(restarts=2, run_time_s=30.0, at_least_s=1.0)
    choice = calibrate(experiment, calibration, take)
    assert asked == [
        (configuration, workload, 30)
        for configuration in ("slow", "fast")
        for workload in ("reads", "more-reads", "other-reads")
    ]
    assert choice.restarts == 3
    assert len(choice.measured_s) == 2


def test_a_campaign_measures_its_warm_up_before_the_first_block(tmp_path: Path) -> None:
    """Each start on restored data; the plan holds the choice, and blocks warm-up it."""
    calibration = Calibration(restarts=2, run_time_s=30.0, at_least_s=3.0)
    measure = Measure(run_time_s=5.0, discard_start_s=1.0, calibration=calibration)
    stage = Stage.new(an_experiment(measure=measure), tmp_path / "campaign")
    analysis = stage.run()
    assert any(each.startswith("measuring the warm-up, ") for each in stage.listener.heard)
    assert stage.world.steps.count("run reads 1 30s") == 2 * 2
    assert analysis.plan is not None
    assert analysis.plan.warm_up.restarts == 2
    warm_up = f"run reads 1 {round(analysis.plan.warm_up.warm_up_s)}s"
    assert stage.world.steps.count(warm_up) == 2 * analysis.blocks
