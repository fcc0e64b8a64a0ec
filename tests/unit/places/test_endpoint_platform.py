"""A server that is there already: what is made is marked and noted first, and all is undone."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.endpoint import Died, FakeEndpoint
from fakes.programs import FakeLedger, FakeProgram
from fakes.sql import FakeSql, Row
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.outside import Foreign, OnServer, ServerAddress
from steelyard.core.schedule import Pausing
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import LeftBehindError, PreflightError, SteelyardError, TargetError
from steelyard.systems.postgres.existing.platform import (
    _BACKEND,
    _SHOWN,
    EndpointOptions,
    EndpointPlatform,
    EndpointSessions,
    keywords_of,
    mixed_sessions,
    require_any_database,
    require_pool,
    shown_settings,
)
from steelyard.systems.postgres.existing.server import (
    GENERATOR_TABLES,
    STARTED_AT,
    DatasetNeeds,
    require_connections,
    undo,
)

_TABLES = DatasetNeeds(name="steelyard_s1", tables=True, scripts=False)
_BEFORE = {"work_mem": "5MB", "other": "on"}


class _Place:
    """One platform on one fake server."""

    def __init__(
        self,
        target: EndpointTarget | None = None,
        datasets: tuple[DatasetNeeds, ...] = (_TABLES,),
        settings: tuple[str, ...] = ("checkpoint_timeout", "work_mem"),
        *,
        alters: bool = False,
        **more: Any,
    ) -> None:
        self.server = FakeEndpoint(file=dict(_BEFORE))
        self.clock = FakeClock()
        self.ledger = FakeLedger()
        self.means = fake_doors(self.clock, sql=self.server)
        named = target or EndpointTarget()
        options = EndpointOptions(
            target=named,
            entrance=self.server.reach(keywords_of(named), any_database=not named.allow_existing),
            campaign_id="night-1",
            datasets=datasets,
            settings=settings,
            restarts=False,
            clients=8,
            alters=alters,
            **more,
        )
        self.platform = EndpointPlatform(options, self.ledger, self.means)

    def build(self, address: ServerAddress) -> None:
        """Make the generator's tables, unmarked, as pgbench does."""
        if self.platform._options.target.allow_existing:
            self.server.tables |= dict.fromkeys(GENERATOR_TABLES)
        assert dict(address.databases)

    def work(self) -> None:
        """Go through a campaign's steps twice."""
        platform, program = self.platform, FakeProgram()
        state = platform.prepare(program, ["data"], self.build)
        for settings in ({"work_mem": "9MB"}, {"checkpoint_timeout": "7min"}):
            platform.restore(state, platform.means()[0])
            platform.start(state, program, settings)
            assert platform.is_running
            platform.stop(keep_data=False)

    @property
    def noted(self) -> list[OnServer]:
        """Return what the ledger holds and is not undone, last first."""
        undone = [thing for verb, thing in self.ledger.things if verb == "undone"]
        open_ = [t for verb, t in self.ledger.things if verb == "changed" and t not in undone]
        return open_[::-1]

    def is_untouched(self) -> bool:
        """Return whether the server is as it was."""
        as_before = self.server.databases == {"postgres": None} and not self.server.tables
        return as_before and self.server.file == _BEFORE


def test_a_whole_campaign_leaves_nothing_behind() -> None:
    """Databases are dropped, settings stand as before, and the ledger says so."""
    place = _Place()
    place.work()
    assert len(place.server.databases) == 3
    assert {m for n, m in place.server.databases.items() if n != "postgres"} == {
        "steelyard campaign night-1"
    }
    assert place.server.file == {"checkpoint_timeout": "7min", **_BEFORE}
    place.platform.destroy()
    assert place.is_untouched()
    assert place.noted == []


