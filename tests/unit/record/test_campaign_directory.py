"""The directory of a campaign: who may write it, and what lies where in it."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sample_entries import a_story, write_journal

from fakes.clock import FakeClock
from steelyard.campaign.design.schedule import make_schedule
from steelyard.core.findings import Fact
from steelyard.core.measurement import Environment
from steelyard.core.schedule import CellKey, Load, Mode, Schedule
from steelyard.core.wording import ExitCode, RecordError, SteelyardError
from steelyard.record.directory import CampaignDirectory, is_held, read_campaign, read_schedule
from support.flushes import Flushes, flushes
from support.left import left_over

__all__ = ["flushes"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the campaign will be: not made yet."""
    return tmp_path / "campaigns" / "one"


def _create(path: Path) -> CampaignDirectory:
    return CampaignDirectory.create(path, FakeClock(), experiment_text="version: 1\n")


def _with_story(path: Path) -> Path:
    directory = _create(path)
    for entry in a_story():
        directory.journal.append(entry)
    directory.close()
    return path


def test_a_new_directory_holds_the_experiment_as_given(path: Path) -> None:
    """The text of the file is kept beside an empty journal and a place for raw output."""
    _create(path).close()
    assert (path / "experiment.yaml").read_text() == "version: 1\n"
    assert (path / "journal.jsonl").read_bytes() == b""
    assert (path / "raw").is_dir()


def test_an_empty_directory_may_be_used(path: Path) -> None:
    """A directory made beforehand by the user is as good as none."""
    path.mkdir(parents=True)
    _create(path).close()
    assert (path / "journal.jsonl").exists()


def test_a_directory_with_something_in_it_is_refused(path: Path) -> None:
    """Files of the user are never mixed with a campaign, and are left as they were."""
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("x")
    with pytest.raises(RecordError, match="not an empty directory") as caught:
        _create(path)
    assert "--dir" in caught.value.hint
    assert [entry.name for entry in path.iterdir()] == ["thesis.tex"]


def test_a_file_in_its_place_is_refused(path: Path) -> None:
    """A file is no directory."""
    path.parent.mkdir(parents=True)
    path.write_text("x")
    with pytest.raises(SteelyardError, match="not an empty directory"):
        _create(path)


def test_a_second_campaign_in_one_directory_is_refused(path: Path) -> None:
    """The way out is to go on with the first one."""
    _with_story(path)
    with pytest.raises(RecordError, match="holds a campaign already") as caught:
        _create(path)
    assert f"--resume {path}" in caught.value.hint


@pytest.mark.parametrize("torn", [b"", b'{"format":1,"sequence":0'])
def test_a_journal_without_one_whole_line_is_no_campaign(path: Path, torn: bytes) -> None:
    """A death before the first line was on disk is said, and does not block the directory."""
    _create(path).close()
    (path / "journal.jsonl").write_bytes(torn)
    with pytest.raises(RecordError, match="holds no campaign: Steelyard ended before") as caught:
        read_campaign(path)
    assert f"--dir {path}" in caught.value.hint
    _create(path).close()
    assert (path / "journal.jsonl").read_bytes() == b""


def test_a_death_while_the_experiment_was_written_does_not_block_the_directory(path: Path) -> None:
    """The half-written file is no file of the user; it goes, and the campaign begins."""
    path.mkdir(parents=True)
    (path / "lock").touch()
    (path / ".experiment.yaml.0f3a9c2d").write_text("versi")
    _create(path).close()
    assert sorted(p.name for p in path.iterdir()) == [
        "experiment.yaml",
        "journal.jsonl",
        "lock",
        "raw",
    ]


@pytest.mark.parametrize("name", [".thesis.tex.0f3a9c2d", ".experiment.yaml.mine"])
def test_a_hidden_file_of_the_user_blocks_a_new_campaign(path: Path, name: str) -> None:
    """What only looks like a half-written file of Steelyard is refused and left."""
    path.mkdir(parents=True)
    (path / name).write_text("x")
    with pytest.raises(RecordError, match="not an empty directory"):
        _create(path)
    assert (path / name).read_text() == "x"


def test_going_on_removes_what_a_death_left_half_written(path: Path) -> None:
    """Files that were being written when it died are gone; whole ones stay, hidden ones too."""
    _with_story(path)
    for name in (".report.html.0f3a9c2d", ".schedule.json.00000000", ".notes", "report.html"):
        (path / name).write_text("x")
    CampaignDirectory.reopen(path, FakeClock()).close()
    hidden = {p.name for p in path.iterdir() if p.name.startswith(".")}
    assert hidden == {".notes"}
    assert (path / "report.html").read_text() == "x"


