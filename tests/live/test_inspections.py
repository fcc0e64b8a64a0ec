"""``steelyard inspect`` on this machine, over a real ssh, and on a real server."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.core.linux import Controller
from steelyard.core.wording import MIB, PrivilegeError
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.host import LocalHost, groups_around
from steelyard.gateways.process import Processes
from steelyard.places.local.groups import memory_files, quota_files
from steelyard.tuning.facts.linux import collect_linux, measure_wakeups
from support.endpoint import Server
from support.lacking import lacking
from support.live import Steelyard
from support.ssh_server import ssh_server

pytestmark = pytest.mark.live

# What moves between two looks, or is measured on this side alone.
_MOVING = {
    "ping_pong",
    "steal_fraction",
    "cpu_pressure_fraction",
    "pools",
    "nodes",
    "pool_users",
    "allowed_cpus",  # ssh's session may have other CPUs than this test
    "container",
    "memory_bytes",
}


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def inspected(steelyard: Steelyard, *words: str) -> dict[str, Any]:
    """Return what the verb prints for programs."""
    ended = steelyard.run("inspect", "--json", "--fail-on", "never", *words)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def test_this_machine_is_told_by_its_own_files(steelyard: Steelyard) -> None:
    """CPUs, memory and page size are those that the operating system tells this process."""
    before = _memory_bytes()  # it may grow: some kernels take their memory in after the start
    told = inspected(steelyard, "--data-directory", str(steelyard.directory))
    linux = told["facts"]["linux"]
    assert len(linux["allowed_cpus"]) == len(os.sched_getaffinity(0))
    assert before <= linux["memory_bytes"] <= _memory_bytes()
    assert linux["page_bytes"] == os.sysconf("SC_PAGE_SIZE")
    assert linux["kernel"] == os.uname().release
    assert linux["ping_pong"]["same_cpu_s"] > 0
    assert 0 <= linux["steal_fraction"] <= 1
    assert told["counts"]["not_applicable"] > 0  # no machine shows every layer


def test_a_wakeup_takes_longer_across_cpus_than_nothing() -> None:
    """The ping-pong of this machine is real: every pair that exists has been measured."""
    linux, _ = collect_linux(LocalHost())
    several = len(os.sched_getaffinity(0)) > 1
    for _ in range(20):  # on busy CPUs a quarter of a second may hold too few round trips
        found = measure_wakeups(linux, Processes())
        assert found.value is not None, found.origin
        if found.value.across_s is not None or not several:
            break
    assert found.value.same_cpu_s > 0
    if several:
        assert found.value.across_p99_s >= found.value.across_s > 0


def over_ssh(steelyard: Steelyard, programs: Path) -> Steelyard:
    """Return one whose ``ssh`` is found in this directory first."""
    path = f"{programs}:{os.environ['PATH']}"
    return replace(steelyard, extra={**steelyard.extra, "PATH": path})


def assert_same_machine(here: dict[str, Any], there: dict[str, Any]) -> None:
    """Compare what does not move; there must be something to compare."""
    still = {name: value for name, value in here.items() if name not in _MOVING}
    assert len(still) >= 20
    assert {name: there.get(name) for name in still} == still


def test_over_ssh_this_machine_is_the_same(steelyard: Steelyard, tmp_path: Path) -> None:
    """Through a real sshd, by a name from the user's own settings: the facts are those at home."""
    place = ("--data-directory", str(steelyard.directory))
    here = inspected(steelyard, "--no-ping-pong", *place)["facts"]["linux"]
    with ssh_server(tmp_path) as server:
        told = inspected(over_ssh(steelyard, server.programs), "--on", "ssh://lab", *place)
    assert_same_machine(here, told["facts"]["linux"])
    assert "steal_fraction" in told["facts"]["linux"]


