"""PostgreSQL on a server that is there already: what it refuses before anything is changed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import FakeProcesses
from fakes.sql import FakeSql, Rows
from steelyard.core.experiment import (
    Configuration,
    EffectiveSetting,
    Experiment,
    Layer,
    Script,
    Setting,
    SwitchCost,
    Workload,
)
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import InputError, PreflightError, RefusedError
from steelyard.gateways.process import Processes
from steelyard.systems.postgres import engine as reloading
from steelyard.systems.postgres import factory as running
from steelyard.systems.postgres import server as installation
from steelyard.systems.postgres.factory import EndpointEngine
from steelyard.systems.postgres.server import Installation
from steelyard.systems.postgres.settings import SettingEntry
from steelyard.systems.postgres.statements import unknown_in
from steelyard.systems.protocol import RunRequest

if TYPE_CHECKING:
    from steelyard.gateways.sql import Sql

_ADDRESS = ServerAddress(host="db", port=5432, user="bench", database="postgres")
_SETTINGS: list[tuple[object, ...]] = [
    ("work_mem", "user", "Memory", "integer", "kB", "64", "2147483647", "4096", "4MB"),
    ("shared_buffers", "postmaster", "M", "integer", "8kB", "16", "1073741823", "16384", "128MB"),
    ("checkpoint_timeout", "sighup", "WAL", "integer", "s", "30", "86400", "300", "5min"),
    ("block_size", "internal", "Preset", "integer", None, "8192", "8192", "8192", "8192"),
    ("jit", "user", "Planner", "bool", None, None, None, "on", "on"),
    ("wal_level", "postmaster", "WAL", "enum", None, None, None, "replica", "replica"),
    ("synchronous_commit", "user", "WAL", "enum", None, None, None, "on", "on"),
]
_WORDS = {
    "wal_level": ["minimal", "replica", "logical"],
    "synchronous_commit": ["local", "remote_write", "remote_apply", "on", "off"],
}


def _server(
    *, superuser: bool, version: str = "18.6", granted: tuple[str, ...] = ()
) -> running.RunningServer:
    answers: dict[str, Rows] = {
        running._SERVER: [(version, superuser, False)],
        running._SETTINGS: [(*row, "default", False, _WORDS.get(str(row[0]))) for row in _SETTINGS],
    }
    if not superuser and not version.startswith("14"):
        answers[running._ALTERABLE] = [(name,) for name in granted]
    return running.read_running(_ADDRESS, FakeSql(answers))


def _engine(
    server: running.RunningServer,
    restart: tuple[str, ...] = (),
    here: Processes | None = None,
    **settings: str,
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
        workloads=(Workload(name="w", builtin="select-only", scale=1),),
        loads=(Load(clients=1, threads=1),),
        seed=1,
    )
    doors = fake_doors(processes=here or FakeProcesses(FakeClock()))
    clients = Installation(programs=Path("/bin"), root=Path("/bin"), version="16.1")
    return EndpointEngine(experiment, {"a": server, "b": server}, clients, doors)


@pytest.mark.parametrize(
    ("superuser", "restart", "name", "value", "words"),
    [
        (True, (), "work_mem", "9MB", ""),
        (True, (), "checkpoint_timeout", "7min", ""),
        (True, (), "shared_buffers", "1GB", "needs a restart"),
        (True, ("again",), "shared_buffers", "1GB", ""),
        (True, ("again",), "shared_buffers", "1kB", "takes 128kB to 8TB"),
        (True, (), "checkpoint_timeout", "1s", "takes 30s to 1d"),
        (True, ("again",), "block_size", "8192", "cannot be changed"),
        (True, ("again",), "block_size", "4096", "cannot be changed"),
        (True, (), "session_preload_libraries", " ", "cannot be emptied by ALTER SYSTEM"),
        (False, (), "local_preload_libraries", "", ""),  # of own sessions: libpq's `options`
        (True, (), "work_mem", "lots", "is no number"),
        (True, (), "work_mem", "1kB", "is out of range"),
        (True, (), "auto_explain.log_analyze", "on", "is not known to the server"),
        (True, (), "JIT", "maybe", "does not take 'maybe'; the server takes on, off"),
        (True, (), "jit", " TRU", ""),
        (True, (), "jit", "o", "does not take 'o'"),
        (True, (), "synchronous_commit", "Remote_Apply", ""),
        (True, (), "synchronous_commit", "yes", ""),
        (False, (), "synchronous_commit", "remote", "takes local, remote_write, remote_apply, on"),
        (True, ("again",), "wal_level", "hot_standby", ""),
        (True, ("again",), "wal_level", "archives", "takes minimal, replica, logical"),
        (False, (), "work_mem", "9MB", ""),
        (False, (), "jit", "off", ""),
        (False, (), "checkpoint_timeout", "7min", "neither as a superuser nor"),
        (False, ("again",), "shared_buffers", "1GB", "neither as a superuser nor"),
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


@pytest.mark.parametrize(
    ("superuser", "settings", "words"),
    [
        (True, {"max_connections": "3"}, "2 clients do not fit into max_connections = 3"),
        (True, {"Max_Connections": "4"}, ""),
        (True, {"superuser_reserved_connections": "99"}, ""),  # they are for this user, too
        (False, {"max_connections": "6"}, "= 6 of configuration `b` (3 of them"),
        (False, {"max_connections": "7"}, ""),
        (False, {"superuser_reserved_connections": "97"}, "= 100 of configuration `b` (97 of"),
        (False, {"reserved_connections": "95"}, "= 100 of configuration `b` (98 of"),
        (False, {"work_mem": "8MB"}, ""),  # what the server has now is judged with its sessions
    ],
)
def test_the_clients_must_fit_into_each_configuration(
    *, superuser: bool, settings: dict[str, str], words: str
) -> None:
    """Whatever the server lets in now; the setting's own line is named."""
    asked = tuple(settings)
    server = _server(superuser=superuser, granted=asked)
    in_force = {
        name: EffectiveSetting(name=name, value=value)
        for name, value in (
            *(("max_connections", "100"), ("superuser_reserved_connections", "3")),
            ("reserved_connections", "0"),
        )
    }
    engine = _engine(replace(server, in_force=in_force), ("restart",), **settings)
    engine._experiment = replace(engine._experiment, loads=(Load(clients=2, threads=1),))
    found = [each for each in engine.complaints("b") if "do not fit" in each.message]
    assert [each.setting for each in found] == [*asked] * bool(words)
    assert all(words in each.message for each in found)
    assert not [each for each in engine.complaints("a") if "do not fit" in each.message]


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


