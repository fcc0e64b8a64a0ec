"""Small rules of the vocabulary: totals, tails, ranks and labels."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.experiment import Configuration, Experiment, Layer, Setting, SwitchCost
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import Measurement
from steelyard.core.outside import Command, Completed
from steelyard.core.schedule import Load
from steelyard.core.target import (
    CloudNativePgTarget,
    LocalTarget,
    PodResources,
    RedisKubernetesTarget,
)


def _measured(transactions: float, seconds: float) -> Measurement:
    return Measurement(
        transactions=transactions,
        seconds=seconds,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=0,
        connection_s=None,
        series=(),
    )


@given(transactions=st.floats(0, 1e9), seconds=st.floats(1e-3, 1e5))
def test_log_throughput_is_finite(transactions: float, seconds: float) -> None:
    """A run without transactions counts as one, so that its logarithm exists."""
    measured = _measured(transactions, seconds)
    assert math.isfinite(measured.log_tps)
    if transactions >= 1:
        assert measured.log_tps == pytest.approx(math.log(measured.tps))
    else:
        assert measured.log_tps == pytest.approx(-math.log(seconds))


def test_throughput_is_transactions_by_seconds() -> None:
    """The ramp is out of both already."""
    assert _measured(5000.0, 2.5).tps == 2000.0


@pytest.mark.parametrize(
    ("stdout", "stderr", "tail"),
    [
        ("out\n", "one\ntwo\nthree\n", "two\nthree"),
        ("one\ntwo\nthree\n", "\n", "two\nthree"),
        ("", "", ""),
    ],
)
def test_the_tail_prefers_standard_error(stdout: str, stderr: str, tail: str) -> None:
    """Last words are looked for where programs complain, then where they print."""
    completed = Completed(argv=("x",), exit_status=1, stdout=stdout, stderr=stderr)
    assert completed.tail(2) == tail


# Of pgbench 15 with prepared statements, about a table that is not there.
UNPREPARED = """\
progress: 1.0 s, 0.0 tps
pgbench: error: ERROR:  relation "orders" does not exist
LINE 1: SELECT * FROM orders;
                      ^
pgbench: error: client 3 aborted: ERROR:  prepared statement "P_0" does not exist
pgbench: error: Run was aborted; the above results are incomplete.
"""


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        (UNPREPARED, "\n".join(UNPREPARED.splitlines()[1:3])),
        ("one\ntwo\nthree\n", "two\nthree"),
    ],
)
def test_the_cause_is_the_first_error_of_the_server(stderr: str, cause: str) -> None:
    """What comes after it is what it led to; without one the last lines have to do."""
    completed = Completed(argv=("x",), exit_status=1, stdout="", stderr=stderr)
    assert completed.cause(2) == cause


def test_a_command_does_not_show_its_environment() -> None:
    """Passwords travel there, and commands end up in logs and tracebacks."""
    command = Command(argv=("psql",), environment={"PGPASSWORD": "hush-hush"})
    assert "hush-hush" not in repr(command)


def test_settings_of_one_layer_do_not_count_in_another() -> None:
    """The kernel's settings are not the database's, whose names can be had in small letters."""
    configuration = Configuration(
        name="x",
        target=LocalTarget(),
        settings=(
            Setting(layer=Layer.LINUX, name="vm.swappiness", value="1"),
            Setting(layer=Layer.POSTGRES, name="Work_Mem", value="2MB"),
        ),
    )
    assert configuration.asked() == {"Work_Mem": "2MB"}
    assert configuration.asked_folded() == {"work_mem": "2MB"}
    assert configuration.asked(Layer.LINUX) == {"vm.swappiness": "1"}


@pytest.mark.parametrize(
    ("low", "high", "leaves_out"),
    [
        (0.1, 0.2, True),
        (-0.2, -0.1, True),
        (-0.1, 0.1, False),
        (0.0, 0.1, False),
        (-0.1, 0.0, False),
        (0.1, None, False),
        (None, None, False),
    ],
)
def test_zero_is_left_out_by_bounds_on_one_side(
    low: float | None, high: float | None, *, leaves_out: bool
) -> None:
    """A bound at zero has it inside; without bounds nothing is sure."""
    assert Estimate(value=0.1, low=low, high=high).leaves_out_zero is leaves_out


def test_switch_costs_are_ordered() -> None:
    """Session, reload, restart, reprovision: each dearer than the one before."""
    assert sorted(SwitchCost, key=lambda cost: cost.rank) == [
        SwitchCost.SESSION,
        SwitchCost.RELOAD,
        SwitchCost.RESTART,
        SwitchCost.REPROVISION,
    ]


@pytest.mark.parametrize(
    ("load", "label"),
    [
        (Load(clients=1, threads=1), "1 client"),
        (Load(clients=8, threads=2), "8 clients"),
        (Load(clients=8, threads=2, rate_per_s=1500.0), "8 clients at 1500/s"),
    ],
)
def test_loads_have_a_short_name(load: Load, label: str) -> None:
    """A rate is told, threads are not."""
    assert load.label == label


def test_contenders_are_all_but_the_baseline() -> None:
    """In the order of the file."""
    experiment = Experiment(
        name="x",
        baseline="b",
        configurations=tuple(Configuration(name=n, target=LocalTarget()) for n in "cba"),
        workloads=(),
        loads=(),
        seed=1,
    )
    assert experiment.contenders == ("c", "a")
    assert experiment.configuration("a").name == "a"


def test_only_one_verdict_leaves_the_question_open() -> None:
    """Equivalent is an answer; no clear difference is none."""
    assert [verdict for verdict in Verdict if not verdict.decided] == [Verdict.NO_CLEAR_DIFFERENCE]


@pytest.mark.parametrize("kind", [CloudNativePgTarget, RedisKubernetesTarget])
def test_a_limit_of_a_servers_pod_is_a_quota(
    kind: type[CloudNativePgTarget | RedisKubernetesTarget],
) -> None:
    """Turns are made longer for it, whichever system runs in the pod."""
    limited = PodResources(limits=(("cpu", "2"),))
    assert kind(resources=limited).has_cpu_quota
    assert not kind().has_cpu_quota
