"""Plans on the real kernel: sysctl, /sys, huge pages and files, applied, killed and reverted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from steelyard.core.stack import Knob, KnobKind
from steelyard.gateways.host import LocalHost
from support.lacking import lacking
from support.live import Steelyard
from support.machine_lock import machine
from support.stack import knob, stack_plan, write_plan

__all__ = ["machine"]
pytestmark = pytest.mark.live

_THP = "/sys/kernel/mm/transparent_hugepage/defrag"
_SYSCTLS = ("vm.dirty_bytes", "vm.dirty_ratio", "vm.stat_interval", "vm.nr_hugepages")
_DYING = str(Path(__file__).parents[1] / "support" / "dying.py")


@dataclass(frozen=True)
class Machine:
    """What the tests change on this machine."""

    directory: Path

    def state(self) -> dict[str, str | None]:
        """Return the settings and files as they are."""
        host = LocalHost()
        paths = ["/proc/sys/" + name.replace(".", "/") for name in _SYSCTLS]
        pools = [
            f"/sys/devices/system/node/{node}/hugepages/hugepages-2048kB/nr_hugepages"
            for node in host.names("/sys/devices/system/node")
            if node.startswith("node")
        ]
        files = [str(path) for path in sorted(self.directory.rglob("*"))]
        return {path: host.read(path) or "" for path in [*paths, *pools, _THP, *files]}


@pytest.fixture
def tuned(machine: None, tmp_path: Path) -> Iterator[Machine]:
    """This machine, held against other tests; it must be as it was afterwards."""
    if os.geteuid() != 0:
        lacking("only root may turn kernel settings")
    if not Path("/sys/kernel/mm/hugepages/hugepages-2048kB").is_dir():
        lacking("this kernel has no huge pages of 2 MiB")
    directory = tmp_path / "etc"
    directory.mkdir()
    (directory / "old.conf").write_text("old\n")
    here = Machine(directory)
    before = here.state()
    yield here
    assert here.state() == before


def _knobs(here: Machine) -> tuple[Knob, ...]:
    """Return a knob of each kind; none of these values is ever in effect before."""
    host = LocalHost()
    pages = int(host.read("/proc/sys/vm/nr_hugepages") or 0)
    interval = int(host.read("/proc/sys/vm/stat_interval") or 1)
    pool = knob(KnobKind.HUGE_PAGES, "all/2097152", str(pages + 2))
    defrag = "never" if "[never]" not in (host.read(_THP) or "") else "madvise"
    return (
        pool,
        knob(KnobKind.SYSCTL, "vm.dirty_bytes", str(333 * 4096), after=(pool.name,)),
        knob(KnobKind.SYSCTL, "vm.stat_interval", str(interval + 1)),
        knob(KnobKind.SYSFS, _THP, defrag),
        knob(KnobKind.FILE, str(here.directory / "old.conf"), "new\n"),
        knob(KnobKind.FILE, str(here.directory / "made/new.conf"), "new\n"),
    )


def test_kernel_settings_are_applied_and_reverted(tuned: Machine, steelyard: Steelyard) -> None:
    """Proves that every kind is in effect on the real kernel, and all is restored exactly."""
    knobs = _knobs(tuned)
    before = tuned.state()
    write_plan(steelyard.directory / "p", stack_plan(*knobs))
    applied = steelyard.run("stack", "apply", "p", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert tuned.state()["/proc/sys/vm/dirty_ratio"] == "0\n"  # what the other one zeroes
    verified = steelyard.run("stack", "verify", "p", "--json")
    assert verified.returncode == 0, verified.stdout
    assert all(each["in_effect"] for each in json.loads(verified.stdout)["knobs"])
    reverted = steelyard.run("stack", "revert", "p", "--yes")
    assert reverted.returncode == 0, reverted.stderr
    assert tuned.state() == before


def test_a_plan_killed_after_every_step_is_finished_or_undone(
    tuned: Machine, steelyard: Steelyard
) -> None:
    """Proves for each step of a real process that SIGKILL loses nothing: planned or original."""
    _, pair, *_, new = _knobs(tuned)
    knobs = (replace(pair, after=()), new)
    before = tuned.state()
    for step in range(100):
        write_plan(steelyard.directory / f"p{step}", stack_plan(*knobs))
        program = replace(steelyard, program=(_DYING,), extra={"STEELYARD_TEST_DIES_AT": str(step)})
        died = program.run("stack", "apply", f"p{step}", "--yes")
        if died.returncode == 0:
            break
        assert died.returncode == -9, died.stderr
        if step % 2:
            assert steelyard.run("stack", "apply", f"p{step}", "--yes").returncode == 0
            assert steelyard.run("stack", "verify", f"p{step}").returncode == 0
        done = steelyard.run("stack", "revert", f"p{step}", "--yes")
        assert done.returncode == 0, done.stderr
        assert tuned.state() == before
    steelyard.run("stack", "revert", f"p{step}", "--yes")
    assert step == 2 + 6 * len(knobs)  # one entry begins; each knob: kept, changed, turned


def _in_own_mounts(script: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    """Run a script in a mount namespace of its own."""
    completed = subprocess.run(
        ["/usr/bin/unshare", "-m", "sh", "-ec", script, "sh", sys.executable],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "unshare failed" in completed.stderr or "permission denied" in completed.stderr:
        lacking("no mount namespace can be made here")
    return completed


def test_read_only_proc_sys_prints_the_commands(tuned: Machine, tmp_path: Path) -> None:
    """Proves exit code 8 where /proc/sys is read-only, as in a container, and no record."""
    write_plan(tmp_path / "p", stack_plan(_knobs(tuned)[1 + 1]))
    completed = _in_own_mounts(
        "mount -o bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys;"
        ' exec "$1" -m steelyard stack apply p --yes',
        tmp_path,
    )
    assert completed.returncode == 8, completed.stderr
    assert completed.stdout.startswith("sysctl -w vm.stat_interval=")
    assert "read-only" in completed.stderr
    assert not (tmp_path / "p/applied.jsonl").exists()


def test_a_full_disk_turns_nothing(tuned: Machine, tmp_path: Path) -> None:
    """Proves exit code 6 on a disk that has no room for the record, and nothing turned."""
    before = tuned.state()
    write_plan(tmp_path / "p", stack_plan(_knobs(tuned)[2]))
    completed = _in_own_mounts(
        "mkdir q; mount -t tmpfs -o size=16k none q; cp p/plan.json q; touch q/applied.lock;"
        " cat /dev/zero > q/filler 2>/dev/null || true;"
        ' exec "$1" -m steelyard stack apply q --yes',
        tmp_path,
    )
    assert completed.returncode == 6, completed.stderr
    assert "no space is left" in completed.stderr
    assert tuned.state() == before
