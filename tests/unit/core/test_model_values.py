"""Small rules of the vocabulary: totals, tails, labels, grouped findings, and seconds of a run."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from steelyard.core.experiment import Configuration, Experiment, Layer, Setting, SwitchCost
from steelyard.core.findings import Estimate, Finding, Severity, Verdict, grouped
from steelyard.core.measurement import Measurement, Second, Seconds
from steelyard.core.outside import Command, Completed
from steelyard.core.places import PodResources
from steelyard.core.schedule import Load
from steelyard.core.target import CloudNativePgTarget, LocalTarget, RedisKubernetesTarget


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
    assert measured.tps == transactions / seconds
    assert math.isfinite(measured.log_tps)
    if transactions >= 1:
        assert measured.log_tps == pytest.approx(math.log(measured.tps))
    else:
        assert measured.log_tps == pytest.approx(-math.log(seconds))


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
    [(UNPREPARED, "\n".join(UNPREPARED.splitlines()[1:3])), ("one\ntwo\nthree\n", "two\nthree")],
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


REWRITTEN = "a rewrite fell into {} of 27 runs (p = {}, events count as independent)"
ONE = Finding(code="rewrites", severity=Severity.WARNING, message="", remedy="Turn it off.")


def _of(name: str, text: str) -> Finding:
    return replace(ONE, subject=name, message=f"{name}: {text}")


def test_one_sentence_of_several_configurations_is_told_once() -> None:
    """The names of all stand before it, and the remedy is not repeated."""
    (told,) = grouped([_of("a", "it is elsewhere"), _of("b", "it is elsewhere")])
    assert (told.message, told.remedy) == ("a and b: it is elsewhere", "Turn it off.")


def test_what_differs_stands_after_each_name() -> None:
    """The first sentence whole, of the others only their own figures, brackets closed."""
    found = [_of("a", REWRITTEN.format(9, 0.1)), _of("b", REWRITTEN.format(13, 0.2))]
    (told,) = grouped(found)
    assert told.message == f"{found[0].message}; likewise b: 13 of 27 runs (p = 0.2)"


def test_a_unit_stays_with_its_number() -> None:
    """Also where the sentences go on alike from there."""
    (told,) = grouped([_of("a", "used 5 % of it"), _of("b", "used 7 % of it")])
    assert told.message.endswith("likewise b: 7 %")


def test_other_rules_severities_and_remedies_stay_apart() -> None:
    """And the order is that of the first of each."""
    found = [
        _of("a", "x"),
        replace(_of("b", "x"), code="other"),
        replace(_of("c", "x"), severity=Severity.INFO),
        replace(_of("d", "x"), remedy="Wait."),
        _of("e", "x"),
    ]
    told = grouped(found)
    assert [each.message for each in told] == ["a and e: x", *(each.message for each in found[1:4])]


FORM = TypeAdapter(Measurement)
SERIES = (
    Second(end_s=1.0, transactions=10.0, seconds=1.0, latency_mean_s=0.1, failed=0),
    Second(end_s=2.5, transactions=0.0, seconds=1.5, latency_mean_s=None, failed=3),
)
TAKEN = Measurement(
    transactions=10.0,
    seconds=2.5,
    latency_mean_s=None,
    latency_stddev_s=None,
    failed=3,
    connection_s=None,
    series=SERIES,
)


def test_what_is_read_is_what_was_written() -> None:
    """Equal to the tuple, item by item, in slices; written as the same bytes."""
    written = FORM.dump_json(TAKEN)
    read = FORM.validate_json(written)
    assert isinstance(read.series, Seconds)
    assert read.series == SERIES
    assert (read, hash(read.series), repr(read)) == (TAKEN, hash(SERIES), repr(TAKEN))
    assert (read.series[0], read.series[-1:], len(read.series)) == (SERIES[0], SERIES[1:], 2)
    assert FORM.dump_json(read) == written
    assert read.series != SERIES[:1]
    with pytest.raises(IndexError):
        read.series[2]


def test_a_number_of_failures_that_all_have_is_kept_once() -> None:
    """And given to each."""
    series = Seconds.of([replace(each, failed=2) for each in SERIES])
    assert len(series.failed) == 1
    assert [second.failed for second in series] == [2, 2]
    assert list(Seconds.of(())) == []


@pytest.mark.parametrize(
    "change", [{"end_s": "x"}, {"end_s": None}, {"failed": 0.5}, {"transactions": []}]
)
def test_what_is_no_series_is_refused(change: dict[str, object]) -> None:
    """As it would be without the short way."""
    given = json.loads(FORM.dump_json(TAKEN))
    given["series"][1] |= change
    with pytest.raises(ValidationError, match=f"series.1.{next(iter(change))}"):
        FORM.validate_python(given)


def test_fields_that_have_defaults_may_lack() -> None:
    """Records of versions that did not write them are read as before."""
    given = json.loads(FORM.dump_json(TAKEN))
    for second in given["series"]:
        del second["failed"]
    assert [second.failed for second in FORM.validate_python(given).series] == [0, 0]
