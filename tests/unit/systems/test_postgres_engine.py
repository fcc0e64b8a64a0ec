"""PostgreSQL under pgbench as the runner sees it, without a server; and pg_test_fsync."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import RECORDINGS, catalogue_text

from fakes.campaigns import an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import Answer, FakeProcesses
from fakes.sql import FakeSql
from steelyard.core import experiment as model
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import LocalTarget
from steelyard.core.wording import PreflightError, TargetError
from steelyard.systems.postgres import engine as engines
from steelyard.systems.postgres import server as installations
from steelyard.systems.postgres import settings
from steelyard.systems.postgres.engine import PostgresCeilings, PostgresEngine, dataset_of
from steelyard.systems.postgres.server import Installation, PostgresProgram
from steelyard.systems.protocol import RunRequest, SyncRate, recordable

_ADDRESS = ServerAddress(host="/run/x", port=5433, user="steelyard", database="postgres")
_READS = model.Workload(name="reads", builtin="select-only", scale=10)
_WRITES = model.Workload(name="writes", builtin="simple-update", scale=10)
_OWN = model.Workload(
    name="orders",
    prepare=(model.Script(name="orders.sql", text="CREATE TABLE orders (id int)"),),
    scripts=(model.Script(name="new.sql", text="SELECT 1"),),
)
_WRITING = replace(
    _OWN, scripts=(*_OWN.scripts, model.Script(name="more.sql", text="DELETE FROM orders"))
)


def _engine(
    *workloads: model.Workload, sql: FakeSql | None = None, processes: FakeProcesses | None = None
) -> PostgresEngine:
    experiment = model.Experiment(
        name="x",
        baseline="old",
        configurations=tuple(
            model.Configuration(name=n, target=LocalTarget()) for n in ("old", "new")
        ),
        workloads=workloads or (_READS,),
        loads=(Load(clients=8, threads=2),),
        seed=1,
    )
    programs = {
        name: PostgresProgram(
            installation=Installation(
                programs=Path(f"/{name}/bin"), root=Path(f"/{name}"), version=version
            ),
            initdb=(),
            sql=sql or FakeSql(),
        )
        for name, version in (("old", "9.6"), ("new", "18.6"))
    }
    catalogue = settings.parse_catalogue(catalogue_text(18))
    return PostgresEngine(
        experiment,
        programs,
        {"old": catalogue, "new": catalogue},
        fake_doors(processes=processes or FakeProcesses(), sql=sql or FakeSql()),
        "nobody",
    )


def test_the_newest_pgbench_drives_every_server() -> None:
    """18 is newer than 9.6, by number and not by letter."""
    assert _engine().generator.version == "18.6"
    request = RunRequest(
        workload=_READS,
        load=Load(clients=8, threads=2),
        protocol="simple",
        seconds=5,
        address=_ADDRESS,
    )
    (command,) = _engine().run_commands(request)
    assert command.argv[0] == "/new/bin/pgbench"
    assert command.environment["PGDATABASE"] == "steelyard_s10"
    assert command.account == "nobody"
    assert command.parent_death_signal == 9


def test_equal_data_are_one_data_set() -> None:
    """Reads and writes at one scale share their tables; own scripts make their own."""
    names = [dataset.name for dataset in _engine(_READS, _WRITES, _OWN).datasets()]
    assert names[0] == "steelyard_s10"
    assert len(names) == 2
    assert names[1].startswith("steelyard_own_")
    changed = model.Workload(
        name="orders", prepare=(model.Script(name="orders.sql", text="SELECT 2"),)
    )
    assert dataset_of(changed).name != dataset_of(_OWN).name


def test_the_expected_size_follows_the_scale() -> None:
    """About 15 MB per unit of scale, by pgbench's manual; unknown data count nothing."""
    assert dataset_of(_READS).expected_bytes == 160_000_000
    assert dataset_of(_OWN).expected_bytes == 0