def test_all_that_stands_in_the_way_is_said_at_once() -> None:
    """Who becomes a superuser must not learn only then that a restart is needed."""
    (both,) = _engine(_server(superuser=False), shared_buffers="1GB").complaints("b")
    assert "needs a restart" in both.message
    assert "neither as a superuser" in both.message
    assert "--restart-command" in both.hint
    assert "GRANT ALTER SYSTEM ON PARAMETER shared_buffers" in both.hint
    (old,) = _engine(_server(superuser=False, version="14.20"), shared_buffers="1GB").complaints(
        "b"
    )
    assert "by a superuser only" in old.message
    assert "GRANT" not in old.hint  # there are no such rights before 15


def test_who_was_granted_it_may_change_a_setting_for_everyone() -> None:
    """All of what is asked for, or nothing is changed: the rest is named."""
    granted = ("checkpoint_timeout",)
    server = _server(superuser=False, granted=granted)
    assert _engine(server, checkpoint_timeout="7min").complaints("b") == ()
    assert server.not_alterable(["Checkpoint_Timeout"]) == ()
    (found,) = _engine(server, checkpoint_timeout="7min", work_mem="9MB").complaints("b")
    assert "put back work_mem" in found.message
    assert "PARAMETER work_mem to" in found.hint


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"work_mem": "4MB"}, True),
        ({"work_mem": "4096kB", "JIT": "on"}, True),
        ({"jit": "true"}, True),
        ({"shared_buffers": "131072kB"}, True),
        ({"work_mem": "5MB"}, False),
        ({"work_mem": "4MB", "jit": "off"}, False),
        ({"auto_explain.log_analyze": "on"}, False),
    ],
)
def test_who_asks_for_what_is_in_force_asks_for_nothing(
    settings: dict[str, str], *, same: bool
) -> None:
    """However it is written; against a configuration that leaves the server as it is."""
    engine = _engine(_server(superuser=True), **settings)
    assert engine.asks_the_same("a", "b", tuple(settings)) is same
    assert engine.shown_now("a", ("Work_Mem", "nothing")) == {"Work_Mem": "4MB"}


@dataclass
class _Grammar:
    """A session that refuses what its table has; of the rest the last word is a column."""

    refused: dict[str, tuple[str, str]]
    done: list[str] = field(default_factory=list)

    def do(self, statement: str) -> None:
        self.done.append(statement)

    def columns(self, statement: str) -> tuple[str, ...]:
        for words, (code, said) in self.refused.items():
            if words in statement:
                message = f"the server at db:5432 refused: {said} ZEILE 2: SELECT x ^"
                raise RefusedError(message, code=code)
        return (statement.rsplit(maxsplit=1)[-1],)

    def session(self, *_: object, **__: object) -> "_Grammar":
        return self

    def close(self) -> None:
        self.done.append("closed")


