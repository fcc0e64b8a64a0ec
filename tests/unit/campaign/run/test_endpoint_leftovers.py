"""What a dead campaign left on a server, and the registry that knows before the journal does."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.endpoint import FakeEndpoint
from steelyard.campaign.cleanup import leftovers, undoing
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.campaign.cleanup.undoing import undo_thing
from steelyard.core import outside
from steelyard.core.kubernetes import POD, ObjectRef
from steelyard.core.outside import Foreign, OnServer, SavedSetting
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.wording import LeftBehindError
from steelyard.gateways.doors import Doors
from steelyard.places.elsewhere import token_of
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import Started
from support.flushes import Flushes, flushes
from support.left import left_on_servers

_MARK = "steelyard campaign night-1"


def _thing(resource: Foreign, **fields: object) -> OnServer:
    common = {"host": "db", "port": 5432, "user": "bench", "entrance": "postgres", "mark": _MARK}
    return OnServer(resource=resource, **{"database": "postgres", **common, **fields})  # type: ignore[arg-type]


_DATABASE = _thing(Foreign.DATABASE, database="ours", parameters=(("sslmode", "require"),))
_SETTINGS = _thing(
    Foreign.SETTINGS,
    saved=(SavedSetting(name="work_mem", value="5MB"), SavedSetting(name="jit", value=None)),
)


@pytest.fixture
def server() -> FakeEndpoint:
    """Return a server as a dead campaign left it."""
    return FakeEndpoint(
        databases={"postgres": None, "ours": _MARK}, file={"work_mem": "9MB", "jit": "off"}
    )


@pytest.fixture
def doors(server: FakeEndpoint) -> Doors:
    """Return doors to this server."""
    return fake_doors(sql=server)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return the record of a campaign that died."""
    path = tmp_path / "night"
    directory = CampaignDirectory.create(path, FakeClock(), experiment_text="version: 1\n")
    directory.journal.append(
        Started(campaign_id="night-1", experiment=an_experiment(), command="x", version="0")
    )
    registry.register("night-1", path, an_experiment())
    noting = JournalLedger(directory.journal, "night-1")
    noting.created(_DATABASE)
    noting.created(_SETTINGS)
    directory.close()
    return path


def test_settings_and_databases_are_undone_and_noted(
    record: Path, server: FakeEndpoint, doors: Doors
) -> None:
    """Last made first; afterwards the journal is empty of them."""
    (leftover,) = leftovers.find_leftovers(doors)
    assert leftover.things == (_SETTINGS, _DATABASE)
    with pytest.raises(LeftBehindError, match="database ours on db:5432"):
        leftovers.require_nothing_left(record)
    leftovers.undo(leftover, doors)
    assert server.databases == {"postgres": None}
    assert server.file == {"work_mem": "5MB"}
    assert left_on_servers(record) == ()
    leftovers.require_nothing_left(record)
    assert leftovers.find_leftovers(doors) == ()


def test_a_deleted_record_hides_nothing(record: Path, server: FakeEndpoint, doors: Doors) -> None:
    """The registry holds what undoing needs."""
    (record / "journal.jsonl").unlink()
    (leftover,) = leftovers.find_leftovers(doors)
    leftovers.undo(leftover, doors)
    assert server.databases == {"postgres": None}
    assert leftovers.find_leftovers(doors) == ()


def test_an_unreachable_server_stays_in_the_list(
    record: Path, server: FakeEndpoint, doors: Doors
) -> None:
    """`clean` says what is left and can be repeated."""
    server.reachable = False
    (leftover,) = leftovers.find_leftovers(doors)
    with pytest.raises(LeftBehindError, match="is left behind") as caught:
        leftovers.undo(leftover, doors)
    assert "PGPASSWORD" in caught.value.hint
    assert "its postgresql.auto.conf had work_mem = '5MB', no jit." in caught.value.hint
    assert len(left_on_servers(record)) == 2
    server.reachable = True
    leftovers.undo(leftover, doors)
    assert left_on_servers(record) == ()


