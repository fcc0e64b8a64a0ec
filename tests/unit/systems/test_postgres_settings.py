"""Settings: what binaries know, what a change costs, what a value means, what is in force."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import VERSIONS, catalogue_text

from fakes.campaigns import asks, asks_redis
from fakes.processes import Answer, FakeProcesses
from fakes.sql import FakeSql
from steelyard.core import wording
from steelyard.core.experiment import Configuration, EffectiveSetting, Layer, Setting, SwitchCost
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.target import LocalTarget, RedisLocalTarget, Target
from steelyard.core.wording import GIB, KIB, MIB, Complaint, ExitCode, PreflightError, TargetError
from steelyard.systems.postgres import server, settings
from steelyard.systems.postgres.server import Installation
from steelyard.systems.postgres.settings import SettingEntry
from steelyard.systems.redis import server as redis

_MEMORY = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_TIME = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


def _asked(name: str, value: str) -> Setting:
    return Setting(layer=Layer.POSTGRES, name=name, value=value)


def _in_force(name: str, value: str, unit: str | None = None, source: str = "") -> EffectiveSetting:
    return EffectiveSetting(name=name, value=value, unit=unit, source=source)


def _deviates(value: str, actual: EffectiveSetting) -> bool:
    return bool(settings.deviations([_asked(actual.name, value)], [actual]))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_setting_has_a_known_context(version: int) -> None:
    """The whole catalogue of a real binary is read, and every context has a switch cost."""
    text = catalogue_text(version)
    catalogue = settings.parse_catalogue(text)
    assert len(catalogue) == len(text.splitlines()) > 300
    assert {entry.context for entry in catalogue.values()} <= set(settings._SWITCH_COST)
    assert {e.kind for e in catalogue.values()} == {"BOOLEAN", "INTEGER", "REAL", "STRING", "ENUM"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("work_mem", SwitchCost.SESSION),
        ("Synchronous_Commit", SwitchCost.SESSION),
        ("timezone", SwitchCost.SESSION),  # the binary spells it `TimeZone`
        ("checkpoint_timeout", SwitchCost.RELOAD),
        ("max_wal_size", SwitchCost.RELOAD),
        ("shared_buffers", SwitchCost.RESTART),
        ("huge_pages", SwitchCost.RESTART),
        ("of_an_extension.setting", SwitchCost.RESTART),
    ],
)
def test_the_cost_of_a_switch_is_the_context_of_the_binary(
    version: int, name: str, cost: SwitchCost
) -> None:
    """What PostgreSQL takes at once, on reload or at the start decides how blocks are made."""
    assert settings.switch_cost([name], settings.parse_catalogue(catalogue_text(version))) is cost


def test_the_dearest_setting_decides() -> None:
    """One setting that needs a restart makes the whole difference need one; none needs nothing."""
    catalogue = settings.parse_catalogue(catalogue_text(18))
    names = ["work_mem", "checkpoint_timeout", "shared_buffers"]
    costs = [settings.switch_cost(names[:count], catalogue) for count in range(4)]
    assert costs == [SwitchCost.SESSION, SwitchCost.SESSION, SwitchCost.RELOAD, SwitchCost.RESTART]


@given(text=st.text())
def test_any_text_is_a_catalogue_of_what_can_be_read(text: str) -> None:
    """Lines that are no settings are passed over without an error."""
    for name, entry in settings.parse_catalogue(text).items():
        assert entry.name.lower() == name


def test_a_catalogue_comes_from_the_binary() -> None:
    """It is asked for it; one that does not run is a refusal with its own words."""
    processes = FakeProcesses()
    processes.on("postgres", "--describe-config", answer=Answer(stdout=catalogue_text(16)))
    assert "work_mem" in settings.read_catalogue("/bin/postgres", processes)
    processes.on("postgres", answer=Answer(exit_status=127, stderr="libpq.so.5: cannot open\n"))
    with pytest.raises(PreflightError, match=r"libpq\.so\.5: cannot open") as caught:
        settings.read_catalogue("/bin/postgres", processes)
    assert caught.value.exit_code is ExitCode.REFUSED


@given(
    value=st.integers(0, 2**20),
    suffix=st.sampled_from(sorted(_MEMORY)),
    unit=st.sampled_from(["B", "kB", "8kB", "16MB", "MB"]),
    space=st.sampled_from(["", " "]),
)
def test_memory_in_any_unit_is_itself(value: int, suffix: str, unit: str, space: str) -> None:
    """A size means the same number of bytes, whatever the server counts in."""
    number = int("".join(c for c in unit if c.isdigit()) or 1)
    in_unit = wording.in_unit(f"{value}{space}{suffix}", unit)
    expected = value * _MEMORY[suffix] / (number * _MEMORY[unit.lstrip("0123456789")])
    assert in_unit == pytest.approx(expected, rel=1e-12)


@given(
    value=st.integers(0, 10**6),
    suffix=st.sampled_from(sorted(_TIME)),
    unit=st.sampled_from(["ms", "s", "min"]),
)
def test_a_time_in_any_unit_is_itself(value: int, suffix: str, unit: str) -> None:
    """A duration means the same, whatever the server counts in."""
    in_unit = wording.in_unit(f"{value}{suffix}", unit)
    assert in_unit == pytest.approx(value * _TIME[suffix] / _TIME[unit], rel=1e-12)


@given(value=st.integers(0, 2**40), unit=st.sampled_from([None, "B", "8kB", "ms", "min"]))
def test_a_plain_number_is_in_the_servers_unit(value: int, unit: str | None) -> None:
    """A number without a unit is taken as it stands."""
    assert wording.in_unit(str(value), unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [("on", None), ("5min", "kB"), ("2GB", "ms"), ("2GB", None), ("", "kB"), ("1 2", "kB")],
)
def test_what_is_no_number_in_that_unit_is_none(text: str, unit: str | None) -> None:
    """Words, and times where memory is meant, are no numbers."""
    assert wording.in_unit(text, unit) is None


@given(text=st.text(), unit=st.one_of(st.none(), st.text()))
def test_in_unit_never_fails(text: str, unit: str | None) -> None:
    """Any text with any unit is a number or None."""
    assert wording.in_unit(text, unit) is None or isinstance(wording.in_unit(text, unit), float)


@given(
    value=st.integers(1, 10**6),
    suffix=st.sampled_from(["kB", "MB", "GB"]),
    unit=st.sampled_from(["kB", "8kB", "MB"]),
)
def test_what_was_asked_for_is_in_force_in_any_unit(value: int, suffix: str, unit: str) -> None:
    """The server shows a request in its own unit, rounded to whole ones: that is no deviation."""
    in_unit = wording.in_unit(f"{value}{suffix}", unit)
    assert in_unit is not None
    shown = _in_force("work_mem", str(round(in_unit)), unit)
    assert not _deviates(f"{value}{suffix}", shown)
    other = _in_force("work_mem", str(round(in_unit * 1.001) + 2), unit)
    assert _deviates(f"{value}{suffix}", other)


@given(value=st.text(min_size=1))
def test_a_text_in_force_as_it_was_asked_is_no_deviation(value: str) -> None:
    """Every value equals itself, but the one that asks the server to choose."""
    assert value == "-1" or not _deviates(value, _in_force("search_path", value))


@pytest.mark.parametrize(
    ("asked", "actual"),
    [
        ("true", _in_force("jit", "on")),
        ("NO", _in_force("jit", "off")),
        ("1", _in_force("huge_pages", "on")),
        ("1.10", _in_force("random_page_cost", "1.1")),
        ("1e-2", _in_force("cpu_tuple_cost", "0.01")),
        ("Minimal", _in_force("wal_level", "minimal")),
        ("on", _in_force("wal_compression", "pglz")),
        ("yes", _in_force("wal_compression", "pglz")),
        ("debug", _in_force("client_min_messages", "debug2")),
        ("-1", _in_force("wal_buffers", "512", "8kB", "override")),
        ("-1", _in_force("wal_buffers", "512", "8kB", "default")),
        ("-1", _in_force("autovacuum_work_mem", "-1", "kB", "configuration file")),
    ],
)
def test_other_ways_to_say_the_same_are_no_deviation(asked: str, actual: EffectiveSetting) -> None:
    """Booleans, numbers, synonyms and values that the server was asked to choose itself."""
    assert not _deviates(asked, actual)


@pytest.mark.parametrize(
    ("asked", "actual"),
    [
        ("1.4", _in_force("seq_page_cost", "1")),
        ("1.6", _in_force("hash_mem_multiplier", "2")),
        ("on", _in_force("huge_pages", "try")),
        ("on", _in_force("wal_compression", "lz4")),
        ("off", _in_force("wal_compression", "pglz")),
        ("1", _in_force("max_parallel_workers", "2")),
        ("-1", _in_force("log_min_duration_statement", "0", "ms", "configuration file")),
        ("-1", _in_force("log_autovacuum_min_duration", "600000", "ms", "default")),
        ("-1", _in_force("wal_buffers", "2048", "8kB", "configuration file")),
        ("4MB", _in_force("work_mem", "4097", "kB")),
        ("4MB", _in_force("work_mem", "default", "kB")),
    ],
)
def test_what_is_not_in_force_is_named(asked: str, actual: EffectiveSetting) -> None:
    """The sentence holds the name, what was asked and what is; close is not equal."""
    (sentence,) = settings.deviations([_asked(actual.name, asked)], [actual])
    assert actual.name in sentence
    assert repr(asked) in sentence
    assert repr(actual.value) in sentence


def test_an_unknown_setting_is_a_deviation_and_case_is_none() -> None:
    """A setting that the server does not list is said to be unknown; names ignore case."""
    assert settings.deviations([_asked("wrok_mem", "4MB")], []) == (
        "wrok_mem is not known to the running server",
    )
    assert not settings.deviations([_asked("timezone", "UTC")], [_in_force("TimeZone", "UTC")])


def test_values_are_checked_by_the_binary(tmp_path: Path) -> None:
    """Each refused value comes back with PostgreSQL's message and hint, without a time stamp."""
    stderr = (
        '2026-11-21 21:44:03.389 GMT [1] FATAL:  invalid value for parameter "work_mem": "4QB"\n'
        '2026-11-21 21:44:03.389 GMT [1] HINT:  Valid units for this parameter are "B", "kB".\n'
    )
    processes = FakeProcesses()
    processes.on("postgres", answer=Answer(stdout="5432\n"))
    processes.on("postgres", "work_mem=4QB", answer=Answer(exit_status=1, stderr=stderr))
    asked = _with((_asked("work_mem", "4QB"), _asked("jit", "off")))
    catalogue = settings.parse_catalogue(catalogue_text(16))
    installation = Installation(programs=Path("/bin"), root=Path("/bin"), version="16.1")
    (refused,) = settings.refused_values(asked, installation, catalogue, tmp_path, processes)
    assert refused.setting == "work_mem"
    assert refused.message == (
        'PostgreSQL 16.1 refuses this value: invalid value for parameter "work_mem": "4QB"'
        ' Valid units for this parameter are "B", "kB".'
    )
    processes.ran.clear()
    asked = _with((_asked("work_mem", "4MB"), _asked("jit", "off")))
    assert not [*settings.refused_values(asked, installation, catalogue, tmp_path, processes)]
    assert len(processes.ran) == 1
    assert all(command.argv[1] == "-C" for command in processes.ran)


