"""Wake-up or memory distance: what CPU time leaves of a changed statement."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment
from watched import seen

from steelyard.answers.campaign import analyse
from steelyard.answers.costs import Cost, CostChange, Ledger, LedgerChange
from steelyard.answers.observations import whole_transactions
from steelyard.answers.statements.compute import StatementDifference, StatementFit
from steelyard.answers.statements.section import WaitCause, WaitReasoning, reason_waits, waits_of
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.findings import Estimate, Fact
from steelyard.core.linux import IdleState, LinuxFacts, wake_up_facts
from steelyard.core.measurement import Absence, Environment, Quantity, Run
from steelyard.core.schedule import CellKey, Load

SCRIPTS = ("select-only", "simple-update", "tpcb-like")
STATEMENTS, COMMITS = np.array([1.0, 5.0, 7.0]), np.array([0.0, 1.0, 1.0])
EXPERIMENT = replace(
    an_experiment(),
    workloads=tuple(Workload(name=s, builtin=s, scale=10) for s in SCRIPTS),
    loads=(Load(clients=1, threads=1),),
    measure=replace(
        an_experiment().measure, discard_start_s=0.0
    ),  # made runs have no seconds of one
)
NODES = "memory nodes of the server"
SAVED = Estimate(value=-1.0e-3, low=-1.1e-3, high=-0.9e-3)


def fit(change: Estimate = SAVED) -> StatementFit:
    """Return a fit whose statements changed so."""
    difference = StatementDifference(
        baseline="t0",
        configuration="t1",
        per_statement_s=change,
        per_commit_s=Estimate(value=0.0, low=-1.0, high=1.0),
    )
    return StatementFit(costs=(), differences=(difference,))


def changed(cost: Cost, low: float, high: float) -> CostChange:
    """Return a change of 10 ms of a cost by so many milliseconds, told as a ratio."""
    middle = (low + high) / 2
    return CostChange(
        cost=cost,
        baseline=10e-3,
        configuration=10e-3 + middle / 1e3,
        change=Estimate(value=middle / 10, low=low / 10, high=high / 10),
        relative=True,
        clear=True,
        blocks=12,
    )


def lacking(cost: Cost) -> CostChange:
    """Return a cost that nobody could read."""
    return CostChange(
        cost=cost,
        baseline=None,
        configuration=None,
        change=None,
        relative=False,
        clear=False,
        blocks=0,
        missing="no permission",
    )


def ledger(*costs: CostChange, workload: str = "select-only", clients: int = 1) -> Ledger:
    """Return a ledger with these changes in one cell."""
    known = {each.cost: each for each in costs}
    change = LedgerChange(
        baseline="t0",
        configuration="t1",
        cell=CellKey(workload=workload, load=Load(clients=clients, threads=1)),
        costs=tuple(known.get(cost, lacking(cost)) for cost in Cost),
    )
    return Ledger(cells=(), changes=(change,))


def cpu(low: float, high: float) -> Ledger:
    """Return a ledger whose server took so many milliseconds more, and the generator none."""
    return ledger(
        changed(Cost.SERVER_CPU, low, high),
        changed(Cost.GENERATOR_CPU, 0.0, 0.0),
        changed(Cost.SERVER_RUN_QUEUE, -0.1, -0.1),
        changed(Cost.GENERATOR_RUN_QUEUE, -0.2, -0.2),
    )


def reasoning(found: Ledger | None, change: Estimate = SAVED) -> WaitReasoning:
    """Return the only reasoning."""
    (told,) = reason_waits(fit(change), found, EXPERIMENT)
    return told


@pytest.mark.parametrize(
    ("low", "high", "cause"),
    [
        (-0.25, 0.0, WaitCause.WAITING),
        (-0.26, 0.0, WaitCause.UNDECIDED),
        (-0.49, -0.26, WaitCause.BOTH),
        (-0.49, -0.25, WaitCause.UNDECIDED),  # it may be waiting alone
        (-0.5, -0.26, WaitCause.UNDECIDED),  # it may be mainly the CPU
        (-0.9, -0.49, WaitCause.UNDECIDED),
        (-0.9, -0.5, WaitCause.CPU),
        (0.2, 0.3, WaitCause.WAITING),  # more CPU time is no reason to be faster
        (-0.6, 0.6, WaitCause.UNDECIDED),
        (-2.0, 2.0, WaitCause.UNDECIDED),  # 0 to 100 % tells nothing
    ],
)
def test_cpu_time_is_the_most_that_memory_distance_can_be(
    low: float, high: float, cause: WaitCause
) -> None:
    """A quarter of 1 ms at most is waiting, half or more the CPU, both only surely between."""
    assert reasoning(cpu(low, high)).cause is cause


def test_a_slower_statement_is_told_alike() -> None:
    """The same with the signs turned: a regression by waiting."""
    slower = Estimate(value=1.0e-3, low=0.9e-3, high=1.1e-3)
    assert reasoning(cpu(0.0, 0.2), slower).cause is WaitCause.WAITING
    assert reasoning(cpu(0.6, 0.9), slower).cause is WaitCause.CPU


def test_server_and_generator_count_together() -> None:
    """Each takes 0.2 of 1 ms less: together more than a quarter. So does the run queue."""
    both = ledger(
        changed(Cost.SERVER_CPU, -0.2, -0.2),
        changed(Cost.GENERATOR_CPU, -0.2, -0.2),
        changed(Cost.SERVER_RUN_QUEUE, -0.1, -0.1),
        changed(Cost.GENERATOR_RUN_QUEUE, -0.2, -0.2),
    )
    told = reasoning(both)
    assert told.cpu_s == pytest.approx((-0.4e-3, -0.4e-3))
    assert told.cpu_shares == pytest.approx((0.4, 0.4))
    assert told.run_queue_s == pytest.approx(-0.3e-3)
    assert told.cause is WaitCause.BOTH


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "no run was watched"),
        (ledger(changed(Cost.SERVER_CPU, -0.1, 0.0)), "no permission"),
        (ledger(workload="simple-update"), "no run was watched"),
        (ledger(clients=8), "no run was watched"),
    ],
)
def test_without_cpu_time_nothing_is_told_apart(found: Ledger | None, why: str) -> None:
    """Half of the CPU time is no bound; nor is that of another script or load."""
    told = reasoning(found)
    assert told.cause is WaitCause.UNKNOWN
    assert told.cpu_shares is None
    assert told.missing == why


def test_only_a_sure_change_of_statements_is_reasoned_about() -> None:
    """An interval around zero, or none, asks for no cause; nor does a campaign without a fit."""
    for unsure in (Estimate(value=-1e-3, low=-2e-3, high=1e-6), Estimate(value=-1e-3)):
        assert reason_waits(fit(unsure), cpu(0.0, 0.0), EXPERIMENT) == ()
    assert reason_waits(None, cpu(0.0, 0.0), EXPERIMENT) == ()


@pytest.mark.parametrize(
    ("levels", "absent", "one"),
    [
        ({Quantity.SERVER_HUGE_BYTES: 0.0}, (), True),
        (
            {Quantity.SERVER_HUGE_BYTES: 0.0, Quantity.SERVER_REMOTE_NODE_FRACTION: 0.0},
            (),
            False,
        ),
        ({Quantity.SERVER_HUGE_BYTES: 0.0}, (Absence(subject=NODES, reason="refused"),), None),
        ({}, (), None),  # the server is elsewhere
    ],
)
def test_one_memory_node_leaves_nothing_far(
    levels: dict[Quantity, float], absent: tuple[Absence, ...], *, one: bool | None
) -> None:
    """Known from the runs: a share of pages elsewhere is measured only where there is elsewhere."""
    made = record((90e-6, 80e-6))
    evidence = seen(levels=levels, absent=absent)
    runs = [replace(run, evidence=evidence) for run in made.runs]
    (told,) = reason_waits(fit(), cpu(0.0, 0.0), EXPERIMENT, runs)
    assert told.one_node is one


def test_the_record_s_machine_is_suspected() -> None:
    """Its facts say what makes wake-ups slow; a record of an older version says nothing."""
    fast = LinuxFacts(idle_states=(IdleState(name="C1", exit_latency_s=2e-6),))
    c6 = IdleState(name="C6", exit_latency_s=133e-6)
    slow = replace(fast, idle_states=(*(fast.idle_states or ()), c6))
    for machine, suspects in (
        (slow, ("idle CPUs of this machine enter C6, which takes 0.13 ms to leave",)),
        (fast, ()),
        (replace(slow, dma_latency_s=20e-6), ()),
    ):
        facts = wake_up_facts(machine, limit_seen=True)
        (told,) = reason_waits(fit(), cpu(0.0, 0.0), EXPERIMENT, (), facts)
        assert told.suspects == suspects
    old = (Fact(name="governor", value="performance", subject="machine"),)
    (told,) = reason_waits(fit(), cpu(0.0, 0.0), EXPERIMENT, (), old)
    assert told.suspects == ()


def test_a_whole_record_names_its_suspects() -> None:
    """From the environment's rows to the reasoning."""
    machine = LinuxFacts(idle_driver="none", idle_states=())
    virtual = Fact(name="virtualisation", value="virtual machine (KVM)", subject="machine")
    facts = (virtual, *wake_up_facts(machine, limit_seen=False))
    made = replace(record((90e-6, 80e-6)), environment=Environment(facts=facts))
    (told,) = analyse(made).answer(waits_of) or ()
    assert "halts at once" in told.suspects[0]