_SHOP = {
    "FRM": ("42601", 'syntax error at or near "FRM"'),
    "LIMIT $1": ("42601", 'syntax error at or near "$1"'),
    "itms": ("42P01", 'relation "itms" does not exist'),
    "nn": ("42703", 'column "nn" does not exist'),
    "vague": ("42725", "operator is not unique: unknown + unknown"),
    "gone": ("57P01", "terminating connection"),
}


@pytest.mark.parametrize(
    ("text", "protocol", "tables", "said"),
    [
        ("SELECT 1 FRM t;\nSELECT 1;", "prepared", True, ['2: syntax error at or near "FRM"']),
        ("\n\nSELECT 1\nFRM t;", "simple", False, ['4: syntax error at or near "FRM"']),
        ("SELECT 1 FROM itms; SELECT nn FROM t;", "simple", True, ["2: relation", "2: column"]),
        ("SELECT 1 FROM itms;", "prepared", False, []),
        ("CREATE TEMP TABLE itms (a int);\nSELECT a FROM itms;", "prepared", True, []),
        ("SET search_path = x;\nSELECT a FROM itms;", "prepared", True, []),
        ("SELECT 1 LIMIT :n;", "simple", True, []),
        ("SELECT 1 LIMIT :n;", "prepared", True, ['2: syntax error at or near ":n"']),
        ("SELECT vague;", "simple", True, ["2: operator is not unique"]),
        ("SELECT vague, :n;", "simple", True, []),
        ("SELECT vague, :n;", "extended", True, ["2: operator is not unique"]),
        ("SELECT gone;", "prepared", True, []),
        ("BEGIN;\nVACUUM t FRM;\nCOMMIT;", "prepared", True, ["3: syntax error"]),
    ],
)
def test_what_a_server_does_not_know_of_a_script_is_told_before(
    text: str, protocol: str, said: list[str], *, tables: bool
) -> None:
    """With its line; nothing is executed, and of a value in the text the server sees nothing."""
    workload = Workload(name="w", scripts=(Script(name="q.sql", text=text),))
    sql = cast("Sql", _Grammar(_SHOP))
    columns: dict[str, tuple[str, ...]] = {}
    found = unknown_in(workload, _ADDRESS, sql, protocol=protocol, columns=columns, tables=tables)
    told = [f"{line}: {words}" for _, line, words in found]
    assert len(told) == len(said)
    assert all(line.startswith(words) for line, words in zip(told, said, strict=True))
    assert not any("ZEILE" in line for line in told)
    done = cast("_Grammar", sql).done
    assert {statement.split()[0] for statement in done} <= {"BEGIN", "ROLLBACK", "closed"}
    assert done.count("ROLLBACK") == done.count("BEGIN READ ONLY")


def test_each_statement_that_is_joined_sets_variables_by_aset_and_the_last_by_gset() -> None:
    """As pgbench's documentation of the two says."""
    text = "SELECT 1 AS a \\; SELECT 2 AS b \\aset\nSELECT 3 AS c \\; SELECT 4 AS d \\gset"
    workload = Workload(name="w", scripts=(Script(name="q.sql", text=text),))
    columns: dict[str, tuple[str, ...]] = {}
    sql = cast("Sql", _Grammar({}))
    assert [*unknown_in(workload, _ADDRESS, sql, protocol="simple", columns=columns)] == []
    assert [*columns.values()] == [("a", "b"), ("d",)]


@pytest.mark.parametrize(
    ("target", "prepare", "asked"),
    [
        (EndpointTarget(), (), (True, True)),
        (EndpointTarget(dbname="shop", allow_existing=True), (), (False, True)),
        (EndpointTarget(), (Script(name="p.sql", text="CREATE TABLE t (a int);"),), (False, False)),
    ],
)
def test_the_database_that_is_measured_in_is_the_one_that_is_asked(
    target: EndpointTarget, prepare: tuple[Script, ...], asked: tuple[bool, bool]
) -> None:
    """Steelyard's own is empty; what `prepare` makes is not there yet, so grammar alone counts."""
    engine = _engine(_server(superuser=True))
    workload = Workload(name="w", scripts=(Script(name="q.sql", text="TABLE t"),), prepare=prepare)
    a, b = engine._experiment.configurations
    engine._experiment = replace(
        engine._experiment,
        configurations=(replace(a, target=target), replace(b, target=target)),
        workloads=(workload,),
    )
    seen = []

    def unknown(_: Workload, address: ServerAddress, *_args: str, **kinds: bool) -> object:
        assert address == _ADDRESS
        seen.append((kinds["empty"], kinds["tables"]))
        return ('q.sql:1: relation "t" does not exist' + reloading.IN_EMPTY * kinds["empty"],)

    engine.unknown = unknown  # type: ignore[method-assign, assignment]
    cast("FakeProcesses", engine._processes).on("pgbench")
    with pytest.raises(InputError, match=r'q.sql:1: relation "t" does not exist') as refused:
        engine.check_flags()
    assert seen == [asked]  # both configurations are of one server
    assert ("allow_existing" in refused.value.hint) is asked[0]


