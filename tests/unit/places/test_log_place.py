"""Where logs go: in memory where there is room, told to the ledger first, and gone at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.programs import FakeLedger
from steelyard.core.wording import PreflightError
from steelyard.places.local import server as log_place
from steelyard.places.local.server import LogPlace


@pytest.fixture
def ledger() -> FakeLedger:
    """Return a ledger that keeps what it is told."""
    return FakeLedger()


@pytest.fixture
def place(
    ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LogPlace]:
    """Return a place whose memory is a directory of this test."""
    monkeypatch.setattr(log_place, "is_in_memory", lambda path: path.is_dir())
    made = LogPlace(
        ledger, account=None, beside=lambda: tmp_path / "live", memory=tmp_path / "memory"
    )
    yield made
    made.remove()


def test_logs_go_into_memory_privately(place: LogPlace, ledger: FakeLedger, tmp_path: Path) -> None:
    """One directory for all runs, told before it is made, closed to everybody else."""
    (tmp_path / "memory").mkdir()
    made = place.directory()
    assert made.parent == tmp_path / "memory"
    assert made.stat().st_mode & 0o777 == 0o700
    assert place.directory() == made
    assert [(verb, existed) for verb, _, existed in ledger.notes] == [("created", False)]
    assert ledger.open == {made}


@pytest.mark.parametrize("reason", ["no such memory", "no room"])
def test_without_room_in_memory_they_lie_beside_the_scripts(
    place: LogPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A container's 64 MB may be in use, and some machines have none; disk is the next best."""
    if reason == "no room":
        (tmp_path / "memory").mkdir()
        least = log_place.LEAST_FREE_BYTES
        monkeypatch.setattr(log_place, "free_bytes", lambda _: least - 1)
    made = place.directory()
    assert made == tmp_path / "live" / "logs"
    assert made.stat().st_mode & 0o777 == 0o700
    assert place.remove() is None


@pytest.mark.parametrize("closed", [PreflightError("read-only"), PreflightError("no inodes")])
def test_memory_that_takes_no_directory_is_passed_over(
    place: LogPlace,
    ledger: FakeLedger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    closed: PreflightError,
) -> None:
    """Room alone is not enough; the disk is taken, and the ledger owes nothing."""
    (tmp_path / "memory").mkdir()

    def refused(
        prefix: str, *, account: str | None, announce: Callable[[Path], None], parent: Path
    ) -> Path:
        assert account is None
        announce(parent / prefix)
        raise closed

    monkeypatch.setattr(log_place, "short_directory", refused)
    assert place.directory() == tmp_path / "live" / "logs"
    assert not place.in_memory
    assert ledger.open == set()


@pytest.mark.parametrize("first", [True, False])
def test_all_runs_of_a_session_have_one_place(
    place: LogPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Room that comes or goes moves no arm: the logs of all lie in memory, or of none."""
    (tmp_path / "memory").mkdir()
    rooms = {True: log_place.LEAST_FREE_BYTES, False: log_place.LEAST_FREE_BYTES - 1}
    monkeypatch.setattr(log_place, "free_bytes", lambda _: rooms[first])
    made = place.directory()
    monkeypatch.setattr(log_place, "free_bytes", lambda _: rooms[not first])
    assert place.directory() == made
    assert place.in_memory is first


def test_what_dies_while_it_is_noted_leaves_nothing_unknown(
    place: LogPlace, ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the note there is no directory; after it there is a note."""
    (tmp_path / "memory").mkdir()

    def dies(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "created", dies)
    with pytest.raises(KeyboardInterrupt):
        place.directory()
    assert list((tmp_path / "memory").iterdir()) == []


def test_removing_takes_the_logs_along(place: LogPlace, tmp_path: Path) -> None:
    """At the end of a campaign nothing is in memory; a second time changes nothing."""
    (tmp_path / "memory").mkdir()
    made = place.directory()
    (made / "log.17").write_text("0 1 2\n")
    assert place.remove() == made
    assert not made.exists()
    assert place.remove() is None


def test_memory_is_known_by_its_mount() -> None:
    """A directory that is no mount of its own is not taken for memory."""
    from steelyard.gateways.files import is_in_memory  # noqa: PLC0415 - the name is replaced above

    assert not is_in_memory(Path("/"))
    assert not is_in_memory(Path("/dev/shm/none"))  # noqa: S108