def test_settings_for_developers_are_known_though_the_server_does_not_describe_them(
    tmp_path: Path,
) -> None:
    """`-C NAME` tells; what changing one takes is not told, so a restart is assumed."""
    processes = FakeProcesses()
    processes.on("postgres", answer=Answer(exit_status=1, stderr="FATAL:  unrecognized"))
    processes.on("postgres", "debug_io_direct", answer=Answer(stdout="\n"))
    described = settings.parse_catalogue(catalogue_text(18))
    asked = a_configuration(debug_io_direct="data", debug_io_dirct="data", Work_Mem="9MB")
    known = settings.with_asked(described, [asked], "/bin/postgres", tmp_path, processes)
    assert known.keys() - described.keys() == {"debug_io_direct"}
    assert settings.switch_cost(["debug_io_direct"], known) is SwitchCost.RESTART


def test_what_steelyard_sets_itself_is_refused_with_what_to_do() -> None:
    """Places and ports belong to the target; other settings are free."""
    refused = settings.refused_names(["Port", "work_mem", "unix_socket_directories"])
    assert sorted(refused) == ["Port", "unix_socket_directories"]
    assert all(hint.endswith(".") for hint in refused.values())


def test_an_empty_configuration_is_gone_afterwards() -> None:
    """The server program finds a file without settings, and nothing is left behind."""
    with settings.empty_configuration() as empty:
        assert [(file.name, file.read_text()) for file in empty.iterdir()] == [
            ("postgresql.conf", "")
        ]
    assert not empty.exists()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4MB", "4096kB", True),
        ("1min", "60s", True),
        ("4MB", "5MB", False),
        ("4096", "4MB", False),  # the unit of a bare number is the server's to say
        ("4MB", "4s", False),
        ("on", "true", False),
    ],
)
def test_quantities_are_compared_by_their_units(one: str, other: str, *, same: bool) -> None:
    """Two values with units are the same amount or not; of anything else nothing is claimed."""
    assert settings.same_quantity(one, other) is same


