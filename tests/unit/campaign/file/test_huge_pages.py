"""Huge pages that one insists on: refused before anything is started, with the way out."""

from contextlib import nullcontext

import pytest
from experiment_texts import SMALL, load

from fakes.host import FakeHost
from steelyard.core.wording import GIB, ExitCode, PreflightError
from steelyard.targets.stack import require_huge_pages, require_shared_memory

MEMORY = (
    "MemTotal:       24731648 kB\nHugePages_Total:     {total}\nHugePages_Free:      {total}\n"
    "HugePages_Rsvd:        {reserved}\nHugePages_Surp:        0\nHugepagesize:       2048 kB\n"
)


def machine(total: int, reserved: int = 0, overcommit: int = 0) -> FakeHost:
    """Return a machine with so many huge pages of 2 MiB."""
    return FakeHost(
        files={
            "/proc/meminfo": MEMORY.format(total=total, reserved=reserved),
            "/proc/sys/vm/nr_overcommit_hugepages": f"{overcommit}\n",
        }
    )


def asking(value: str, buffers: str = "1GB", target: str = "{kind: local}") -> str:
    """Return an experiment whose second configuration asks for huge pages."""
    settings = f'{{huge_pages: "{value}", shared_buffers: {buffers}}}'
    return SMALL.replace(
        "  default: {}\n  other: {extends: default}\n",
        f"  default: {{target: {target}}}\n  other: {{extends: default, postgres: {settings}}}\n",
    )


def refusal(text: str, host: FakeHost) -> PreflightError | None:
    """Return the refusal of an experiment on a machine, None when it may start."""
    try:
        require_huge_pages(load(text).experiment, host)
    except PreflightError as error:
        return error
    return None


def test_too_few_are_refused_with_what_is_needed() -> None:
    """1 GB of buffers need 535 pages at least (PostgreSQL 18 says 543), and the hint reserves."""
    error = refusal(asking("on"), machine(100))
    assert error is not None
    assert "`other` asks for huge_pages = on and needs at least 535" in error.message
    assert "100 are free" in error.message
    assert "vm.nr_hugepages=589" in error.hint
    assert error.exit_code is ExitCode.REFUSED


@pytest.mark.parametrize(
    ("buffers", "target", "limit", "refused"),
    [
        ("400GB", "{kind: local}", "max", True),
        ("50000000", "{kind: local}", "max", True),
        ("12GB", "{kind: local}", "max", False),
        ("12GB", "{kind: local}", str(8 * GIB), True),
        ("400GB", "{kind: endpoint, host: db}", "max", False),
    ],
)
def test_a_server_larger_than_the_machine_is_refused(
    buffers: str, target: str, limit: str, *, refused: bool
) -> None:
    """By the memory that may be used here, with limits of control groups; elsewhere no guess."""
    files = {
        "/proc/meminfo": "MemTotal:       24731648 kB\n",
        "/proc/self/cgroup": "0::/box\n",
        "/sys/fs/cgroup/box/memory.max": f"{limit}\n",
    }
    experiment = load(asking("off", buffers, target)).experiment
    expected = pytest.raises(PreflightError, match="`other` takes at least")
    with expected if refused else nullcontext():
        require_shared_memory(experiment, FakeHost(files=files))


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        (machine(540), False),
        (machine(540, reserved=20), True),
        (machine(0, overcommit=540), False),
        (FakeHost(files={"/proc/meminfo": "MemTotal: 1 kB\n"}), False),
        (FakeHost(), False),
    ],
)
def test_what_counts_as_free(host: FakeHost, *, refused: bool) -> None:
    """Reserved pages are gone, overcommitted ones may be had; a silent machine is not judged."""
    assert (refusal(asking("on"), host) is not None) is refused


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (asking("on", "16MB"), False),
        (asking("on", "8192"), True),
        (asking("on", "8192").replace("huge_pages", "Huge_Pages"), True),
        (asking("on", "8192").replace("shared_buffers", "Shared_Buffers"), True),
        (asking("on", "lots"), False),
        (asking("try"), False),
        (asking("off"), False),
        (asking("on", target="{kind: endpoint, host: db}"), False),
    ],
)
def test_who_is_asked(text: str, *, refused: bool) -> None:
    """Only `on`, only servers of this machine, and by the size of their buffers."""
    assert (refusal(text, machine(20)) is not None) is refused