def test_building_makes_database_tables_scripts_and_statistics() -> None:
    """Each step runs in the data set's own database, prewarm extension included where it is."""
    sql = FakeSql({engines._HAS_PREWARM: [(1,)]})
    processes = FakeProcesses()
    processes.on("pgbench")
    processes.on("psql")
    engine = _engine(_READS, _OWN, sql=sql, processes=processes)
    for dataset in engine.datasets():
        engine.build(dataset, _ADDRESS, "old")
    own = engine.datasets()[1].name
    assert sql.executed == [
        ("postgres", 'CREATE DATABASE "steelyard_s10"'),
        ("steelyard_s10", "CREATE EXTENSION IF NOT EXISTS pg_prewarm"),
        ("steelyard_s10", "VACUUM (ANALYZE)"),
        ("postgres", f'CREATE DATABASE "{own}"'),
        (own, "CREATE EXTENSION IF NOT EXISTS pg_prewarm"),
        (own, "VACUUM (ANALYZE)"),
    ]
    assert [command.argv[0] for command in processes.ran] == ["/new/bin/pgbench", "/old/bin/psql"]
    assert processes.stdin == ["", "CREATE TABLE orders (id int)"]


def test_a_failing_prepare_script_is_named_with_its_error() -> None:
    """The sentence names the script and holds psql's words."""
    sql = FakeSql({engines._HAS_PREWARM: []})
    processes = FakeProcesses()
    processes.on("psql", answer=Answer(exit_status=3, stderr='ERROR:  relation "x" exists\n'))
    engine = _engine(_OWN, sql=sql, processes=processes)
    with pytest.raises(TargetError, match=r"prepare script orders\.sql: ERROR"):
        engine.build(engine.datasets()[0], _ADDRESS, "old")


def test_effective_settings_are_read_as_a_new_session_sees_them() -> None:
    """Values in the server's unit with their source; places that differ by design are left out."""
    rows = [("jit", "on", None, "default"), ("work_mem", "4096", "kB", "configuration file")]
    sql = FakeSql({engines._EFFECTIVE: rows})
    found = _engine(sql=sql).effective(_ADDRESS)
    assert [(s.name, s.value, s.unit, s.source) for s in found] == rows
    assert "data_directory" in str(sql.asked[0][2])


def test_settings_of_a_server_that_is_there_go_into_the_record_without_secrets() -> None:
    """What no configuration asks for is not kept where it may hold one; the rest is redacted."""
    rows = [
        ("application_name", "curl -u a:Zq9secret http://x", None, "client"),
        ("archive_cleanup_command", "curl -u a:Zq9secret http://x", None, "configuration file"),
        ("archive_command", "(disabled)", None, "default"),
        ("my.secret", "Zq9secret", None, "configuration file"),
        ("pg_stat_statements.max", "5000", None, "configuration file"),
        ("primary_conninfo", "host=x user=r password=Zq9secret", None, "configuration file"),
        ("recovery_end_command", "", None, "default"),
        ("restore_command", "fetch %f Zq9secret %p", None, "configuration file"),
        ("ssl_passphrase_command", "echo Zq9secret", None, "configuration file"),
        ("ssl_passphrase_command_supports_reload", "off", None, "default"),
    ]
    found = _engine(sql=FakeSql({engines._EFFECTIVE: rows})).effective(_ADDRESS)
    assert {setting.name: setting.value for setting in found} == {
        "application_name": "curl -u a:*** http://x",
        "archive_cleanup_command": "(not recorded)",
        "archive_command": "(disabled)",
        "my.secret": "(not recorded)",
        "pg_stat_statements.max": "5000",
        "primary_conninfo": "(not recorded)",
        "recovery_end_command": "",
        "restore_command": "(not recorded)",
        "ssl_passphrase_command": "(not recorded)",
        "ssl_passphrase_command_supports_reload": "off",
    }


def test_a_command_that_is_compared_is_in_the_record() -> None:
    """Whether it is in force as asked is told from its value."""
    asked = model.Setting(layer=model.Layer.POSTGRES, name="archive_command", value="cp %p /srv/%f")
    experiment = an_experiment()
    (first, *others) = experiment.configurations
    configurations = (replace(first, settings=(asked,)), *others)
    effective = model.EffectiveSetting(name="archive_command", value="cp %p /srv/%f")
    compared = replace(experiment, configurations=configurations)
    assert recordable((effective,), compared) == (effective,)
    assert recordable((effective,), experiment)[0].value == "(not recorded)"


