"""Faults that must hit a run: a run may end in the instant in which a test acts."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from support.live import Steelyard, wait_for

if TYPE_CHECKING:
    import subprocess


def strike(
    steelyard: Steelyard,
    process: "subprocess.Popen[str]",
    at_work: Callable[[], bool],
    act: Callable[[], object],
) -> None:
    """Act while a run after the first is at work, again where that came too late for it.

    Args:
        steelyard: Of the campaign in ``c``.
        process: The campaign.
        at_work: Whether a run is under way.
        act: What is to make a run invalid or a block void.
    """
    wait_for(lambda: len(steelyard.runs) >= 1, process)
    while not _spoilt(steelyard):
        wait_for(lambda: _spoilt(steelyard) or at_work(), process)
        if not _spoilt(steelyard):
            _try_once(steelyard, process, act)


def strike_local(
    steelyard: Steelyard, process: "subprocess.Popen[str]", act: Callable[[Path], object]
) -> None:
    """Strike a local server, whose data directory ``act`` is told."""

    def on_its_data() -> None:
        data = data_at_work(steelyard)
        if data is not None:
            act(data)

    strike(steelyard, process, lambda: data_at_work(steelyard) is not None, on_its_data)


def _try_once(
    steelyard: Steelyard, process: "subprocess.Popen[str]", act: Callable[[], object]
) -> None:
    """Act, and wait for the end of a run or of a block."""
    known = len(steelyard.runs)
    act()
    wait_for(lambda: _spoilt(steelyard) or len(steelyard.runs) > known, process)


def _spoilt(steelyard: Steelyard) -> bool:
    invalid = any(run["validity"] == "invalid" for run in steelyard.runs)
    return invalid or any(not block["complete"] for block in steelyard.blocks)


def data_at_work(steelyard: Steelyard) -> Path | None:
    """Return the data of the local server on which the load generator works just now."""
    live = steelyard.cache / "live"
    for data in (*live.glob("*/*/data"), *live.glob("*/slot-*/*/data")):
        if any(_is_generator(pid) for pid in _within(data.parent.parent)):
            return data
    return None


def signal_server(data: Path, number: int) -> None:
    """Send a signal to every process of the server on a data directory."""
    for pid in _within(data):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_postmaster(data: Path) -> None:
    """Kill the first process of a server; the others notice."""
    with suppress(OSError, IndexError):
        os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


def _within(directory: Path) -> list[int]:
    """Return the processes that work in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == directory:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _is_generator(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"--time=" in words or b"redis-benchmark" in words
