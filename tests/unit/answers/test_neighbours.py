"""Other programs beside a comparison: whom they met more, for how long, and what they cost."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from made_records import an_experiment, compared
from turned_records import in_turns

from steelyard.answers.campaign import analyse
from steelyard.answers.neighbours import OtherPrograms, other_programs
from steelyard.core.campaign import CampaignRecord, WorkloadNoise
from steelyard.core.findings import NOT_JUDGED, Finding, Verdict
from steelyard.core.measurement import Evidence, OtherProcess, Quantity, Run, Series

RULE = "foreign-load-differs"
SECONDS, CPUS = 16.4, 2.0
Used = tuple[float, float]  # CPU seconds of server and generator, and of others
# Measured on a machine with 2 CPUs, 8 clients, turns of 2 s: synchronous_commit on and off beside a
# process that takes whatever is free, and beside two of them.
GREEDY: Mapping[str, Used] = {"t0": (16.3, 12.7), "t1": (25.0, 7.5)}
TWO_GREEDY: Mapping[str, Used] = {"t0": (15.1, 17.4), "t1": (22.8, 9.9)}


def evidence(
    own: float, others: float, host: Series | None = None, queued: float | None = None
) -> Evidence:
    """Return what was seen of a run, by CPU seconds, and by seconds in run queues."""
    waited = () if queued is None else (Quantity.SERVER_RUN_QUEUE_S, Quantity.GENERATOR_RUN_QUEUE_S)
    totals = {
        **dict.fromkeys(waited, 0.5 * (queued or 0.0)),
        Quantity.SERVER_CPU_S: 0.75 * own,
        Quantity.GENERATOR_CPU_S: 0.25 * own,
        Quantity.OTHERS_CPU_S: others + 0.5,
        Quantity.CPU_STEAL_S: 0.0,
    }
    kernel = OtherProcess(pid=3, name="[kworker/0:1]", cpu_s=0.5, io_bytes=None)
    return Evidence(
        seconds=SECONDS,
        totals=totals,
        levels={Quantity.CPUS: CPUS},
        waits=None,
        series=() if host is None else (host,),
        others=(kernel,),
        absent=(),
    )


def beside(
    used: Mapping[str, Used],
    effect: float = 0.0,
    *,
    blocks: int = 12,
    noise: float = 0.05,
    queued: Mapping[str, float] | None = None,
) -> CampaignRecord:
    """Return a record whose configurations used so much CPU time, beside others that used so much.

    Args:
        used: By configuration.
        effect: Of t1 over t0.
        blocks: Of the record.
        noise: Of the others' time, from run to run.
        queued: Seconds in run queues by configuration; without them the kernel tells none.
    """
    rng = np.random.default_rng(6)

    def seen(run: Run) -> Run:
        own, others = used[run.configuration]
        factor = 1.0 + noise * rng.standard_normal()
        waited = None if queued is None else queued[run.configuration]
        return replace(run, evidence=evidence(own, others * factor, queued=waited))

    record = compared(blocks, effect, experiment=an_experiment(loads=1))
    return replace(record, runs=tuple(seen(run) for run in record.runs))


def doubt(record: CampaignRecord) -> Finding | None:
    """Return what the rule says of a record."""
    return next((f for f in analyse(record).findings if f.code == RULE), None)


def verdict(record: CampaignRecord) -> Verdict:
    """Return that of its only result."""
    (result,) = analyse(record).results
    return result.verdict


@pytest.mark.parametrize("used", [GREEDY, TWO_GREEDY])
def test_what_takes_the_idle_time_of_one_side_puts_no_large_effect_in_doubt(
    used: Mapping[str, Used],
) -> None:
    """+130 %, while the slow side waits for its disk: 0.13 and 0.20 are less than ln(2.27) / 4."""
    record = beside(used, 1.3)
    assert verdict(record) is Verdict.FASTER
    assert doubt(record) is None


@pytest.mark.parametrize(("queued", "doubted"), [(None, True), (0.3, False), (6.0, True)])
def test_full_cpus_are_in_doubt_only_where_the_side_that_met_more_waited_for_them(
    queued: float | None, *, doubted: bool
) -> None:
    """Programs take all that a wait of 50 ms leaves: 0.69 of what both used, ln(5) / 4 is 0.40."""
    waits = None if queued is None else {"t0": 3.0, "t1": queued}
    record = beside({"t0": (22.0, 10.0), "t1": (4.0, 28.0)}, -0.8, noise=0.01, queued=waits)
    assert verdict(record) is Verdict.SLOWER
    assert (doubt(record) is not None) is doubted


@pytest.mark.parametrize("queued", [None, {"t0": 3.0, "t1": 12.0}])
def test_an_effect_that_a_neighbour_alone_makes_is_in_doubt(
    queued: Mapping[str, float] | None,
) -> None:
    """Half of a CPU from one side of two equal ones: its rate falls as its CPU time does."""
    record = beside({"t0": (30.0, 2.0), "t1": (22.5, 9.5)}, 22.5 / 30.0 - 1.0, queued=queued)
    assert verdict(record) is Verdict.SLOWER
    finding = doubt(record)
    assert finding is not None
    assert finding.subject == "t1"
    assert finding.message.startswith("t1: under w0 other programs took more CPU time in its runs")
    assert "by 14" in finding.message


def test_the_baseline_may_be_the_one_that_met_more() -> None:
    """Then the configuration's gain is what is in doubt, and the sentence names the baseline."""
    finding = doubt(beside({"t0": (22.5, 9.5), "t1": (30.0, 2.0)}, 30.0 / 22.5 - 1.0))
    assert finding is not None
    assert finding.message.startswith("t0: under w0")