def test_a_machine_that_lets_nobody_in_is_said(steelyard: Steelyard, tmp_path: Path) -> None:
    """Without the key ssh ends at once: no prompt, exit code 4, and the command to try."""
    with ssh_server(tmp_path) as server:
        (tmp_path / "key").unlink()
        ended = over_ssh(steelyard, server.programs).run("inspect", "--on", "ssh://lab")
    assert ended.returncode == 4
    assert "cannot be reached over ssh" in ended.stderr
    assert "ssh -o BatchMode=yes" in ended.stderr


def test_nothing_but_a_shell_is_needed_there(steelyard: Steelyard, tmp_path: Path) -> None:
    """With the few programs that are promised and no other in the path, nothing is missing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "grep", "od", "uname"):
        found = next(p for d in ("/bin", "/usr/bin") if (p := Path(d, name)).exists())
        (tools / name).symlink_to(found.resolve() if name == "sh" else found)
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "ssh").write_text(f"#!/bin/sh\nPATH={tools}; export PATH\nexec sh -s\n")
    (fake / "ssh").chmod(0o755)
    here = inspected(steelyard, "--no-ping-pong")["facts"]["linux"]
    told = inspected(over_ssh(steelyard, fake), "--on", "ssh://anywhere")
    assert_same_machine(here, told["facts"]["linux"])


def test_a_real_server_is_told_with_its_machine(steelyard: Steelyard, server: Server) -> None:
    """Settings as people write them, its need of huge pages, and the kernel that it runs on."""
    told = inspected(steelyard, "--no-ping-pong", "--dsn", server.uri)
    postgres = told["facts"]["postgres"]
    assert postgres["running"] is True
    assert postgres["version"] >= 10
    assert postgres["settings"]["shared_buffers"].endswith(("MB", "GB", "kB"))
    assert postgres["huge_pages_needed"] > 0
    assert told["facts"]["linux"]["kernel"] == os.uname().release


@contextmanager
def _limited(pid: int, controller: Controller, memory: int, cpus: float) -> Iterator[str]:
    """Put a process into a group below its own with a limit, and all of the group back again."""
    cgroups = Cgroups()
    try:
        version = cgroups.hierarchy(controller).version
    except PrivilegeError as error:
        lacking(error.message)
    own = Path(next(groups_around(LocalHost(), pid, controller)))
    group = own / f"steelyard-test-{os.getpid()}"
    is_memory = controller is Controller.MEMORY
    limits = memory_files(version, memory) if is_memory else quota_files(version, cpus)
    cgroups.make(group)
    try:
        for name, text in limits.items():
            cgroups.write(group, name, text)
        cgroups.write(group, "cgroup.procs", str(pid))
        yield str(group)
    finally:
        for member in cgroups.members(group):
            with suppress(OSError):  # it ended
                (own / "cgroup.procs").write_text(str(member))
        assert cgroups.remove(group)


@pytest.mark.slow
def test_a_server_in_a_limited_group_is_judged_by_its_limits(
    steelyard: Steelyard, server: Server
) -> None:
    """Of its 36 MiB 16 are shared_buffers, and half a CPU serves 30 connections."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    asked = ("--no-ping-pong", "--dsn", server.uri)
    with (
        _limited(pid, Controller.MEMORY, 36 * MIB, 0.5) as memory,
        _limited(pid, Controller.CPU, 36 * MIB, 0.5) as cpu,
    ):
        told = inspected(steelyard, *asked)
    rules = {rule["code"]: rule for rule in told["rules"]}
    assert rules["PG003"]["messages"] == ["shared_buffers is 16.0 MiB, 44.4 % of 36.0 MiB"]
    assert rules["PG004"]["messages"] == ["30 connections on 0.5 CPUs"]
    origins = told["facts"]["origins"]
    assert origins["postgres.usable_memory_bytes"]["source"] == memory
    assert origins["postgres.usable_cpus"]["source"] == cpu
    free = {rule["code"]: rule["state"] for rule in inspected(steelyard, *asked)["rules"]}
    assert free["PG003"] == "holds"