@pytest.mark.parametrize("alters", [False, True])
def test_who_is_no_superuser_alters_what_was_granted(*, alters: bool) -> None:
    """As a superuser does, and puts it back; without it settings are of own sessions only."""
    place = _Place(alters=alters)
    place.server.state[3] = False
    place.work()
    settings = {f.name: f.value for f in place.platform.facts()}["settings"]
    assert settings == ("by ALTER SYSTEM" if alters else "of own sessions only")
    assert ("checkpoint_timeout" in place.server.file) is alters
    told = {f.code: f.message for f in place.platform.findings()}["no-superuser"]
    assert ("own sessions only" in told) is not alters
    place.platform.destroy()
    assert place.is_untouched()


def _interrupted(make: Callable[[], _Place]) -> None:
    for step in range(100):
        place = make()
        place.server.dies_at = step
        try:
            place.work()
        except Died:
            place.server.dies_at = None
            for thing in place.noted:
                undo(thing, place.means)
                undo(thing, place.means)  # a second time is no error
            assert place.is_untouched(), place.server
            continue
        assert step > 5
        return


def test_a_death_between_any_two_changes_can_be_undone() -> None:
    """The ledger knows everything before it is done, with all that undoing needs."""
    _interrupted(_Place)


def test_undoing_interrupted_anywhere_can_be_done_again() -> None:
    """`clean` that dies half-way is repeated."""
    place = _Place()
    place.work()
    for steps in range(50):
        place.server.dies_at = len(place.server.changes) + steps
        try:
            for thing in place.noted:
                undo(thing, place.means)
        except Died:
            continue
        break
    assert steps > 3
    assert place.is_untouched()


def test_an_allowed_database_keeps_everything_but_our_tables() -> None:
    """The generator's tables are marked and dropped; the database itself is never touched."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True))
    place.server.databases["shop"] = None
    place.server.tables["goods"] = None
    place.platform.require_ready()
    place.work()
    place.platform.destroy()
    assert place.server.tables == {"goods": None}
    assert "shop" in place.server.databases
    assert not [change for change in place.server.changes if "DROP DATABASE" in change]


def test_tables_without_our_mark_are_left_and_said() -> None:
    """What cannot be told from the user's own is not dropped."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True))
    place.platform.prepare(FakeProgram(), [], place.build)
    place.server.tables["pgbench_history"] = None
    with pytest.raises(LeftBehindError, match="does not carry the mark"):
        place.platform.destroy()
    assert set(place.server.tables) == set(GENERATOR_TABLES)


def test_tables_whose_making_was_ended_go_too() -> None:
    """Ctrl-C in the longest step leaves nothing in the user's database."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True))
    made = dict.fromkeys(GENERATOR_TABLES[:2])
    place.server.refuses.update(GENERATOR_TABLES[2:])

    def torn(_: ServerAddress) -> None:
        place.server.tables |= made
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.platform.prepare(FakeProgram(), [], torn)
    assert set(place.server.tables) == set(made)
    place.platform.destroy()
    assert place.server.tables == {}


def test_tables_whose_marking_was_ended_go_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the last row and the mark is no later than in the middle of the rows."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True))
    execute, stopping = place.server.execute, [KeyboardInterrupt()]

    def stopped(address: ServerAddress, statements: Sequence[str]) -> None:
        if stopping and statements[0].startswith("COMMENT ON TABLE"):
            raise stopping.pop()
        execute(address, statements)

    monkeypatch.setattr(place.server, "execute", stopped)
    with pytest.raises(KeyboardInterrupt):
        place.platform.prepare(FakeProgram(), [], place.build)
    assert set(place.server.tables) == set(GENERATOR_TABLES)
    place.platform.destroy()
    assert place.server.tables == {}


def test_a_refused_setting_keeps_no_other_from_going_back() -> None:
    """What the server does not take back is named, and stays to be undone."""
    place = _Place()
    place.work()
    place.server.file["work_mem"] = "9MB"
    place.server.refuses.add("checkpoint_timeout")
    refused = 'refuses ALTER SYSTEM RESET "checkpoint_timeout": unrecognized'
    with pytest.raises(LeftBehindError, match=refused) as caught:
        place.platform.destroy()
    assert "All other settings are back" in caught.value.hint
    assert place.server.file == {"checkpoint_timeout": "7min", **_BEFORE}
    place.server.refuses.clear()
    for thing in place.noted:
        undo(thing, place.means)
    assert place.is_untouched()


def test_what_went_back_is_read_where_another_setting_is_refused_that_is_as_it_was() -> None:
    """The file is as it was then, and the server would go on with what the campaign had set."""
    place = _Place()
    place.work()
    place.server.file = {"work_mem": "9MB", "other": "on"}
    place.server.refuses.add("checkpoint_timeout")
    loads = place.server.loads
    place.platform.destroy()
    assert place.is_untouched()
    assert place.server.loads > loads


def test_what_a_server_takes_back_after_its_libraries_is_read_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting of a library is known once that is loaded; the file is read once more then."""
    place = _Place()
    place.work()
    place.server.refuses.add("checkpoint_timeout")
    loads, ask = place.server.loads, place.server.rows

    def rows(address: ServerAddress, statement: str, parameters: Sequence[object] = ()) -> Any:
        if statement == "SELECT pg_reload_conf()":
            place.server.refuses.clear()
        return ask(address, statement, parameters)

    monkeypatch.setattr(place.server, "rows", rows)
    place.platform.destroy()
    assert place.is_untouched()
    assert place.server.loads == loads + 2