def record(cpu_s: tuple[float, float]) -> CampaignRecord:
    """Return a campaign of 12 blocks whose second configuration saves 0.9 ms at every statement.

    Args:
        cpu_s: Of the server per transaction, in each configuration.
    """
    drift = 1.0 + 0.02 * np.sin(np.arange(12))[:, None]
    sides = [drift * (each * STATEMENTS + 0.5e-3 * COMMITS) for each in (1.3e-3, 0.4e-3)]
    made = a_record(-np.log(np.stack(sides, axis=1)), EXPERIMENT)
    return replace(made, runs=tuple(_watched(run, cpu_s, made.experiment) for run in made.runs))


def _watched(run: Run, cpu_s: tuple[float, float], experiment: Experiment) -> Run:
    number = whole_transactions(run, experiment.measure.discard_start_s)
    assert number is not None
    server_s = cpu_s[run.configuration == "t1"]
    totals = {Quantity.SERVER_CPU_S: server_s * number, Quantity.GENERATOR_CPU_S: 5e-6 * number}
    return replace(run, evidence=seen(totals))


@pytest.mark.parametrize(
    ("cpu_s", "cause"),
    [((90e-6, 80e-6), WaitCause.WAITING), ((900e-6, 100e-6), WaitCause.CPU)],
)
def test_a_whole_campaign_is_reasoned_about(cpu_s: tuple[float, float], cause: WaitCause) -> None:
    """From runs to the cause: the same latencies, with and without the CPU time behind them."""
    (told,) = analyse(record(cpu_s)).answer(waits_of) or ()
    assert told.cause is cause
    assert told.per_statement_s.value == pytest.approx(-0.9e-3, rel=0.02)
    assert told.cpu_s == pytest.approx((cpu_s[1] - cpu_s[0],) * 2, rel=0.05)
    assert told.run_queue_s is None
