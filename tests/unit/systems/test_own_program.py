"""A program of the user's as load generator: what it is told, its figures, and its log."""

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import words_of

from fakes.processes import FakeProcesses
from steelyard.core.experiment import Configuration, Experiment, GeneratorName, Measure, Workload
from steelyard.core.outside import Completed, ServerAddress
from steelyard.core.schedule import PGBENCH_LOG, Load, LoadCommand, Pausing, Stretch, as_place
from steelyard.core.target import LocalTarget
from steelyard.core.wording import InputError, MeasurementError, PreflightError
from steelyard.systems.postgres import load_programs as own
from steelyard.systems.postgres.engine import dataset_of
from steelyard.systems.postgres.load_programs import (
    BACKWARDS_S,
    NamedLogReader,
    NamedProgram,
    Pgbench,
    load_program,
)
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLog, TransactionLogReader
from steelyard.systems.protocol import RunRequest
from steelyard.targets.endpoint import dataset_needs

_ADDRESS = ServerAddress(
    host="/run/x", port=5433, user="steelyard", database="own", password="secret"
)
_COMMAND = LoadCommand(
    argv=("sysbench", "--threads={clients}", "--time={seconds}", "--skip={discard_start}", "run"),
    prepare=("sysbench", "prepare"),
    rate=r"transactions: .*\((?P<rate>[0-9.]+) per sec",
    latency=(("mean", r"avg: +([0-9.]+)"), ("p95", r"95th percentile: +([0-9.]+)")),
)
# As sysbench 1.0.20 prints them.
_PRINTED = """\
    transactions:                        2137   (213.52 per sec.)
Latency (ms):
         min:                                    5.42
         avg:                                    9.36
         95th percentile:                       13.95
"""


def _completed(stdout: str, status: int = 0, stderr: str = "") -> Completed:
    return Completed(argv=("sysbench",), exit_status=status, stdout=stdout, stderr=stderr)


def _experiment(command: LoadCommand = _COMMAND, **changes: object) -> Experiment:
    given_: dict[str, object] = {
        "name": "x",
        "baseline": "a",
        "configurations": (Configuration(name="a", target=LocalTarget()),),
        "workloads": (Workload(name="oltp", command=command),),
        "loads": (Load(clients=8, threads=2),),
        "measure": Measure(discard_start_s=2.0),
        "seed": 1,
        "generator": GeneratorName("sysbench"),
    }
    return Experiment(**{**given_, **changes})  # type: ignore[arg-type]


def _program(command: LoadCommand = _COMMAND, **changes: object) -> NamedProgram:
    experiment = _experiment(command, **changes)
    return NamedProgram(experiment=experiment, processes=FakeProcesses(), account="nobody")


def _request(seconds: int = 7) -> RunRequest:
    return RunRequest(
        workload=Workload(name="oltp", command=_COMMAND),
        load=Load(clients=8, threads=2),
        protocol="simple",
        seconds=seconds,
        address=_ADDRESS,
        configuration="a",
    )


def test_names_in_braces_and_the_environment_say_the_same() -> None:
    """A word and a variable tell clients, lengths and the server; the password is in neither."""
    (command,) = _program().run_commands(_request(), _ADDRESS)
    assert command.argv == ("sysbench", "--threads=8", "--time=7", "--skip=2", "run")
    assert command.environment["STEELYARD_RUN_TIME"] == "5"
    assert command.environment["STEELYARD_WORKLOAD"] == "oltp"
    assert command.environment["PGDATABASE"] == command.environment["STEELYARD_DATABASE"] == "own"
    assert command.environment["PGPASSWORD"] == "secret"
    assert not any("secret" in word for word in command.argv)
    assert command.account == "nobody"
    assert command.parent_death_signal == signal.SIGKILL


_LOGGING = LoadCommand(argv=("own", "{log}"), log=("time",))