def test_a_database_with_another_mark_is_never_dropped() -> None:
    """A name alone is not enough where a comment says something else."""
    place = _Place()
    place.work()
    ours = next(n for n in place.server.databases if n.endswith("_prepared"))
    place.server.databases[ours] = "production, hands off"
    with pytest.raises(LeftBehindError, match="does not carry the mark"):
        place.platform.destroy()
    assert ours in place.server.databases
    assert place.server.file == _BEFORE


def test_what_destroy_cannot_undo_stays_in_the_ledger() -> None:
    """An unreachable server ends in an error; the rest of the clearing is done all the same."""
    place = _Place()
    place.work()
    assert place.platform.scripts.exists()
    place.server.reachable = False
    with pytest.raises(TargetError):
        place.platform.destroy()
    assert len(place.noted) == 3
    assert not place.platform._live.exists()


def test_an_ordinary_user_changes_sessions_only() -> None:
    """Settings travel in libpq's options, and nothing on the server is changed."""
    place = _Place()
    place.server.state[3] = False
    state = place.platform.prepare(FakeProgram(), [], place.build)
    place.platform.restore(state, place.platform.means()[0])
    place.platform.start(state, FakeProgram(), {"work_mem": "9 MB"})
    assert dict(place.platform.address.parameters)["options"] == r"-c work_mem=9\ MB"
    assert place.server.file == _BEFORE


def test_no_note_holds_the_password() -> None:
    """What goes into the journal has everything but the password."""
    place = _Place()
    place.work()
    assert place.platform._entrance.password == "planted"
    assert "planted" not in repr(place.ledger.things)


