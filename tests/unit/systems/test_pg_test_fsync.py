"""pg_test_fsync: how it is called, what its real output says, and when there is enough of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import RECORDINGS

from fakes.processes import FakeProcesses
from fakes.sql import FakeSql
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import PreflightError
from steelyard.systems.postgres import server as installations
from steelyard.systems.postgres.engine import PostgresCeilings
from steelyard.systems.postgres.server import Installation
from steelyard.systems.protocol import SyncRate

ALL = ("15", "15-interrupted", "18", "18-interrupted")


def recorded_text(name: str) -> str:
    """Return what pg_test_fsync printed."""
    return (RECORDINGS / "pg_test_fsync" / f"{name}.stdout").read_text()


def tools(*found: Installation, sql: FakeSql | None = None) -> PostgresCeilings:
    """Return the tools of servers of these installations."""
    return PostgresCeilings(found, processes=FakeProcesses(), sql=sql or FakeSql())


def installed(directory: Path, version: str, *programs: str) -> Installation:
    """Return an installation with these programs."""
    directory.mkdir()
    for name in programs:
        (directory / name).touch()
    return Installation(programs=directory, root=directory, version=version)


@pytest.mark.parametrize(
    ("name", "fdatasync"),
    [("15", 1634.037), ("15-interrupted", 18194.743), ("18", 20887.872)],
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
    effective = [EffectiveSetting(name=name, value=value) for name, value in shown.items()]
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