@pytest.mark.parametrize("version", VERSIONS)
def test_what_any_session_may_have_is_in_its_context(version: int) -> None:
    """Of a user when the session begins; not what takes a superuser, a reload or a restart."""
    catalogue = settings.parse_catalogue(catalogue_text(version))
    own = ("work_mem", "enable_seqscan", "random_page_cost", "JIT", "datestyle", "TimeZone")
    others = ("shared_buffers", "max_wal_size", "log_statement", "pg_nothing.of_the_kind")
    assert settings.beyond_sessions([*own, *others], catalogue) == others


def test_what_others_pay_for_is_named_whatever_its_case() -> None:
    """What a session leaves unwritten or unflushed; what it uses itself is its own."""
    names = ("Synchronous_Commit", "commit_delay", "wal_compression", "work_mem", "jit")
    assert settings.paid_by_others(names) == names[:3]
    assert settings.paid_by_others(("work_mem",)) == ()


ADDRESS = ServerAddress(host="/fake", port=5432)


def test_settings_that_act_on_the_wal_or_on_checkpoints() -> None:
    """Found in any case of letters and kept in order; others are not."""
    names = ("work_mem", "wal_compression", "Max_WAL_Size", "shared_buffers", "full_page_writes")
    found = settings.cycle_settings(names)
    assert found == ("wal_compression", "Max_WAL_Size", "full_page_writes")
    assert settings.cycle_settings(("random_page_cost",)) == ()


