"""pgbench's command lines: what is asked for, what is refused, where secrets go."""

from pathlib import Path

import pytest

from steelyard.core.experiment import Workload
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.wording import ExitCode, InputError
from steelyard.systems.postgres import pgbench
from steelyard.systems.protocol import RunRequest

_ADDRESS = ServerAddress(host="/run/x", port=5433, user="u", database="d", password="hush-hush")


def _request(workload: Workload, **options: object) -> RunRequest:
    fields = {
        "load": Load(clients=8, threads=2),
        "protocol": "prepared",
        "seconds": 7,
        "address": _ADDRESS,
        **options,
    }
    return RunRequest(workload=workload, **fields)


def test_a_builtin_workload_is_one_command_line() -> None:
    """Time, clients, threads, protocol, progress by the second with time stamps, and no vacuum."""
    workload = Workload(name="reads", builtin="select-only", scale=10)
    assert pgbench.run_arguments(_request(workload)) == (
        "--no-vacuum",
        "--time=7",
        "--progress=1",
        "--progress-timestamp",
        "--client=8",
        "--jobs=2",
        "--protocol=prepared",
        "--builtin=select-only",
    )


def test_scripts_carry_weights_and_the_scale_factor() -> None:
    """Own scripts are files with weights; their scale factor cannot be found by pgbench."""
    workload = Workload(name="orders", scale=10)
    scripts = [(Path("/s/0-new.sql"), 9), (Path("/s/1-report.sql"), 1)]
    arguments = pgbench.run_arguments(_request(workload, scripts=scripts))
    assert arguments[7:] == ("--scale=10", "--file=/s/0-new.sql@9", "--file=/s/1-report.sql@1")


def test_rate_limit_and_further_flags_come_last() -> None:
    """An open loop is a rate, a limit of seconds is milliseconds; the user's flags follow."""
    workload = Workload(name="reads", builtin="select-only", scale=10)
    load = Load(clients=8, threads=2, rate_per_s=1234.5678, latency_limit_s=0.0025)
    arguments = pgbench.run_arguments(_request(workload, load=load, flags=("--random-seed=7",)))
    assert arguments[-3:] == ("--rate=1234.5678", "--latency-limit=2.5", "--random-seed=7")


def test_a_log_is_asked_for_with_its_place_and_share() -> None:
    """Without a log no flag speaks of one; a share of all transactions is no flag either."""
    workload = Workload(name="reads", builtin="select-only", scale=10)
    plain = pgbench.run_arguments(_request(workload))
    assert not [flag for flag in plain if "log" in flag or "sampling" in flag]
    logged = pgbench.run_arguments(_request(workload, log=Path("/m/log")))
    assert logged == (*plain, "--log", "--log-prefix=/m/log")
    sampled = pgbench.run_arguments(_request(workload, log=Path("/m/log"), sampling=0.25))
    assert sampled == (*logged, "--sampling-rate=0.25")


@pytest.mark.parametrize(
    ("flags", "logged"),
    [
        ((), False),
        (("--max-tries=1",), False),
        (("--max-tries", "1"), False),
        (("--max-tries=3",), True),
        (("--max-tries", "0"), True),
        (("-r", "--max-t=10"), True),
        (("--ma=3",), True),
        (("--m", "3"), True),
        (("--max-tries=01",), False),
        (("--max-tries=10",), True),
        (("--max-tries=3", "--max-tries=1"), False),
        (("--max-tries=1", "--m=3"), True),
    ],
)
def test_retries_are_a_column_where_more_than_one_try_is_allowed(
    flags: tuple[str, ...], *, logged: bool
) -> None:
    """As pgbench decides it, however the flag is written."""
    assert pgbench.logs_retries(flags) is logged


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        ("-l", "measure.log"),
        ("--log-prefix=x", "measure.log"),
        ("--aggregate-interval=5", "measure.log"),
        ("--sampling-rate=0.1", "measure.log_sampling"),
        ("-nL5", "load.latency_limit"),
        ("--latency-limit=5", "load.latency_limit"),
        ("-R100", "load.rate"),
    ],
)
def test_what_decides_the_log_is_named_by_its_key(flag: str, key: str) -> None:
    """The file says what is logged and at which rate; the refusal says where."""
    with pytest.raises(InputError) as caught:
        pgbench.refuse_own_flags((flag,))
    assert key in caught.value.hint


def test_the_password_is_in_the_environment_and_nowhere_else() -> None:
    """Addresses travel as libpq's variables; empty ones are left out."""
    workload = Workload(name="reads", builtin="select-only", scale=10)
    request = _request(workload)
    assert not any("hush-hush" in argument for argument in pgbench.run_arguments(request))
    assert "hush-hush" not in repr(request)
    environment = pgbench.environment(_ADDRESS)
    assert environment["PGPASSWORD"] == "hush-hush"
    assert environment["PGHOST"] == "/run/x"
    assert "PGPASSWORD" not in pgbench.environment(ServerAddress(host="/run/x", port=1))


@pytest.mark.parametrize(
    "flag",
    [
        "-c8",
        "-c",
        "--client=8",
        "-j2",
        "--time=3",
        "-t100",
        "-P5",
        "--progress=5",
        "-M",
        "--protocol=simple",
        "-S",
        "--select-only",
        "-N",
        "--skip-some-updates",
        "-fx.sql",
        "--file=x.sql",
        "-i",
        "-s10",
        "-h",
        "--host=db",
        "-U",
        "-l",
        "-d",
    ],
)
def test_flags_of_the_experiment_file_are_refused(flag: str) -> None:
    """What decides what is measured stands in the file, and the hint says where."""
    with pytest.raises(InputError, match="is set by Steelyard") as caught:
        pgbench.refuse_own_flags(("--random-seed=7", flag))
    assert "experiment file" in caught.value.hint
    assert caught.value.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize("flag", ["--random-seed=7", "-C", "--max-tries=3", "-r", "-Dx=1"])
def test_other_flags_are_handed_on(flag: str) -> None:
    """A flag that Steelyard does not know is the generator's business."""
    pgbench.refuse_own_flags((flag,))


def test_initialisation_asks_for_all_steps() -> None:
    """Tables, data from the client, vacuum and primary keys at the scale asked for."""
    assert pgbench.initialise_arguments(50) == (
        "--initialize",
        "--init-steps=tgvp",
        "--scale=50",
        "--quiet",
    )
