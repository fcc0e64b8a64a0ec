"""Limits on a real server by the control groups of this machine: in force, and gone afterwards."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.core.linux import Controller
from steelyard.core.wording import PrivilegeError
from steelyard.gateways.cgroups import Cgroups
from support.endpoint import planned_by_account
from support.lacking import lacking
from support.live import Steelyard, wait_for

pytestmark = [pytest.mark.live, pytest.mark.slow]

LIMITED = """\
version: 1
design: one-by-one
name: limited
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 8, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s}
stop: {budget: 20m}
seed: 7
configurations:
  default:
    target: {kind: local, server: embedded}
  quota:
    extends: default
    cgroup: {cpus: 0.6, memory: 600MB, read_iops: 300, write_bytes_per_s: 20MB}
  one-cpu:
    extends: default
    cgroup: {cpuset: "0", generator_cpuset: "0"}
"""


Roots = dict[Controller, Path]


def _groups(steelyard: Steelyard, roots: Roots) -> list[Path]:
    """Return the groups of this test's campaign: others may run at the same time."""
    started = [entry["campaign_id"] for entry in steelyard.journal if entry["kind"] == "started"]
    return [
        group
        for root in set(roots.values())
        for name in started
        for group in root.glob(f"steelyard-{name}-*")
    ]


@pytest.fixture
def roots(steelyard: Steelyard) -> Iterator[Roots]:
    """Return where this machine has its controllers; afterwards nothing of ours may be there."""
    cgroups = Cgroups()
    if not cgroups.privileged:
        lacking("only root can make control groups")
    try:
        found = {each: cgroups.hierarchy(each).root for each in Controller}
    except PrivilegeError as error:
        lacking(error.message)
    yield found
    assert _groups(steelyard, found) == []


@dataclass
class Watched:
    """What somebody else sees of the groups while a campaign runs."""

    values: dict[str, set[str]] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    throttled: int = 0

    def look(self, groups: list[Path]) -> None:
        """Keep the values of the groups' files, the names of their processes, and the counter."""
        for group in groups:
            with suppress(OSError):  # it may be gone by now
                for path in sorted(group.iterdir()):
                    self._keep(group.name.rpartition("-")[2], path)

    def _keep(self, role: str, path: Path) -> None:
        if path.name == "cgroup.procs":
            for pid in path.read_text().split():
                with suppress(OSError):
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    self.members.setdefault(role, set()).add(name)
        elif path.name == "cpu.stat":
            counters = dict(line.split() for line in path.read_text().splitlines())
            self.throttled = max(self.throttled, int(counters["nr_throttled"]))
        elif path.name.startswith(
            ("cpu.cfs_quota", "cpuset.cpus", "memory.limit", "blkio.throttle")
        ):
            lines = path.read_text().splitlines()
            self.values.setdefault(f"{role} {path.name}", set()).update(lines)


@contextmanager
def _watching(steelyard: Steelyard, roots: Roots) -> Iterator[Watched]:
    """Look at the groups a few times a second."""
    watched, over = Watched(), threading.Event()

    def watch() -> None:
        while not over.wait(0.15):
            watched.look(_groups(steelyard, roots))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join()


def test_limits_are_in_force_and_gone_afterwards(steelyard: Steelyard, roots: Roots) -> None:
    """Quota, CPU sets and throttles are in the kernel's files while the server works, back to back.

    The quota throttles by the kernel's own counter; a configuration without limits has none.
    """
    version = Cgroups().hierarchy(Controller.CPU).version
    process = steelyard.start("run", steelyard.experiment(LIMITED), "--dir", "c", "--no-verdict")
    with _watching(steelyard, roots) as watched:
        # On a busy machine others may leave the server less than its quota for a while.
        wait_for(lambda: watched.throttled > 0 and _blocks(steelyard) >= 2)
        wait_for(lambda: "pgbench" in watched.members.get("generator", ()))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "postgres" in watched.members["server"]
    assert "pgbench" not in watched.members["server"]
    assert "pgbench" in watched.members["generator"]
    assert "postgres" not in watched.members["generator"]
    assert {"0"} < watched.values["generator cpuset.cpus"]
    if version == 1:
        assert watched.values["server cpu.cfs_quota_us"] == {"-1", "60000"}
        assert str(600 * 1024**2) in watched.values["server memory.limit_in_bytes"]
        (line,) = watched.values["server blkio.throttle.read_iops_device"]
        assert line.endswith(" 300")
        (line,) = watched.values["server blkio.throttle.write_bps_device"]
        assert line.endswith(f" {20 * 1024**2}")
    _require_record(steelyard.directory / "c", steelyard)


