"""Power cuts under small real campaigns: record, registry and cache on an XFS that is shut down.

``STEELYARD_POWER_CUTS`` says how many (2 unless it is set), or which: ``11,17`` repeats two.
``STEELYARD_POWER_CUTS_LOG`` names a file that keeps a line for each.
"""

import itertools
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from steelyard.record.journal import read_lines
from support import kills
from support.endpoint import Server
from support.machine_lock import machine
from support.power import Disk, Instant, die_by_power, loops_below, mounts_below, require_power

__all__ = ["machine"]
pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.slow]

# A server of ours, with data that are prepared anew, and somebody else's, which outlives the cut.
_KINDS = tuple(kind for kind in kills.KINDS if kind.name in {"endpoint", "fresh data"})


def test_a_campaign_whose_power_is_cut_goes_on(
    machine: None, server: Server, tmp_path: Path
) -> None:
    """After a cut at a random instant the record opens, and the campaign ends as if uncut.

    No acknowledged line is lost, every file that a line names is whole, what is outside is in the
    registry, the resumed campaign says what an uncut one says, and nothing is left behind.
    """
    require_power()
    log = kills.Log.of("STEELYARD_POWER_CUTS", "2", _KINDS, tmp_path)
    kills.in_lanes(log, lambda kind, own: _lane(kills.at(server, kind), own, server, log))
    assert log.failures == []
    assert sum(log.phases.values()) >= log.total


def _lane(kind: kills.Kind, numbers: list[int], server: Server, log: kills.Log) -> None:
    """Cut the power of campaigns of one kind, one after the other."""
    home = Path(tempfile.mkdtemp(prefix="steelyard-test-", dir="/var/tmp"))
    home.chmod(0o755)
    disk = Disk(home=home)

    def cut(
        folder: Path, number: int, reference: kills.Reference, deaths: list[kills.Death]
    ) -> tuple[str, ...]:
        coin = random.Random(f"{kills.SEED}-power-{number}")  # noqa: S311 - no secret
        gaps_s, arguments = _gaps_s(reference), kills.RUN
        for _ in range(2 if coin.random() < kills.SECOND_DEATHS else 1):
            known = deaths[-1].acknowledged.count(b"\n") if deaths else 0
            instant = Instant.drawn(coin, gaps_s, after=known)
            deaths.append(die_by_power(lane, disk, folder, instant, *arguments))
            arguments = kills.RESUME if deaths[-1].has_campaign else kills.RUN
        return arguments

    try:
        lane = disk.make()
        kills.one_by_one(log, lane, kind, numbers, server, cut)
        lane.close()
    finally:
        disk.remove()
        assert (mounts_below(home), loops_below(home)) == ([], [])
        shutil.rmtree(home, ignore_errors=True)


def _gaps_s(reference: kills.Reference) -> list[float]:
    """Return the seconds before the first line, from each line to the next, and after the last."""
    lines, _ = read_lines(reference.folder / "c" / "journal.jsonl")
    times = [line.elapsed_s for line in lines]
    outside_s = (reference.whole_s - times[-1]) / 2  # a guess: start and report take equally long
    return [outside_s, *(b - a for a, b in itertools.pairwise(times)), outside_s]
