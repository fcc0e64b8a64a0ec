"""Files outside the record: trees, locks, errors in words, places, and files that grow."""

import errno
import grp
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.wording import (
    ExitCode,
    MeasurementError,
    PreflightError,
    PrivilegeError,
    RecordError,
)
from steelyard.gateways import files
from steelyard.gateways.files import GrowingFiles
from steelyard.record import registry


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "no space is left on the device of /data"),
        (errno.EDQUOT, "the disk quota at /data is used up"),
        (errno.EROFS, "/data is on a read-only file system"),
        (errno.EACCES, "/data may not be written by this account"),
        (errno.EPERM, "/data may not be written by this account"),
        (errno.EIO, "/data: Input/output error"),
    ],
)
def test_errors_of_the_system_become_sentences(number: int, sentence: str) -> None:
    """What the disk refuses is said with its place, as the error the caller stands for."""
    with (
        pytest.raises(RecordError, match=f"^{sentence}$") as caught,
        files.translated(Path("/data"), RecordError),
    ):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code is ExitCode.RECORD


def test_an_absent_tree_is_removed_already(tmp_path: Path) -> None:
    """Removing twice is no error."""
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file").write_text("x")
    files.remove_tree(tree)
    assert not tree.exists()
    files.remove_tree(tree)


def test_a_file_that_vanishes_does_not_end_the_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dying server may remove its own files first; the rest still goes."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "postmaster.pid").write_text("1")
    (tree / "rest").write_text("x")
    remove = shutil.rmtree
    calls = []

    def racing(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            (tree / "postmaster.pid").unlink()
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "postmaster.pid")
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", racing)
    files.remove_tree(tree)
    assert not tree.exists()
    assert len(calls) == 2


def test_parents_may_be_entered_whatever_the_umask(tmp_path: Path) -> None:
    """The unprivileged account of a root campaign reaches its data below a fresh cache."""
    before = os.umask(0o077)
    try:
        files.make_directory(tmp_path / "a" / "b" / "c", mode=0o700)
    finally:
        os.umask(before)
    modes = [(tmp_path / part).stat().st_mode & 0o777 for part in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o755, 0o700]


def test_written_text_is_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    """A file is replaced in one step and no temporary stays."""
    path = tmp_path / "postgresql.auto.conf"
    files.write_text(path, "old\n")
    files.write_text(path, "work_mem = '4MB' # Größe\n")
    assert path.read_bytes() == "work_mem = '4MB' # Größe\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert files.read_text(path) == "work_mem = '4MB' # Größe\n"


@pytest.mark.parametrize("place", ["absent/x.html", "file/x.html", "directory"])
def test_what_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path, place: str) -> None:
    """The error has the path that a person knows, not the temporary one, and nothing is left."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    path = tmp_path / place
    with pytest.raises(RecordError) as caught:
        files.write_text(path, "new", error_type=RecordError)
    assert str(path) in caught.value.message
    assert f".{path.name}." not in caught.value.message
    assert caught.value.hint
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["directory", "file"]


def test_text_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    """A locale with another encoding changes nothing in a file."""
    script = (
        "import sys; from pathlib import Path; from steelyard.gateways.files import write_text;"
        "write_text(Path(sys.argv[1]), '\\u2212\\u00bd')"
    )
    path = tmp_path / "report.md"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=environment)
    assert path.read_bytes() == "\N{MINUS SIGN}½".encode()


def test_an_unreadable_file_is_none(tmp_path: Path) -> None:
    """Absent files and directories read as None."""
    assert files.read_text(tmp_path / "absent") is None
    assert files.read_text(tmp_path) is None


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    """A second holder is refused until the first gives it back; giving back twice is no error."""
    path = tmp_path / "lock"
    first, second = files.Lock(path), files.Lock(path)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    first.release()
    assert second.acquire()
    second.release()


def test_a_lock_is_shared_or_had_alone(tmp_path: Path) -> None:
    """Those who share it keep out who wants it alone, and the other way round; all are seen."""
    path = tmp_path / "lock"
    first, second, alone = files.Lock(path), files.Lock(path), files.Lock(path)
    assert not alone.is_held()
    assert first.acquire(shared=True)
    assert second.acquire(shared=True)
    first.release()
    assert (alone.is_held(), alone.acquire()) == (True, False)
    second.release()
    assert (alone.is_held(), alone.acquire()) == (False, True)
    assert (first.is_held(), first.acquire(shared=True)) == (True, False)
    alone.release()


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    """The kernel releases the lock of a killed process: no stale lock is ever left."""
    path = tmp_path / "lock"
    script = (
        "import sys, os, signal; from pathlib import Path;"
        "from steelyard.gateways.files import Lock; lock = Lock(Path(sys.argv[1]));"
        "assert lock.acquire(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ended.returncode == -9
    assert files.Lock(path).acquire()


def test_short_directories_are_private_and_announced_first() -> None:
    """The ledger hears the path before it exists; the path leaves room for a socket's name."""
    heard: list[tuple[Path, bool]] = []
    path = files.short_directory("sy-test-", announce=lambda p: heard.append((p, p.exists())))
    try:
        assert heard == [(path, False)]
        assert path.stat().st_mode & 0o777 == 0o700
        assert len(str(path / ".s.PGSQL.65535.lock").encode()) < 107
    finally:
        path.rmdir()