def _blocks(steelyard: Steelyard) -> int:
    return sum(block["complete"] for block in steelyard.blocks)


def _require_record(record: Path, steelyard: Steelyard) -> None:
    """Back to back, with limits among the settings, and every group noted as made and removed."""
    assert json.loads((record / "schedule.json").read_text())["mode"] == "back-to-back"
    summary = json.loads((record / "summary.json").read_text())
    shown = {each["name"]: each["values"] for each in summary["settings"]}
    assert shown["cgroup: cpus"]["default"] == "unlimited"
    assert shown["cgroup: cpus"]["quota"] == "0.6"
    assert shown["cgroup: read_iops"]["quota"] == "300"
    assert shown["cgroup: write_bytes_per_s"]["quota"] == "20 MB"
    assert shown["cgroup: cpuset"]["one-cpu"] == shown["cgroup: generator_cpuset"]["one-cpu"] == "0"
    noted = [e for e in steelyard.journal if e.get("resource") == "cgroup"]
    made, removed = ({e["name"] for e in noted if e["kind"] == k} for k in ("created", "removed"))
    assert made == removed
    assert len({Path(name).name for name in made}) == 2
    assert not any(Path(name).exists() for name in made)


def _killed_in_a_run(steelyard: Steelyard, roots: Roots) -> list[Path]:
    """Kill a campaign in a limited run and return the groups that it leaves."""
    process = steelyard.start("run", steelyard.experiment(LIMITED), "--dir", "c", "--no-verdict")
    try:
        wait_for(lambda: len(steelyard.runs) >= 1, process)
    finally:
        process.kill()
        process.communicate()
    left = _groups(steelyard, roots)
    assert left
    return left


def test_clean_removes_the_groups_of_a_killed_campaign_and_no_others(
    steelyard: Steelyard, roots: Roots
) -> None:
    """After kill -9 they are listed and removed; one that only looks like ours stays."""
    foreign = roots[Controller.CPU] / f"steelyard-foreign-{os.getpid()}-server"
    foreign.mkdir()
    try:
        left = _killed_in_a_run(steelyard, roots)
        cleaned = steelyard.run("clean", "--yes")
        assert cleaned.returncode == 0, cleaned.stderr
        assert all(f"control group {group}" in cleaned.stdout for group in left)
        assert not any(group.exists() for group in left)
        assert foreign.exists()
        again = steelyard.run("clean", "--dry-run")
        assert "No campaign has left anything behind." in again.stdout
    finally:
        foreign.rmdir()


def test_a_killed_campaign_resumes_with_its_limits(steelyard: Steelyard, roots: Roots) -> None:
    """A resume removes the groups of the dead session, makes its own, and removes these."""
    left = _killed_in_a_run(steelyard, roots)
    with _watching(steelyard, roots) as watched:
        steelyard.resumed_for_a_block()
    assert "postgres" in watched.members["server"]
    assert not any(group.exists() for group in left)
    noted = [(e["kind"], e["name"]) for e in steelyard.journal if e.get("resource") == "cgroup"]
    assert noted.count(("created", str(left[0]))) == noted.count(("removed", str(left[0]))) == 2


def test_who_is_not_root_is_refused_before_anything_starts(
    steelyard: Steelyard, programs: Path
) -> None:
    """Exit code 8 with the keys that need root; CPUs that are not there come first, with lines."""
    folder = steelyard.cache / "unprivileged"  # pytest's own are closed to other accounts
    folder.mkdir(exist_ok=True)
    text = LIMITED.replace("server: embedded", f'server: "{programs}"')
    (folder / "limited.yaml").write_text(text)
    (folder / "wrong.yaml").write_text(text.replace('cpuset: "0",', 'cpuset: "0,4000",'))
    refused = planned_by_account(folder, "limited.yaml", steelyard.cache)
    assert refused.returncode == 8, refused.stderr
    assert "only root can make control groups" in refused.stderr
    assert "`cpus`" in refused.stderr
    wrong = planned_by_account(folder, "wrong.yaml", steelyard.cache)
    assert wrong.returncode == 2, wrong.stderr
    assert "this machine has no CPU 4000" in wrong.stderr
    assert "wrong.yaml:18:" in wrong.stderr
