"""What a crash test says of each mode: how much is lost, how far back, how often, as promised?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.model.crash import Crash, CrashMode, CrashTest
from steelyard.model.persistence import (
    Death,
    PromisedDeath,
    PromisedLoss,
    promised_by_replica,
    promised_commits,
    promised_loss,
)
from steelyard.model.verdicts import Estimate
from steelyard.stats.proportion import highest_chance
from steelyard.stats.ranked_median import ranked_median_interval

LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashSummary:
    """One mode under one kind of death.

    Attributes:
        losing: Crashes after which something acknowledged was gone.
        unusable: Crashes after which the server did not start or could not read its data.
        acknowledged: Median over crashes.
        lost: Acknowledged writes that are gone: median over crashes, with its interval.
        most_lost: The same of the worst crash.
        lost_s: Seconds before the death of the oldest lost one, 0 where none is: median over
            crashes, with its interval.
        most_lost_s: The same of the worst crash.
        chance_at_most: Of a crash that loses something, by an exact upper bound at 95 %.
        whole_load: Crashes that lost all that was written: how far back it would go is not seen.
        uncounted: Writes that were answered while the power was being cut: no promise.
        uncounted_lost: Those of them that are gone.
        promised: What it may lose, by its settings.
        is_control: Something was lost each time, and only because it was not flushed: so the test
            finds such a loss.
        longest_window_s: The longest call that cut; None: there was none, or nobody looked.
        tried: Cuts before which a file was left unflushed.
        took: Those of them that took it.
    """

    mode: str
    death: Death
    crashes: int
    losing: int
    unusable: int
    acknowledged: float
    lost: Estimate
    most_lost: int
    lost_s: Estimate
    most_lost_s: float
    chance_at_most: float
    whole_load: int
    uncounted: int
    uncounted_lost: int
    promised: PromisedDeath
    is_control: bool
    longest_window_s: float | None
    tried: int
    took: int

    @property
    def is_shown_to_cut(self) -> bool:
        """Return whether each cut took a file with it that was not flushed."""
        return self.took == self.tried == self.crashes

    @property
    def is_broken(self) -> bool:
        """Return whether something is lost where nothing may be."""
        return self.promised.most_s == 0 and self.losing > 0

    @property
    def exceeds(self) -> bool:
        """Return whether more seconds are lost than promised, where settings alone bound them."""
        if self.promised.on_top:
            return False
        return bool(self.promised.most_s) and self.most_lost_s > (self.promised.most_s or math.inf)


def crash_summaries(test: CrashTest) -> tuple[CrashSummary, ...]:
    """Return what is to be said of each mode and kind of death that was taken, modes first."""
    return tuple(
        _summary(mode, death, crashes, promised(test.engine, mode))
        for death in test.deaths
        for mode in test.modes
        if (crashes := test.of(mode.name, death))
    )


def promised(engine: str, mode: CrashMode) -> PromisedLoss:
    """Return what a mode promises by its settings."""
    if mode.replica is not None:
        return promised_by_replica()
    rule = promised_loss if engine == "redis" else promised_commits
    return rule(mode.asked)


def _summary(
    mode: CrashMode, death: Death, crashes: Sequence[Crash], promise: PromisedLoss
) -> CrashSummary:
    lost = [each.gone for each in crashes]
    lost_s = [each.oldest_lost_s or 0.0 for each in crashes]
    losing = sum(gone > 0 for gone in lost)
    return CrashSummary(
        mode=mode.name,
        death=death,
        crashes=len(crashes),
        losing=losing,
        unusable=sum(bool(each.unusable) for each in crashes),
        acknowledged=float(np.median([each.counted for each in crashes])),
        lost=_median(lost),
        most_lost=max(lost),
        lost_s=_median(lost_s),
        most_lost_s=max(lost_s),
        chance_at_most=highest_chance(losing, of=len(crashes), level=LEVEL),
        whole_load=sum(each.gone == each.counted for each in crashes),
        uncounted=sum(each.late for each in crashes) if death is Death.POWER else 0,
        uncounted_lost=sum(each.late_lost for each in crashes) if death is Death.POWER else 0,
        promised=promise.after(death),
        # What a kill loses for the same reason does not show that the cut cuts.
        is_control=death is Death.POWER
        and promise.power != promise.kill
        and losing == len(crashes),
        longest_window_s=max((w for c in crashes if (w := c.window_s) is not None), default=None),
        tried=sum(each.took_unflushed is not None for each in crashes),
        took=sum(each.took_unflushed is True for each in crashes),
    )


def _median(values: Sequence[float]) -> Estimate:
    found = ranked_median_interval(np.array(values, dtype=float), LEVEL)
    if not found.bounded:
        return Estimate(value=found.estimate)
    return Estimate(value=found.estimate, low=found.low, high=found.high)