def test_each_start_writes_a_log_of_its_own() -> None:
    """Generators that are started anew within a run do not overwrite what the first ones wrote."""
    program = _program(_LOGGING)
    request = replace(_request(), workload=Workload(name="oltp", command=_LOGGING), log=Path("/l"))
    commands = [program.run_commands(request, _ADDRESS)[0] for _ in range(2)]
    assert [command.argv for command in commands] == [("own", "/l.0"), ("own", "/l.1")]
    assert [command.environment["STEELYARD_LOG"] for command in commands] == ["/l.0", "/l.1"]
    assert program.counts_by_log()
    assert not _program().counts_by_log()
    assert "STEELYARD_LOG" not in _program().run_commands(_request(), _ADDRESS)[0].environment


def test_with_a_log_nothing_printed_counts_and_the_status_does() -> None:
    """In turns the signal that ends it is no failure, whoever says so; another end is."""
    program = _program(_LOGGING)
    request = replace(_request(), workload=Workload(name="oltp", command=_LOGGING))
    measured = program.parse_run([_completed("")], request=request, ramp_s=2.0, started_at=0.0)
    assert (measured.transactions, measured.seconds) == (0.0, 5.0)
    with pytest.raises(MeasurementError, match="exited with -9"):
        program.parse_run([_completed("", -9)], request=request, ramp_s=2.0, started_at=0.0)
    in_turns = replace(request, in_turns=Pausing.FREEZER)
    ended = [_completed("", status) for status in (0, -signal.SIGTERM, 128 + signal.SIGTERM)]
    assert program.parse_run(ended, request=in_turns, ramp_s=0.0, started_at=0.0)
    assert program.connected_within_s(ended) == 0.0
    with pytest.raises(MeasurementError, match="ended with -9 in its turns"):
        program.connected_within_s([*ended, _completed("", -9)])


def test_a_run_as_short_as_the_ramp_leaves_nothing_out() -> None:
    """A warm-up of a second has no ramp of two."""
    (command,) = _program().run_commands(_request(seconds=1), _ADDRESS)
    assert "--skip=0" in command.argv


def test_rate_and_latencies_are_found_in_base_units() -> None:
    """The rate counts over what follows the ramp; milliseconds become seconds."""
    measured = _program().parse_run(
        [_completed(_PRINTED)], request=_request(), ramp_s=2.0, started_at=0.0
    )
    assert measured.seconds == 5.0
    assert measured.tps == pytest.approx(213.52)
    assert measured.latency_mean_s == pytest.approx(0.00936)
    assert measured.percentiles == ((0.95, pytest.approx(0.01395)),)


def test_the_last_rate_counts() -> None:
    """What a program reports on its way is not its result."""
    text = "tps: 1.0\ntps: 2.0\ntps: none\ntps: 3.5\n"
    assert own.figure_in(text, r"^tps: (\S+)") == 3.5
    assert own.figure_in("tps: none", r"^tps: (\S+)") is None


@pytest.mark.parametrize("last", ["nan", "-1", "inf", "1e999"])
def test_a_last_rate_that_is_no_measurement_is_an_error(last: str) -> None:
    """It is not skipped for the one before, which the program reported on its way."""
    with pytest.raises(MeasurementError, match="which is no measurement"):
        own.figure_in(f"tps: 5\ntps: {last}", r"^tps: (\S+)")


def test_a_json_path_finds_a_number_among_other_lines() -> None:
    """Objects may stand between lines of a log; names with blanks are quoted, lists numbered."""
    text = 'begin\n{"other": 1}\n{"a": {"per second": [1, 2.5]}}\nend {"a": 7}\n'
    assert own.figure_in(text, '$.a["per second"][1]') == 2.5
    assert own.figure_in(text, "$.a.b") is None
    assert own.figure_in('{"a": true}', "$.a") is None
    assert own.figure_in('{"a": "12"}', "$.a") == 12.0


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("tps = ([0-9]+", "no regular expression"),
        ("tps = [0-9]+", "has no group"),
        ("$", "JSON path is not understood"),
        ("$.a[x]", "'[x]' of the JSON path is not understood"),
    ],
)
def test_places_that_find_nothing_are_told(place: str, wrong: str) -> None:
    """A mistake is seen when the file is read, not after the first run."""
    with pytest.raises(InputError) as raised:
        as_place(place)
    assert wrong in raised.value.message


@given(st.text(), st.sampled_from([r"tps = (\S+)", "$.a.b[0]", '$["x"]']))
def test_no_output_breaks_the_reading(text: str, place: str) -> None:
    """Whatever a program prints gives a number that a measurement can be, or none."""
    found = own.figure_in(text, place)
    assert found is None or 0 <= found < float("inf")


