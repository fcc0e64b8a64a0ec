"""The server program: how it is created, configured and started, and where it is found."""

import signal
from pathlib import Path

import pytest

from fakes.processes import Answer, FakeProcesses
from fakes.sql import FakeSql
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import PreflightError
from steelyard.systems.postgres import server as installations
from steelyard.systems.postgres.server import (
    Installation,
    PostgresProgram,
    find_installation,
    shared_memory_residue,
)

_SOCKETS = Path("/run/sockets")
_ADDRESS = ServerAddress(host="/run/sockets", port=5433, user="steelyard", database="postgres")


def _installed(version: str = "18.6") -> Installation:
    return Installation(programs=Path("/pg/bin"), root=Path("/pg"), version=version)


def _program(version: str = "18.6", *initdb: str, sql: FakeSql | None = None) -> PostgresProgram:
    return PostgresProgram(installation=_installed(version), initdb=initdb, sql=sql or FakeSql())


@pytest.mark.parametrize(
    ("version", "asked", "checksums"),
    [
        ("15.18", (), ["--data-checksums"]),
        ("18.6", (), ["--data-checksums"]),
        ("15.18", ("--no-data-checksums",), []),
        ("18.6", ("--no-data-checksums",), ["--no-data-checksums"]),
        ("16.2", ("-k",), ["-k"]),
    ],
)
def test_checksums_are_equal_in_all_versions(
    version: str, asked: tuple[str, ...], checksums: list[str]
) -> None:
    """15 against 18 compares versions, not checksums; 15 does not know the option to leave them."""
    command = _program(version, *asked).create(Path("/data"), "nobody")
    assert [word for word in command.argv if "checksums" in word or word == "-k"] == checksums
    assert command.argv[0] == "/pg/bin/initdb"
    assert command.argv[-2:] == ("--pgdata", "/data")
    assert "--no-locale" in command.argv
    assert command.account == "nobody"


def test_the_server_works_in_its_data_and_dies_with_us() -> None:
    """Leftovers are recognised by their directory; an immediate shutdown follows our death."""
    command = _program().start(Path("/live/data"), None)
    assert command.argv == ("/pg/bin/postgres", "-D", "/live/data")
    assert command.directory == Path("/live/data")
    assert command.parent_death_signal == signal.SIGQUIT


def test_configuration_quotes_values_and_keeps_our_own_last() -> None:
    """A value with quotes and backslashes stays one value; place and port cannot be overridden."""
    asked = {"search_path": "it's \\here", "port": "1"}
    files = _program().configuration(asked, _ADDRESS, _SOCKETS)
    lines = files["postgresql.auto.conf"].splitlines()
    assert "search_path = 'it''s \\\\here'" in lines
    assert "port = '5433'" in lines
    assert not any(line.startswith("port = '1'") for line in lines)
    assert "unix_socket_directories = '/run/sockets'" in lines
    assert "listen_addresses = '127.0.0.1'" in lines
    assert "scram-sha-256" in files["pg_hba.conf"]


def test_identity_is_what_decides_an_empty_data_directory() -> None:
    """Version and initdb options count; where the programs lie does not."""
    elsewhere = Installation(programs=Path("/x"), root=Path("/x"), version="18.6")
    there = PostgresProgram(installation=elsewhere, initdb=(), sql=FakeSql())
    assert _program().identity == there.identity
    assert _program().identity != _program("18.7").identity
    assert _program().identity != _program("18.6", "--wal-segsize=64").identity


def test_ready_means_that_a_query_is_answered() -> None:
    """A refused or absent server is not ready, and no error."""
    sql = FakeSql({"SELECT 1": [(1,)]})
    assert _program(sql=sql).is_ready(_ADDRESS)
    sql.reachable = False
    assert not _program(sql=sql).is_ready(_ADDRESS)


def test_the_memory_of_a_killed_server_is_found(tmp_path: Path) -> None:
    """Line 7 of postmaster.pid names the segment; without it there is nothing to free."""
    assert shared_memory_residue(tmp_path) == ()
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text("77\n/data\n1795289041\n5433\n/run\n127.0.0.1\n  5433001   98305\nready\n")
    (command,) = shared_memory_residue(tmp_path)
    assert command.argv == ("ipcrm", "--shmem-id", "98305")
    pid_file.write_text("77\n/data\n")
    assert shared_memory_residue(tmp_path) == ()


