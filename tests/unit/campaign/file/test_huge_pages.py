"""``linux`` and ``manual`` in experiment files, and huge pages that one insists on."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from experiment_texts import SMALL, load

from fakes.host import FakeHost
from steelyard.core.experiment import Layer
from steelyard.core.wording import GIB, ExitCode, PreflightError
from steelyard.targets.stack import require_huge_pages, require_shared_memory

MEMORY = "MemTotal:       24731648 kB\nHugepagesize:       2048 kB\n"
POOLS = "/sys/kernel/mm/hugepages"


def machine(total: int, reserved: int = 0, overcommit: int = 0) -> FakeHost:
    """Return a machine with so many huge pages of 2 MiB."""
    counts = {"nr": total, "free": total, "resv": reserved, "nr_overcommit": overcommit}
    pool = f"{POOLS}/hugepages-2048kB"
    files = {f"{pool}/{name}_hugepages": f"{count}\n" for name, count in counts.items()}
    return FakeHost(files={"/proc/meminfo": MEMORY, **files})


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
    assert "vm.nr_hugepages=588" in error.hint
    assert error.exit_code is ExitCode.REFUSED


@pytest.mark.parametrize(
    ("buffers", "target", "limit", "refused"),
    [
        ("400GB", "{kind: local}", "max", True),
        ("50000000", "{kind: local}", "max", True),
        ("12GB", "{kind: local}", "max", False),
        ("12GB", "{kind: local}", str(8 * GIB), True),
        ("400GB", "{kind: existing, host: db}", "max", False),
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
    ("settings", "culprit"),
    [
        ("max_locks_per_transaction: 100000000", "max_locks_per_transaction"),
        ("max_locks_per_transaction: 1000000, max_connections: 5000", "max_locks_per_transaction"),
        ("max_locks_per_transaction: 128, max_connections: 262000000", "max_connections"),
        ("wal_buffers: 900GB", "wal_buffers"),
        ("max_connections: 200", "shared_buffers"),
    ],
)
def test_the_setting_that_takes_the_memory_is_named(settings: str, culprit: str) -> None:
    """Lowering another one would not help."""
    buffers = "400GB" if culprit == "shared_buffers" else "1GB"
    text = asking("off", buffers).replace("huge_pages:", f"{settings}, huge_pages:")
    host = FakeHost(files={"/proc/meminfo": "MemTotal:       24731648 kB\n"})
    with pytest.raises(PreflightError) as refused:
        require_shared_memory(load(text).experiment, host)
    assert refused.value.hint.startswith(f"Lower its `{culprit}`")


def with_large_pages(free: int) -> FakeHost:
    """Return a machine with pages of 2 MiB in plenty, and so many of 1 GiB."""
    host = machine(5000)
    for name in ("nr", "free"):
        host.files[f"{POOLS}/hugepages-1048576kB/{name}_hugepages"] = f"{free}\n"
    return host


def with_settings(settings: str, linux: str = "") -> str:
    """Return an experiment that insists on huge pages, with further settings."""
    return asking("on").replace("shared_buffers", f"{settings}, shared_buffers") + linux


def test_pages_of_another_size_are_counted_in_their_own_pool() -> None:
    """Of 1 GiB two are needed: the 5,000 of 2 MiB do not help, and the hint names the pool."""
    text = with_settings("huge_page_size: 1GB")
    error = refusal(text, with_large_pages(1))
    assert error is not None
    assert "needs at least 2 huge pages of 1.0 GiB; 1 are free" in error.message
    assert f"echo 2 > {POOLS}/hugepages-1048576kB/nr_hugepages" in error.hint
    assert "hugepagesz=1024M hugepages=2" in error.hint
    assert refusal(text, with_large_pages(2)) is None
    absent = refusal(with_settings("huge_page_size: 512MB"), with_large_pages(2))
    assert absent is not None
    assert "0 are free" in absent.message


def test_pages_of_one_size_are_not_reserved_for_another() -> None:
    """``vm.nr_hugepages`` reserves those of the kernel's default size only."""
    text = with_settings("huge_page_size: 1GB").replace(
        "other: {extends: default,", "other: {extends: default, linux: {vm.nr_hugepages: auto},"
    )
    error = refusal(text, with_large_pages(2))
    assert error is not None
    assert "reserves those of 2.0 MiB" in error.message
    assert refusal(text.replace("1GB, shared", "2MB, shared"), with_large_pages(0)) is None


def test_system_v_memory_is_never_on_huge_pages() -> None:
    """No number of pages helps there."""
    error = refusal(with_settings("shared_memory_type: sysv"), with_large_pages(2))
    assert error is not None
    assert "shared_memory_type = sysv, which PostgreSQL never puts on huge pages" in error.message
    assert "nr_hugepages" not in error.hint


@pytest.mark.parametrize(
    ("limits", "advice"),
    [
        ({"shmmax": "33554432"}, "sysctl -w kernel.shmmax="),
        ({"shmmax": "18446744073692774399", "shmall": "2048"}, "sysctl -w kernel.shmall="),
        ({"shmmax": "18446744073692774399", "shmall": "18446744073692774399"}, None),
        ({}, None),
    ],
)
def test_limits_of_system_v_memory_count(limits: dict[str, str], advice: str | None) -> None:
    """The kernel refuses a larger segment, and the server does not start."""
    text = with_settings("shared_memory_type: sysv").replace('"on"', '"off"')
    files = {f"/proc/sys/kernel/{name}": f"{value}\n" for name, value in limits.items()}
    host = FakeHost(files={"/proc/meminfo": "MemTotal:       24731648 kB\n", **files})
    with pytest.raises(PreflightError) if advice else nullcontext() as refused:
        require_shared_memory(load(text).experiment, host)
    assert advice is None or (refused is not None and advice in refused.value.hint)


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
        (asking("on", target="{kind: existing, host: db}"), False),
    ],
)
def test_who_is_asked(text: str, *, refused: bool) -> None:
    """Only `on`, only servers of this machine, and by the size of their buffers."""
    assert (refusal(text, machine(20)) is not None) is refused


_STACK = """\
version: 1
name: stack
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default: {}
  pages:
    extends: default
    linux: {vm.nr_hugepages: auto, vm.swappiness: 1, read_ahead: 128kB}
  more:
    extends: pages
    linux: {vm.swappiness: null, vm.nr_hugepages: 300}
"""
# What these keys become is in the snapshots.
_STEPS = """\
version: 1
name: steps
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default:
    target: {kind: existing, host: guest}
    manual: {command: "./cycle 'my guest'", timeout: 5m}
  pinned: {extends: default}
"""


def _asked(text: str, configuration: str, *overrides: str) -> dict[str, str]:
    return (
        load(text, Path("/nonexistent"), *overrides)
        .experiment.configuration(configuration)
        .asked(Layer.LINUX)
    )


def test_dotted_names_are_reached_from_the_command_line() -> None:
    """The dot in a sysctl's name is no step of the path."""
    override = "configurations.pages.linux.vm.swappiness=60"
    assert _asked(_STACK, "pages", override)["vm.swappiness"] == "60"


def test_factors_vary_kernel_settings() -> None:
    """By the short form and by levels."""
    head = _STACK[: _STACK.index("configurations:")]
    short = head + "factors:\n  swap: {linux: {vm.swappiness: [60, 1]}}\n"
    thp = "  thp: {off: , on: {linux: {transparent_huge_pages: always}}}\n"
    experiment = load(short + thp).experiment
    found = {t.name: t.asked(Layer.LINUX) for t in experiment.configurations}
    assert found["swap+thp"] == {"vm.swappiness": "1", "transparent_huge_pages": "always"}
