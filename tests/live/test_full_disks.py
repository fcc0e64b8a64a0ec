"""The disk of the record or of the data fills up in a run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import live

pytestmark = [pytest.mark.live, pytest.mark.slow]

_CHUNK_BYTES = 1 << 20


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
    process = there.start("run", source, "--dir", "c", "--no-verdict")
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
    target = f"{{kind: local, server: embedded, directory: {small_disk}}}"
    text = live.TINY.replace("{kind: local, server: embedded}", target)
    text = live.one_by_one(live.lasting(text.replace("run_time: 1s", "run_time: 3s")))
    # Less WAL than usual, so that the disk may be small.
    little = "    postgres: {max_wal_size: 64MB, min_wal_size: 32MB}\n"
    text = text.replace("  buffers:\n", f"{little}  buffers:\n")
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
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
