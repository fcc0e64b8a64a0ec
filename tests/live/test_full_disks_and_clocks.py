"""The disk of the data fills up in a run, and the wall clock is set in a run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from support import live
from support.striking import strike

pytestmark = [pytest.mark.live, pytest.mark.slow]

_CHUNK_BYTES = 1 << 20
_STEP_S = -3600.0


@pytest.fixture
def small_disk(steelyard: live.Steelyard) -> Iterator[Path]:
    """Return a file system of its own, with room for a small server twice."""
    yield from live.small_file_system(steelyard.cache / "small", "500m")


@pytest.fixture
def small_record(steelyard: live.Steelyard) -> Iterator[Path]:
    """Return a file system of its own, with room for a record."""
    yield from live.small_file_system(steelyard.directory / "small", "50m")


def _fill(place: Path) -> Path:
    """Write until there is no space left; return the file."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (_CHUNK_BYTES, 4096):  # the first refusal leaves less than a chunk
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return ballast


def test_a_full_disk_of_the_record_keeps_what_is_there(
    steelyard: live.Steelyard, small_record: Path
) -> None:
    """When the record's disk fills up, the journal stays readable and --resume goes on."""
    there = replace(steelyard, directory=small_record)
    source = there.experiment(live.lasting())
    process = there.start("run", source, "--out", "c", "--yes")
    live.wait_for(lambda: len(there.runs) >= 1, process)
    ballast = _fill(small_record)
    _, err = process.communicate(timeout=live.LIMIT_S)
    assert process.returncode == 6, err
    assert "no space is left" in err
    before = there.runs
    ballast.unlink()
    there.resumed_for_a_block()
    assert there.runs[: len(before)] == before


def _generating(place: Path) -> bool:
    return any("--progress" in line for line in live.living_servers(place))


def test_a_disk_of_the_data_that_fills_up_ends_the_campaign_and_resumes(
    steelyard: live.Steelyard, small_disk: Path
) -> None:
    """Exit 5 with the fact; nothing of the campaign is left, no run is lost, and it goes on."""
    target = f"{{kind: local, bin: embedded, directory: {small_disk}}}"
    text = live.TINY.replace("{kind: local, bin: embedded}", target)
    text = live.one_by_one(live.lasting(text.replace("slice: 1s", "slice: 3s")))
    # Less WAL than usual, so that the disk may be small.
    little = "    postgres: {max_wal_size: 64MB, min_wal_size: 32MB}\n"
    text = text.replace("  buffers:\n", f"{little}  buffers:\n")
    process = steelyard.start("run", steelyard.experiment(text), "--out", "c", "--yes")
    live.wait_for(lambda: len(steelyard.runs) >= 1, process)
    live.wait_for(lambda: _generating(small_disk), process)
    ballast = _fill(small_disk)
    _, err = process.communicate(timeout=live.LIMIT_S)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "no space left" in err.lower() or "no space is left" in err
    assert "run --resume" in err
    assert "left behind" not in err
    assert live.living_servers(small_disk) == []
    assert list((small_disk / "live").iterdir()) == []
    before = steelyard.runs
    refused = steelyard.run("run", "--resume", "c")
    assert refused.returncode == 3, refused.stderr
    assert "this campaign needs" in refused.stderr
    ballast.unlink()
    steelyard.resumed_for_a_block()
    assert steelyard.runs[: len(before)] == before
    assert len(steelyard.runs) > len(before)


def _set_clock(directory: Path, off_s: float) -> None:
    """Let the wall clock be off by so many seconds from now on."""
    (directory / "step.new").write_text(str(off_s))
    (directory / "step.new").rename(directory / "step")


def test_a_wall_clock_that_is_set_costs_one_block_and_no_time(steelyard: live.Steelyard) -> None:
    """The run is invalid by its clock and redone; budget and durations are monotonic.

    The seconds of the journal, which the budget is compared with, would show an hour's step.
    """
    stepped = steelyard.with_a_stepped_clock
    text = live.one_by_one(live.lasting(live.TINY.replace("slice: 1s", "slice: 2s")))
    process = stepped.start("run", stepped.experiment(text), "--out", "c", "--yes")
    steps = count(1)
    strike(
        stepped,
        process,
        lambda: _generating(stepped.cache),
        lambda: _set_clock(stepped.directory, next(steps) * _STEP_S),
    )
    live.wait_for(lambda: live.redone_in_all_arms(stepped), process)
    taken = stepped.complete_blocks
    live.wait_for(lambda: stepped.complete_blocks > taken, process)
    err = live.interrupted(process).stderr
    assert f"the clock was set by {_STEP_S:+.1f} s" in err
    assert "Traceback" not in err
    found = [finding for run in stepped.runs for finding in run["findings"]]
    # Other tests are neighbours, which are only noted here.
    codes = {each["code"] for each in found if each["severity"] != "info"}
    assert codes == {"clock-jump"}
    lines = (stepped.directory / "c" / "journal.jsonl").read_text().splitlines()
    elapsed_s = [json.loads(line)["elapsed_s"] for line in lines]
    assert elapsed_s == sorted(elapsed_s)
    assert elapsed_s[-1] < -_STEP_S
    after = [run for run in stepped.runs if run["validity"] == "valid"][-1]
    seconds = after["measurement"]["series"]
    assert all(0 < second["seconds"] < -_STEP_S for second in seconds)
