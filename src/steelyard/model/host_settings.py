"""The layer ``linux`` of a treatment: which knobs of this machine it may turn, and their values."""

import re
from typing import Final

from steelyard.model.errors import InputError
from steelyard.model.measure import SwitchCost
from steelyard.model.units import KIB, parse_bytes

HUGE_PAGES: Final = "vm.nr_hugepages"
AUTO: Final = "auto"  # of HUGE_PAGES: what the treatment's own server needs
DMA_LATENCY: Final = "dma_latency"
READ_AHEAD: Final = "read_ahead"
GOVERNOR: Final = "governor"
TRANSPARENT: Final = "transparent_huge_pages"
TRANSPARENT_DEFRAG: Final = "transparent_huge_pages_defrag"
# Knobs that are no sysctl, by a short name; the others have the kernel's own dotted names.
SHORT_NAMES: Final = (TRANSPARENT, TRANSPARENT_DEFRAG, READ_AHEAD, GOVERNOR, DMA_LATENCY)
# What a database can feel. Names outside can take over a machine (kernel.core_pattern names a
# program that root runs), and `clean` turns back whatever a record names.
_NAMESPACES: Final = (
    "vm.",
    "net.core.",
    "net.ipv4.tcp_",
    "net.ipv4.ip_local_port_range",
    "kernel.sched_",
    "kernel.numa_balancing",
    "kernel.shm",
    "kernel.sem",
    "kernel.io_uring_",
    "kernel.timer_migration",
    "fs.aio-max-nr",
)
# Within them: actions, which no value takes back; guards of the kernel; who may do something.
# Source: Linux, admin-guide/sysctl/vm.rst, net.rst and kernel.rst, networking/ip-sysctl.rst.
_REFUSED: Final = (
    "vm.drop_caches",
    "vm.compact_memory",
    "vm.stat_refresh",
    "vm.nr_hugepages_mempolicy",
    "vm.mmap_min_addr",
    "vm.mmap_rnd_bits",
    "vm.mmap_rnd_compat_bits",
    "vm.unprivileged_userfaultfd",
    "vm.hugetlb_shm_group",
    "vm.panic_on_oom",
    "net.core.bpf_jit_enable",
    "net.core.bpf_jit_harden",
    "net.core.bpf_jit_kallsyms",
    "net.ipv4.tcp_fastopen_key",
    "kernel.shm_rmid_forced",
    "kernel.shm_next_id",
    "kernel.sem_next_id",
)
_SYSCTL: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_-]+)+", re.ASCII)
_VALUE: Final = re.compile(r"-?[A-Za-z0-9_.]+([ \t]+-?[A-Za-z0-9_.]+)*", re.ASCII)
_MODES: Final = {
    TRANSPARENT: ("always", "madvise", "never"),
    TRANSPARENT_DEFRAG: ("always", "defer", "defer+madvise", "madvise", "never"),
}
# A running server feels these at once; of all others nobody knows, or it is known that it does not.
# Sources: Linux, admin-guide/sysctl/vm.rst, block/queue-sysfs.rst, admin-guide/pm/cpufreq.rst.
_LIVE: Final = (
    "vm.swappiness",
    "vm.dirty_bytes",
    "vm.dirty_background_bytes",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    READ_AHEAD,
    GOVERNOR,
    DMA_LATENCY,
)
_MOST_PAGES: Final = 10**8
NO_LATENCY_LIMIT_US: Final = 2_000_000_000  # the kernel's word for no limit at all


def is_sysctl(name: str) -> bool:
    """Return whether a name is that of a file below ``/proc/sys``."""
    return name not in SHORT_NAMES


def switch_cost_of(name: str) -> SwitchCost:
    """Return what it takes until a server feels a change of this knob."""
    return SwitchCost.SESSION if name in _LIVE else SwitchCost.RESTART


def check_name(name: str) -> None:
    """Refuse what a treatment may not turn.

    Raises:
        InputError: It is no knob, or one that has no place in an experiment.
    """
    if name in SHORT_NAMES:
        return
    if not _SYSCTL.fullmatch(name):
        raise InputError(
            f"`{name}` is no name of a kernel setting",
            hint=f"Write a sysctl as in {HUGE_PAGES}, or one of {', '.join(SHORT_NAMES)}.",
        )
    if name in _REFUSED:
        raise InputError(
            f"`{name}` is not for experiments",
            hint="It is an action, or it guards the machine. Leave it out, or turn it yourself.",
        )
    if not name.startswith(_NAMESPACES):
        raise InputError(
            f"`{name}` is not for experiments",
            hint=f"Steelyard turns {', '.join(each + '*' for each in _NAMESPACES)} only.",
        )


def check_value(name: str, text: str) -> None:
    """Refuse a value that the knob of this name cannot have.

    Raises:
        InputError: With what it takes.
    """
    if name in _MODES:
        if text not in _MODES[name]:
            raise InputError(f"`{text}` is unknown", hint=f"Write {' or '.join(_MODES[name])}.")
    elif name == READ_AHEAD:
        read_ahead_kib(text)
    elif name == DMA_LATENCY:
        latency_us(text)
    elif name == HUGE_PAGES:
        if text != AUTO and not (text.isdigit() and int(text) <= _MOST_PAGES):
            raise InputError(
                f"`{text}` is no number of huge pages",
                hint=f"Write a number, or `{AUTO}` for what the treatment's server needs.",
            )
    elif not _VALUE.fullmatch(text):
        raise InputError(f"`{text}` is no value of a sysctl", hint="Write numbers or one word.")


def read_ahead_kib(text: str) -> int:
    """Return a read-ahead in KiB from a size such as ``128kB``.

    Raises:
        InputError: It is no whole number of KiB.
    """
    size = parse_bytes(text)
    if size < 0 or size % KIB:
        raise InputError(f"`{text}` is no whole number of kB", hint="Write it as 128kB or 4MB.")
    return size // KIB


def latency_us(text: str) -> int:
    """Return the longest wake-up that is allowed, in microseconds.

    Raises:
        InputError: It is no whole number of them.
    """
    if not text.isdigit() or int(text) >= NO_LATENCY_LIMIT_US:
        raise InputError(
            f"`{text}` is no number of microseconds",
            hint="Write 0 so that CPUs never sleep, or the longest wake-up that you allow.",
        )
    return int(text)