def test_every_such_setting_has_a_reason() -> None:
    """A list without reasons could not be judged."""
    assert all(len(reason) > 20 for reason in settings.CYCLE_SETTINGS.values())
    assert list(settings.CYCLE_SETTINGS) == sorted(settings.CYCLE_SETTINGS)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"), [("300", "s", 300.0), ("15", "min", 900.0), ("300", None, 300.0)]
)
def test_the_length_of_the_cycle_in_force(value: str, unit: str | None, seconds: float) -> None:
    """In the unit that the server shows."""
    setting = EffectiveSetting(name="checkpoint_timeout", value=value, unit=unit)
    other = EffectiveSetting(name="work_mem", value="4096", unit="kB")
    assert settings.cycle_s((other, setting)) == seconds
    assert settings.cycle_s((other,)) is None


def test_the_age_in_seconds() -> None:
    """In milliseconds, and never negative: a checkpoint's time is in whole seconds."""
    sql = FakeSql({settings._AGE: [(12.3456789,)]})
    assert settings.checkpoint_age(ADDRESS, sql).seconds == 12.346
    sql.answers[settings._AGE] = [(-0.4,)]
    assert settings.checkpoint_age(ADDRESS, sql).seconds == 0.0


def test_a_server_that_does_not_tell() -> None:
    """The refusal goes up; the bench makes it a reason."""
    with pytest.raises(TargetError):
        settings.checkpoint_age(ADDRESS, FakeSql())


def a_configuration(**settings: str) -> Configuration:
    """Return one with these settings."""
    return Configuration(name="t", target=LocalTarget(), settings=asks(**settings))