def test_a_reload_waits_until_new_sessions_see_it() -> None:
    """The load time of the configuration changes; one that never does is an error."""
    times = iter([1, 1, 1, 2])
    sql = FakeSql(
        {
            "SELECT pg_reload_conf()": [(True,)],
            "SELECT pg_conf_load_time()": lambda: [(next(times),)],
        }
    )
    clock = FakeClock()
    _engine(sql=sql).reload(_ADDRESS, "default", clock)
    assert next(times, None) is None
    assert len(clock.slept) == 2  # a busy server is not hammered
    sql.answers["SELECT pg_conf_load_time()"] = [(1,)]
    with pytest.raises(TargetError, match="did not read its changed configuration"):
        _engine(sql=sql).reload(_ADDRESS, "default", clock)
    assert sum(clock.slept) > 25  # nor given up early


def test_the_generator_needs_a_password_on_the_network_alone() -> None:
    """Through the socket nothing changes; through TCP a fresh password is set and carried."""
    sql = FakeSql()
    engine = _engine(sql=sql)
    assert engine.generator_address(_ADDRESS, "socket") is _ADDRESS
    assert sql.passwords == {}
    address = engine.generator_address(_ADDRESS, "tcp")
    assert address.host == "127.0.0.1"
    assert address.port == _ADDRESS.port
    assert sql.passwords == {"steelyard": address.password}
    assert len(address.password) >= 32
    assert _engine(sql=sql).generator_address(_ADDRESS, "tcp").password != address.password


@pytest.mark.parametrize(("number", "strategy"), [(180006, " STRATEGY FILE_COPY"), (140011, "")])
def test_templates_are_put_aside_and_copied_back(number: int, strategy: str) -> None:
    """Every data set is renamed once and copied from there; before 15 there is one strategy."""
    databases: list[tuple[str]] = [("postgres",), ("steelyard_s10",)]
    sql = FakeSql(
        {
            "SELECT current_setting('server_version_num')": [(str(number),)],
            "SELECT datname FROM pg_database": databases,
        }
    )
    engine = _engine(_READS, sql=sql)
    engine.keep_templates(_ADDRESS)
    databases[1:] = [("steelyard_s10_prepared",)]
    engine.keep_templates(_ADDRESS)  # of another bench on the same server
    engine.restore_from_templates(_ADDRESS)
    assert [statement for _, statement in sql.executed] == [
        'ALTER DATABASE "steelyard_s10" RENAME TO "steelyard_s10_prepared"',
        'DROP DATABASE IF EXISTS "steelyard_s10" WITH (FORCE)',
        'CREATE DATABASE "steelyard_s10" TEMPLATE "steelyard_s10_prepared"' + strategy,
    ]


@pytest.mark.parametrize("extension", [[(1,)], []])
def test_prewarming_reads_everything_with_and_without_the_extension(
    extension: list[tuple[int]],
) -> None:
    """Where pg_prewarm is missing, every table is scanned instead."""
    scan = "SELECT count(*) FROM public.pgbench_accounts"
    sql = FakeSql(
        {
            "SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'": list(extension),
            engines._PREWARM: [(1640,)],
            engines._TABLES: [(scan,)],
        }
    )
    _engine(_READS, sql=sql).prewarm(_ADDRESS)
    asked = [statement for _, statement, _ in sql.asked]
    assert (engines._PREWARM in asked) is bool(extension)
    assert sql.executed == ([] if extension else [("steelyard_s10", scan)])


@pytest.mark.parametrize(("limit", "loaded"), [(999, False), (1000, True), (None, True)])
def test_data_that_are_too_large_are_not_loaded(limit: int | None, loaded: bool) -> None:  # noqa: FBT001
    """It is decided once, so that all servers of a campaign are alike."""
    sql = FakeSql(
        {
            engines._SIZE: [(1000,)],
            "SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'": [(1,)],
            engines._PREWARM: [(1,)],
        }
    )
    engine = _engine(_READS, sql=sql)
    engine.prewarm(_ADDRESS, most_bytes=limit)
    engine.prewarm(_ADDRESS, most_bytes=limit)
    asked = [statement for _, statement, _ in sql.asked]
    assert asked.count(engines._PREWARM) == (2 if loaded else 0)
    assert asked.count(engines._SIZE) == (0 if limit is None else 1)


