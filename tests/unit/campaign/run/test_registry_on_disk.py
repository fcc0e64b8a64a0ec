"""The registry knows of a thing, on disk, before the journal does."""

import json
import zlib
from pathlib import Path

import pytest

from fakes.campaigns import an_experiment
from fakes.clock import FakeClock
from steelyard.campaign.cleanup import undoing
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.core import outside
from steelyard.core.kubernetes import POD, ObjectRef
from steelyard.core.stack import Knob, KnobKind
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.record.journal import Created, Line, Started, encode, read_lines
from support.flushes import Flushes, flushes

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


# Where lines of earlier versions have the thing of a kind, beside the other fields with null.
_FORMER = {"on-server": "thing", "in-cluster": "placed", "in-aws": "rented", "knob": "knob"}


@pytest.mark.parametrize("kind", _MADE)
def test_lines_of_earlier_versions_say_the_same(kind: str, tmp_path: Path) -> None:
    """Of a journal that another version began, and of a new one that is read again."""
    created = Created.of(_MADE[kind])
    line = Line(sequence=0, at=0.0, elapsed_s=0.0, entry=created)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode(line))
    assert read_lines(path)[0] == (line,)
    fields = json.loads(encode(line))
    del fields["crc32"]
    thing = fields["entry"].pop("thing")
    fields["entry"] |= dict.fromkeys(_FORMER.values())
    if thing is not None:
        fields["entry"][_FORMER[kind]] = thing
    body = json.dumps(fields, separators=(",", ":"))[:-1]
    path.write_text(f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}\n')
    assert read_lines(path)[0] == (line,)


def test_directories_that_another_process_made_are_flushed_too(
    tmp_path: Path, flushes: Flushes
) -> None:
    """A death may have come between the making of the cache and its flush."""
    registry.directory().mkdir(parents=True)
    registry.register(_ID, tmp_path / "c")
    assert flushes.hold(registry.directory() / _ID)
