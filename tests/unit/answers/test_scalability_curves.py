"""Curves over clients: when there are some, what they tell, and which findings follow."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import ScalabilityCurve, scalability_curves
from steelyard.core.experiment import Experiment
from steelyard.core.schedule import Load
from steelyard.stats.scalability import Law

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
FALLING = Law(log_gamma=float(np.log(900.0)), alpha=0.03, beta=1e-3)
RISING = Law(log_gamma=float(np.log(900.0)), alpha=0.03, beta=1e-5)


def closed(clients: tuple[int, ...] = CLIENTS) -> tuple[Load, ...]:
    """Return loads with threads as `threads: auto` gives them on two CPUs."""
    return tuple(Load(clients=count, threads=min(count, 2)) for count in clients)


def over(loads: tuple[Load, ...]) -> Experiment:
    """Return an experiment with these loads."""
    return replace(an_experiment(), loads=loads)


def analysed(
    laws: tuple[Law, Law] = (FALLING, RISING),
    *,
    blocks: int = 12,
    loads: tuple[Load, ...] | None = None,
    bend: float = 0.0,
    sd: float = 0.01,
) -> CampaignAnalysis:
    """Return the analysis of two configurations that follow laws.

    ``bend`` lifts their third load.
    """
    taken = closed() if loads is None else loads
    clients = np.array([float(load.clients) for load in taken])
    noise = sd * np.random.default_rng(3).standard_normal((blocks, 2, len(taken)))
    shape = np.stack([law.log_rate(clients) for law in laws])
    shape[:, 2] += bend
    return analyse(a_record(shape + noise, over(taken)))


def curves_of(analysis: CampaignAnalysis) -> tuple[ScalabilityCurve, ...]:
    """Return its curves."""
    return analysis.answer(scalability_curves) or ()


def test_each_configuration_has_its_curve() -> None:
    """One falls after its peak near 31 clients, the other rises to the last load."""
    falling, rising = curves_of(analysed())
    assert (falling.configuration, rising.configuration) == ("t0", "t1")
    assert (falling.workload, falling.threads, falling.blocks) == ("w0", None, 12)
    assert falling.fits
    assert falling.peak_clients is not None
    assert falling.peak_clients.low < 31.1 < falling.peak_clients.high
    assert [point.load for point in falling.measured] == list(closed())
    assert (falling.fitted[0].clients, falling.fitted[-1].clients) == (1.0, pytest.approx(64.0))
    assert (rising.peak_clients, rising.peak_tps, rising.peak_in_range) == (None, None, False)


def test_the_fall_is_found_and_named() -> None:
    """The finding names the load, the size and the best load; the rising configuration has none."""
    analysis = analysed()
    falling, rising = (curve.falling for curve in curves_of(analysis))
    assert rising is None
    assert falling is not None
    assert (falling.best.clients, falling.load.clients) == (32, 64)
    (told,) = (f for f in analysis.findings if f.code == "retrograde-scaling")
    assert told.subject == "t0"
    assert "throughput falls from 64 clients on: -" in told.message
    assert "against 32 clients, the best load" in told.message


def test_a_misfit_is_drawn_but_has_no_peak() -> None:
    """A load that is 15 % off is said, the curve stays, and N* is not told."""
    analysis = analysed(bend=0.15)
    curve = curves_of(analysis)[0]
    assert not curve.fits
    assert curve.max_error > 0.05
    assert (curve.peak_clients, curve.peak_tps) == (None, None)
    assert len(curve.fitted) > 20
    told = [f for f in analysis.findings if f.code == "scalability-does-not-fit"]
    assert [finding.subject for finding in told] == ["t0", "t1"]


def test_a_small_miss_that_noise_does_not_explain_is_a_misfit_too() -> None:
    """Four percent, surely seen, is no fit either."""
    curve = curves_of(analysed(bend=0.04, blocks=30))[0]
    assert curve.max_error < 0.05
    assert curve.lack_of_fit_p < 0.05
    assert not curve.fits


def test_a_miss_within_wide_noise_is_no_refutation() -> None:
    """Seven percent on a machine that varies by 30 % is too noisy, which is another finding."""
    analysis = analysed(sd=0.3, blocks=8)
    curve = curves_of(analysis)[0]
    assert curve.max_error > 0.05
    assert (curve.fits, curve.refuted, curve.peak_clients) == (False, False, None)
    told = [f.message for f in analysis.findings if f.code == "scalability-not-precise"]
    assert "which noise may explain" in told[0]
    assert not [f for f in analysis.findings if f.code == "scalability-does-not-fit"]


@pytest.mark.parametrize(("blocks", "clients"), [(5, CLIENTS), (12, CLIENTS[:4])])
def test_too_little_has_no_curve(blocks: int, clients: tuple[int, ...]) -> None:
    """Five blocks or four loads are not enough, and nothing is said."""
    analysis = analysed(blocks=blocks, loads=closed(clients))
    assert curves_of(analysis) == ()
    assert not [f for f in analysis.findings if f.code.startswith(("retro", "scala"))]


def test_loads_under_a_rate_are_no_scalability() -> None:
    """An open loop sets the throughput itself."""
    rated = tuple(replace(load, rate_per_s=100.0) for load in closed())
    assert curves_of(analysed(loads=rated)) == ()


def test_every_number_of_threads_has_its_own_curve() -> None:
    """With a list of threads only loads of the same number are one curve."""
    pairs = [(c, t) for c in CLIENTS for t in (1, 4, 32) if t <= c]
    analysis = analysed(loads=tuple(Load(clients=c, threads=t) for c, t in pairs))
    told = [
        (curve.configuration, curve.threads, len(curve.measured)) for curve in curves_of(analysis)
    ]
    assert told == [("t0", 1, 7), ("t1", 1, 7), ("t0", 4, 5), ("t1", 4, 5)]


def test_a_look_leaves_the_curves_out() -> None:
    """What no decision needs is not computed after every block, and changes nothing else."""
    record = a_record(np.zeros((8, 2, 7)) + FALLING.log_rate(np.array(CLIENTS)), over(closed()))
    look, whole = analyse(record, curves=False), analyse(record)
    assert curves_of(look) == ()
    assert curves_of(whole)
    assert look.comparisons == whole.comparisons
