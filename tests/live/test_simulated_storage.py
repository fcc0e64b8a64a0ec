"""Simulated storage under real servers: what was put in comes out, and nothing is left behind."""

import json
import mmap
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from steelyard.answers.statements.executions import figures_of_plan
from steelyard.campaign.file.files import preset_text
from steelyard.core.measurement import Quantity
from steelyard.core.places import Store
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Processes
from steelyard.gateways.stores import PROGRAMS, StorePaths, Stores, Volumes, unmounted
from steelyard.record.directory import read_campaign
from support.lacking import lacking
from support.live import TINY, Steelyard, lasting, living_servers, wait_for, whole_report
from support.machine_lock import machine
from support.power import loops_below, mounts_below

__all__ = ["machine"]
pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.slow]

_TWO = """\
configurations:
  disk: {target: {kind: local, server: embedded, store: {}}}
  replica: {extends: disk, target: {store: {latency: 4ms}}}
"""


_BLOCKS = {"4KiB": 4096, "16KiB": 16384, "64KiB": 65536}
_BLKIO = Path("/sys/fs/cgroup/blkio")


class _GroupReads:
    """What each server's group read by its own count, over what the device says.

    A device has several servers, one after the other: of a trial, of the block, of a next one that
    has begun. The one that read most is taken.
    """

    def __init__(self, steelyard: Steelyard) -> None:
        self._steelyard = steelyard
        self._first: dict[tuple[str, Path], tuple[int, int]] = {}
        self._last: dict[tuple[str, Path], tuple[int, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def ratios(self) -> list[float]:
        """End the watch; return a ratio for each device."""
        self._over.set()
        self._thread.join()
        largest: dict[str, tuple[int, int]] = {}
        for (device, group), (count, of_device) in self._last.items():
            first = self._first[device, group]
            found = count - first[0], of_device - first[1]
            largest[device] = max(found, largest.get(device, found))
        return [count / of_device for _, (count, of_device) in sorted(largest.items())]

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for group in self._groups():
                with suppress(OSError, ValueError):
                    self._look(group)

    def _groups(self) -> list[Path]:
        names = [
            each["campaign_id"] for each in self._steelyard.journal if each["kind"] == "started"
        ]
        return [group for name in names for group in _BLKIO.glob(f"steelyard-{name}-*server")]

    def _look(self, group: Path) -> None:
        lines = (group / "blkio.throttle.io_service_bytes").read_text().splitlines()
        for device, kind, count in (line.split() for line in lines if line.startswith("7:")):
            if kind == "Read":
                stat = Path(f"/sys/dev/block/{device}/stat").read_text().split()
                seen = int(count), 512 * int(stat[2])
                self._first.setdefault((device, group), seen)
                self._last[device, group] = seen


@pytest.fixture
def stored(machine: None, steelyard: Steelyard) -> Iterator[Steelyard]:
    """Steelyard where storage can be simulated; no mount and no loop device is left after it."""
    yield from _stored(steelyard)


@pytest.fixture
def stored_in_memory(
    machine: None, steelyard: Steelyard, memory_cache: Path
) -> Iterator[Steelyard]:
    """The same on files in memory, where a flush takes no other time."""
    yield from _stored(replace(steelyard, cache=memory_cache))


def _stored(steelyard: Steelyard) -> Iterator[Steelyard]:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        lacking("only root may mount file systems, and the kernel needs FUSE")
    if any(which(name) is None for name in PROGRAMS):
        lacking("there is no xfsprogs")
    yield steelyard
    steelyard.end_all()
    left = [*mounts_below(steelyard.cache), *loops_below(steelyard.cache)]
    steelyard.run("clean", "--yes")
    assert left == []


_LADDER = """\
configurations:
  disk: {target: {kind: local, server: embedded, store: {}}, postgres: {max_wal_size: 4GB}}
  one: {extends: disk, target: {store: {latency: 2ms}}}
  two: {extends: disk, target: {store: {latency: 5ms}}}
"""
_GIVEN_S = {"one": 0.002, "two": 0.005}
_LATE_S = 0.0007  # of a timer of the simulated storage on two busy CPUs; 0.0004 was seen


def test_a_commit_takes_longer_by_what_its_flushes_were_given(stored_in_memory: Steelyard) -> None:
    """Three stores are ranked, and what a commit waits longer is its flushes times the latency.

    The wait for WAL, not the time of a transaction: that has what the CPU takes longer, too, and a
    server that waits less uses more of that. On a busy machine it takes more blocks to see it.
    """
    stored = stored_in_memory
    text = TINY[: TINY.index("configurations:")].replace("baseline: default", "baseline: disk")
    text = text.replace("clients: 2", "clients: 1").replace("run_time: 1s", "run_time: 3s")
    source = stored.experiment(lasting(text + _LADDER))
    stored.until_blocks(6, "run", source, "--dir", "c", "--no-verdict")
    for blocks in (12, 24):
        if all(high - low <= wanted for wanted, low, high in _waits_for_wal(stored).values()):
            break
        stored.until_blocks(blocks, "run", "--resume", "c", "--no-verdict")
    for slow, (wanted, low, high) in _waits_for_wal(stored).items():
        late = wanted / _GIVEN_S[slow] * _LATE_S  # a timer is, once for each flush
        assert low > 0.0, (slow, wanted, low, high)
        assert high - low <= wanted, "too noisy to tell"
        assert low <= 1.15 * wanted + late, (slow, wanted, low, high)
        assert high >= 0.85 * wanted, (slow, wanted, low, high)
    summary = json.loads((stored.directory / "c" / "summary.json").read_text())
    pooled = {c["configuration"]: c for c in summary["comparisons"] if c["clients"] == "pooled"}
    effects = [pooled[name]["effect_percent"] for name in ("one", "two")]
    assert 0.0 > effects[0] > effects[1]
    assert "simulated, 2 ms per flush" in whole_report(stored.directory / "c")


def _waits_for_wal(stored: Steelyard) -> dict[str, tuple[float, float, float]]:
    """Return how much longer a commit should wait for WAL, and the interval of what it did, s."""
    record = read_campaign(stored.directory / "c")
    flushes: dict[str, list[float]] = {}
    complete = {index for index, _ in record.complete_blocks}
    for run in record.counted_runs:
        if run.block not in complete:
            continue
        assert run.cell.load.clients == 1
        assert run.evidence is not None
        done = run.measurement.transactions + run.measurement.uncounted
        counted = run.evidence.total(Quantity.DEVICE_FLUSHES) / done
        flushes.setdefault(run.configuration, []).append(counted)
    summary = json.loads((stored.directory / "c" / "summary.json").read_text())
    compared_all = summary["latency_budget"]["comparisons"]
    assert {each["configuration"] for each in compared_all} == set(_GIVEN_S)
    waits = {}
    for compared in compared_all:
        slow = compared["configuration"]
        (wal,) = (each for each in compared["parts"] if each["part"] == "wal")
        wanted = float(np.median(flushes[slow])) * _GIVEN_S[slow]
        waits[slow] = wanted, wal["change_s"]["low"], wal["change_s"]["high"]
    return waits


# Tables of one size: rows, fill factor, and in how many values of m they are divided.
# Smaller ones find more in the cache and read less for a page: of 40,000 pages 1.7 bytes for 2.
TABLES = ((80_000, 10, 10), (160_000, 20, 20), (120_000, 10, 10), (240_000, 20, 20))


@pytest.mark.parametrize(
    ("rows", "fill_factor", "spread"), TABLES[: int(os.environ.get("STEELYARD_TABLES", "1"))]
)
def test_large_blocks_read_what_nobody_asked_for(
    stored: Steelyard, rows: int, fill_factor: int, spread: int
) -> None:
    """Device bytes for each byte asked for: block over page, and the blocks are named as the cause.

    The group of each server counts the same bytes: it is another part of the kernel that counts.
    `STEELYARD_TABLES=4` takes two row counts under two fill factors.
    """
    watched = _GroupReads(stored)
    stored.until_blocks(
        *(1, "run", "preset:page-size", "--dir", "c", "--no-verdict"),
        *("--override", f"workloads.scattered.variables.rows={rows}"),
        *("--override", f"workloads.scattered.variables.fill_factor={fill_factor}"),
        *("--override", f"workloads.scattered.variables.spread={spread}"),
        *(f"--override=configurations.{each}.cgroup.read_iops=1000000" for each in _BLOCKS),
        *(f"--override=configurations.{each}.cgroup.memory=64MB" for each in _BLOCKS),
        *(f"--override=configurations.{each}.postgres.shared_buffers=4MB" for each in _BLOCKS),
        *("--override", "measure.run_time=4s"),
    )
    summary = json.loads((stored.directory / "c" / "summary.json").read_text())
    found = {each["configuration"]: each for each in summary["read_amplification"]}
    for name, block in _BLOCKS.items():
        wanted = max(1.0, block / 8192)
        assert found[name]["amplification"]["estimate"] == pytest.approx(wanted, rel=0.15)
        assert found[name]["block_bytes"] == block
        assert found[name]["read_ahead_bytes"] == 128 * 1024  # alike, or it were another cause
        assert found[name]["cause"] == ("none" if wanted == 1.0 else "blocks")
        first, again = (figures_of_plan(run) for run in summary["plans"][0]["plans"][name]["runs"])
        # Ten rows, each on a page of its own; the second time they are in shared_buffers.
        assert first["read"] >= 10.0
        assert "read" not in again
    assert watched.ratios == pytest.approx([1.0] * len(_BLOCKS), abs=0.15)


def test_a_limit_of_requests_is_recovered_from_the_counters(stored: Steelyard) -> None:
    """900 a second were put in, and the device's own seconds give them back.

    The preset's reads, without and with the lowest of its limits, on half the data.
    """
    text = preset_text("volume-limits").replace("128MB", "96MB").replace("factor: 20", "factor: 10")
    text = re.sub(r"(?m)^  - \{name: tpcb-like.*\n", "", text)
    text = re.sub(r"(?ms)^  iops-3000:.*(?=^  iops-900:)", "", text)
    source = stored.experiment(text, "limits.yaml")
    stored.until_blocks(
        *(1, "run", source, "--dir", "c", "--no-verdict", "--stop-early", "no"),
        *("--override", "measure.run_time=10s"),  # no short block shows a limit second by second
    )
    summary = json.loads((stored.directory / "c" / "summary.json").read_text())
    limits = [each for each in summary["findings"] if each["code"] == "device-limit"]
    (told,) = (each for each in limits if each["subject"] == "iops-900")
    (found,) = re.findall(r"let through ([\d,]+) requests/s", told["message"])
    assert int(found.replace(",", "")) == pytest.approx(900, rel=0.05)
    (wanted,) = re.findall(r"takes about ([\d,]+) requests/s", told["remedy"])
    assert int(wanted.replace(",", "")) > 1000


def test_the_kernel_sees_a_full_bucket_again(tmp_path: Path) -> None:
    """Reads pass at 2,000 a second, at 50 once credits are spent, and at 2,000 when refilled."""
    paths = StorePaths(
        image=tmp_path / "image", served=tmp_path / "served", volume=tmp_path / "volume"
    )
    paths.served.mkdir()
    paths.volume.mkdir()
    stores, volumes = (kind(Processes(), is_root=True) for kind in (Stores, Volumes))
    limits = Store(iops=50, burst_iops=2000, burst_credits=1500, size_bytes=1 << 30)
    stores.make(paths, limits, Clock())

    def rate(reads: int) -> float:
        file = os.open(paths.volume / "f", os.O_RDONLY | os.O_DIRECT)
        begun, page = time.monotonic(), mmap.mmap(-1, 4096)
        for place in range(reads):
            os.preadv(file, [page], 4096 * (place % 100))
        os.close(file)
        return reads / (time.monotonic() - begun)

    try:
        with (paths.volume / "f").open("wb") as written:
            written.write(bytes(4096 * 100))
            os.fsync(written.fileno())
        first = rate(400)
        rate(1500)
        assert rate(60) < first / 10
        stores.refill()
        time.sleep(0.2)
        assert rate(400) == pytest.approx(first, rel=0.2)
    finally:
        for place in (paths.volume, paths.served):
            unmounted(place, volumes, Clock())
        stores.close()


def test_a_death_leaves_what_clean_unmounts(stored: Steelyard) -> None:
    """After kill -9 the mounts are found, told, unmounted and removed."""
    text = TINY[: TINY.index("configurations:")].replace("baseline: default", "baseline: disk")
    running = stored.start(
        "run", stored.experiment(lasting(text + _TWO)), "--dir", "c", "--no-verdict"
    )
    wait_for(lambda: bool(living_servers(stored.cache)))
    assert len(mounts_below(stored.cache)) == 4
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    wait_for(lambda: not living_servers(stored.cache))
    cleaned = stored.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert mounts_below(stored.cache) == loops_below(stored.cache) == []
    assert not list(stored.cache.glob("stores/live/*"))
