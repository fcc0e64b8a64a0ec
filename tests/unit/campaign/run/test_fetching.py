"""Bringing a record out of a cluster: whole, verified, and on from where it stopped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.campaigns import CAMPAIGN_ID, a_record
from fakes.clock import FakeClock
from fakes.job_cluster import JobCluster, a_job_plan
from steelyard.campaign.in_cluster import Fetch, Fetched, fetch
from steelyard.campaign.run.session import require_resumable
from steelyard.core.wording import InputError, RecordError, TargetError
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import Piece, RecordFile, RecordFiles, record_files
from steelyard.record.directory import COPY_NOTE


@dataclass
class Cut:
    """A source whose connection is lost at chosen reads."""

    inner: RecordFiles
    at: set[int]
    dies_at: int = 0
    reads: list[Sequence[Piece]] = field(default_factory=list)

    def listed(self) -> tuple[RecordFile, ...]:
        """Return what the source lists."""
        return self.inner.listed()

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces, or lose the connection."""
        if len(self.reads) + 1 == self.dies_at:
            raise KeyboardInterrupt
        self.reads.append(pieces)
        if len(self.reads) in self.at:
            raise TargetError("the connection was lost")
        return self.inner.read(pieces)


@dataclass
class There:
    """A campaign in a cluster, and what fetches it."""

    cluster: JobCluster
    target: Path
    cut: set[int] = field(default_factory=set)
    dies_at: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    told: list[str] = field(default_factory=list)
    sources: list[Cut] = field(default_factory=list)

    def fetch(self, campaign_id: str = CAMPAIGN_ID) -> Fetched:
        """Fetch it."""
        asked = Fetch(
            campaign_id=campaign_id,
            target=self.target,
            command="steelyard attach",
            told=self.told.append,
        )
        return fetch(asked, self._opened, self.clock)

    @contextmanager
    def _opened(self) -> Iterator[Cut]:
        with record_files(a_job_plan(), self.cluster.api, self.clock, self.told.append) as files:
            self.sources.append(Cut(files, self.cut if not self.sources else set(), self.dies_at))
            yield self.sources[-1]


@pytest.fixture
def there(tmp_path: Path) -> There:
    """Return a campaign that ran to its end inside a cluster."""
    cluster = JobCluster(record=tmp_path / "volume")
    a_record(cluster.record)
    jobs.make(a_job_plan(), "cGFja2Vk", cluster.api)
    return There(cluster, tmp_path / "here")


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in {"lock", COPY_NOTE}
    }


def test_what_comes_is_the_same_to_the_byte(there: There) -> None:
    """All files of the record are here, the lock is not, and the journal was read."""
    fetched = there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)
    assert not (there.target / "lock").exists()
    assert fetched.record.campaign_id == CAMPAIGN_ID
    assert fetched.files == len(_contents(there.cluster.record))


def test_a_second_fetch_brings_only_what_is_new(there: There) -> None:
    """What is here with the right checksum is not brought again; what was spoilt here is."""
    there.fetch()
    assert there.fetch().came_bytes == 0
    (there.target / "schedule.json").write_text("spoilt")
    size = (there.cluster.record / "schedule.json").stat().st_size
    assert there.fetch().came_bytes == size
    assert _contents(there.target) == _contents(there.cluster.record)


def test_large_files_come_in_pieces(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no request could carry is put together again, and so are many small ones."""
    monkeypatch.setattr("steelyard.campaign.in_cluster._MOST_BYTES", 20_000)
    (there.cluster.record / "raw" / "twin-1.gz").write_bytes(b"same")
    (there.cluster.record / "raw" / "twin-2.gz").write_bytes(b"same")
    (there.cluster.record / "raw" / "empty.gz").write_bytes(b"")
    there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)
    sizes = [sum(piece.size_bytes for piece in pieces) for pieces in there.sources[0].reads]
    assert max(sizes) <= 20_000
    assert len(sizes) > 3


def test_a_lost_connection_goes_on_where_it_was(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the loss the pieces that came are not asked for again."""
    monkeypatch.setattr("steelyard.campaign.in_cluster._MOST_BYTES", 20_000)
    there.cut = {3}
    there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)
    first, second = there.sources
    assert second.reads[0] == first.reads[2]
    came = [piece for read in (*first.reads[:2], *second.reads) for piece in read]
    assert len(came) == len(set(came))
    assert any("lost" in text for text in there.told)