def test_two_holders_are_refused(path: Path) -> None:
    """A campaign that runs cannot be resumed elsewhere; afterwards it can."""
    first = _create(path)
    assert is_held(path)
    with pytest.raises(RecordError, match="another Steelyard is running") as caught:
        CampaignDirectory.reopen(path, FakeClock())
    assert caught.value.exit_code is ExitCode.RECORD
    first.close()
    assert not is_held(path)
    CampaignDirectory.reopen(path, FakeClock()).close()


def test_looking_keeps_nobody_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign can be resumed at any instant of somebody's look whether it runs."""
    _with_story(path)
    close = os.close
    resumed: list[CampaignDirectory] = []

    def resume_before(descriptor: int) -> None:
        monkeypatch.setattr(os, "close", close)
        resumed.append(CampaignDirectory.reopen(path, FakeClock()))
        close(descriptor)

    monkeypatch.setattr(os, "close", resume_before)
    assert not is_held(path)
    (directory,) = resumed
    assert is_held(path)
    directory.close()


def test_looking_makes_no_lock(path: Path) -> None:
    """A record that was copied without its lock stays as it is."""
    _with_story(path)
    (path / "lock").unlink()
    assert not is_held(path)
    assert not (path / "lock").exists()


def test_a_damaged_campaign_is_not_held_after_the_refusal(path: Path) -> None:
    """A failed opening gives the lock back."""
    _with_story(path)
    journal = path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"tiny-1", b"tiny-2"))
    with pytest.raises(RecordError, match="damaged at line 1"):
        CampaignDirectory.reopen(path, FakeClock())
    assert not is_held(path)


def test_reading_needs_no_hold(path: Path) -> None:
    """A report of a running campaign is possible."""
    _with_story(path)
    holder = CampaignDirectory.reopen(path, FakeClock())
    assert read_campaign(path) == holder.read()
    holder.close()


@pytest.mark.parametrize("read", [read_campaign, left_over])
def test_a_directory_without_a_journal_is_no_campaign(tmp_path: Path, read: object) -> None:
    """The sentence names the file that is missing."""
    assert callable(read)
    with pytest.raises(RecordError, match=r"holds no campaign \(no journal\.jsonl\)") as caught:
        read(tmp_path)
    assert caught.value.hint


def test_raw_output_is_compressed_and_the_same_for_the_same_text(path: Path) -> None:
    """It can be read by zcat, and two equal texts are equal bytes: no time is in them."""
    directory = _create(path)
    assert directory.write_raw("0000-0-0-00.txt", "für\n") == "0000-0-0-00.txt.gz"
    first = (path / "raw" / "0000-0-0-00.txt.gz").read_bytes()
    assert gzip.decompress(first).decode() == "für\n"
    directory.write_raw("again.txt", "für\n")
    assert (path / "raw" / "again.txt.gz").read_bytes() == first
    directory.close()


def test_a_servers_log_is_kept_without_secrets(path: Path) -> None:
    """PostgreSQL logs the command that failed, and the statements that it was asked to log."""
    directory = _create(path)
    logged = (
        "LOG:  checkpoint complete\n"
        "DETAIL:  The failed archive command was: curl -u a:Zq9secret -T pg_wal/1 http://x\n"
        "LOG:  statement: ALTER ROLE app PASSWORD 'Zq9secret'\n"
    )
    stored = path / "raw" / directory.write_server_log(logged)
    kept = gzip.decompress(stored.read_bytes()).decode()
    assert kept == logged.replace("'Zq9secret'", "***").replace("Zq9secret", "***")
    directory.close()


def _a_schedule() -> Schedule:
    cells = [CellKey(workload="w", load=Load(clients=c, threads=1)) for c in (1, 8)]
    return make_schedule(configurations=["a", "b"], cells=cells, seed=3, mode=Mode.STARTS, blocks=4)


def test_the_schedule_comes_back_equal(path: Path) -> None:
    """The stored order is the order that was drawn."""
    schedule = _a_schedule()
    directory = _create(path)
    directory.write_schedule(schedule)
    directory.close()
    assert read_schedule(path) == schedule


@pytest.mark.parametrize("content", [b"", b"{", b'{"seed": 1}', b"\xff\xfe", b"[]"])
def test_a_damaged_schedule_is_a_sentence(path: Path, content: bytes) -> None:
    """Whatever stands there, it is a record error."""
    _create(path).close()
    (path / "schedule.json").write_bytes(content)
    with pytest.raises(RecordError, match=r"schedule\.json is damaged"):
        read_schedule(path)


def test_an_absent_schedule_is_a_sentence(path: Path) -> None:
    """A campaign that died before its plan has none."""
    _create(path).close()
    with pytest.raises(RecordError, match=r"schedule\.json: No such file"):
        read_schedule(path)


