"""Sessions of configurations on one server: what is made, what is altered, who gets what."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest
from test_endpoint_platform import _Place

from fakes.clock import FakeClock
from fakes.endpoint import FakeEndpoint
from fakes.processes import FakeProcesses
from fakes.programs import FakeProgram
from fakes.sql import FakeSql, Row
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.outside import ServerAddress
from steelyard.core.schedule import Pausing
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import TargetError
from steelyard.places.local.groups import PausedGenerators
from steelyard.systems.postgres.existing.platform import (
    _BACKEND,
    _SHOWN,
    EndpointPlatform,
    EndpointSessions,
    mixed_sessions,
    shown_settings,
)

_ADDRESS = ServerAddress(host="db", port=5432, user="bench", database="postgres")


class _Shared:
    """A superuser's server that several configurations share."""

    def __init__(self, *, own: bool, target: EndpointTarget | None = None) -> None:
        self.place = _Place(target=target)
        self.options = replace(self.place.platform._options, sessions=True)
        self.server = EndpointPlatform(self.options, self.place.ledger, self.place.means)
        self.seats = [self.seat(number if own else None) for number in (1, 2)]

    def seat(self, number: int | None) -> EndpointSessions:
        """Return the sessions of one configuration."""
        clock = FakeClock()
        return EndpointSessions(
            self.options,
            self.place.ledger,
            self.place.means,
            server=self.server,
            number=number,
            paused=PausedGenerators(FakeProcesses(clock), clock),
        )

    def up(self, blocks: int = 2) -> None:
        """Bring each into force in every block, on restored data."""
        for _ in range(blocks):
            for seat, work_mem in zip(self.seats, ("5MB", "9MB"), strict=True):
                state = seat.prepare(FakeProgram(), ["data"], self.place.build)
                seat.restore(state, seat.means()[0])
                seat.start(state, FakeProgram(), {"work_mem": work_mem})

    @property
    def altered(self) -> list[str]:
        """Return the statements that change settings for everyone."""
        return [each for each in self.place.server.changes if "ALTER" in each]


@pytest.mark.parametrize("own", [True, False])
def test_each_has_its_settings_and_nothing_is_altered(*, own: bool) -> None:
    """Though the user may: the server is that of others, and both are there at the same time."""
    shared = _Shared(own=own)
    shared.up()
    options = [dict(seat.address.parameters)["options"] for seat in shared.seats]
    assert options == ["-c work_mem=5MB", "-c work_mem=9MB"]
    assert all(seat.is_running for seat in shared.seats)
    assert all(seat.standstill.kind is Pausing.GENERATOR for seat in shared.seats)
    assert shared.altered == []


def test_the_server_as_a_whole_is_not_altered_either() -> None:
    """It is brought up for each once, before the turns: then they are its sessions'."""
    shared = _Shared(own=True)
    state = shared.server.prepare(FakeProgram(), ["data"], shared.place.build)
    for work_mem in ("5MB", "9MB"):
        shared.server.restore(state, shared.server.means()[0])
        shared.server.start(state, FakeProgram(), {"work_mem": work_mem})
        assert dict(shared.server.address.parameters)["options"] == f"-c work_mem={work_mem}"
    assert shared.altered == []
    assert (
        _Place().platform._store is not None
    )  # of a server with one configuration it is the user's


def test_who_writes_has_a_database_of_its_own_from_one_template() -> None:
    """Prepared once, copied for each in every block."""
    shared = _Shared(own=True)
    shared.up(blocks=2)
    names = [seat.address.database for seat in shared.seats]
    assert len(set(names)) == 2
    made = [each for each in shared.place.server.changes if each.startswith("CREATE DATABASE")]
    templates = {each.partition("TEMPLATE ")[2].split()[0] for each in made if "TEMPLATE" in each}
    assert len(templates) == 1
    copies = [sum(f'"{name}" TEMPLATE' in each for each in made) for name in names]
    assert copies == [2, 2]


