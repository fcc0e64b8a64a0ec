"""Files that grow: read on exactly once, given back, and nothing foreign is opened."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.wording import MeasurementError
from steelyard.gateways.files import GrowingFiles


def _text(read: "list[tuple[str, bytes]]", name: str) -> bytes:
    return b"".join(chunk for source, chunk in read if source == name)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.binary(min_size=1, max_size=40)), max_size=20))
def test_every_byte_is_read_once_whenever_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]]
) -> None:
    """Files may appear at any time; pieces put together are the files."""
    home = tmp_path_factory.mktemp("logs")
    files, read = GrowingFiles(home), []
    for place, (name, content) in enumerate(writes):
        with (home / name).open("ab") as file:
            file.write(content)
        assert files.unread_bytes() >= len(content)
        if place % 3 == 0:
            read += list(files.read())
            assert files.unread_bytes() == 0
    read += list(files.read())
    for name in "ab":
        assert _text(read, name) == b"".join(c for own, c in writes if own == name)
    files.remove()
    assert list(home.iterdir()) == []


def test_what_was_read_takes_no_room_any_more(tmp_path: Path) -> None:
    """The writer's file stays as long as it is, and its blocks are given back."""
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as writer:
        writer.write(b"x" * (4 << 20))
        files = GrowingFiles(tmp_path)
        assert sum(len(chunk) for _, chunk in files.read()) == 4 << 20
        if path.stat().st_blocks * 512 > 1 << 20:
            pytest.skip("this file system gives nothing back from the middle of a file")
        writer.write(b"end")
        assert [chunk for _, chunk in files.read()] == [b"end"]
        assert path.stat().st_size == (4 << 20) + 3
    files.remove()


@pytest.mark.parametrize("kind", ["symbolic", "hard", "fifo"])
def test_only_plain_files_of_the_directory_are_opened(tmp_path: Path, kind: str) -> None:
    """The directory belongs to another account: it must not lead root to other files."""
    home, secret = tmp_path / "logs", tmp_path / "secret"
    home.mkdir()
    secret.write_text("secret")
    if kind == "symbolic":
        (home / "log").symlink_to(secret)
    elif kind == "hard":
        (home / "log").hardlink_to(secret)
    else:
        os.mkfifo(home / "log")
    files = GrowingFiles(home)
    with pytest.raises(MeasurementError):
        list(files.read())
    files.remove()
    assert secret.read_text() == "secret"
    assert list(home.iterdir()) == []


def test_a_directory_that_is_gone_is_a_measurement_error(tmp_path: Path) -> None:
    """A sentence, no traceback; and removing it again is none either."""
    files = GrowingFiles(tmp_path / "gone")
    with pytest.raises(MeasurementError, match="gone"):
        files.unread_bytes()
    files.remove()


def test_one_file_that_stays_keeps_no_other(tmp_path: Path) -> None:
    """All that can be removed is, and what is left of a run is not counted into the next."""
    for number in range(6):
        (tmp_path / f"{number}-stays").mkdir()
        (tmp_path / f"{number}-log").write_text("earlier")
    files = GrowingFiles(tmp_path)
    files.remove()
    assert not list(tmp_path.glob("*-log"))
    (tmp_path / "log").write_text("now")
    assert list(files.read()) == [("log", b"now")]
    files.remove()


def test_what_nobody_wants_takes_no_room(tmp_path: Path) -> None:
    """Unread or read, what was opened is given back while the writer goes on."""
    with (tmp_path / "log").open("wb", buffering=0) as writer:
        writer.write(b"x" * (1 << 20))
        files = GrowingFiles(tmp_path)
        assert files.unread_bytes() == 1 << 20
        files.drop()
        assert os.fstat(writer.fileno()).st_blocks == 0
        writer.write(b"end")
    files.remove()


def test_a_file_that_is_renamed_is_read_once(tmp_path: Path) -> None:
    """A program may give its log the name that it was told when it is complete."""
    files = GrowingFiles(tmp_path)
    (tmp_path / "log.part").write_bytes(b"one")
    assert files.unread_bytes() == 3
    (tmp_path / "log.part").rename(tmp_path / "log")
    with (tmp_path / "log").open("ab") as writer:
        writer.write(b"two")
    assert list(files.read()) == [("log.part", b"onetwo")]
    assert files.unread_bytes() == 0
    files.remove()
    assert list(tmp_path.iterdir()) == []