def test_the_environment_is_readable_json(path: Path) -> None:
    """Facts can be looked at without Steelyard."""
    directory = _create(path)
    directory.write_environment(Environment(facts=(Fact(name="kernel", value="6.1"),)))
    directory.close()
    stored = json.loads((path / "environment.json").read_text())
    assert stored["facts"] == [{"name": "kernel", "value": "6.1", "subject": ""}]
    assert stored["format"] == 1


def test_what_is_left_over_is_what_the_journal_lists(path: Path) -> None:
    """Directories that were made and not removed."""
    directory = _create(path)
    for entry in a_story()[:2]:
        directory.journal.append(entry)
    directory.close()
    assert left_over(path) == ("/run/sockets",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_a_sentence(path: Path) -> None:
    """The place is named."""
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o500)
    with pytest.raises(SteelyardError, match="may not be written by this account"):
        _create(path)


def test_closing_gives_the_directory_back_twice(path: Path) -> None:
    """Closing twice is no error, and a torn journal is mended by reopening."""
    _with_story(path)
    torn = (path / "journal.jsonl").read_bytes()[:-7]
    (path / "journal.jsonl").write_bytes(torn)
    directory = CampaignDirectory.reopen(path, FakeClock())
    directory.journal.append(a_story()[-1])
    directory.close()
    directory.close()
    other = path.with_name("two")
    other.mkdir()
    write_journal(other / "journal.jsonl", a_story())
    assert read_campaign(path).runs == read_campaign(other).runs


def test_a_raw_file_is_compressed_as_it_is_written(path: Path) -> None:
    """What is read back is what was written, and the same bytes give the same file."""
    directory = CampaignDirectory.create(path, FakeClock(), experiment_text="")
    with directory.raw_file("r.log") as file:
        file.write(b"1 2 3\n" * 1000)
        file.write(b"4\n")
    stored = path / "raw" / "r.log.gz"
    assert gzip.decompress(stored.read_bytes()) == b"1 2 3\n" * 1000 + b"4\n"
    first = stored.read_bytes()
    with directory.raw_file("r.log") as file:
        file.write(b"1 2 3\n" * 1000)
        file.write(b"4\n")
    assert stored.read_bytes() == first
    directory.close()


def test_what_the_journal_rests_on_is_on_disk(path: Path, flushes: Flushes) -> None:
    """Each file of the record outlives a power cut from the moment it is written, and its name too.

    A line that names it may follow at once.
    """
    directory = _create(path)
    whole = [path / "experiment.yaml", path / "raw", path / "journal.jsonl"]
    assert [each for each in whole if not flushes.hold(each)] == []
    directory.write_schedule(_a_schedule())
    assert flushes.hold(path / "schedule.json")
    directory.write_environment(Environment(facts=()))
    assert flushes.hold(path / "environment.json")
    directory.write_raw("0000-0-0-00.txt", "tps = 1\n")
    assert flushes.hold(path / "raw" / "0000-0-0-00.txt.gz")
    with directory.raw_file("0000-0-0-00.log") as file:
        file.write(b"1 2 3\n" * 1000)
    assert flushes.hold(path / "raw" / "0000-0-0-00.log.gz")
    directory.close()


def test_a_directory_of_campaigns_is_told_from_one(tmp_path: Path) -> None:
    """Who names the directory above is told what lists those below it."""
    (tmp_path / "one").mkdir()
    with pytest.raises(RecordError) as empty:
        read_campaign(tmp_path)
    (tmp_path / "one" / "journal.jsonl").touch()
    with pytest.raises(RecordError) as above:
        read_campaign(tmp_path)
    assert "steelyard run" in str(empty.value.hint)
    assert "steelyard list" in str(above.value.hint)


@pytest.mark.parametrize(
    "write",
    [
        lambda held: held.write_raw("0000-0-0-00.txt", "x"),
        lambda held: held.write_environment(Environment(facts=())),
    ],
    ids=["raw", "environment"],
)
def test_a_record_that_was_moved_away_is_said_to_be_gone(
    tmp_path: Path, write: Callable[[CampaignDirectory], object]
) -> None:
    """With the way out: put back, the campaign can be resumed."""
    held = CampaignDirectory.create(tmp_path / "r", FakeClock(), experiment_text="x")
    (tmp_path / "r").rename(tmp_path / "elsewhere")
    with pytest.raises(RecordError) as caught:
        write(held)
    held.close()
    assert caught.value.message.endswith(f": there is no directory {tmp_path / 'r'}")
    assert caught.value.hint == "Put it back or make it, or name another place."