def test_a_restart_shows_as_not_running() -> None:
    """A server that was restarted in between is not the one that was activated."""
    place = _Place()
    place.work()
    place.platform.start(place.platform.prepare(FakeProgram(), [], place.build), FakeProgram(), {})
    assert place.platform.is_running
    place.server.starts += 1
    assert not place.platform.is_running


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (0, True, "is a standby"),
        (1, True, "read-only"),
        (4, False, "may not create a database"),
        (5, 9, "8 clients need 10"),
        (6, 9, ""),
        (8, False, "does not allow ALTER SYSTEM"),
    ],
)
def test_what_cannot_be_measured_is_refused(column: int, value: object, words: str) -> None:
    """Each is a sentence of fact with a way out; a superuser has no limit of its own."""
    place = _Place()
    place.server.state[column] = value
    if not words:
        place.platform.require_ready()
        return
    with pytest.raises(PreflightError, match=words) as caught:
        place.platform.require_ready()
    assert caught.value.hint


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(
    ("database", "datasets", "writes", "words"),
    [
        ("shop", (), False, ""),
        ("shop", (), True, "the scripts may change data"),
        ("shop", (_TABLES,), False, "Steelyard would make the data there"),
        (None, (_TABLES,), False, "Steelyard would make the data there"),
    ],
)
def test_who_takes_no_writes_is_refused_only_where_some_are_needed(
    column: int,
    database: str | None,
    datasets: tuple[DatasetNeeds, ...],
    writes: bool,  # noqa: FBT001 - a column of the table
    words: str,
) -> None:
    """A standby or a read-only user serves scripts that read; else the reason and both ways out."""
    place = _Place(EndpointTarget(dbname=database, allow_existing=database is not None), datasets)
    place.server.state[column] = True
    options = replace(place.platform._options, writes=writes)
    platform = EndpointPlatform(options, place.ledger, place.means)
    if not words:
        platform.require_ready()
        assert ("standby" in {each.code for each in platform.findings()}) is (column == 0)
        assert ("standby" in {each.name for each in platform.facts()}) is (column == 0)
        return
    with pytest.raises(PreflightError, match=words) as caught:
        platform.require_ready()
    assert caught.value.hint.startswith(("Name the primary", "Turn it off"))
    assert "scripts that only read" in caught.value.hint


_BROKEN = ("/etc/pg/10.conf", 3, "nosuch", "unrecognized configuration parameter")
_IN_DATABASE = ("`work_mem` is set for the database shop", "ALTER DATABASE")


@pytest.mark.parametrize(
    ("more", "superuser", "words", "way"),
    [
        ({"obstacles": (_IN_DATABASE,)}, True, "set for the database shop", "ALTER DATABASE"),
        ({"obstacles": (_IN_DATABASE,) * 2}, True, "shop\n`work_mem`", "ALTER DATABASE ALTER"),
        ({"obstacles": (_IN_DATABASE,), "sessions": True}, True, "", ""),
        ({"passes": False, "is_pooled": True}, False, "does not pass them on", "not the pooler"),
        ({"passes": False}, True, "", ""),
    ],
)
def test_changes_that_would_not_reach_the_sessions_are_refused(
    more: dict[str, object], words: str, way: str, *, superuser: bool
) -> None:
    """A change for everyone has what is above it, one of sessions a pooler that drops it."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True), (), **more)
    place.server.state[3] = superuser
    if not words:
        place.platform.require_ready()
        return
    with pytest.raises(PreflightError, match=words) as caught:
        place.platform.require_ready()
    assert way in caught.value.hint


def test_files_that_the_server_cannot_read_are_named_at_every_step() -> None:
    """Before anything is made, before a change, and where one is put back."""
    place = _Place()
    place.server.faults = [_BROKEN, ("/etc/pg/a.conf", 1, None, "syntax error")]
    words = "10.conf, line 3: `nosuch`: unrecognized .*; /etc/pg/a.conf, line 1: syntax error"
    with pytest.raises(PreflightError, match=words):
        place.platform.require_ready()
    with pytest.raises(TargetError, match=words):
        place.work()
    assert place.server.file == _BEFORE
    place.server.faults = []
    place.work()
    place.server.faults = [_BROKEN]
    with pytest.raises(
        LeftBehindError, match=r"has its old values again, but .*10.conf, line 3"
    ) as caught:
        place.platform.destroy()
    assert "PGPASSWORD" not in caught.value.hint
    assert place.server.file == _BEFORE
    place.server.faults = []
    place.platform.destroy()
    assert place.noted == []


@pytest.mark.parametrize("passes", [True, False])
def test_sessions_are_read_only_where_a_pooler_passes_that_on(*, passes: bool) -> None:
    """Where it does not, nobody asks for it, and the facts say so."""
    target = EndpointTarget(dbname="shop", allow_existing=True)
    place = _Place(target, (), writes=False, passes=passes, is_pooled=not passes)
    place.server.state[3] = False  # settings are of own sessions
    state = place.platform.prepare(FakeProgram(), [], lambda _: None)
    place.platform.start(state, FakeProgram(), {})
    assert ("options" in dict(place.platform.address.parameters)) is passes
    facts = {fact.name: fact.value for fact in place.platform.facts()}
    assert ("read-only sessions" in facts) is not passes


class _Refusing(FakeSql):
    """A pooler whose sessions run so many statements alone, and then refuse all."""

    left = 0

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Take a statement, while there are any left."""
        self.left -= 1
        if self.left < 0:
            raise TargetError("the server refused")
        super().execute(address, statements)