def test_who_reads_reads_the_same_data_which_are_copied_once() -> None:
    """Nobody drops what others are connected to."""
    shared = _Shared(own=False)
    shared.up(blocks=3)
    assert len({seat.address.database for seat in shared.seats}) == 1
    changes = shared.place.server.changes
    assert sum("TEMPLATE" in each for each in changes) == 1
    assert not [each for each in changes if each.startswith("DROP")]


@pytest.mark.parametrize("own", [True, False])
def test_all_of_it_is_undone_once(*, own: bool) -> None:
    """By whichever comes first, and the others find nothing left."""
    shared = _Shared(own=own)
    shared.up()
    assert len(shared.place.server.databases) == (4 if own else 3)
    shared.seats[0].destroy()
    assert shared.place.is_untouched()
    for other in (shared.seats[1], shared.server):
        other.destroy()
    assert shared.place.noted == []


def test_a_server_that_is_away_is_asked_twice_and_not_for_each_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each says what is left; only the first waits for it."""
    shared = _Shared(own=True)
    shared.up()
    asked = 0
    original = FakeEndpoint.rows

    def rows(
        self: FakeEndpoint,
        address: ServerAddress,
        statement: str,
        parameters: Sequence[object] = (),
    ) -> list[Row]:
        nonlocal asked
        asked += 1
        return original(self, address, statement, parameters)

    monkeypatch.setattr(FakeEndpoint, "rows", rows)
    shared.place.server.reachable = False
    for seat in (*shared.seats, shared.server):
        with pytest.raises(TargetError):
            seat.destroy()
    assert asked == 2 * len(shared.place.noted)
    assert asked > 0
    shared.place.server.reachable = True
    shared.seats[0].destroy()  # who asks again has it tried again
    assert shared.place.is_untouched()


def test_data_that_are_only_vacuumed_are_read_as_they_are() -> None:
    """An existing database is nobody's to copy, and nothing writes into it."""
    target = EndpointTarget(dbname="postgres", allow_existing=True)
    shared = _Shared(own=False, target=target)
    shared.up()
    assert {seat.address.database for seat in shared.seats} == {"postgres"}
    assert not [each for each in shared.place.server.changes if "VACUUM" in each]


def backends(*pids: Sequence[int]) -> FakeSql:
    """Return a server whose sessions are on these backends, look by look."""
    seen = iter([pid for look in pids for pid in look])
    return FakeSql({_BACKEND: lambda: [(next(seen),)]})


def test_sessions_with_backends_of_their_own_are_not_mixed() -> None:
    """A server, or a pooler that gives each session one."""
    sql = backends((7, 8, 9), (7, 8, 9))
    assert mixed_sessions(_ADDRESS, sql) == ""
    assert sql.open_sessions == 0


@pytest.mark.parametrize(
    "looks",
    [((7, 7, 7), (7, 7, 7)), ((7, 8, 8), (7, 8, 8)), ((7, 8, 9), (7, 9, 8))],
    ids=["one for all", "one for two", "another one later"],
)
def test_transaction_pooling_is_seen(looks: tuple[Sequence[int], Sequence[int]]) -> None:
    """Open sessions that share a backend, or change it."""
    sql = backends(*looks)
    assert "transaction mode" in mixed_sessions(_ADDRESS, sql)
    assert sql.open_sessions == 0


def test_a_session_that_does_not_come_about_leaves_none_open() -> None:
    """A server without connections left, say."""
    sql = FakeSql({})
    with pytest.raises(TargetError):
        mixed_sessions(_ADDRESS, sql)
    assert sql.open_sessions == 0


def test_settings_are_shown_by_several_new_sessions() -> None:
    """One of them may be on a backend that does not have them."""
    values = count()

    def shown() -> list[Row]:
        return [("work_mem", "9216" if next(values) < 2 else "5120", "kB")]

    sql = FakeSql({_SHOWN: shown})
    found = shown_settings({"Work_Mem": "9MB"}, _ADDRESS, sql)
    right = EffectiveSetting(name="work_mem", value="9216", unit="kB")
    assert found == (right, right, replace(right, value="5120"))
    assert sql.asked == [("postgres", _SHOWN, (["work_mem"],))] * 3
