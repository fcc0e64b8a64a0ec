"""How many workers a load needs, by the record of a trial."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_campaign_plans import planned

from steelyard.answers.outlook.compute import CampaignOutlook, GeneratorNeed, RateFrom
from steelyard.answers.outlook.section import outlook_document, outlook_json
from steelyard.campaign.foresee.planning import PLANNED_SHARE, generator_needs
from steelyard.core.campaign import CampaignRecord
from steelyard.core.measurement import Quantity, Run
from steelyard.core.places import WorkersAsked
from steelyard.core.schedule import Load
from steelyard.core.wording import InputError
from steelyard.record.directory import read_campaign
from steelyard.report.terminal import render_terminal

TRIAL = Path(__file__).parents[4] / "docs" / "examples" / "quick"


@pytest.fixture(scope="module")
def trial() -> CampaignRecord:
    """Return a campaign of two workloads with 8 clients, of which each is measured ten times."""
    return read_campaign(TRIAL)


def _needed(trial: CampaignRecord, *loads: Load) -> list[GeneratorNeed]:
    """Return the needs of its first workload under other loads."""
    experiment = replace(
        trial.experiment, loads=loads, workloads=(replace(trial.experiment.workloads[0], scale=7),)
    )
    return list(generator_needs(experiment, trial))


def _costlier(trial: CampaignRecord, times: float) -> CampaignRecord:
    """Return the trial with a generator that used so many times its CPU time."""

    def of(run: Run) -> Run:
        assert run.evidence is not None
        totals = run.evidence.totals
        used = {Quantity.GENERATOR_CPU_S: totals[Quantity.GENERATOR_CPU_S] * times}
        return replace(run, evidence=replace(run.evidence, totals={**totals, **used}))

    return replace(trial, runs=tuple(map(of, trial.runs)))


def test_a_rate_of_the_file_times_the_cost_of_the_trial_is_what_is_needed(
    trial: CampaignRecord,
) -> None:
    """The data may be others; the upper end of the interval, and four fifths of each CPU."""
    (need,) = _needed(trial, Load(clients=64, threads=4, rate_per_s=1_000_000.0))
    assert need.rate_from is RateFrom.FILE
    assert need.cpu_s.high is not None
    assert need.cpu_s.low is not None
    assert need.cpu_s.low < need.cpu_s.value < need.cpu_s.high
    assert need.cpus == pytest.approx(1e6 * need.cpu_s.value)
    busiest = 1e6 * need.cpu_s.high / PLANNED_SHARE
    assert busiest <= need.threads < busiest + 1.0
    assert busiest / need.machine_cpus <= need.workers < busiest / need.machine_cpus + 1.0
    assert need.workers > 1


def test_a_closed_loop_is_expected_to_do_what_it_did_and_more_clients_more(
    trial: CampaignRecord,
) -> None:
    """The same load has its own rate; eight times the clients do eight times as much at most."""
    same, more, fewer = _needed(
        trial, *(Load(clients=clients, threads=1) for clients in (8, 64, 2))
    )
    rates = sorted(
        run.measurement.tps
        for run in trial.runs
        if run.measurement is not None and run.cell.workload == trial.experiment.workloads[0].name
    )
    assert same.rate_from is RateFrom.TRIAL
    assert rates[0] < same.tps < rates[-1]
    assert more.tps == pytest.approx(8 * same.tps)
    assert fewer.tps == same.tps
    assert more.rate_from is fewer.rate_from is RateFrom.CLIENTS
    assert same.workers == fewer.workers == 1
    assert more.workers > 1


def test_a_trial_whose_generator_was_the_limit_says_the_least(trial: CampaignRecord) -> None:
    """Its rate is that of the generator."""
    load = trial.experiment.loads[0]
    assert not _needed(trial, load)[0].is_limit
    assert _needed(_costlier(trial, 16.0), load)[0].is_limit


def test_a_trial_of_other_work_is_refused(trial: CampaignRecord) -> None:
    """Neither a campaign of other scripts, nor one that measured no generator."""
    with pytest.raises(InputError, match="under any of these workloads"):
        generator_needs(replace(trial.experiment, workloads=()), trial)
    blind = replace(trial, runs=tuple(replace(run, evidence=None) for run in trial.runs))
    with pytest.raises(InputError, match="did not measure the CPU time"):
        generator_needs(trial.experiment, blind)


def test_the_plan_says_how_many(trial: CampaignRecord, tmp_path: Path) -> None:
    """With the keys to write; programs get the same numbers, and null without a trial."""
    loads = (Load(clients=64, threads=4, rate_per_s=5e5),)
    plain = planned(trial.experiment, tmp_path)
    assert outlook_json(plain)["generators"] is None
    experiment = replace(trial.experiment, loads=loads)
    needs = generator_needs(experiment, trial)
    most = max(needs, key=lambda need: need.workers)
    found = replace(plain, experiment=experiment, generators=needs)
    text = _text(found)
    assert f"`generator.workers: {most.workers}`. The file has one." in text
    assert f"Write `load.threads: {most.threads}` instead of 4." in text
    told = outlook_json(found)["generators"]
    assert isinstance(told, list)
    assert [each["workers_needed"] for each in told] == [need.workers for need in needs]  # type: ignore[index, call-overload]
    enough = replace(experiment, workers=WorkersAsked(number=most.workers))
    text = _text(replace(found, experiment=enough))
    assert f"`generator.workers: {most.workers}`. Write" in text


def _text(found: CampaignOutlook) -> str:
    return " ".join(render_terminal(outlook_document(found), 300).split())