def test_tree_bytes_counts_what_is_allocated(tmp_path: Path) -> None:
    """Bytes are of blocks on the disk, below subdirectories too; absence is 0."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= files.tree_bytes(tmp_path) < 200_000
    assert files.tree_bytes(tmp_path / "absent") == 0


def test_the_nearest_existing_parent_is_found(tmp_path: Path) -> None:
    """Free space of a directory that will be made is asked of where it will be made."""
    assert files.existing_parent(tmp_path / "a" / "b") == tmp_path
    assert files.existing_parent(tmp_path) == tmp_path
    assert files.free_bytes(tmp_path / "a" / "b") > 0


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """STEELYARD_CACHE first, then the account's usual place."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path))
    assert files.cache_directory() == tmp_path
    monkeypatch.delenv("STEELYARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert files.cache_directory() == tmp_path / "xdg" / "steelyard"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert files.cache_directory() == Path("/var/cache/steelyard")


def _another_owns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a path to another account; where that takes root, be another account."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)


@pytest.mark.parametrize("part", ["", "campaigns", "applied.jsonl", "link"])
def test_a_cache_that_another_account_owns_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str
) -> None:
    """The directory, what lies directly in it, and a link that leads to it."""
    (tmp_path / "cache" / "campaigns").mkdir(parents=True)
    (tmp_path / "cache" / "applied.jsonl").touch()
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / ("link" if part == "link" else "cache")))
    files.cache_directory()
    place = tmp_path / part if part == "link" else tmp_path / "cache" / part
    _another_owns(place, monkeypatch)
    with pytest.raises(PreflightError, match="is done with your rights") as caught:
        files.cache_directory()
    assert "set STEELYARD_CACHE" in caught.value.hint


@pytest.mark.parametrize("part", ["cache", "cache/campaigns", "cache/campaigns/night-1"])
@pytest.mark.parametrize("mode", [0o002, 0o020, 0o1002])
def test_a_cache_that_others_may_write_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str, mode: int
) -> None:
    """By everybody, also where a sticky directory keeps names, or by a group that has members."""
    note = tmp_path / "cache" / "campaigns" / "night-1"
    note.parent.mkdir(parents=True)
    note.touch()
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("g", "x", gid, ["eve"])))
    place = tmp_path / part
    place.chmod(place.stat().st_mode & ~0o022 | mode)
    with pytest.raises(PreflightError, match=f"other accounts may write {place}") as caught:
        registry.made("night-1")
    assert f"`chmod go-w {place}`" in caught.value.hint
    place.chmod(place.stat().st_mode & ~0o022)
    assert registry.made("night-1") == ()


def test_a_cache_of_a_private_group_below_a_sticky_directory_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with umask 002 below /tmp; an ACL shows in the group's bits, and is refused."""
    cache = tmp_path / "shared" / "cache"
    cache.mkdir(parents=True)
    cache.parent.chmod(0o1777)
    cache.chmod(0o775)
    status = cache.stat()
    monkeypatch.setenv("STEELYARD_CACHE", str(cache))
    if status.st_gid == status.st_uid:
        monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("g", "x", gid, [])))
        assert files.cache_directory() == cache
        monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"])
    with pytest.raises(PreflightError, match="other accounts may write"):
        files.cache_directory()


def test_the_cache_is_shared_or_held_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has it alone while somebody uses it, and who wants to use it waits for who does."""
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    began = threading.Event()

    def use() -> None:
        with files.holding_cache():
            began.set()

    with files.holding_cache(), files.holding_cache():
        alone = files.holding_cache(alone=True)
        with pytest.raises(PreflightError, match="has just begun uses the cache"), alone:
            pytest.fail("it was not alone")
    with files.holding_cache(alone=True):
        user = threading.Thread(target=use)
        user.start()
        assert not began.wait(0.2)
    user.join()
    assert began.is_set()


def test_a_file_in_the_way_of_a_directory_is_a_sentence(tmp_path: Path) -> None:
    """Making a directory where a file is says so with exit code 3."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(PreflightError, match="file: File exists"):
        files.make_directory(tmp_path / "file")
    with pytest.raises(PreflightError, match="below: there is no directory"):
        files.make_directory(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another account")
def test_root_sees_what_another_account_can_reach(tmp_path: Path) -> None:
    """One closed directory above is enough to be out of reach; an absent path is an error."""
    tmp_path.chmod(0o700)
    assert not files.reachable_by(tmp_path, "nobody")
    assert files.reachable_by(Path("/usr/bin"), "nobody")
    with pytest.raises(PrivilegeError, match="cannot be read"):
        files.reachable_by(tmp_path / "absent", "nobody")


def test_what_our_own_account_reaches_is_asked_of_the_system(tmp_path: Path) -> None:
    """Without another account only our own access counts."""
    assert files.reachable_by(tmp_path, None)
    assert not files.reachable_by(tmp_path / "absent", None)


def test_only_half_written_files_are_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a death in `write_bytes` leaves is found by the name of its target, and removed."""

    def die(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        patched.setattr(Path, "unlink", die)  # SIGKILL runs no handler
        with pytest.raises(SystemExit):
            files.write_text(tmp_path / "report.md", "x")
    (tmp_path / ".hidden").touch()
    (found,) = files.unfinished_files(tmp_path)
    assert found.read_text() == "x"
    assert files.unfinished_files(tmp_path, "report.md") == (found,)
    assert files.unfinished_files(tmp_path, "report") == ()
    files.remove_unfinished(tmp_path, "report")
    assert found.exists()
    files.remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]


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
