"""How long things take, before and after they were measured."""

from dataclasses import dataclass

from steelyard.model.experiment import Experiment
from steelyard.model.load import Load
from steelyard.model.measure import Reset
from steelyard.model.plan import settling_s
from steelyard.model.schedule import Mode
from steelyard.model.turns import CONNECTION_S

# From research on one machine; replaced by measured values before the plan is frozen.
GUESSED_START_S = 0.5
GUESSED_RESTORE_S_PER_GIB = 3.0
GUESSED_PREPARE_S_PER_SCALE = 0.1
GUESSED_PREPARE_S = 2.0
GUESSED_SWITCH_S = 0.1
# Measured with Redis 7.0.15 on two busy CPUs: 16,000 keys/s, and 30 MB/s of large ones with their
# dump and append-only file.
GUESSED_FILL_S_PER_KEY = 1 / 16_000
GUESSED_FILL_S_PER_GIB = 35.0
# Of Clusters: seen on one small cluster with local volumes (23 to 58 s to healthy, 3 to 20 s for a
# restart); what a storage product needs to make a volume comes on top and is not known before.
GUESSED_CLUSTER_S = 60.0
GUESSED_STANDBY_S = 30.0
GUESSED_ROLLOUT_S = 15.0
# Of Redis servers in pods: 11 s to make one with a local volume, 6 to 8 s for a start were seen.
GUESSED_REDIS_SET_S = 15.0
GUESSED_POD_START_S = 8.0
# Process start, connections and the last transactions of a run: measured at 8 clients, rounded up.
RUN_OVERHEAD_S = 0.25
# Placing an order in a pod, agreeing on an instant, fetching what came of it: 1 to 3 s were seen on
# a small busy cluster.
POD_RUN_OVERHEAD_S = 2.0
DEFAULT_DISCARD_S = 20.0  # METHOD 3.7
# Seconds under load where treatments alternate. Measured: with 2 s an effect of 16 against 512 MB
# of shared buffers (160 MB of data) is the same as in long turns, with 1 s it is smaller.
TURNS_DISCARD_S = 2.0
# Under load after new generators of a run in turns, of which nothing counts: connecting 50 clients
# took 0.1 s. Rounds in which a client still connected do not count.
CONNECT_S = 0.25
# An open loop goes on for so long, because pgbench forgets what was due and not sent at its end.
TAIL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTimes:
    """Seconds of one activation's parts.

    Attributes:
        restore_s: Bringing the data back, per visit in which it happens.
        start_s: From the server's start to verified and prewarmed.
        switch_s: From one treatment to another on a running server.
    """

    restore_s: float
    start_s: float
    switch_s: float = GUESSED_SWITCH_S


def tail_s(load: Load) -> float:
    """Return how long a load goes on after the measured part of its run."""
    return TAIL_S if load.is_open else 0.0


def run_overhead_s(experiment: Experiment) -> float:
    """Return the seconds that a run takes beside the time that it measures."""
    return POD_RUN_OVERHEAD_S if experiment.is_in_kubernetes else RUN_OVERHEAD_S


def run_s(experiment: Experiment) -> float:
    """Return the seconds one run of a closed loop takes, ramp and overhead included."""
    return experiment.measure.ramp_s + experiment.measure.slice_s + run_overhead_s(experiment)


def cells_s(experiment: Experiment) -> float:
    """Return the seconds that one run of every cell takes, the tails of open loops included."""
    each = run_s(experiment)
    return len(experiment.workloads) * sum(each + tail_s(load) for load in experiment.loads)


def block_s(
    experiment: Experiment,
    *,
    mode: Mode,
    reset: Reset,
    discard_s: float,
    times: SwitchTimes,
    rounds: int = 1,
) -> float:
    """Return the seconds one block takes, by arithmetic from its parts."""
    arms = len(experiment.treatments)
    cells = len(experiment.workloads) * len(experiment.loads) * rounds
    runs = arms * rounds * cells_s(experiment)
    between_s = len(experiment.workloads) * run_overhead_s(experiment)
    discards = discard_s + between_s if discard_s else 0.0
    if mode is Mode.ALTERNATING:
        return alternating_block_s(experiment, discard_s=discard_s, times=times)
    if mode is Mode.BACK_TO_BACK:
        again = times.restore_s + times.start_s + discards if reset is not Reset.CAMPAIGN else 0.0
        settling = float(settling_s(experiment.engine, discard_s))
        settling += run_overhead_s(experiment) if settling else 0.0
        return again + runs + arms * cells * (times.switch_s + settling)
    restores = {Reset.VISIT: arms, Reset.BLOCK: 1, Reset.CAMPAIGN: 0}[reset]
    return restores * times.restore_s + arms * (times.start_s + discards) + runs


def alternating_block_s(experiment: Experiment, *, discard_s: float, times: SwitchTimes) -> float:
    """Return the seconds of one block in turns.

    Servers are brought up side by side, and take as long as one after another: they copy from one
    disk on to one, with the CPUs that there are. Measured with two and three of them on two CPUs.
    """
    arms, workloads = len(experiment.treatments), len(experiment.workloads)
    run_s = experiment.measure.slice_s + connecting_s(experiment)
    warming_s = _warming_s(experiment, discard_s) if discard_s else 0.0
    cells_s = workloads * (warming_s + len(experiment.loads) * run_s)
    return arms * (times.restore_s + times.start_s + cells_s)


def _warming_s(experiment: Experiment, discard_s: float) -> float:
    """Return the seconds of warming a server up for one workload.

    The generators of its first cell do it while they connect, if that cell has the largest load;
    else generators of its own do.
    """
    own = 1.0 - 1.0 / len(experiment.loads)  # the share of blocks in which another cell is first
    return discard_s + own * RUN_OVERHEAD_S - (1.0 - own) * CONNECT_S


def connecting_s(experiment: Experiment) -> float:
    """Return the seconds that the connections of a run in turns take, all times together."""
    return (experiment.measure.turns.reconnections + 1) * CONNECTION_S
