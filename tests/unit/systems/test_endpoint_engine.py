"""PostgreSQL on a server that is there already: what it refuses before anything is changed."""

from pathlib import Path

import pytest

from fakes.clock import FakeClock
from fakes.processes import FakeProcesses
from fakes.sql import FakeSql
from steelyard.core.errors import PreflightError
from steelyard.core.experiment import (
    Configuration,
    Experiment,
    Layer,
    Setting,
    SwitchCost,
    Workload,
)
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import EndpointTarget
from steelyard.systems.postgres import engine as running
from steelyard.systems.postgres import server as installation
from steelyard.systems.postgres.factory import EndpointEngine, Surroundings
from steelyard.systems.postgres.server import Installation

_ADDRESS = ServerAddress(host="db", port=5432, user="bench", database="postgres")
_SETTINGS: list[tuple[object, ...]] = [
    ("work_mem", "user", "Memory", "integer", "kB", "64", "2147483647"),
    ("shared_buffers", "postmaster", "Memory", "integer", "8kB", "16", "1073741823"),
    ("checkpoint_timeout", "sighup", "WAL", "integer", "s", "30", "86400"),
    ("block_size", "internal", "Preset", "integer", None, "8192", "8192"),
    ("jit", "user", "Planner", "bool", None, None, None),
]


def _server(*, superuser: bool, version: str = "18.6") -> running.RunningServer:
    answers = {running._SERVER: [(version, superuser, False)], running._SETTINGS: _SETTINGS}
    return running.read_running(_ADDRESS, FakeSql(answers))


def _engine(
    server: running.RunningServer, restart: tuple[str, ...] = (), **settings: str
) -> EndpointEngine:
    target = EndpointTarget(restart_command=restart)
    asked = tuple(Setting(layer=Layer.POSTGRES, name=n, value=v) for n, v in settings.items())
    experiment = Experiment(
        name="x",
        baseline="a",
        configurations=(
            Configuration(name="a", target=target),
            Configuration(name="b", target=target, settings=asked),
        ),
        workloads=(Workload(name="w", builtin="select-only", scale_factor=1),),
        loads=(Load(clients=1, threads=1),),
        seed=1,
    )
    surroundings = Surroundings(
        processes=FakeProcesses(FakeClock()),
        sql=FakeSql(),
        account=None,
        reach=lambda programs, _parts, _label: programs,
    )
    clients = Installation(programs=Path("/bin"), root=Path("/bin"), version="16.1")
    return EndpointEngine(experiment, {"a": server, "b": server}, clients, surroundings)


@pytest.mark.parametrize(
    ("superuser", "restart", "name", "value", "words"),
    [
        (True, (), "work_mem", "9MB", ""),
        (True, (), "checkpoint_timeout", "7min", ""),
        (True, (), "shared_buffers", "1GB", "needs a restart"),
        (True, ("again",), "shared_buffers", "1GB", ""),
        (True, ("again",), "block_size", "8192", "cannot be changed"),
        (True, (), "work_mem", "lots", "is no number"),
        (True, (), "work_mem", "1kB", "is out of range"),
        (True, (), "auto_explain.log_analyze", "on", "is not known to the server"),
        (False, (), "work_mem", "9MB", ""),
        (False, (), "jit", "off", ""),
        (False, (), "checkpoint_timeout", "7min", "by a superuser only"),
        (False, ("again",), "shared_buffers", "1GB", "by a superuser only"),
    ],
)
def test_complaints(
    superuser: bool,  # noqa: FBT001 - a column of the table
    restart: tuple[str, ...],
    name: str,
    value: str,
    words: str,
) -> None:
    """Each setting that cannot come into force has one, with the way out."""
    engine = _engine(_server(superuser=superuser), restart, **{name: value})
    found = engine.complaints("b")
    assert engine.complaints("a") == ()
    assert [complaint.setting for complaint in found] == ([name] if words else [])
    assert all(words in complaint.message and complaint.hint for complaint in found)


def test_it_is_what_the_server_says() -> None:
    """Version, settings and switch costs are the server's; the generator is ours."""
    engine = _engine(_server(superuser=True, version="18.6 (Debian 18.6-1)"))
    assert engine.label("a") == "PostgreSQL 18.6 (Debian 18.6-1)"
    assert engine.generator.version == "16.1"
    assert engine.known_settings("a") >= {"work_mem", "jit"}
    assert engine.switch_cost("a", ["work_mem"]) is SwitchCost.SESSION
    assert engine.switch_cost("a", ["checkpoint_timeout"]) is SwitchCost.RELOAD
    assert engine.generator_address(_ADDRESS, "address") == _ADDRESS


def test_an_older_pgbench_is_a_finding() -> None:
    """It may lack what the newer server has; an equal or newer one is none."""
    assert [f.code for f in _engine(_server(superuser=True)).findings()] == ["older-pgbench"]
    assert _engine(_server(superuser=True, version="16.9")).findings() == ()


def _with_pgbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *builds: str) -> FakeProcesses:
    """Let there be installations of pgbench; those called ``plain`` were built without TLS."""
    processes = FakeProcesses(FakeClock())
    places = []
    for build in builds:
        (tmp_path / build).mkdir()
        (tmp_path / build / "pgbench").touch()
        places.append((tmp_path / build, tmp_path / build))
    monkeypatch.setattr(installation, "_client_places", lambda: iter(places))

    def answer(command: Command, *, timeout_s: float) -> Completed:
        assert timeout_s > 0
        plain = "plain" in command.argv[0]
        version = "18.6" if plain else "15.18"
        said = "pgbench: error: connection to server failed: No such file or directory"
        if plain and command.environment.get("PGSSLMODE") == "require":
            said = 'sslmode value "require" invalid when SSL support is not compiled in'
        asked = "--version" in command.argv
        return Completed(
            argv=command.argv,
            exit_status=0 if asked else 1,
            stdout=f"pgbench (PostgreSQL) {version}\n" if asked else "",
            stderr="" if asked else said,
        )

    monkeypatch.setattr(processes, "run", answer)
    return processes


def test_a_server_over_tls_is_driven_by_the_newest_pgbench_that_speaks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else pgbench would be kept out, or come in without encryption and without a word."""
    processes = _with_pgbench(tmp_path, monkeypatch, "plain", "secure")
    assert installation.find_clients(processes).version == "18.6"
    assert installation.find_clients(processes, tls=True).version == "15.18"


def test_without_a_pgbench_that_speaks_tls_the_campaign_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to install, and how to do without."""
    processes = _with_pgbench(tmp_path, monkeypatch, "plain")
    with pytest.raises(PreflightError, match="over TLS") as caught:
        installation.find_clients(processes, tls=True)
    assert "sslmode=disable" in caught.value.hint
