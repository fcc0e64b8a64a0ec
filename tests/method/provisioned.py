"""The simulator's servers as instances: made anew for each start, or one pair that stays."""

import numpy as np
from adapter import WARM_UP_S
from simulator import Simulator

from steelyard.stats import spending
from steelyard.stats.intervals import block_interval
from steelyard.stats.factorial import pooled_contrasts


class MadeInstances(Simulator):
    """Every start provisions its server: that takes a while, and no two are quite alike.

    Args:
        instance_sd: Between instances, of ln(tps), beside the profile's own effect of a restart.
        provision_s: Nothing is measured meanwhile.
    """

    def __init__(self, *args, instance_sd, provision_s, **more):
        self.instance_eff = 0.0
        self.instance_sd, self.provision_s = instance_sd, provision_s
        super().__init__(*args, **more)

    def _new_incarnation(self):
        super()._new_incarnation()
        self.restart_eff = self.restart_eff + self.instance_eff

    def enter(self):
        """Make a server and throw the warm-up away."""
        self.idle(self.provision_s)
        self.instance_eff = self.instance_sd * self.rng.standard_normal(self.R)
        self._new_incarnation()
        self.idle(WARM_UP_S)

    @property
    def start_s(self):
        """Return the seconds of a start before its first run."""
        return self.provision_s + WARM_UP_S


class OnePair(Simulator):
    """Two servers, one per configuration, that are never restarted, swapped or made anew."""

    def __init__(self, *args, instance_sd, **more):
        super().__init__(*args, **more)
        self.pair = instance_sd * self.rng.standard_normal((2, self.R))

    def run(self, configuration=0, cell=0, seconds=10):
        sides = np.broadcast_to(np.asarray(configuration), (self.R,))
        self.restart_eff = self.pair[sides, np.arange(self.R)]
        return super().run(configuration, cell, seconds)

    def enter(self):
        """Nothing: the server is there."""

    start_s = 0.0


def called_different(contrasts):
    """Return the share of campaigns whose interval at a fixed number of blocks leaves out 0."""
    found = [
        block_interval(pooled_contrasts(campaign), spending.FIXED_ALPHA) for campaign in contrasts
    ]
    return float(np.mean([interval.low > 0 or interval.high < 0 for interval in found]))
