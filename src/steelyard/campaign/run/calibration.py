"""What is chosen before anything is measured: the warm-up, a place for logs, a means of restoring.

The warm-up after a start is declared, measured by runs after fresh starts, or the floor
of METHOD 3.7. The means of bringing the data back is the cheapest that works here, by a quick
measurement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from steelyard.campaign.design import schedule as durations
from steelyard.campaign.evidence.run_rules import validity_of
from steelyard.campaign.run.bench import TEMPLATE, Bench
from steelyard.campaign.run.blocks import MAX_TRIES
from steelyard.campaign.run.taking import Taker
from steelyard.core.campaign import ANEW, WarmUpChoice
from steelyard.core.errors import MeasurementError, PreflightError, TargetError
from steelyard.core.experiment import Calibration, Experiment, LogPolicy
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import Fact, Measurement
from steelyard.core.schedule import CellKey, PlannedRun
from steelyard.core.units import format_percent
from steelyard.gateways.host import Clock
from steelyard.stats.drift import residual_loss, settled_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """What a reader must know of it; nothing where no transaction is logged."""

    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()


def choose_logs(experiment: Experiment, bench: Bench) -> LogChoice:
    """Choose memory or disk, once for all arms, and return what is to be told."""
    if experiment.measure.log is LogPolicy.OFF or not experiment.system.logs_transactions:
        return LogChoice()
    if bench.logs_in_memory():
        return LogChoice(facts=(_fact("memory"),))
    return LogChoice(facts=(_fact("disk"),), findings=(_ON_DISK,))


def _fact(place: str) -> Fact:
    return Fact(name="transaction logs while a run goes on", value=place, subject="tools")


_ON_DISK = Finding(
    code="logs-on-disk",
    severity=Severity.WARNING,
    message="the logs of transactions are written to a disk while a run goes on: /dev/shm has no"
    " room for them, or takes no directory; where it is the disk that is measured, their writing"
    " is measured with the rest",
    remedy="Give /dev/shm more room (a container: --shm-size=1g), log a share of the transactions"
    " (`measure.log_sampling`), or none (`measure.log: off`).",
    subject="campaign",
)


_LEAST_SECONDS = 2  # two batches of MSER at its shortest batch
_GOOD_RESTARTS, _GOOD_RUN_S = 5, 90.0  # what METHOD 3.7 asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupRuns:
    """Calibration runs of one configuration: by workload, one measurement per start."""

    configuration: str
    by_workload: dict[str, list[Measurement]] = field(default_factory=dict)


def declared_warm_up(experiment: Experiment, *, alternates: bool = False) -> WarmUpChoice | None:
    """Return the warm-up when nothing is to be measured; None asks for a calibration.

    Where configurations alternate it is counted in seconds under load, and made longer in the next
    blocks when one of them was still warming up.
    """
    measure = experiment.measure
    if alternates and measure.warm_up_s is None:
        return WarmUpChoice(
            warm_up_s=durations.TURNS_WARM_UP_S,
            how="floor",
            risk="The warm-up is tested in every block, and longer in the next one where a"
            " configuration was still warming up.",
        )
    if measure.warm_up_s is not None:
        return WarmUpChoice(
            warm_up_s=measure.warm_up_s,
            how="declared",
            risk="The warm-up was declared, not measured: a configuration that warms up more"
            " slowly is"
            " understated.",
        )
    if measure.calibration is None:
        return WarmUpChoice(
            warm_up_s=durations.DEFAULT_WARM_UP_S,
            how="floor",
            risk="The warm-up was not measured here: a configuration that needs longer to warm up"
            " is"
            " understated.",
        )
    return None


def calibrate(
    experiment: Experiment,
    calibration: Calibration,
    take: Callable[[str, str, int], Measurement],
) -> WarmUpChoice:
    """Return the warm-up from runs after fresh starts, the same for all configurations.

    Args:
        experiment: Whose configurations and workloads are run.
        calibration: How often and how long.
        take: Activates a configuration on restored data, runs a workload for some seconds and
            returns what it measured, ramp included.
    """
    workloads = [workload.name for workload in experiment.workloads]
    restarts = max(calibration.restarts, len(workloads))
    collected = []
    for configuration in experiment.configurations:
        runs = WarmupRuns(configuration=configuration.name)
        for number in range(restarts):
            workload = workloads[number % len(workloads)]
            taken = take(configuration.name, workload, int(calibration.run_s))
            runs.by_workload.setdefault(workload, []).append(taken)
        collected.append(runs)
    return choose_warm_up(collected, calibration, restarts)


def choose_warm_up(
    collected: Sequence[WarmupRuns], calibration: Calibration, restarts: int
) -> WarmUpChoice:
    """Return the longest warm-up that any configuration under any workload asks for."""
    series = [[_log_series(runs) for runs in one.by_workload.values()] for one in collected]
    batch_s = _batch_s(calibration.run_s)
    measured = [
        max(
            float(settled_after_s(of_workload, batch_s=batch_s)) for of_workload in of_configuration
        )
        for of_configuration in series
    ]
    warm_up = max([calibration.at_least_s, *measured])
    residual = [
        _worst(
            [residual_loss(of_workload, round(warm_up), window_s=2 * batch_s) for of_workload in s]
        )
        for s in series
    ]
    return WarmUpChoice(
        warm_up_s=warm_up,
        how="measured",
        risk=_risk(calibration, restarts, residual),
        measured_s=tuple(measured),
        residual_fraction=tuple(residual),
        restarts=restarts,
    )


def _batch_s(run_s: float) -> int:
    """Return the batch of MSER: 5 s, shorter when the run is too short for ten such batches."""
    return max(1, min(5, int(run_s) // 10))


def _log_series(runs: Sequence[Measurement]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return ln(1/s) per second, shape (restarts, seconds), cut to the shortest run."""
    seconds = min(len(run.series) for run in runs)
    if seconds < _LEAST_SECONDS:
        raise MeasurementError(
            f"a calibration run gave only {seconds} seconds of progress",
            hint="Is the server stalled? Otherwise declare a warm-up in `measure.warm_up`.",
        )
    rates = [[max(s.transactions, 1.0) / s.seconds for s in run.series[:seconds]] for run in runs]
    return np.log(np.asarray(rates, dtype=np.float64))