def test_the_switch_cost_is_asked_of_the_configurations_own_binary() -> None:
    """The engine hands over to the catalogue of the configuration."""
    assert _engine().switch_cost("new", ["shared_buffers"]) is model.SwitchCost.RESTART
    assert _engine().switch_cost("new", ["work_mem"]) is model.SwitchCost.SESSION


def test_a_run_is_given_up_well_after_its_end() -> None:
    """A generator that hangs is not waited for until the end of the budget."""
    assert _engine().load.deadline_s(7) == 67


def test_which_workloads_read_alone() -> None:
    """All scripts of one have to."""
    engine = _engine(_READS, _WRITES, _OWN)
    workloads = (_READS, _WRITES, _OWN, _WRITING)
    assert [engine.only_reads(each) for each in workloads] == [True, False, True, False]
    assert [_engine(_READS, each).writes() for each in workloads] == [False, True, False, True]


def test_a_server_needs_memory_for_all_its_data_once() -> None:
    """Two workloads of one scale share their data; another scale has data of its own."""
    one = _engine(_READS).memory_bytes("old")
    assert _engine(_READS, _WRITES).memory_bytes("old") == one
    larger = model.Workload(name="more", builtin="select-only", scale=100)
    more = _engine(_READS, larger).memory_bytes("old") - one
    assert more == dataset_of(larger).expected_bytes > 10**9


@pytest.mark.parametrize(
    ("name", "is_timed"),
    [
        ("synchronous_commit", True),
        ("WAL_writer_delay", True),
        ("autovacuum_naptime", True),
        ("bgwriter_delay", True),
        ("checkpoint_timeout", False),  # after minutes: that is told apart
        ("max_wal_size", False),
        ("shared_buffers", False),
        ("commit_delay", False),
    ],
)
def test_what_acts_by_the_clock(name: str, *, is_timed: bool) -> None:
    """Work that comes at times shorter than a block, whatever the load."""
    assert _engine().timed_settings(("work_mem", name)) == ((name,) if is_timed else ())


def test_a_generator_in_turns_reports_no_progress_and_ends_by_its_own_timer() -> None:
    """Intervals with pauses in them say nothing; SIGALRM is how pgbench ends its time."""
    request = RunRequest(
        workload=_READS,
        load=Load(clients=8, threads=2),
        protocol="prepared",
        seconds=60,
        address=_ADDRESS,
        log=Path("/x/log"),
        in_turns=True,
    )
    (command,) = _engine().run_commands(request)
    assert not [word for word in command.argv if word.startswith("--progress")]
    assert "--log" in command.argv
    assert _engine().load.turns_end_signal == signal.SIGALRM
    (start,) = _engine().run_commands(replace(request, in_turns=False))
    assert "--progress=1" in start.argv


ALL = ("15", "15-interrupted", "18", "18-interrupted")


def recorded_text(name: str) -> str:
    """Return what pg_test_fsync printed."""
    return (RECORDINGS / "pg_test_fsync" / f"{name}.stdout").read_text()


def tools(*found: Installation, sql: FakeSql | None = None) -> PostgresCeilings:
    """Return the tools of servers of these installations."""
    return PostgresCeilings(found, fake_doors(sql=sql or FakeSql()))


def installed(directory: Path, version: str, *programs: str) -> Installation:
    """Return an installation with these programs."""
    directory.mkdir()
    for name in programs:
        (directory / name).touch()
    return Installation(programs=directory, root=directory, version=version)


@pytest.mark.parametrize(
    ("name", "fdatasync"), [("15", 1634.037), ("15-interrupted", 18194.743), ("18", 20887.872)]
)
def test_the_first_table_is_read(name: str, fdatasync: float) -> None:
    """All methods in order with the rates of one 8 KiB write, and none for what is not there."""
    rates = tools().sync_rates(recorded_text(name))
    assert rates is not None
    methods = [rate.method for rate in rates]
    assert methods == ["open_datasync", "fdatasync", "fsync", "fsync_writethrough", "open_sync"]
    assert rates[1] == SyncRate(method="fdatasync", per_s=fdatasync)
    assert rates[3].per_s is None
    assert all(rate.per_s for rate in (*rates[:3], rates[4]))


