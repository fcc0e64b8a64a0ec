"""The smallest of several values that is within 1 % of the best."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from steelyard.answers.results import Comparison, SettingDifference
from steelyard.answers.values import SmallestValue, smallest_values
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import Environment, ServerEnvironment

if TYPE_CHECKING:
    from steelyard.answers.results import Grounds

_KB = {"now": 4096, "one": 1024, "mid": 65536, "big": 262144}
_NOISE = np.array([0.01, -0.01, 0.0, 0.005, -0.005, 0.0])


def grounds(logs: dict[str, float], *, further: bool = False, level: float | None = 0.02) -> object:
    """Return what a campaign showed: log ratios against ``now``, with noise of their own."""
    results = []
    for number, (name, log) in enumerate(logs.items()):
        contrasts = log + np.roll(_NOISE, number) * 0.1
        results.append(
            Comparison(
                baseline="now",
                configuration=name,
                workload="w",
                load=None,
                level=level,
                effect=Estimate(value=float(np.expm1(log))),
                blocks=len(contrasts),
                verdict=Verdict.NO_CLEAR_DIFFERENCE,
                contrasts=tuple(contrasts),
            )
        )
    names = ["now", *logs]
    asked = [
        SettingDifference(name=name, values={}, requested=True)
        for name in ["work_mem", *(["jit"] if further else [])]
    ]
    servers = tuple(
        ServerEnvironment(
            configuration=name,
            version="15",
            settings=(EffectiveSetting(name="work_mem", value=str(_KB[name]), unit="kB"),),
        )
        for name in names
    )
    experiment = SimpleNamespace(attribution=None)
    analysis = SimpleNamespace(
        settings=asked, results=tuple(results), experiment=experiment, names=tuple(names)
    )
    record = SimpleNamespace(environment=Environment(facts=(), servers=servers))
    return SimpleNamespace(analysis=analysis, record=record)


def found(logs: dict[str, float], **about: object) -> tuple[SmallestValue, ...]:
    """Return the answer."""
    return smallest_values(cast("Grounds", grounds(logs, **about)))  # type: ignore[arg-type]


def test_a_smaller_value_that_is_about_as_good_is_named_with_its_interval() -> None:
    """Against the best, and paired over blocks: noise that both share does not count."""
    (value,) = found({"one": -0.3, "mid": 0.2, "big": 0.205})
    assert (value.value, value.best, value.own) == ("64MB", "256MB", "4MB")
    assert value.configuration == "mid"
    assert value.difference is not None
    assert value.difference.low is not None
    assert value.difference.high is not None
    assert value.difference.value == pytest.approx(-0.005, abs=0.002)
    assert value.difference.low < -0.005 < value.difference.high
    assert value.sentence.startswith(
        "work_mem, under w: 64MB is the smallest value within 1 % of the best estimate, that of"
        " 256MB: -0.5"
    )


def test_the_best_is_told_with_the_next_smaller() -> None:
    """It is further away than 1 %; the server's own value is one of them."""
    (value,) = found({"one": -0.3, "mid": 0.2, "big": 0.1})
    assert (value.value, value.best, value.nearest) == ("64MB", "64MB", "4MB")
    assert "no smaller value is within 1 % of it: 4MB (the server's own) -18." in value.sentence
    (least,) = found({"one": 0.3, "mid": 0.2})
    assert (least.value, least.difference) == ("1MB", None)
    assert "1MB, the smallest value, has the best estimate" in least.sentence


def test_it_needs_three_values_of_one_setting_and_an_interval() -> None:
    """Else it is another question, or nothing is known yet."""
    assert found({"mid": 0.2}) == ()
    assert found({"mid": 0.2, "big": 0.1}, further=True) == ()
    assert found({"mid": 0.2, "big": 0.1}, level=None) == ()


def test_no_limit_is_not_the_smallest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative number is a word for PostgreSQL, so nothing is said of an order."""
    assert found({"one": 0.3, "mid": 0.2})
    monkeypatch.setitem(_KB, "one", -1)
    assert not found({"one": 0.3, "mid": 0.2})