def growth(asked: dict[str, str], clients: int = 8) -> int:
    """Return how much more a configuration may take than one that asks for nothing."""
    more, nothing = a_configuration(**asked), a_configuration()
    return settings.most_bytes(more, clients) - settings.most_bytes(nothing, clients)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("128MB", 128 * MIB),
        ("16384", 128 * MIB),  # pages
        (" 16384 ", 128 * MIB),
        ("0x4000", 128 * MIB),
        ("131072kB", 128 * MIB),
        ("2GB", 2 * GIB),
        ("2.5GB", 2.5 * GIB),
        ("262144", 2 * GIB),
        ("0x40000", 2 * GIB),
    ],
)
def test_buffers_in_every_spelling(written: str, size: int) -> None:
    """As the server reads them: a bare number counts pages, also as a hexadecimal one."""
    assert growth({"shared_buffers": written}) == pytest.approx(1.1 * (size - 128 * MIB), abs=1)


@pytest.mark.parametrize(
    ("written", "size"),
    [("64MB", 64 * MIB), ("65536", 64 * MIB), ("0x10000", 64 * MIB), ("64kB", 64 * KIB)],
)
def test_every_client_may_fill_its_work_memory(written: str, size: int) -> None:
    """A bare number counts kilobytes."""
    for clients in (1, 50):
        assert growth({"work_mem": written}, clients) == clients * (size - 4 * MIB)


def test_a_value_that_is_no_size_is_left_to_the_server() -> None:
    """It refuses to start with it; until then the default stands for it."""
    assert growth({"shared_buffers": "much"}) == 0
    assert growth({"Shared_Buffers": "1GB"}) > 0  # names have no case


def test_backends_count_even_without_buffers() -> None:
    """50 clients take more than one, whatever is asked."""
    asked = a_configuration(shared_buffers="128kB", work_mem="64kB")
    assert settings.most_bytes(asked, 50) > 10 * settings.most_bytes(asked, 1)


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        (("on", "ON", "true", "yes", "1"), GIB, 1.2 * GIB),
        (("off", "false", "no", "0"), 0, 0),
        (("try", "TRY", None), None, None),
    ],
)
def test_what_is_taken_of_a_pool_of_huge_pages(
    words: tuple[str | None, ...], least: int | None, most: float | None
) -> None:
    """The buffers and what is beside them, nothing, or, by default, what is there."""
    for word in words:
        asked = asks(shared_buffers="1GB", **({"huge_pages": word} if word else {}))
        taken = settings.huge_bytes(_with(asked))
        assert taken is least is None or (least or 0) <= (taken or 0) <= (most or 0)


def _with(settings: tuple[Setting, ...], target: Target | None = None) -> Configuration:
    return Configuration(name="few", target=target or LocalTarget(), settings=settings)


def _of_redis(**settings: str) -> Configuration:
    return _with(asks_redis(**settings), RedisLocalTarget())


_FITS: Final = {
    "max_connections": settings.too_few_connections,
    "maxclients": redis.too_few_connections,
}


def _crowded(limit: str, clients: int, **asked: str) -> Complaint | None:
    """Return what is said against so many clients of the server that has the limit."""
    configuration = _of_redis(**asked) if limit == "maxclients" else _with(asks(**asked))
    return next(iter(_FITS[limit](configuration, (Load(clients=clients, threads=1),))), None)


@pytest.mark.parametrize("name", ["max_connections", "MAX_Connections", "maxclients", "MaxClients"])
def test_clients_must_fit_however_the_limit_is_spelled(name: str) -> None:
    """Names of settings have no case; five connections are not for clients."""
    limit = name.lower()
    assert _crowded(limit, 20, **{name: "25"}) is None
    found = _crowded(limit, 21, **{name: "25"})
    assert found is not None
    assert found.message == f"21 clients do not fit into {limit} = 25 of configuration `few`"
    assert found.hint == f"Set `{limit}` to at least 26 in every configuration."


