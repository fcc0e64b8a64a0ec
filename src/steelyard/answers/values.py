"""Several values of one setting: the smallest that is about as good as the best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np

from steelyard.answers.results import CampaignAnalysis, Comparison, Grounds
from steelyard.core.findings import Estimate
from steelyard.core.measurement import Environment
from steelyard.core.quantities import INLINE, PERCENT
from steelyard.core.schedule import ConfigurationName, WorkloadName
from steelyard.core.wording import in_unit, with_unit
from steelyard.report import document as doc
from steelyard.stats.intervals import FloatArray, block_interval

WITHIN: Final = 0.01  # of the throughput of the best value


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestValue:
    """The smallest value of a setting whose estimated throughput is within 1 % of the best.

    Attributes:
        nearest: A smaller value that comes next to the best, where the best has none within 1 %,
            else the smallest value.
        difference: Throughput of the nearest against the best value, paired over blocks. The level
            holds for every pair of values, as the best was chosen by the same blocks.
    """

    workload: WorkloadName
    setting: Annotated[str, "The setting of which several values were compared."]
    configuration: ConfigurationName
    value: Annotated[str, "Smallest value within 1 % of the best, by the estimates."]
    best: Annotated[str, "Value with the most throughput, by the estimates."]
    nearest: Annotated[
        str | None, "The value that is compared with the best; null if no smaller one exists."
    ]
    difference: Annotated[
        Estimate | None,
        PERCENT,
        INLINE,
        "Throughput of the nearest value against the best, %, with the interval over blocks.",
    ]
    own: Annotated[str, "The server's own value, that of the baseline."]

    @property
    def sentence(self) -> str:
        """Return it as a sentence."""
        begun = f"{self.setting}, under {self.workload}: {self._named(self.value)}"
        if self.difference is None or self.nearest is None:
            return f"{begun}, the smallest value, has the best estimate."
        change, interval = doc.effect_value(self.difference), doc.effect_interval(self.difference)
        apart = f"{change} {interval} ({doc.CONFIDENCE} for all pairs of values)"
        if self.value == self.best:
            return (
                f"{begun} has the best estimate, and no smaller value is within 1 % of it:"
                f" {self._named(self.nearest)} {apart}."
            )
        low = self.difference.low
        is_sure = low is not None and low >= -WITHIN
        return (
            f"{begun} is the smallest value within 1 % of the best estimate, that of"
            f" {self._named(self.best)}: {apart}"
            f"{'' if is_sure else ', which reaches beyond 1 %'}."
        )

    def _named(self, value: str) -> str:
        return f"{value} (the server's own)" if value == self.own else value


def smallest_values(grounds: Grounds) -> tuple[SmallestValue, ...]:
    """Return it for each workload, if the configurations differ in one numeric setting."""
    analysis, environment = grounds.analysis, grounds.record.environment
    asked = [each for each in analysis.settings if each.requested]
    if len(asked) != 1 or environment is None or analysis.experiment.attribution is not None:
        return ()
    setting = asked[0].name
    values = _numbers(environment, setting)
    if len(set(values.values())) < 3 or values.keys() != set(analysis.names):
        return ()
    return tuple(
        _smallest(workload, setting, values, effects, environment)
        for workload in dict.fromkeys(each.workload for each in analysis.results)
        if (effects := _effects(analysis, workload))
    )


def _numbers(environment: Environment, setting: str) -> Mapping[str, float]:
    """Return the value of each configuration in the server's unit, of those that are sizes.

    A negative number is a word for PostgreSQL, such as "no limit".
    """
    found = {
        server.configuration: in_unit(each.value, None)
        for server in environment.servers
        for each in server.settings
        if each.name == setting
    }
    return {name: number for name, number in found.items() if number is not None and number >= 0}


def _effects(analysis: CampaignAnalysis, workload: str) -> dict[str, Comparison]:
    """Return the results of a workload by configuration; empty before the first interval."""
    results = [each for each in analysis.results if each.workload == workload]
    if any(each.level is None or each.blocks < 2 for each in results):
        return {}
    return {each.configuration: each for each in results}


def _smallest(
    workload: str,
    setting: str,
    values: Mapping[str, float],
    effects: Mapping[str, Comparison],
    environment: Environment,
) -> SmallestValue:
    first = next(iter(effects.values()))
    contrasts = {name: np.array(each.contrasts) for name, each in effects.items()}
    contrasts[first.baseline] = np.zeros(first.blocks)
    changes = {name: _estimate(effects.get(name)) for name in values}
    best = max(values, key=lambda name: (changes[name], -values[name]))
    close = [n for n in values if (1 + changes[n]) / (1 + changes[best]) >= 1 - WITHIN]
    chosen = min(close, key=lambda name: values[name])
    smaller = [name for name in values if values[name] < values[best]]
    rival = max(smaller, key=lambda name: changes[name]) if smaller else None
    nearest = chosen if chosen != best else rival
    level = 2 * (first.level or 1.0) / len(values)  # Bonferroni over all pairs, not all contenders
    shown = {name: _shown(environment, setting, number) for name, number in values.items()}
    return SmallestValue(
        workload=workload,
        setting=setting,
        configuration=chosen,
        value=shown[chosen],
        best=shown[best],
        nearest=None if nearest is None else shown[nearest],
        difference=None
        if nearest is None
        else _difference(contrasts[nearest] - contrasts[best], level),
        own=shown[first.baseline],
    )


def _estimate(result: Comparison | None) -> float:
    return result.effect.value if result is not None and result.effect is not None else 0.0


def _difference(contrasts: FloatArray, level: float) -> Estimate:
    interval = block_interval(contrasts, level)
    low, high = (float(np.expm1(end)) for end in (interval.low, interval.high))
    return Estimate(
        value=float(np.expm1(interval.estimate)),
        low=low if np.isfinite(low) else None,
        high=high if np.isfinite(high) else None,
    )


def _shown(environment: Environment, setting: str, number: float) -> str:
    units = [s.unit for server in environment.servers for s in server.settings if s.name == setting]
    return with_unit(number, units[0])


def value_answers(analysis: CampaignAnalysis) -> tuple[doc.Paragraph, ...]:
    """Return a sentence for each workload, for the place of the results."""
    found = analysis.answer(smallest_values) or ()
    return tuple(doc.Paragraph(text=each.sentence) for each in found)