@pytest.mark.parametrize("there", [True, False])
def test_scripts_run_once_on_servers_of_our_own_alone(*, there: bool) -> None:
    """There for 10 s a statement at most; a server that is there only prepares, in our database."""
    engine, script = (
        _engine(_server(superuser=True)),
        Script(name="q.sql", text="SELECT 1;\nTABLE t"),
    )
    own = replace(engine._experiment.configurations[0], target=LocalTarget())
    if not there:
        engine._experiment = replace(engine._experiment, configurations=(own,), baseline="a")
    workload = Workload(name="w", scripts=(script,), prepare=(script,))
    seen: list[str] = []
    engine.unknown = lambda _, address, __: seen.append(address.database) or ()  # type: ignore[method-assign, assignment, misc, return-value, func-returns-value]
    request = RunRequest(
        workload=workload,
        load=Load(clients=1, threads=1),
        protocol="prepared",
        seconds=1,
        address=_ADDRESS,
        scripts=((Path("/c/0-q.sql"), 1),),
        configuration="a",
    )
    ran: list[Command] = []

    def run(command: Command) -> Completed:
        ran.append(command)
        said = "pgbench: error: client 0 script 0 aborted in command 1 query 0: ERROR:  no t"
        return Completed(argv=command.argv, exit_status=2, stdout="", stderr=said)

    if there:
        engine.try_scripts([request], run)
        assert ran == []
    else:
        with pytest.raises(InputError, match=r"^q\.sql:2: no t$"):
            engine.try_scripts([request], run)
        assert [each.environment["PGOPTIONS"].strip() for each in ran] == [
            "-c statement_timeout=10s"
        ]
        assert {"--transactions=1", "--file=/c/0-q.sql"} <= set(ran[0].argv)
    assert all(name.startswith("steelyard_own_") for name in seen)
    assert len(seen) == 1


def test_a_reload_is_asked_for_where_the_rights_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on functions are a database's: in one that Steelyard made nobody has granted any."""
    engine, asked = _engine(_server(superuser=False)), []
    monkeypatch.setattr(reloading, "reload", lambda address, *_: asked.append(address.database))
    own = replace(_ADDRESS, database="steelyard_s1_night")
    engine.reload(own, "a", FakeClock())
    assert asked == [_ADDRESS.database]


@pytest.mark.parametrize(
    ("version", "restart", "senders", "asked", "words"),
    [
        ("18.6", ("again",), "10", {"wal_level": "minimal"}, 'requires "wal_level" to be'),
        ("18.6", ("again",), "0", {"wal_level": "minimal"}, ""),
        ("18.6", ("again",), "10", {"Wal_Level": "minimal", "max_wal_senders": "0"}, ""),
        ("18.6", ("again",), "10", {"max_connections": "5"}, '"superuser_reserved_connections"'),
        ("18.6", ("again",), "262142", {"max_connections": "9"}, "too many server processes"),
        ("18.6", (), "10", {"wal_level": "minimal"}, "needs a restart"),
        ("14.20", ("again",), "10", {"wal_level": "minimal"}, ""),
        ("99.1", ("again",), "10", {"wal_level": "minimal"}, ""),
    ],
)
def test_a_server_that_is_there_is_not_restarted_in_vain(
    version: str, restart: tuple[str, ...], senders: str, asked: dict[str, str], words: str
) -> None:
    """A program of its version here knows the rules, beside what is in force there."""
    names = ("wal_level", "max_wal_senders", "max_connections", "superuser_reserved_connections")
    server = replace(
        _server(superuser=True, version=version),
        catalogue={
            name: SettingEntry(name=name, context="postmaster", group="", kind="enum")
            for name in names
        },
        shown={**dict(zip(names, ("replica", senders, "100", "5"), strict=True)), "port": "1"},
    )
    engine = _engine(server, restart, here=Processes(), **asked)
    found = engine.complaints("b")
    assert [words in complaint.message for complaint in found] == ([True] if words else [])
    assert engine.complaints("a") == ()