def _worst(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _risk(calibration: Calibration, restarts: int, residual: Sequence[float | None]) -> str:
    known = [value for value in residual if value is not None]
    left = (
        f"the throughput right after it was at most {format_percent(max(known), signed=False)}"
        " below what followed"
        if known and max(known) > 0
        else "no loss was seen after it"
    )
    if restarts >= _GOOD_RESTARTS and calibration.run_s >= _GOOD_RUN_S:
        return f"The warm-up was measured on {restarts} starts per configuration: {left}."
    return (
        f"The warm-up was measured on only {restarts} starts of {calibration.run_s:.0f} s"
        f" per configuration ({_GOOD_RESTARTS} of {_GOOD_RUN_S:.0f} s are advised): {left}; a"
        " slower"
        " warm-up of one configuration would go unseen and would understate it."
    )


def warm_up_runs(taker: Taker, means: str) -> Callable[[str, str, int], Measurement]:
    """Return what activates a configuration, runs a workload for some seconds, and measures it."""

    def take(configuration: str, workload: str, seconds: int) -> Measurement:
        cell = CellKey(workload=workload, load=taker.bench.warming_load)
        planned = PlannedRun(configuration=configuration, cell=cell)
        reason = ""
        for attempt in range(1, MAX_TRIES + 1):
            taker.bench.activate(configuration, restore=True, means=means)
            last = attempt == MAX_TRIES  # what the neighbour does then is in the warm-up
            taken = taker.take(planned, seconds=seconds, ramp_s=0.0, bearing=last)
            valid = validity_of(taken.findings) is not Validity.INVALID
            if taken.measurement is not None and valid:
                return taken.measurement
            reason = "; ".join(finding.message for finding in taken.findings)
        raise MeasurementError(
            f"measuring the warm-up failed {MAX_TRIES} times: {reason}",
            hint="Remove the cause, or declare a warm-up in `measure.warm_up`.",
        )

    return take


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """The means chosen, and the seconds of each one tried.

    Attributes:
        others: Of places that have not this means: their configurations, each with its own.
    """

    means: str
    tried_s: tuple[tuple[str, float], ...]
    others: tuple[tuple[str, str], ...] = ()


def choose_means(
    experiment: Experiment, bench: Bench, clock: Clock, *, alternates: bool = False
) -> Restoring:
    """Return the means to use for every restore of a campaign.

    A reflink copy takes the same fraction of a second at any size, so where it works nothing else
    is tried. Else a copy of the data directory is weighed against copying the databases inside a
    running server, which restores less (not the WAL position, not the statistics). Servers that
    alternate start anew in every block, each from a copy of the files. Where some servers are on
    this machine and others are there already, each gets its data back by a means of its own.

    Raises:
        PreflightError: The means asked for does not work here.
    """
    if experiment.is_made_anew:
        return Restoring(means=ANEW, tried_s=())
    names = [each.name for each in experiment.configurations]
    here = [name for name in names if bench.platform(name).root is not None]
    if not here:
        return _without_files(experiment, bench)
    found = _by_files(experiment, bench, clock, here, alternates=alternates)
    own = ((name, bench.own_means(name, found.means)) for name in names)
    return replace(found, others=tuple(each for each in own if each[1] != found.means))


def _by_files(
    experiment: Experiment, bench: Bench, clock: Clock, here: Sequence[str], *, alternates: bool
) -> Restoring:
    """Return the means for servers whose files are on this machine.

    Raises:
        PreflightError: The means asked for does not work here.
    """
    first = experiment.baseline if experiment.baseline in here else here[0]
    state, platform = bench.state(first), bench.platform(first)
    targets = [experiment.configuration(name).target for name in here]
    asked = {target.restore for target in targets if target.restore}
    if len(asked) > 1:
        raise PreflightError(
            f"the configurations ask for different means of restoring: {', '.join(sorted(asked))}",
            hint="Use one `restore:` in all of them.",
        )
    reflinks = all(bench.platform(n).copies_by_reflink(bench.state(n)) for n in here)
    if asked:
        return _as_asked(asked.pop(), reflinks=reflinks)
    if reflinks:
        return Restoring(
            means="reflink", tried_s=(("reflink", platform.restore(state, "reflink")),)
        )
    if alternates:
        return Restoring(means="copy", tried_s=(("copy", platform.restore(state, "copy")),))
    return _weighed(bench, first, clock)


def _weighed(bench: Bench, configuration: str, clock: Clock) -> Restoring:
    """Return the faster of a copy of the files and one inside the server, where it makes such."""
    platform = bench.platform(configuration)
    copy_s = platform.restore(bench.state(configuration), "copy")
    copied = (("copy", round(copy_s, 3)),)
    if TEMPLATE not in platform.means():
        return Restoring(means="copy", tried_s=copied)
    try:
        template_s = _template_s(bench, configuration, clock)
    except TargetError:
        return Restoring(means="copy", tried_s=copied)  # it does not work here
    tried = (*copied, (TEMPLATE, round(template_s, 3)))
    # A template restores less, so it must be clearly cheaper.
    return Restoring(means=TEMPLATE if template_s < 0.5 * copy_s else "copy", tried_s=tried)


def _without_files(experiment: Experiment, bench: Bench) -> Restoring:
    """Return the best means that every server offers, and its seconds on the first."""
    offered = [bench.platform(t.name).means() for t in experiment.configurations]
    common = [means for means in offered[0] if all(means in others for others in offered)]
    if not common:
        raise PreflightError(
            "the servers offer different means of restoring the data:"
            f" {', '.join(sorted({means for each in offered for means in each}))}",
            hint="Allow an existing database in all targets or in none, and use one `restore:`.",
        )
    name = experiment.baseline
    seconds = bench.platform(name).restore(bench.state(name), common[0])
    return Restoring(means=common[0], tried_s=((common[0], round(seconds, 3)),))


def _as_asked(means: str, *, reflinks: bool) -> Restoring:
    if means == "reflink" and not reflinks:
        raise PreflightError(
            "the file system of the data does not share blocks between copies (reflink)",
            hint="Use XFS or Btrfs, or leave `restore:` out.",
        )
    return Restoring(means=means, tried_s=())


def _template_s(bench: Bench, configuration: str, clock: Clock) -> float:
    """Return the seconds of one restore from templates, the second of two: the first also moves."""
    bench.activate(configuration, restore=True, means=TEMPLATE)
    begun = clock.monotonic()
    bench.restore_templates(configuration)
    return clock.monotonic() - begun