@pytest.mark.parametrize(
    ("taken", "rows", "prepared", "words"),
    [
        (0, 99, True, r"statement mode\)"),
        (1, 99, True, r"statement mode\)"),
        (9, 0, True, "serves 0 sessions at the same time; 4 clients need 6, with 2"),
        (9, 5, True, "serves 5 sessions"),
        (9, 6, True, r"transaction mode\)"),
        (9, 7, True, r"transaction mode\)"),
        (9, 8, True, ""),
        (9, 6, False, ""),
    ],
)
def test_what_a_load_needs_of_a_pooler_is_tried(
    taken: int, rows: int, words: str, *, prepared: bool
) -> None:
    """Transactions, as many sessions as clients and two, and statements that stay prepared."""
    left = iter(range(rows))

    def row() -> list[Row]:
        if next(left, None) is None:
            raise TargetError("the server refused")
        return [(1,)]

    sql = _Refusing({_BACKEND: row, "SELECT 1": row})
    sql.left = taken
    if words:
        with pytest.raises(PreflightError, match=words) as caught:
            require_pool(_ADDRESS, sql, clients=4, prepared=prepared)
        assert caught.value.hint
    else:
        require_pool(_ADDRESS, sql, clients=4, prepared=prepared)
    assert sql.open_sessions == 0


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        ("FATAL: bouncer config error", True),
        ("FATAL: no such database: steelyard_not_there", True),
        ('FATAL: database "steelyard_not_there" does not exist', False),
        ("FATAL: Datenbank existiert nicht", False),
    ],
)
def test_a_pooler_that_lists_its_databases_is_seen(error: str, *, is_refused: bool) -> None:
    """By PgBouncer's words; the server's own, in any language, are as they should be."""

    def row() -> list[Row]:
        raise TargetError(error)

    sql = FakeSql({STARTED_AT: row})
    with pytest.raises(PreflightError) if is_refused else nullcontext():
        require_any_database(_ADDRESS, sql, "db:5432")


def test_the_clients_that_were_asked_for_are_those_of_the_message() -> None:
    """Not their sum over the configurations that take turns, which is beside it."""
    state = _Place().platform.state
    words = "500 clients for each of 2 configurations at the same time need 1002"
    with pytest.raises(PreflightError, match=words) as caught:
        require_connections(replace(state, connections_left=97), 500, 2, "db:5432")
    assert "97 connections left" in caught.value.message
    require_connections(replace(state, connections_left=1002), 500, 2, "db:5432")


def test_another_campaign_on_the_server_is_refused() -> None:
    """Its settings would be taken for the server's own."""
    place = _Place()
    place.server.databases["x"] = "steelyard campaign day-2"
    with pytest.raises(PreflightError, match="another campaign works"):
        place.platform.require_ready()
    own = _Place()
    own.server.databases["x"] = "steelyard campaign night-1"
    own.platform.require_ready()