def test_a_failure_and_a_missing_rate_are_no_measurement() -> None:
    """The exit status counts before what was printed."""
    with pytest.raises(MeasurementError, match="sysbench exited with 1: FATAL"):
        own.parse_run(_COMMAND, _completed(_PRINTED, 1, "FATAL"), seconds=5, ramp_s=0)
    with pytest.raises(MeasurementError, match="printed no rate"):
        own.parse_run(_COMMAND, _completed("done"), seconds=5, ramp_s=0)


def test_a_program_that_is_not_there_is_refused_before_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hint says what to do; flags behind -- belong into the command."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(PreflightError, match="no program sysbench"):
        _program().check()
    with pytest.raises(InputError, match="takes no further flags"):
        _program(generator_flags=("--x",)).check()


def test_its_data_are_a_data_set_of_their_own() -> None:
    """Commands that make other data make another database; without one nothing changes."""
    made = dataset_of(Workload(name="a", command=_COMMAND))
    same = dataset_of(Workload(name="b", command=_COMMAND))
    plain = dataset_of(Workload(name="a"))
    assert made == same
    assert made.name != plain.name == "steelyard_own"


def test_the_generator_is_chosen_by_the_workloads() -> None:
    """A command in the workload takes pgbench's place, and the words of reports follow."""
    named = _experiment()
    plain = _experiment(workloads=(Workload(name="r", builtin="select-only", scale=1),))
    assert isinstance(_chosen(named), NamedProgram)
    assert isinstance(_chosen(plain), Pgbench)
    assert named.words.generator == "sysbench"
    assert named.system.has_ramp
    assert not named.system.logs_transactions
    assert named.commands == (_COMMAND.prepare, _COMMAND.argv)
    assert plain.system.logs_transactions


def _chosen(experiment: Experiment) -> object:
    return load_program(experiment, lambda: pytest.fail(str(Path())), FakeProcesses(), None)


def test_what_a_prepare_command_makes_is_refused_in_a_database_of_others() -> None:
    """It cannot be told from what was there, as little as what own scripts make."""
    making = dataset_of(Workload(name="oltp", command=_COMMAND))
    only_load = dataset_of(Workload(name="oltp", command=replace(_COMMAND, prepare=())))
    assert [each.scripts for each in dataset_needs([making, only_load])] == [True, False]


_AT = 1_795_000_000.0
_TIMED = LoadCommand(log=("time", "latency"))
_PGBENCH = LoadCommand(log=(PGBENCH_LOG,))


def _reader(
    log: LoadCommand = _TIMED, ramp_s: float = 0.0, stretches: tuple[Stretch, ...] = ()
) -> NamedLogReader:
    form = LogForm(
        scripts=("own",), open_loop=False, retries=False, has_latencies=log.logs_latencies
    )
    counts = TransactionLogReader(form, started_at=_AT, ramp_s=ramp_s, stretches=stretches)
    return NamedLogReader(log, counts, stretches)


def _read(text: bytes, log: LoadCommand = _TIMED, ramp_s: float = 0.0) -> TransactionLog:
    reader = _reader(log, ramp_s)
    reader.feed("log.0", text)
    return reader.finish(ramp_s=ramp_s)


def _line(after_s: float, latency_ms: float = 2.0) -> bytes:
    return b"%.6f %.3f\n" % (_AT + after_s, latency_ms)