@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_what_all_meet_alike_puts_nothing_in_doubt(effect: float) -> None:
    """However much it is."""
    assert doubt(beside({"t0": (20.0, 12.0), "t1": (20.0, 12.0)}, effect)) is None


def test_chance_puts_nothing_in_doubt() -> None:
    """A neighbour that comes and goes meets one side more in some blocks: its interval is wide."""
    assert doubt(beside({"t0": (20.0, 8.0), "t1": (20.0, 8.0)}, 0.05, noise=0.8)) is None


@pytest.mark.parametrize(("more", "told"), [(0.3, False), (0.7, True)])
def test_equivalence_is_measured_by_its_margin(more: float, *, told: bool) -> None:
    """A quarter of 5 %: of 40 CPU seconds 0.49."""
    record = beside({"t0": (20.0, 1.0), "t1": (20.0, 1.0 + more)}, noise=0.01)
    stop = replace(record.experiment.stop, margin=0.05)
    record = replace(record, experiment=replace(record.experiment, stop=stop))
    assert verdict(record) is Verdict.EQUIVALENT
    assert (doubt(record) is not None) is told


def test_no_clear_difference_is_not_judged() -> None:
    """There is nothing to doubt, and nothing is missing."""
    record = beside({"t0": (20.0, 1.0), "t1": (20.0, 9.0)}, blocks=12)
    assert verdict(record) is Verdict.NO_CLEAR_DIFFERENCE
    assert doubt(record) is None


def test_what_nobody_saw_is_missing() -> None:
    """Five blocks with evidence are not six: no verdict passes for want of a fact, none fails."""
    record = beside({"t0": (30.0, 2.0), "t1": (22.5, 9.5)}, 22.5 / 30.0 - 1.0)
    runs = (replace(run, evidence=run.evidence if run.block < 5 else None) for run in record.runs)
    unseen = replace(record, runs=tuple(runs))
    assert doubt(unseen) is None
    told = [
        next(f for f in analyse(each).findings if f.code == NOT_JUDGED).message
        for each in (record, unseen)
    ]
    assert RULE not in told[0]
    assert f"{RULE} (6 blocks" in told[1]


def programs(record: CampaignRecord) -> OtherPrograms | None:
    """Return what a whole analysis says of other programs."""
    return analyse(record).answer(other_programs)


def test_the_share_of_the_time_is_that_of_the_timelines_rows() -> None:
    """Others use 0.5 CPUs in one row of four; what the kernel used is spread over the run."""
    rows = tuple((value,) for value in (0.1, 0.1, 2.15, 0.1))
    host = Series(
        subject="host", names=(Quantity.OTHERS_CPU_S,), end_s=(4.1, 8.2, 12.3, 16.4), rows=rows
    )
    record = compared(4, experiment=an_experiment(loads=1))
    runs = tuple(replace(run, evidence=evidence(20.0, 1.95, host)) for run in record.runs)
    found = programs(replace(record, runs=runs))
    assert found is not None
    assert found.busy == pytest.approx(0.25)


def test_without_rows_a_run_is_one() -> None:
    """0.6 of 2 CPUs in all runs of one configuration, nothing in those of the other."""
    found = programs(beside({"t0": (20.0, 9.8), "t1": (20.0, 0.1)}))
    assert found is not None
    assert found.busy == pytest.approx(0.5)
    assert found.wider == ()


def test_what_nobody_saw_has_no_share() -> None:
    """Neither a share nor a profile: nothing is said."""
    assert programs(in_turns()) is None


def test_a_stored_profile_says_how_wide_the_interval_would_be() -> None:
    """Twice the noise, half the ratio."""
    record = beside(GREEDY, 1.3)
    assert record.plan is not None
    ratios = []
    for scale in (0.01, 0.02):
        noise = WorkloadNoise(
            workload="w0",
            second_sd=0.0,
            autocorrelation=0.0,
            slice_sd=scale,
            restart_sd=scale,
            drift_sd=0.0,
            unnamed=1.0,
        )
        plan = replace(record.plan, noise=(noise,))
        found = programs(replace(record, plan=plan))
        assert found is not None
        ((result, ratio),) = found.wider
        assert result.workload == "w0"
        ratios.append(ratio)
    assert ratios[0] == pytest.approx(2.0 * ratios[1])
    assert ratios[0] > 0.0