@pytest.mark.parametrize(
    ("datasets", "words"),
    [
        ((DatasetNeeds(name="a", tables=False, scripts=True),), "`prepare` scripts"),
        ((_TABLES, DatasetNeeds(name="b", tables=True, scripts=False)), "in 2 sizes"),
        ((_TABLES,), "there is a table pgbench_accounts"),
    ],
)
def test_an_existing_database_that_cannot_be_used_is_refused(
    datasets: tuple[DatasetNeeds, ...], words: str
) -> None:
    """Nothing is made where it could not be told from what was there."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True), datasets)
    place.server.tables["pgbench_accounts"] = None
    with pytest.raises(PreflightError, match=words):
        place.platform.require_ready()


def test_permission_without_a_name_is_refused() -> None:
    """`allow_existing` alone names no database."""
    with pytest.raises(PreflightError, match="none is named"):
        _Place(EndpointTarget(allow_existing=True)).platform.require_ready()


def test_findings_say_what_is_weaker_or_unseen() -> None:
    """Each circumstance has its own code."""
    place = _Place(EndpointTarget(dbname="shop", allow_existing=True))
    place.server.state[3], place.server.state[7], place.server.state[9] = False, "60s", 4
    codes = [finding.code for finding in place.platform.findings()]
    assert codes == [
        "endpoint-unseen",
        "no-superuser",
        "statement-timeout",
        "other-load",
        "weaker-reset",
    ]
    assert place.platform.means() == ("vacuum",)


def test_labels_tell_things_apart() -> None:
    """The journal finds what was undone by its label."""
    place = _Place()
    place.work()
    labels = {thing.label for _, thing in place.ledger.things}
    assert len(labels) == 3
    kinds = {thing.resource for _, thing in place.ledger.things}
    assert kinds == {Foreign.DATABASE, Foreign.SETTINGS}


def test_no_configuration_in_force_has_no_address() -> None:
    """Between starts there is nowhere to send load."""
    with pytest.raises(SteelyardError, match="no configuration is in force"):
        assert _Place().platform.address


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))


def test_a_server_of_somebody_else_is_not_made_anew() -> None:
    """Refused with the reason and the way out, and nothing was touched."""
    place = _Place()
    with pytest.raises(PreflightError, match="did not make the server") as caught:
        place.platform.reprovision(FakeProgram(), ["data"], place.build)
    assert "kind: local" in caught.value.hint
    assert place.is_untouched()


def test_undoing_takes_the_time_it_needs() -> None:
    """A short statement_timeout of the user does not keep what was made on the server."""
    place = _Place()
    place.work()
    before = len(place.server.changes)
    place.platform.destroy()
    changes = place.server.changes[before:]
    made = [
        number for number, change in enumerate(changes) if "SET statement_timeout" not in change
    ]
    assert any("DROP DATABASE" in changes[number] for number in made)
    assert any("ALTER SYSTEM" in changes[number] for number in made)
    first = [number for number in made if number == 0 or number - 1 not in made]
    assert all(changes[number - 1] == "SET statement_timeout = 0" for number in first)
    assert 0 not in first


def test_a_guard_continues_the_generators_in_our_directory() -> None:
    """No control group is made for them."""
    guarded = _Place().platform.guarded
    assert guarded.groups == ()
    assert guarded.directory.name == "night-1"


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
        return EndpointSessions(
            self.options, self.place.ledger, self.place.means, server=self.server, number=number
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


def test_sessions_go_without_limits_that_a_pause_uses_up() -> None:
    """Those of the load, whatever they are on the server; nothing of it is altered."""
    shared = _Shared(own=False)
    shared.options = replace(shared.options, lifted={"idle_session_timeout": "200ms"})
    shared.seats = [shared.seat(None) for _ in (1, 2)]
    shared.up()
    options = [dict(seat.address.parameters)["options"] for seat in shared.seats]
    assert options == [
        "-c work_mem=5MB -c idle_session_timeout=0",
        "-c work_mem=9MB -c idle_session_timeout=0",
    ]
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
