"""Throughput over clients: when there are curves, and what they hold."""

from dataclasses import replace

import numpy as np
from made_records import a_record, an_experiment

from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.scalability import (
    ScalabilityCurve,
    gain_answers,
    scalability_curves,
    scalability_json,
)
from steelyard.core.experiment import Design, Experiment
from steelyard.core.schedule import Load
from steelyard.report.document import MISSING

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
FALLING = np.log([900.0, 1700.0, 3000.0, 4900.0, 6000.0, 6000.0, 3600.0])
RISING = np.log([900.0, 1700.0, 3200.0, 6000.0, 10_000.0, 15_000.0, 20_000.0])


def closed(clients: tuple[int, ...] = CLIENTS) -> tuple[Load, ...]:
    """Return loads with threads as `threads: auto` gives them on two CPUs."""
    return tuple(Load(clients=number, threads=min(number, 2)) for number in clients)


def over(loads: tuple[Load, ...]) -> Experiment:
    """Return an experiment with these loads."""
    return replace(an_experiment(), loads=loads)


def analysed(blocks: int = 12, loads: tuple[Load, ...] | None = None) -> CampaignAnalysis:
    """Return the analysis of one configuration that falls at 64 clients and one that rises."""
    taken = closed() if loads is None else loads
    places = [CLIENTS.index(load.clients) for load in taken]
    noise = 0.01 * np.random.default_rng(3).standard_normal((blocks, 2, len(taken)))
    return analyse(a_record(np.stack([FALLING, RISING])[:, places] + noise, over(taken)))


def curves_of(analysis: CampaignAnalysis) -> tuple[ScalabilityCurve, ...]:
    """Return its curves."""
    return analysis.answer(scalability_curves) or ()


def test_each_configuration_has_its_curve() -> None:
    """Its points are the medians of its cells, from the fewest to the most clients."""
    analysis = analysed()
    falling, rising = curves_of(analysis)
    assert (falling.configuration, rising.configuration) == ("t0", "t1")
    assert (falling.workload, falling.threads, falling.blocks) == ("w0", None, 12)
    assert tuple(falling.measured) == closed()
    of_t0 = {cell.cell.load: cell.tps for cell in analysis.cells if cell.configuration == "t0"}
    assert falling.measured == of_t0


def test_the_gain_of_more_clients_ends_where_the_rates_do() -> None:
    """16 clients do as well as 32 and more; the other configuration still rises at 64."""
    analysis = analysed()
    falling, rising = curves_of(analysis)
    assert (falling.enough, falling.still_rises) == (closed()[4], False)
    assert (rising.enough, rising.still_rises) == (closed()[6], True)
    (answer,) = gain_answers(analysis)
    assert answer.items == ("w0: 16 clients (t0), still rising at 64 clients (t1)",)


def test_few_blocks_have_rates_and_no_such_number() -> None:
    """Five blocks: the curve stands, the number is missing, with the reason in the summary."""
    analysis = analysed(blocks=5)
    curves = curves_of(analysis)
    assert [(curve.enough, curve.gain_ends) for curve in curves] == [(None, MISSING)] * 2
    assert gain_answers(analysis) == ()
    kept = scalability_json(curves)["scalability"][0]
    assert kept["no_gain_above_clients"] is None
    assert kept["still_rises"] is False
    assert kept["reason"] == "5 blocks; the number needs 6"


def test_too_few_loads_have_no_curve() -> None:
    """Four loads are told by the table of cells."""
    assert curves_of(analysed(loads=closed(CLIENTS[:4]))) == ()


def test_a_single_pass_has_no_curve() -> None:
    """It has one run of each load; its report has figures and no curve."""
    once = replace(over(closed()), design=Design.ONCE)
    assert curves_of(analyse(a_record(np.stack([FALLING, RISING])[None], once))) == ()


def test_loads_under_a_rate_have_no_curve() -> None:
    """An open loop sets the throughput itself."""
    rated = tuple(replace(load, rate_per_s=100.0) for load in closed())
    assert curves_of(analysed(loads=rated)) == ()


def test_every_number_of_threads_has_its_own_curve() -> None:
    """With a list of threads only loads of the same number are one curve."""
    pairs = [(c, t) for c in CLIENTS for t in (1, 4, 32) if t <= c]
    analysis = analysed(loads=tuple(Load(clients=c, threads=t) for c, t in pairs))
    curves = [
        (curve.configuration, curve.threads, len(curve.measured)) for curve in curves_of(analysis)
    ]
    assert curves == [("t0", 1, 7), ("t1", 1, 7), ("t0", 4, 5), ("t1", 4, 5)]


def test_a_look_leaves_the_curves_out() -> None:
    """What no decision needs is not computed after every block, and changes nothing else."""
    record = a_record(np.zeros((8, 2, 7)) + FALLING, over(closed()))
    look, whole = analyse(record, curves=False), analyse(record)
    assert curves_of(look) == ()
    assert curves_of(whole)
    assert look.comparisons == whole.comparisons