def test_a_fetch_that_was_killed_is_gone_on_with(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was on disk when it died counts; before the end there is no journal to believe."""
    monkeypatch.setattr("steelyard.campaign.in_cluster._MOST_BYTES", 20_000)
    there.dies_at = 4
    with pytest.raises(KeyboardInterrupt):
        there.fetch()
    assert not (there.target / "journal.jsonl").exists()
    there.dies_at = 0
    there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)
    asked = [piece for source in there.sources for read in source.reads for piece in read]
    assert len(asked) == len(set(asked))


def test_the_pod_may_end_while_it_is_read(there: There) -> None:
    """The Job's pod is over in the middle of a fetch: a reader takes its place."""
    there.cut = {1}
    original = there.clock.sleep

    def end_then_sleep(seconds: float) -> None:
        there.cluster.end(a_job_plan())
        there.clock.sleep = original  # type: ignore[method-assign]
        original(seconds)

    there.clock.sleep = end_then_sleep  # type: ignore[method-assign]
    there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)


def test_a_journal_that_grows_is_a_copy_of_what_was_there(there: There) -> None:
    """A running campaign is fetched as it was when it was listed; later its rest is brought."""
    journal = there.cluster.record / "journal.jsonl"
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-4]) + lines[-4][:30])
    there.fetch()
    assert (there.target / "journal.jsonl").read_bytes() == journal.read_bytes()
    came = journal.stat().st_size
    journal.write_bytes(whole)
    there.sources.clear()
    there.fetch()
    assert (there.target / "journal.jsonl").read_bytes() == whole
    (piece,) = [piece for read in there.sources[0].reads for piece in read]
    assert piece.offset == came


def test_what_changes_on_the_way_is_brought_again(there: There) -> None:
    """A file that was being written when it was listed comes with the next list."""
    changing = there.cluster.record / "schedule.json"
    original = RecordFiles.read

    def read(files: RecordFiles, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        found = original(files, pieces)
        if changing.read_bytes() != b"new":
            changing.write_bytes(b"new")
            return tuple(content[:1] for content in found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordFiles, "read", read)
        there.fetch()
    assert _contents(there.target) == _contents(there.cluster.record)


def test_what_never_fits_is_refused(there: There) -> None:
    """A checksum that does not fit is an error, and no journal is left to be believed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            RecordFiles, "read", lambda _, pieces: tuple(b"x" * p.size_bytes for p in pieces)
        )
        with pytest.raises(RecordError, match="does not fit"):
            there.fetch()
    assert not (there.target / "journal.jsonl").exists()


def test_another_campaign_is_not_taken_for_it(there: There) -> None:
    """The journal says whose it is."""
    with pytest.raises(RecordError, match=f"of campaign {CAMPAIGN_ID}, not of other"):
        there.fetch("other")


def test_a_damaged_journal_is_refused(there: There) -> None:
    """Checksums of the way say nothing of the journal's own: its lines are read."""
    journal = there.cluster.record / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"sequence":2', b'"sequence":3', 1))
    with pytest.raises(RecordError, match="damaged at line 3"):
        there.fetch()


def test_a_directory_with_something_else_is_not_touched(there: There) -> None:
    """Only an empty directory or an earlier copy of the same campaign is written to."""
    there.target.mkdir()
    (there.target / "notes.txt").write_text("mine")
    with pytest.raises(RecordError, match="is no copy of campaign"):
        there.fetch()
    assert [path.name for path in there.target.iterdir()] == ["notes.txt"]


def test_a_campaign_that_has_written_nothing_is_said(there: There) -> None:
    """There is nothing to fetch before the first line."""
    (there.cluster.record / "journal.jsonl").unlink()
    with pytest.raises(RecordError, match="has written nothing yet"):
        there.fetch()


def test_an_api_that_stays_away_ends_it_at_last(there: There) -> None:
    """After a quarter of an hour without any answer it is an error that says how to go on."""
    there.cluster.api.lose_connection(10_000)
    with pytest.raises(TargetError) as raised:
        there.fetch()
    assert "attach again" in raised.value.hint
    assert 900 <= there.clock.monotonic() - 1000 < 1000


def test_a_copy_cannot_be_resumed_here(there: There) -> None:
    """Two runners of one campaign would spoil its record: the copy says where it goes on."""
    there.fetch()
    with pytest.raises(InputError, match="is a copy") as raised:
        require_resumable(there.target, ())
    assert raised.value.hint.endswith("steelyard attach --resume")


def test_no_file_is_written_outside(there: There) -> None:
    """A record from somebody else cannot name a place of its own choice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordFiles, "_run", lambda *_, **__: '["../evil", 4, "00"]\n')
        with pytest.raises(RecordError, match=r"names a file \.\./evil"):
            there.fetch()


@pytest.mark.parametrize("note", ["", '{"campaign": "ni', "[]", "{}", "7", "null"])
def test_a_torn_note_is_a_sentence(there: There, note: str) -> None:
    """A note that does not say of which campaign the copy is counts as none."""
    there.target.mkdir()
    (there.target / COPY_NOTE).write_text(note)
    with pytest.raises(RecordError, match="is no copy of campaign") as caught:
        there.fetch()
    assert "--dir" in caught.value.hint
    assert (there.target / COPY_NOTE).read_text() == note
