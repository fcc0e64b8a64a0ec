"""Plans for real servers of two versions: huge pages, verified in the process map, and refusals."""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.core.stack import Knob, KnobKind, StackPlan
from support.endpoint import Server, run, started
from support.lacking import lacking
from support.live import Steelyard
from support.machine_lock import machine
from support.stack import knob, stack_plan, write_plan

_UNIFIED = Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")
_CONTROLLER = "hugetlb"
_ATTEMPTS, _PAUSE_S = 10, 0.5


@contextmanager
def limited(pid: int, limit_bytes: int, *, version: int = 2) -> Iterator[int]:
    """Put a process into a group that may touch so many bytes, and out again.

    Yields the version it is of: 1 where another hierarchy holds on to the controller.
    """
    root = _unified() if version == 2 else None
    if root is None:
        with _mounted() as first, _group(first, "limit_in_bytes", pid, limit_bytes):
            yield 1
    else:
        control = root / "cgroup.subtree_control"
        enabled = _CONTROLLER in control.read_text().split()
        control.write_text(f"+{_CONTROLLER}")
        try:
            with _group(root, "max", pid, limit_bytes):
                yield 2
        finally:
            if not enabled:
                control.write_text(f"-{_CONTROLLER}")


def _unified() -> Path | None:
    """Return the hierarchy of version 2 if it has the controller, or soon gets it back."""
    for _ in range(_ATTEMPTS):
        for root in _UNIFIED:
            controllers = root / "cgroup.controllers"
            if controllers.exists() and _CONTROLLER in controllers.read_text().split():
                return root
        with _mounted():
            pass  # what holds the controller without using it gives it back
        time.sleep(_PAUSE_S)
    return None


@contextmanager
def _mounted() -> Iterator[Path]:
    """Yield the controller's version 1 hierarchy, mounted for that long."""
    with tempfile.TemporaryDirectory(prefix="steelyard-hugetlb-") as directory:
        run(["mount", "-t", "cgroup", "-o", _CONTROLLER, "none", directory])
        try:
            yield Path(directory)
        finally:
            run(["umount", directory])


@contextmanager
def _group(root: Path, limit: str, pid: int, limit_bytes: int) -> Iterator[None]:
    group = root / f"steelyard-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / f"hugetlb.2MB.{limit}").write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it ended
                (root / "cgroup.procs").write_text(member)
        group.rmdir()


__all__ = ["machine"]
pytestmark = pytest.mark.live

_PAGE_BYTES = 2 * 1024 * 1024
_POOL = Path("/proc/sys/vm/nr_hugepages")
_DEBIAN = Path("/usr/lib/postgresql/15/bin")


def _setting(name: str, value: str, *after: str) -> Knob:
    return replace(knob(KnobKind.POSTGRES, name, value, after=after), layer="postgres")


def _pages() -> int:
    return int(_POOL.read_text())


def _pid(server: Server) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture(params=["18"])
def tuned(request: pytest.FixtureRequest, machine: None, steelyard: Steelyard) -> Iterator[Server]:
    """A server of a version on a machine without huge pages; afterwards it has none again."""
    if os.geteuid() != 0:
        lacking("only root may make huge pages")
    if not _POOL.exists() or not Path("/sys/kernel/mm/hugepages/hugepages-2048kB").is_dir():
        lacking("this kernel has no huge pages of 2 MiB")
    programs = _DEBIAN if request.param == "15" else request.getfixturevalue("programs")
    if not (programs / "pg_ctl").exists():
        lacking("PostgreSQL 15 is not installed")
    before = _pages()
    _POOL.write_text("0")  # what another left there would be enough for so small a server
    try:
        with started(programs) as made:
            yield made
        assert _pages() == 0
    finally:
        _POOL.write_text(str(before))


def _plan(server: Server, *, pool: bool) -> tuple[StackPlan, int]:
    """Return a plan for huge pages, and how many the server takes by its own account."""
    need = int(str(server.rows("SHOW shared_memory_size_in_huge_pages")[0][0]))
    pages = knob(KnobKind.HUGE_PAGES, f"all/{_PAGE_BYTES}", str(_pages() + need + 1))
    settings = (
        _setting("work_mem", "9MB"),
        _setting("wal_buffers", "-1"),
        _setting("huge_pages", "on", *([pages.name] if pool else [])),
    )
    knobs = (pages, *settings) if pool else settings
    return stack_plan(*knobs, huge_pages=need), need


@pytest.mark.parametrize("tuned", ["18", "15"], indirect=True)
def test_a_server_gets_huge_pages_and_gives_them_back(tuned: Server, steelyard: Steelyard) -> None:
    """Proves the way over two restarts: pending, in effect by the process map, restored."""
    configuration, pages = tuned.configuration, _pages()
    plan, need = _plan(tuned, pool=True)
    write_plan(steelyard.directory / "p", plan)
    applied = steelyard.run("stack", "apply", "p", "--yes", "--dsn", tuned.uri)
    assert applied.returncode == 10, applied.stderr  # it waits for the restart
    assert "a restart of the server" in applied.stdout
    assert steelyard.run("stack", "verify", "p").returncode == 10
    record = (steelyard.directory / "p/applied.jsonl").read_text()
    assert f'"server_place":"{tuned.data}@' in record  # what tells it from a standby

    run(tuned.restart_command)
    resumed = steelyard.run("stack", "apply", "p", "--yes")
    assert resumed.returncode == 0, resumed.stderr
    assert "In effect." in resumed.stdout
    verified = steelyard.run("stack", "verify", "p", "--json")
    assert verified.returncode == 0, verified.stdout
    facts = {each["name"]: " ".join(each["facts"]) for each in json.loads(verified.stdout)["knobs"]}
    assert f"/proc/{_pid(tuned)}/smaps" in facts["linux:huge_pages"]
    assert "2 MiB" in facts["linux:huge_pages"] or "2.0 MiB" in facts["linux:huge_pages"]

    early = steelyard.run("stack", "revert", "p", "--yes")  # the server still holds the pages
    assert early.returncode == 7, early.stdout
    assert f"{need} huge pages" in early.stderr
    run(tuned.restart_command)
    late = steelyard.run("stack", "revert", "p", "--yes")
    assert late.returncode == 0, late.stderr
    assert tuned.configuration == configuration
    assert _pages() == pages


def test_too_small_a_pool_is_refused_with_the_number_that_would_do(
    tuned: Server, steelyard: Steelyard
) -> None:
    """Proves that a server that would not start again is never configured so."""
    configuration = tuned.configuration
    plan, need = _plan(tuned, pool=False)
    write_plan(steelyard.directory / "p", plan)
    refused = steelyard.run("stack", "apply", "p", "--yes", "--dsn", tuned.uri)
    assert refused.returncode == 3, refused.stdout
    assert f"needs {need} huge pages" in refused.stderr
    assert f"so that {need + _pages()} are in it" in refused.stderr
    assert tuned.configuration == configuration


@pytest.mark.parametrize("version", [2, 1])
def test_a_limit_that_kills_is_explained_and_refused(
    version: int, tuned: Server, steelyard: Steelyard
) -> None:
    """Proves that a control group with a limit on touched pages alone is found around a server."""
    plan, need = _plan(tuned, pool=True)
    write_plan(steelyard.directory / "p", plan)
    with limited(_pid(tuned), (need - 1) * _PAGE_BYTES, version=version):
        refused = steelyard.run("stack", "apply", "p", "--yes", "--dsn", tuned.uri)
    assert refused.returncode == 3, refused.stdout
    assert "SIGBUS" in refused.stderr
    assert str(need * _PAGE_BYTES) in refused.stderr