@pytest.mark.parametrize(
    ("printed", "major", "key"),
    [
        ("18.6", 18, (18, 6)),
        ("15.18 (Debian 15.18-0+deb12u1)", 15, (15, 18)),
        ("19beta2", 19, (19, 2)),
        ("19rc1", 19, (19, 1)),
        ("19devel", 19, (19,)),
    ],
)
def test_versions_are_read_as_printed(printed: str, major: int, key: tuple[int, ...]) -> None:
    """Distribution suffixes and pre-releases do not confuse the number."""
    assert _installed(printed).major == major
    assert _installed(printed).version_key == key


def _tree(root: Path, names: tuple[str, ...] = installations.NEEDED) -> Path:
    root.mkdir(parents=True)
    for name in names:
        (root / name).touch()
    return root


def _processes(printed: str = "postgres (PostgreSQL) 17.2\n") -> FakeProcesses:
    processes = FakeProcesses()
    processes.on("postgres", "--version", answer=Answer(stdout=printed))
    return processes


def test_a_directory_of_programs_is_found_with_and_without_bin(tmp_path: Path) -> None:
    """`bin:` may name the programs' directory or the one above it."""
    programs = _tree(tmp_path / "pg" / "bin")
    for place in (programs, programs.parent):
        found = find_installation(str(place), _processes())
        assert (found.programs, found.version, found.major) == (programs, "17.2", 17)


def test_pg_config_says_where_the_programs_are(tmp_path: Path) -> None:
    """The path of a pg_config is followed."""
    programs = _tree(tmp_path / "bin")
    (tmp_path / "pg_config").touch()
    processes = _processes()
    processes.on("pg_config", "--bindir", answer=Answer(stdout=f"{programs}\n"))
    assert find_installation(str(tmp_path / "pg_config"), processes).programs == programs


@pytest.mark.parametrize(("wanted", "fits"), [("17", True), ("17.2", True), ("17.20", False)])
def test_a_version_is_found_through_the_pg_config_on_the_path(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fits: bool
) -> None:
    """A version may be whole or a prefix of its numbers; 17.2 is no 17.20."""
    programs = _tree(tmp_path / "bin")
    (tmp_path / "pg_config").touch()
    (tmp_path / "pg_config").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    processes = _processes()
    processes.on("pg_config", "--bindir", answer=Answer(stdout=f"{programs}\n"))
    if fits:
        assert find_installation(wanted, processes).programs == programs
    else:
        with pytest.raises(PreflightError, match=r"found 17\.2 in"):
            find_installation(wanted, processes)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """A server package without pgbench says that it lacks pgbench."""
    programs = _tree(tmp_path / "bin", ("initdb", "postgres", "psql"))
    with pytest.raises(PreflightError, match="lacks pgbench"):
        find_installation(str(programs), _processes())


@pytest.mark.parametrize(("bin_", "said"), [("no/such/place", "no PostgreSQL"), ("7", "7 was not")])
def test_what_is_not_there_is_refused_with_a_way_out(
    bin_: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a path nor a version that is installed."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PreflightError, match=said) as caught:
        find_installation(bin_, _processes())
    assert caught.value.hint


def test_programs_that_do_not_run_are_refused(tmp_path: Path) -> None:
    """A binary that misses a library is refused before anything is started, in its own words."""
    programs = _tree(tmp_path / "bin")
    processes = FakeProcesses()
    with pytest.raises(PreflightError, match="does not exist"):
        find_installation(str(programs), processes)
    processes.on("postgres", answer=Answer(exit_status=127, stderr="libssl.so.3: not found\n"))
    with pytest.raises(PreflightError, match=r"libssl\.so\.3: not found"):
        find_installation(str(programs), processes)


def test_a_wheel_keeps_its_libraries_beside_it(tmp_path: Path) -> None:
    """Both directories are copied together; other installations are one."""
    wheel = Installation(programs=tmp_path / "w" / "bin", root=tmp_path / "w", version="18.6")
    assert installations.wheel_parts(wheel) == (tmp_path / "w",)
    (tmp_path / "w.libs").mkdir()
    assert installations.wheel_parts(wheel) == (tmp_path / "w", tmp_path / "w.libs")


def test_a_version_is_found_whoever_built_it(tmp_path: Path) -> None:
    """EnterpriseDB says its own name; what says no number is refused with a sentence."""
    programs = _tree(tmp_path / "bin")
    found = find_installation(str(programs), _processes("postgres (EnterpriseDB) 16.2\n"))
    assert (found.version, found.major) == ("16.2", 16)
    with pytest.raises(PreflightError, match="says no version"):
        find_installation(str(programs), _processes("postgres of my own\n"))
