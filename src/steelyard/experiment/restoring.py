"""The cheapest means of bringing the data back that works here, by a quick measurement."""

from dataclasses import dataclass

from steelyard.experiment.bench import TEMPLATE, Bench
from steelyard.gateways.clock import Clock
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.experiment import Experiment
from steelyard.model.plan import ANEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """The means chosen, and the seconds of each one tried."""

    means: str
    tried_s: tuple[tuple[str, float], ...]


def choose_means(
    experiment: Experiment, bench: Bench, clock: Clock, *, alternates: bool = False
) -> Restoring:
    """Return the means to use for every restore of a campaign.

    A reflink copy takes the same fraction of a second at any size, so where it works nothing else
    is tried. Else a copy of the data directory is weighed against copying the databases inside a
    running server, which restores less (not the WAL position, not the statistics). Servers that
    alternate start anew in every block, each from a copy of the files.

    Raises:
        PreflightError: The means asked for does not work here.
    """
    if experiment.is_made_anew:
        return Restoring(means=ANEW, tried_s=())
    baseline = experiment.treatment(experiment.baseline)
    state, platform = bench.state(baseline.name), bench.platform(baseline.name)
    if platform.root is None:
        return _without_files(experiment, bench)
    asked = {t.target.restore for t in experiment.treatments if t.target.restore}
    if len(asked) > 1:
        raise PreflightError(
            f"the treatments ask for different means of restoring: {', '.join(sorted(asked))}",
            hint="Use one `restore:` in all of them.",
        )
    reflinks = all(
        bench.platform(t.name).copies_by_reflink(bench.state(t.name)) for t in experiment.treatments
    )
    if asked:
        return _as_asked(asked.pop(), reflinks=reflinks)
    if reflinks:
        return Restoring(
            means="reflink", tried_s=(("reflink", platform.restore(state, "reflink")),)
        )
    if alternates:
        return Restoring(means="copy", tried_s=(("copy", platform.restore(state, "copy")),))
    return _weighed(bench, baseline.name, clock)


def _weighed(bench: Bench, treatment: str, clock: Clock) -> Restoring:
    """Return the faster of a copy of the files and one inside the server, where it makes such."""
    platform = bench.platform(treatment)
    copy_s = platform.restore(bench.state(treatment), "copy")
    copied = (("copy", round(copy_s, 3)),)
    if TEMPLATE not in platform.means():
        return Restoring(means="copy", tried_s=copied)
    try:
        template_s = _template_s(bench, treatment, clock)
    except TargetError:
        return Restoring(means="copy", tried_s=copied)  # it does not work here
    tried = (*copied, (TEMPLATE, round(template_s, 3)))
    # A template restores less, so it must be clearly cheaper.
    return Restoring(means=TEMPLATE if template_s < 0.5 * copy_s else "copy", tried_s=tried)


def _without_files(experiment: Experiment, bench: Bench) -> Restoring:
    """Return the best means that every server offers, and its seconds on the first."""
    offered = [bench.platform(t.name).means() for t in experiment.treatments]
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


def _template_s(bench: Bench, treatment: str, clock: Clock) -> float:
    """Return the seconds of one restore from templates, the second of two: the first also moves."""
    bench.activate(treatment, restore=True, means=TEMPLATE)
    begun = clock.monotonic()
    bench.restore_templates(treatment)
    return clock.monotonic() - begun
