"""Configurations that turn knobs of this machine: huge pages for real servers, and all put back."""

import json
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.endpoint import planned_by_account
from support.lacking import lacking
from support.live import Steelyard, interrupted, wait_for
from support.machine_lock import machine_lock

pytestmark = pytest.mark.live

_SWAPPINESS = Path("/proc/sys/vm/swappiness")
_POOL = Path("/proc/sys/vm/nr_hugepages")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

PAGES = """\
version: 1
name: huge pages
baseline: small
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s, machine_limits: off, max_other_load: ignore}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  small:
    target: {kind: local, server: embedded}
  huge:
    extends: small
    postgres: {huge_pages: "on", shared_buffers: 64MB}
    linux: {vm.nr_hugepages: auto, vm.swappiness: 17, transparent_huge_pages: never}
"""
LIVE = """\
version: 1
name: live knobs
baseline: ordinary
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s, machine_limits: off, max_other_load: ignore}
stop: {budget: 20m, width: 0.1%}
seed: 7
configurations:
  ordinary:
    target: {kind: local, server: embedded}
  tuned:
    extends: ordinary
    linux: {vm.swappiness: 17, vm.dirty_bytes: 536870912}
"""


def _state() -> tuple[str, ...]:
    names = ("dirty_bytes", "dirty_ratio")
    kernel = [Path("/proc/sys/vm", name).read_text() for name in names]
    return (_POOL.read_text(), _SWAPPINESS.read_text(), _THP.read_text(), *kernel)


@pytest.fixture
def before(steelyard: Steelyard) -> Iterator[tuple[str, ...]]:
    """Return the knobs before the test, alone on the machine; afterwards they are the same."""
    assert steelyard.cache.exists()
    if os.geteuid() != 0:
        lacking("only root may turn knobs of the kernel")
    if not os.access(_POOL, os.W_OK):
        lacking(f"{_POOL} may not be written here")
    with machine_lock():
        found = _state()
        yield found
        assert _state() == found


def _held_by(steelyard: Steelyard) -> int:
    """Return the kB of huge pages behind the shared memory of this campaign's server."""
    for entry in Path("/proc").glob("[0-9]*/smaps"):
        try:
            if not str((entry.parent / "cwd").readlink()).startswith(str(steelyard.cache)):
                continue
            text = entry.read_text()
        except OSError:
            continue  # it ended meanwhile
        for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text):
            if "/anon_hugepage" in mapping.splitlines()[0] if mapping else False:
                size = re.search(r"^KernelPageSize:\s+(\d+) kB", mapping, re.MULTILINE)
                whole = re.search(r"^Size:\s+(\d+) kB", mapping, re.MULTILINE)
                if size and whole and int(size[1]) >= 2048:
                    return int(whole[1])
    return 0


def test_a_server_gets_its_huge_pages_and_they_go_back(
    steelyard: Steelyard, before: tuple[str, ...]
) -> None:
    """As many as its own program counts, seen in smaps.

    The other configuration's server has none.
    """
    process = steelyard.start("run", steelyard.experiment(PAGES), "--dir", "c", "--no-verdict")
    sizes: set[int] = set()

    def seen() -> bool:
        sizes.add(_held_by(steelyard))
        return max(sizes) > 0 and steelyard.complete_blocks >= 2

    wait_for(seen, process)
    done = interrupted(process)
    assert done.returncode == 130, done.stderr
    assert _state() == before
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    shown = {each["name"]: each["values"] for each in summary["settings"]}
    pages = int(shown["linux: vm.nr_hugepages"]["huge"]) - int(before[0])
    assert pages * 2048 >= max(sizes) > 64 * 1024
    assert shown["huge_pages_status"] == {"small": "off", "huge": "on"}
    assert shown["linux: vm.swappiness"]["huge"] == "17"
    assert shown["linux: vm.nr_hugepages"]["small"] == before[0].strip()
    assert json.loads((steelyard.directory / "c" / "schedule.json").read_text())["mode"] == "starts"


def test_clean_puts_the_knobs_of_a_killed_campaign_back(
    steelyard: Steelyard, before: tuple[str, ...]
) -> None:
    """After kill -9 under huge pages: listed, put back, and nothing is left to list."""
    process = steelyard.start("run", steelyard.experiment(PAGES), "--dir", "c", "--no-verdict")

    def caught() -> bool:
        """Stop it in a start of the huge pages, so that it is killed there."""
        if not steelyard.runs or _state()[0] == before[0]:
            return False
        process.send_signal(signal.SIGSTOP)
        if _state()[0] != before[0]:
            return True
        process.send_signal(signal.SIGCONT)
        return False

    try:
        wait_for(caught, process)
    finally:
        process.kill()
        process.communicate()
    assert _state() != before
    listed = steelyard.run("clean", "--dry-run").stdout
    assert "knob sysctl vm.nr_hugepages" in listed
    assert "knob sysctl vm.swappiness" in listed
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert _state() == before
    assert "No campaign has left anything behind." in steelyard.run("clean", "--dry-run").stdout


def test_live_knobs_are_switched_under_a_running_server(
    steelyard: Steelyard, before: tuple[str, ...]
) -> None:
    """Back to back; of two knobs that exclude each other the one that was in force comes back."""
    source = steelyard.experiment(LIVE)
    done = steelyard.until_blocks(2, "run", source, "--dir", "c", "--no-verdict")
    assert done.returncode == 130, done.stderr
    assert _state() == before
    record = steelyard.directory / "c"
    assert json.loads((record / "schedule.json").read_text())["mode"] == "back-to-back"
    summary = json.loads((record / "summary.json").read_text())
    shown = {each["name"]: each["values"] for each in summary["settings"]}
    assert shown["linux: vm.dirty_bytes"] == {"ordinary": before[3].strip(), "tuned": "536870912"}


def test_more_pages_than_there_is_memory_are_refused(
    steelyard: Steelyard, before: tuple[str, ...]
) -> None:
    """Exit code 3, with what would fit, before anything is touched or prepared."""
    text = PAGES.replace("shared_buffers: 64MB", "shared_buffers: 4000GB")
    refused = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert refused.returncode == 3, refused.stderr
    assert "do not fit" in refused.stderr
    assert not (steelyard.directory / "c").exists()
    assert _state() == before


def test_who_may_not_is_refused_before_anything_starts(
    steelyard: Steelyard, before: tuple[str, ...], programs: Path
) -> None:
    """Exit code 8 for an ordinary account, with the knob that it may not turn."""
    assert before
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # others reach it, and may write
        folder = Path(place)
        folder.chmod(0o777)
        (folder / "live.yaml").write_text(LIVE.replace("server: embedded", f'server: "{programs}"'))
        refused = planned_by_account(folder, "live.yaml", folder / "cache")
        assert not (folder / "campaigns").exists()
    assert refused.returncode == 8, refused.stderr
    assert "/proc/sys/vm/" in refused.stderr
