"""A token bucket made with a control group: it closes at a known time, is found and measured.

The product puts the server under a throttle; a thread of the test draws it tighter while the long
run goes on. Both rates are those of the throttle, so that they hardly depend on who else uses the
machine.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.core.linux import Controller
from steelyard.core.wording import PrivilegeError
from steelyard.gateways.cgroups import Cgroups
from support.lacking import lacking
from support.live import LIMIT_S, Steelyard, whole_report

pytestmark = [pytest.mark.live, pytest.mark.slow]

CLOSES_AFTER_S = 100
QUANTISED_S = 5.0  # bins of ten seconds: a split lies at their edges

# Long runs are whole checkpoint cycles: the shortest there are, so that 170 s become 180.
# The kernel's cache stays out of the way: what is not in 16 MB is read from the device.
_TEXT = """\
version: 1
name: bucket
design: single-pass
workloads:
  - {name: reads, builtin: select-only, scale: 10}
load: {clients: 4, threads: 1, protocol: prepared}
measure: {run_time: 2s, discard_start: 1s, warm_up: 0s}
sustain: 170s
seed: 7
configurations:
  throttled:
    target: {kind: local, server: embedded}
    postgres: {checkpoint_timeout: 30s, shared_buffers: 16MB, debug_io_direct: data}
    cgroup: {read_iops: 1000}
"""


@dataclass
class Bucket:
    """Closes a throttle a known time after the long run was announced.

    Attributes:
        process_said: What the campaign wrote to its standard error.
        closed_at: Wall clock when it closed, seconds since the epoch.
    """

    close: Callable[[], None]
    process_said: list[str] = field(default_factory=list)
    closed_at: float | None = None
    errors: list[OSError] = field(default_factory=list)

    def listen(self, lines: Any) -> None:
        """Read the campaign's lines; the one that announces the long run starts the clock."""
        for line in lines:
            self.process_said.append(line)
            if "sustained run: reads" in line:
                timer = threading.Timer(CLOSES_AFTER_S, self._close)
                timer.daemon = True
                timer.start()

    def _close(self) -> None:
        try:
            self.close()
        except OSError as error:
            self.errors.append(error)
        else:
            self.closed_at = time.time()


def _server_group(steelyard: Steelyard, root: Path) -> Path:
    (name,) = (entry["campaign_id"] for entry in steelyard.journal if entry["kind"] == "started")
    return root / f"steelyard-{name}-server"


def _run(steelyard: Steelyard, text: str, close: Callable[[], None]) -> tuple[Bucket, Any]:
    """Run a campaign whose throttle closes; return the bucket and what the report says of it."""
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    bucket = Bucket(close=close)
    listener = threading.Thread(target=bucket.listen, args=(process.stderr,), daemon=True)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        listener.start()
        process.stdout.read()
        listener.join()
    assert process.wait(LIMIT_S) == 0, bucket.process_said
    assert bucket.errors == []
    assert bucket.closed_at is not None, bucket.process_said
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    return bucket, summary


def _require_found(steelyard: Steelyard, bucket: Bucket, summary: Any) -> None:
    """The closing lies in the interval; the capacity is what the seconds' counts say."""
    (long,) = summary["sustained"]
    cliff = long["cliff"]
    assert cliff is not None, long
    (run,) = (entry["run"] for entry in steelyard.journal if entry["kind"] == "sustained")
    closed_s = (bucket.closed_at or 0.0) - run["started_at"]
    assert cliff["at_low_s"] <= closed_s <= cliff["at_high_s"]
    assert abs(cliff["at_s"] - closed_s) <= 2 * QUANTISED_S
    series = [s for s in run["measurement"]["series"] if s["end_s"] > run["ramp_s"] + 0.5]
    before = [s for s in series if s["end_s"] <= closed_s]
    after = [s for s in series if s["end_s"] - s["seconds"] > closed_s]
    left = np.sum([s["transactions"] for s in after]) / np.sum([s["seconds"] for s in after])
    spent = np.sum([s["transactions"] for s in before])
    true = float(spent - left * np.sum([s["seconds"] for s in before]))
    assert cliff["least_capacity"] == pytest.approx(true, rel=0.1)
    assert cliff["least_capacity_low"] <= true <= cliff["least_capacity_high"]
    (finding,) = (each for each in summary["findings"] if each["code"] == "burst-cliff")
    assert "were measured within the burst" in finding["message"]
    assert "### Sustained runs" in whole_report(steelyard.directory / "c")


def test_a_block_bucket_that_closes_is_found(steelyard: Steelyard) -> None:
    """A device of 1000 reads a second falls to 300, under data larger than the buffers."""
    cgroups = Cgroups()
    if not cgroups.privileged:
        lacking("only root can make control groups")
    try:
        found = cgroups.hierarchy(Controller.IO)
    except PrivilegeError as error:
        lacking(error.message)
    device = cgroups.device(steelyard.cache)
    if device is None:
        lacking("the cache is on no block device that can be throttled")

    def close() -> None:
        group = _server_group(steelyard, found.root)
        name, word = (
            ("io.max", "riops=") if found.version == 2 else ("blkio.throttle.read_iops_device", "")
        )
        (group / name).write_text(f"{device} {word}300")

    _require_found(steelyard, *_run(steelyard, _TEXT, close))