def test_what_ended_after_the_ramp_counts_by_its_second() -> None:
    """The ramp is told apart; times and latencies are those of the lines."""
    found = _read(_line(0.5) + _line(1.25, 4.0) + _line(1.5, 4.0) + _line(2.0, 4.0), ramp_s=1.0)
    assert dict(found.counted) == {1: 2, 2: 1}
    assert dict(found.ended) == {0: 1, 1: 2, 2: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 0.004


@pytest.mark.parametrize(
    ("columns", "units", "line"),
    [
        (("time", "latency"), ("s", "ms"), b"1795000001.5 2.5"),
        (("latency", "time"), ("ms", "us"), b"2500,1795000001500.0"),
        (("skip", "time", "skip", "latency"), ("us", "s"), b"a; 1795000001500000;;0.0025;more"),
        (("time", "latency"), ("ns", "ms"), b"  1795000001500000000\t2.5\r"),
        (("pgbench",), ("s", "ms"), b"0 1 2500 3 1795000001 500000"),
    ],
)
def test_columns_and_units_say_what_a_line_means(
    columns: tuple[str, ...], units: tuple[str, str], line: bytes
) -> None:
    """Blanks, commas and semicolons part columns; what follows the last is passed over."""
    log = LoadCommand(log=columns, log_time_unit=units[0], latency_unit=units[1])
    found = _read(line + b"\n", log)
    assert dict(found.counted) == {1: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 0.0025


def test_a_log_without_latencies_tells_none() -> None:
    """It counts; nobody makes a latency of 0 of what was not measured."""
    found = _read(b"1795000001.5\n1795000001.6 x\n", LoadCommand(log=("time",)))
    assert dict(found.counted) == {1: 2}
    assert found.run_latency(windows_s=None) is None


def test_a_failed_transaction_of_pgbench_does_not_count() -> None:
    """Its word stands for the latency, as in pgbench's own runs."""
    text = b"0 1 failed 0 1795000001 500000\n0 2 2500 0 1795000001 600000\n"
    found = _read(text, _PGBENCH)
    assert (found.transactions, words_of(found)) == (1, {"failed": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_line(1) + b"what?\n" + _line(2) + b"\n", "2 lines of the log cannot be read, of 4"),
        (_line(1) + b"what?\n", r"the first is in log.0, line 2: 'what\?'"),
        (b"1795000001500 2.5\n", "1 lines of the log have a time that is not since the epoch"),
        (_line(5) + _line(5 - 2 * BACKWARDS_S), "1 lines of the log go back in time, of 2"),
        (_line(1) + b"17950000", "log.0 of the log ends inside line 2"),
        (b"x" * 200_000 + b"\n", "1 lines of the log cannot be read, of 1"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(text: bytes, said: str) -> None:
    """A part of the lines would be a wrong rate; the number and the first of them are told."""
    with pytest.raises(MeasurementError, match=said) as caught:
        _read(text)
    assert caught.value.hint


def test_threads_may_write_a_little_out_of_order() -> None:
    """A time is taken before its line is written; two files have nothing to do with each other."""
    reader = _reader()
    reader.feed("log.0", _line(5) + _line(5 - BACKWARDS_S / 2))
    reader.feed("log.0.1", _line(1))
    assert reader.finish().transactions == 3


def test_who_stood_still_may_be_late_by_the_pause() -> None:
    """A line whose time was taken before a pause of 3 s is written after it."""
    stretches = (
        Stretch(began_at=_AT, ended_at=_AT + 2, counted=(_AT + 1, _AT + 2)),
        Stretch(began_at=_AT + 5, ended_at=_AT + 7, counted=(_AT + 6, _AT + 7)),
    )
    reader = _reader(stretches=stretches)
    reader.feed("log.0", _line(1.25) + _line(5.5) + _line(1.75) + _line(6.25, 5000) + _line(6.75))
    found = reader.finish()
    assert dict(found.counted) == {0: 1, 1: 1, 2: 1, 3: 1}
    latency = found.run_latency(windows_s=None)
    assert latency is not None
    assert latency.scripts[0].longest_s == 2.0  # of 5 s, without the pause


@given(st.lists(st.integers(1, 60)), st.binary(max_size=200))
def test_pieces_may_end_anywhere_and_nothing_breaks_the_reading(
    cuts: list[int], odd: bytes
) -> None:
    """Whole lines give the same counts however they come; bytes of any kind are read or told."""
    text = b"".join(_line(n / 7) for n in range(20))
    reader, at = _reader(), 0
    for cut in cuts:
        reader.feed("log.0", text[at : at + cut])
        at += cut
    reader.feed("log.0", text[at:])
    assert reader.finish().counted == _read(text).counted
    reader = _reader()
    reader.feed("log.0", odd)
    try:
        reader.finish()
    except MeasurementError as error:
        assert "log.0" in error.message  # noqa: PT017 - most bytes are no log, some are