def test_a_device_that_refuses_a_method_has_no_rate_of_it() -> None:
    """`n/a*`, as file systems without O_DIRECT print it, is no rate and hides no other."""
    text = recorded_text("15").replace(
        "open_datasync                      2642.937 ops/sec     378 usecs/op",
        "open_datasync                                  n/a*",
        1,
    )
    rates = tools().sync_rates(text)
    assert rates is not None
    assert rates[0] == SyncRate(method="open_datasync", per_s=None)
    assert rates[1].per_s == 1634.037


@pytest.mark.parametrize("name", ALL)
def test_a_growing_output_gives_nothing_and_then_the_whole_table(name: str) -> None:
    """At every length it is None or the complete first table, never a part of it."""
    text = recorded_text(name)
    whole = tools().sync_rates(text)
    seen = [tools().sync_rates(text[:length]) for length in range(len(text) + 1)]
    told = [rates for rates in seen if rates is not None]
    assert seen[0] is None
    assert told
    assert all(rates == whole for rates in told)


@given(st.text(alphabet=st.sampled_from("Compare file sync8kB:\n n/a*0.1ops/usec"), max_size=300))
def test_no_text_is_a_surprise(text: str) -> None:
    """Whatever is printed gives rates or None, and no exception."""
    head = "Compare file sync methods using one 8kB write:\n"
    rates = tools().sync_rates(head + text + "\nCompare x")
    assert rates is not None
    assert all(rate.per_s is None or rate.per_s >= 0 for rate in rates)


@pytest.mark.parametrize(
    ("shown", "method"),
    [
        ({"wal_sync_method": "fdatasync"}, "fdatasync"),
        ({"wal_sync_method": "open_sync", "synchronous_commit": "local"}, "open_sync"),
        ({"wal_sync_method": "fdatasync", "synchronous_commit": "off"}, None),
        ({"wal_sync_method": "fdatasync", "fsync": "off"}, None),
        ({}, None),
    ],
)
def test_the_method_that_commits_wait_for(shown: dict[str, str], method: str | None) -> None:
    """wal_sync_method, but none where commits do not wait or the server does not show it."""
    effective = [model.EffectiveSetting(name=name, value=value) for name, value in shown.items()]
    assert tools().sync_method(effective) == method


def test_the_newest_of_the_configurations_that_has_it_is_called(tmp_path: Path) -> None:
    """An older server's program is used when the newest lacks it; the file lies where asked."""
    older = installed(tmp_path / "a", "15.18", "pg_test_fsync")
    newer = installed(tmp_path / "b", "17.2", "pg_test_fsync")
    newest = installed(tmp_path / "c", "18.6", "postgres")
    command = tools(older, newest, newer).sync_command(tmp_path / "scratch" / "file")
    assert command.argv[0] == str(newer.programs / "pg_test_fsync")
    assert command.argv[1:] == ("--secs-per-test=1", f"--filename={tmp_path}/scratch/file")
    assert command.directory == tmp_path / "scratch"
    assert command.parent_death_signal == 9


def test_another_installation_of_the_machine_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no configuration's installation has it, the newest elsewhere is taken.

    Else it is told.
    """
    places = {tmp_path / "14": "14.1", tmp_path / "16": "16.3"}
    for place, version in places.items():
        installed(place, version, "pg_test_fsync")
    monkeypatch.setattr(installations, "_client_places", lambda: [(p, p) for p in places])
    monkeypatch.setattr(
        installations, "_version", lambda program, _processes: places[program.parent]
    )
    without = installed(tmp_path / "none", "18.6", "postgres")
    found = tools(without).sync_command(tmp_path / "file")
    assert found.argv[0] == str(tmp_path / "16" / "pg_test_fsync")
    monkeypatch.setattr(installations, "_client_places", list)
    with pytest.raises(PreflightError, match="there is no pg_test_fsync"):
        tools(without).sync_command(tmp_path / "file")


def test_round_trips_are_of_an_empty_statement() -> None:
    """The statement asks for nothing that a server would have to look up."""
    sql = FakeSql()
    sql.trips = (0.1, 0.2, 0.3)
    address = ServerAddress(host="/fake", port=1, database="d")
    assert tools(sql=sql).round_trips(address, connections=1, most=2, most_s=0.5) == (0.1, 0.2)
    assert sql.asked == [("d", "SELECT 1", ())]