@pytest.mark.parametrize(
    ("resource", "name", "value", "line"),
    [
        (Foreign.SETTINGS, "session_preload_libraries", "a, b", "= 'a, b'."),
        (Foreign.CONFIG, "save", "", 'save "".'),
        (Foreign.CONFIG, "save", "3600 1", 'save "3600" "1".'),
    ],
)
def test_what_a_file_had_is_told_as_it_is_written_there(
    resource: Foreign, name: str, value: str, line: str
) -> None:
    """It is for a server that does not start: a line without its quotation marks keeps it down."""
    saved = (SavedSetting(name=name, value=value),)
    thing = replace(_SETTINGS, resource=resource, saved=saved, restart_command=("again",))
    assert undoing._if_down(thing).endswith(line)


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        (f"steelyard_{token_of('night-1')}", True),
        (f"steelyard_{token_of('night-1')}_prepared", True),
        (f"steelyard_{token_of('night-1')}_2", True),
        (f"steelyard_{token_of('night-1')}_ours", False),
        (f"steelyard_{token_of('night-2')}_2", False),
        (f"steelyard_{token_of('night-2')}", False),
        ("ours", False),
    ],
)
def test_a_database_without_a_mark_goes_only_by_its_name(
    server: FakeEndpoint, doors: Doors, *, name: str, dropped: bool
) -> None:
    """A death between CREATE DATABASE and COMMENT leaves the campaign's token in its name."""
    server.databases = {"postgres": None, name: None}
    thing = replace(_DATABASE, database=name, mark="steelyard campaign night-1")
    if dropped:
        undo_thing(thing, doors)
    else:
        with pytest.raises(LeftBehindError, match="does not carry the mark"):
            undo_thing(thing, doors)
    assert (name not in server.databases) is dropped


__all__ = ["flushes"]
_ID = "night-1"
_THING = outside.OnServer(
    resource=outside.Foreign.DATABASE,
    host="db",
    port=5432,
    user="bench",
    database="ours",
    entrance="postgres",
    mark=f"steelyard campaign {_ID}",
)
_PLACED = outside.InCluster(
    context="lab",
    server="https://lab",
    ref=ObjectRef(kind=POD, namespace="prod", name="generator-0"),
    campaign_id=_ID,
)
_KNOB = Knob(
    name="linux:vm.swappiness",
    layer="linux",
    kind=KnobKind.SYSCTL,
    place="vm.swappiness",
    value="33",
)
_MADE: dict[str, outside.Outside] = {
    "directory": outside.MadeDirectory(path=Path("/tmp/steelyard-0f3a9c2d")),  # noqa: S108
    "on-server": _THING,
    "cgroup": outside.ControlGroup(path=Path(f"/sys/fs/cgroup/steelyard-{_ID}-server")),
    "in-cluster": _PLACED,
    "in-aws": outside.InAws(
        account="123456789012",
        region="us-east-1",
        resource=outside.Rented.INSTANCE,
        name=f"steelyard-{_ID}-1",
        campaign_id=_ID,
    ),
    "knob": outside.TurnedKnob(knob=_KNOB, snapshot="60"),
}


@pytest.mark.parametrize("kind", _MADE)
def test_the_registry_is_on_disk_before_the_journal(
    kind: str, tmp_path: Path, flushes: Flushes
) -> None:
    """When the line of a thing is flushed, the registry's is there, with every directory above it.

    Of what the journal alone knows `clean` cannot tell that it is ours.
    """
    directory = CampaignDirectory.create(tmp_path / "c", FakeClock(), experiment_text="")
    directory.journal.append(
        Started(campaign_id=_ID, experiment=an_experiment(), command="steelyard", version="0")
    )
    registry.register(_ID, directory.path)
    note = registry.directory() / _ID
    seen: list[tuple[int, bool]] = []

    def look(path: Path) -> None:
        if path.name == "journal.jsonl":
            seen.append((len(note.read_text().splitlines()), flushes.hold(note)))

    flushes.heard = look
    JournalLedger(directory.journal, _ID).created(_MADE[kind])
    assert seen == [(2, True)]
    assert registry.made(_ID) == (_MADE[kind],)
    directory.close()


def test_every_kind_of_thing_outside_is_noted_and_undone() -> None:
    """The test above has one of each, and `clean` a way to undo it."""
    assert {type(thing) for thing in _MADE.values()} == set(outside.KINDS) == set(undoing._KINDS)
    assert {kind: made.word for kind, made in _MADE.items()} == {word: word for word in _MADE}


def test_directories_that_another_process_made_are_flushed_too(
    tmp_path: Path, flushes: Flushes
) -> None:
    """A death may have come between the making of the cache and its flush."""
    registry.directory().mkdir(parents=True)
    registry.register(_ID, tmp_path / "c")
    assert flushes.hold(registry.directory() / _ID)