@pytest.mark.parametrize(
    ("limit", "clients", "hint"),
    [
        ("max_connections", 95, ""),
        ("max_connections", 96, "Set `max_connections` to at least 101 in"),
        ("max_connections", 262_138, "Set `max_connections` to at least 262143 in"),
        ("max_connections", 262_139, "Use at most 262138 clients."),
        ("max_connections", 10**32, "Use at most 262138 clients."),
        ("maxclients", 9_995, ""),
        ("maxclients", 9_996, "Set `maxclients` to at least 10001 in"),
        ("maxclients", 2**32 - 6, "Set `maxclients` to at least 4294967295 in"),
        ("maxclients", 2**32 - 5, "Use at most 4294967290 clients."),
    ],
)
def test_no_limit_is_advised_that_a_server_refuses(limit: str, clients: int, hint: str) -> None:
    """By default 100 and 10,000 let all but five in; what a server takes bounds the advice."""
    found = _crowded(limit, clients)
    assert (found.hint if found else "").startswith(hint)
    assert bool(found) is bool(hint)
    assert (f"its `{limit}` is at most" in (found.message if found else "")) is ("Use" in hint)


def test_settings_that_are_fixed_are_named_as_they_were_given() -> None:
    """Of both engines, in capitals or not."""
    (found,) = settings.fixed_settings(_with(asks(Data_Directory="/elsewhere")))
    assert (found.setting, found.message) == (
        "Data_Directory",
        "`Data_Directory` is set by Steelyard",
    )
    (found,) = redis.fixed_settings(_of_redis(Dir="/elsewhere"))
    assert (found.setting, found.message) == ("Dir", "`Dir` is set by Steelyard")


@pytest.mark.parametrize(
    ("option", "is_tried"),
    [
        *(("--data-checksums", True), ("-k", True), ("--locale=C", True), ("--sync-only", True)),
        *(("-X/wal", False), ("--waldir=/wal", False), ("--wald", False), ("-L/own", False)),
        *(
            ("-c", False),
            ("-kc", False),
            ("--set", False),
            ("--se=ssl_passphrase_command=x", False),
        ),
    ],
)
def test_a_trial_makes_no_cluster_in_which_the_file_may_run_something(
    option: str, *, is_tried: bool
) -> None:
    """Whoever looks at a file of somebody else runs nothing of it, and fills no directory."""
    installation = Installation(programs=Path("/bin"), root=Path("/bin"), version="18.6")
    program = server.PostgresProgram(installation=installation, initdb=(option,), sql=FakeSql())
    known = {"wal_level": SettingEntry(name="wal_level", context="postmaster", group="", kind="")}
    asked = settings.asked_together(_with(asks(wal_level="logical")), program, known)
    assert asked == ({"wal_level": "logical"} if is_tried else {})


@pytest.mark.parametrize("name", ["timezone", "TimeZone"])
def test_a_value_is_tried_however_its_setting_is_spelled(name: str, tmp_path: Path) -> None:
    """The server spells it `TimeZone` and takes both: what it refuses is said before the start."""
    processes = FakeProcesses()
    processes.on("postgres", answer=Answer(exit_status=1, stderr="FATAL:  no such zone"))
    installation = Installation(programs=tmp_path, root=tmp_path, version="15.18")
    known = {"timezone": SettingEntry(name="TimeZone", context="user", group="", kind="STRING")}
    asked = _with(asks(**{name: "nowhere"}))
    (found,) = settings.refused_values(asked, installation, known, tmp_path, processes)
    assert found.setting == name
    assert found.message == "PostgreSQL 15.18 refuses this value: no such zone"


@pytest.mark.parametrize(
    ("name", "value", "is_short"),
    [
        ("idle_session_timeout", "100ms", True),
        ("idle_in_transaction_session_timeout", "2s", True),
        ("transaction_timeout", "2000", True),
        ("statement_timeout", "2001", False),
        ("lock_timeout", "1min", False),
        ("tcp_user_timeout", "1500", True),
        ("lock_timeout", "0", False),
        ("lock_timeout", "nonsense", False),
        ("deadlock_timeout", "1ms", False),
        ("client_connection_check_interval", "1ms", False),
        ("tcp_keepalives_idle", "1", False),
    ],
)
def test_limits_that_a_pause_uses_up(name: str, value: str, *, is_short: bool) -> None:
    """As a file writes them, or as a server shows them; milliseconds where there is no unit."""
    assert settings.short_limits({name: value}, 2.0) == ({name: value} if is_short else {})
