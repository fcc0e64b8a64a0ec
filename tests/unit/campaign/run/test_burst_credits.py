"""A repeated try of a long run has the burst credits of a first one, or it says that it may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes import campaigns
from fakes.campaigns import Stage, an_experiment
from fakes.servers import FakePlatform, generator_fails
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Validity
from steelyard.core.measurement import ProviderSeries, SustainedRun
from steelyard.core.target import LocalTarget
from steelyard.core.wording import TargetError
from steelyard.record.directory import read_campaign


def _asking(lasts_s: float | None = None) -> Experiment:
    asking = replace(an_experiment(), sustained_s=600.0)
    configurations = tuple(
        replace(each, target=LocalTarget(burst_lasts_s=lasts_s)) for each in asking.configurations
    )
    return replace(asking, configurations=configurations)


def _last_try_fails(path: Path, experiment: Experiment) -> tuple[list[str], list[SustainedRun]]:
    """Return the steps of a campaign whose last long run fails at first, and its long runs."""
    count = Stage.new(experiment, path / "count")
    count.run()
    stage = Stage.new(experiment, path / "failing")
    stage.world.faults[count.world.uses - 1] = generator_fails
    stage.run()
    tried = list(read_campaign(path / "failing").sustained)
    assert [run.validity is Validity.INVALID for run in tried] == [False, True, False]
    return stage.world.steps, tried


def test_simulated_storage_is_full_before_each_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bucket is filled before the data come back: of a first try and of a repeated one."""

    class Simulated(FakePlatform):
        def refill(self) -> bool:
            self._world.steps.append("refill")
            return True

    monkeypatch.setattr(campaigns, "FakePlatform", Simulated)
    steps, tried = _last_try_fails(tmp_path, _asking(lasts_s=60.0))
    assert steps.count("refill") == len(tried)
    for place in (place for place, step in enumerate(steps) if step == "refill"):
        following = steps[place + 1 :]
        restored = next(n for n, step in enumerate(following) if step.startswith("restore"))
        assert restored < next(n for n, step in enumerate(following) if step.startswith("run"))
    assert not any(each.code == "credits-not-back" for run in tried for each in run.findings)


_RISING = (40.0, 60.0, 80.0, 99.5)


@pytest.mark.parametrize(
    ("lasts_s", "balances", "looks", "why"),
    [
        (None, None, 0, ""),  # no burst credits are known of
        (1800.0, None, 0, "their balance cannot be read here"),
        (1800.0, _RISING, 4, ""),
        (None, _RISING, 4, ""),
        (1800.0, (), 1, "their balance cannot be read here"),
        (1800.0, TargetError("no right"), 1, "cannot be read: no right"),
        (1800.0, (100.0,), None, "100 % of them were there after"),  # of before the wait
        (1800.0, (10.0, 11.0), None, "11 % of them were there after"),
    ],
)
def test_a_repeated_try_waits_for_credits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lasts_s: float | None,
    balances: tuple[float, ...] | TargetError | None,
    looks: int | None,
    why: str,
) -> None:
    """Of a balance that is published each minute, as long as the budget or the run allows.

    Where they are not back, or nobody knows, the run says so. A first try waits for nothing.
    """
    spans: list[tuple[float, float]] = []

    class Provided(FakePlatform):
        def provider_series(
            self, since_s: float, until_s: float, *, patience_s: float
        ) -> tuple[ProviderSeries, ...]:
            if patience_s:  # the end of the campaign, which reads all of it
                return ()
            if isinstance(balances, TargetError):
                spans.append((since_s, until_s))
                raise balances
            spans.append((since_s, until_s))
            begun_s = spans[0][1]
            known = (balances or ())[: int((until_s - begun_s) / 60.0) + 1]
            starts = tuple(begun_s + 60.0 * (place - 1) for place in range(len(known)))
            rest = {"server": "db", "metric": "BurstBalance", "unit": "%", "period_s": 60.0}
            return (ProviderSeries(starts_s=starts, values=known, **rest),)  # type: ignore[arg-type]

    monkeypatch.setattr(campaigns, "FakePlatform", FakePlatform if balances is None else Provided)
    _, tried = _last_try_fails(tmp_path, _asking(lasts_s))
    findings = [each for each in tried[-1].findings if each.code == "credits-not-back"]
    assert [why in each.message for each in findings] == [True] * bool(why)
    assert (tried[-1].validity is Validity.SUSPECT) is bool(why)
    assert not any(each.code == "credits-not-back" for run in tried[:-1] for each in run.findings)
    waited_s = spans[-1][1] - spans[0][1] if spans else 0.0
    assert len(spans) == looks if looks is not None else 600.0 <= waited_s <= 3600.0
