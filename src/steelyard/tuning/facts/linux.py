"""Facts of one Linux machine from its own files: CPUs and NUMA nodes, memory, huge pages, wake-ups.

How CPUs run, idle and are waited for is among them: frequency, idle states, polling, steal,
pressure. What a wake-up costs is measured, by a byte that goes back and forth.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import quantiles
from typing import Final

from steelyard.core.findings import Fact
from steelyard.core.linux import (
    IdleState,
    LinuxFacts,
    NumaNode,
    PagePool,
    PingPong,
    PoolUser,
    cpu_list,
    parse_cpu_list,
    wake_up_facts,
)
from steelyard.core.stack import UNIT_PATH, Origin, Visibility
from steelyard.core.wording import KIB, US_PER_S, SteelyardError, parse_bytes
from steelyard.gateways import trials
from steelyard.gateways.host import Host, allowed_cpus, cpu_times, memory_bytes, parse_mounts
from steelyard.gateways.process import Processes
from steelyard.gateways.trials import Where
from steelyard.tuning.facts import file
from steelyard.tuning.facts.machine import balloon_fact, device_fact, identity_facts, virtualization

_VM = {
    "swappiness": "/proc/sys/vm/swappiness",
    "dirty_bytes": "/proc/sys/vm/dirty_bytes",
    "dirty_background_bytes": "/proc/sys/vm/dirty_background_bytes",
    "dirty_ratio": "/proc/sys/vm/dirty_ratio",
    "overcommit_memory": "/proc/sys/vm/overcommit_memory",
}


def memory_facts(host: Host) -> file.Finds:
    """Return the facts of memory."""
    huge = "/sys/kernel/mm/transparent_hugepage"
    no_huge = f"there is no {huge}: this kernel has no transparent huge pages"
    alone = "this kernel cannot do it"
    return {
        "memory_bytes": _meminfo(host, "MemTotal"),
        "swap_bytes": _meminfo(host, "SwapTotal"),
        "page_bytes": _page(host),
        "transparent_huge_pages": file.read_fact(
            host, f"{huge}/enabled", file.selected, absent=no_huge
        ),
        "thp_defrag": file.read_fact(host, f"{huge}/defrag", file.selected, absent=no_huge),
        **{name: file.read_fact(host, path, int) for name, path in _VM.items()},
        "numa_balancing": file.read_fact(
            host, "/proc/sys/kernel/numa_balancing", int, absent=alone
        ),
        "zone_reclaim_mode": file.read_fact(
            host, "/proc/sys/vm/zone_reclaim_mode", int, absent=alone
        ),
    }


def _meminfo(host: Host, name: str) -> file.Found:
    size = memory_bytes(host.read("/proc/meminfo")).get(name)
    if size is None:
        return file.hidden(f"/proc/meminfo names no {name}")
    return file.seen(size, f"{name} in /proc/meminfo")


def _page(host: Host) -> file.Found:
    """Return the size of ordinary pages, which is that of the looker's own first mapping."""
    match = re.search(
        r"^KernelPageSize:\s+(\d+) kB", host.read("/proc/self/smaps") or "", re.MULTILINE
    )
    if match is None:
        return file.hidden("/proc/self/smaps names no KernelPageSize")
    return file.seen(int(match[1]) * KIB, "KernelPageSize in /proc/self/smaps")


POOLS: Final = "/sys/kernel/mm/hugepages"
# Later ones win; the first is a link to the second on most systems.
SYSCTL_PLACES: Final = (
    *("/lib/sysctl.d", "/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d"),
    *("/run/sysctl.d", "/etc/sysctl.d"),
)
_SYSCTL_FILE: Final = "/etc/sysctl.conf"
_ASKED_FOR: Final = re.compile(
    r"^[ \t]*-?[ \t]*vm[./]nr_hugepages[ \t]*=[ \t]*(0[xX][0-9a-fA-F]+|\d+)(?=\s|$)", re.MULTILINE
)
# As `tuning.files.files` writes it.
_ALLOCATION: Final = re.compile(r"echo (\d+) >\S*/hugepages-(\d+)kB/nr_hugepages")
_DIRECTORY: Final = re.compile(r"hugepages-(\d+)kB")
_COMMAND_LINE: Final = "/proc/cmdline"


def pools_in(host: Host, directory: str) -> tuple[PagePool, ...]:
    """Return the huge pages by size below a directory such as ``/sys/kernel/mm/hugepages``."""
    matches = filter(None, map(_DIRECTORY.fullmatch, host.names(directory)))
    kib = sorted(int(match[1]) for match in matches)
    pools = (pool_at(host, f"{directory}/hugepages-{size}kB", size * KIB) for size in kib)
    return tuple(pool for pool in pools if pool is not None)


def pool_at(host: Host, directory: str, page_bytes: int) -> PagePool | None:
    """Return the huge pages of one size, None where the kernel tells none in this directory."""
    total, free, surplus, reserved = (
        _count(host.read(f"{directory}/{name}_hugepages"))
        for name in ("nr", "free", "surplus", "resv")
    )
    if total is None or free is None:
        return None
    return PagePool(
        page_bytes=page_bytes, total=total, free=free, surplus=surplus or 0, reserved=reserved
    )


def _count(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def pool_facts(host: Host) -> file.Finds:
    """Return the facts of huge pages."""
    pools = pools_in(host, POOLS)
    return {
        "huge_page_bytes": _default_size(host),
        "pools": file.seen(pools, POOLS) if pools else file.hidden(f"there is no {POOLS}"),
        **_requested(host),
        "overcommit_huge_pages": file.read_fact(host, "/proc/sys/vm/nr_overcommit_hugepages", int),
        "hugetlbfs": file.attempted("/proc/self/mounts", lambda: _mounted(host)),
    }


def _default_size(host: Host) -> file.Found:
    found = _meminfo(host, "Hugepagesize")
    if found.value is None:
        return file.hidden("/proc/meminfo names no Hugepagesize: this kernel has no huge pages")
    return found


def _requested(host: Host) -> file.Finds:
    """Return what the configuration asks for: ``/proc/sys`` only says what the kernel gave."""
    words = (host.read("/proc/cmdline") or "").split()
    default, by_size = _on_command_line(words, default_page_bytes(host))
    of_size = {size: (count, f"hugepages= in {_COMMAND_LINE}") for size, count in by_size.items()}
    settings = "\n".join(word[7:] for word in words if word.startswith("sysctl."))
    texts = [(f"sysctl.vm.nr_hugepages= in {_COMMAND_LINE}", settings)]
    for source, text in (*texts, *((path, host.read(path) or "") for path in _sysctl_files(host))):
        for number in map(_as_the_kernel, _ASKED_FOR.findall(text)):
            of_size |= {} if number is None else {default: (number, source)}
    in_unit: dict[int, int] = {}
    for count, kib in _ALLOCATION.findall(host.read(UNIT_PATH) or ""):
        in_unit[int(kib) * KIB] = in_unit.get(int(kib) * KIB, 0) + int(count)
    for size, count in in_unit.items():
        if size not in of_size or count > of_size[size][0]:
            of_size[size] = (count, UNIT_PATH)
    nobody = "no file of sysctl and no kernel argument asks for any"
    others = {size: count for size, (count, _) in of_size.items() if size != default}
    sources = sorted({source for size, (_, source) in of_size.items() if size != default})
    return {
        "requested_huge_pages": file.seen(*of_size.get(default, (None, nobody))),
        "requested_other_pages": file.seen(others or None, "; ".join(sources) or nobody),
    }


def _as_the_kernel(text: str) -> int | None:
    """Return a number as the kernel reads it: ``0x`` is hexadecimal, a leading ``0`` octal."""
    base = 16 if text[:2].lower() == "0x" else 8 if text.startswith("0") else 10
    try:
        return int(text, base)
    except ValueError:
        return None  # it refuses 089


def _sysctl_files(host: Host) -> tuple[str, ...]:
    """Return the files in the order that systemd-sysctl reads them (sysctl.d(5)).

    One file of a name in a later place replaces the others; they are read by name. The file without
    a directory is read by ``sysctl --system`` alone, which runs where no systemd does.
    """
    by_name = {
        name: f"{place}/{name}"
        for place in SYSCTL_PLACES
        for name in host.names(place)
        if name.endswith(".conf")
    }
    init = _NAME.search(host.read("/proc/1/status") or "")
    own = (_SYSCTL_FILE,) if init is not None and init[1] != "systemd" else ()
    return (*(by_name[name] for name in sorted(by_name)), *own)


def _on_command_line(words: list[str], default: int | None) -> tuple[int, dict[int, int]]:
    """Return the default page size, and the pages that the kernel's arguments ask for by size.

    The first number of a size counts (hugetlbpage.rst); numbers of NUMA nodes are added up.

    Args:
        words: The arguments.
        default: The default size where the kernel tells it; it may have refused another one.
    """
    found: dict[int, int] = {}
    size: int | None = default or 0
    for name, _, value in (word.partition("=") for word in words):
        if name in ("hugepagesz", "default_hugepagesz"):
            match = re.fullmatch(r"(\d+)([kmgt]?)", value.lower())
            size = int(match[1]) * KIB ** " kmgt".index(match[2] or " ") if match else None
            default = default or size
        elif name == "hugepages" and size is not None:
            numbers = re.findall(r"(?:^|,)(?:\d+:)?(\d+)", value)
            found.setdefault(size, sum(map(int, numbers)))
    return default or 0, found


def _mounted(host: Host) -> file.Found:
    text = host.read("/proc/self/mounts")
    if not text:
        return file.hidden("there is no /proc/self/mounts")
    return file.seen(mounted_sizes(text, default_page_bytes(host)), "/proc/self/mounts")


def default_page_bytes(host: Host) -> int | None:
    """Return the size of huge pages where none is named; None where it cannot be seen."""
    size = _default_size(host).value
    return size if isinstance(size, int) else None


def mounted_sizes(mounts: str, default: int | None) -> tuple[int, ...]:
    """Return the page sizes for which a hugetlbfs is mounted, from ``/proc/mounts``.

    Args:
        mounts: Its text.
        default: The size of a mount that names none, which older kernels do not write.
    """
    sizes = set()
    for mount in parse_mounts(mounts):
        if mount.file_system == "hugetlbfs":
            named = (each[9:] for each in mount.options if each.startswith("pagesize="))
            size = next(named, "")
            sizes.add(parse_bytes(size) if size else default)
    return tuple(sorted(size for size in sizes if size))


HOLDING: Final = r"HugetlbPages:[[:space:]]*[1-9]"  # as grep writes it; see kubernetes.py
_HELD: Final = re.compile(r"^HugetlbPages:\s*(\d+) kB$", re.MULTILINE)
_NAME: Final = re.compile(r"^Name:\s*(.+)$", re.MULTILINE)


def pool_users(host: Host) -> file.Found:
    """Return who holds huge pages; of touched pages alone, as the kernel counts them."""
    if not _HELD.search(host.read("/proc/self/status") or ""):
        return file.hidden("this kernel does not say which process holds huge pages")
    if host.read("/proc/1/status") is None:
        return file.hidden("processes of others are hidden (hidepid)")
    return file.seen(holders(host), "HugetlbPages in /proc/*/status")


def holders(host: Host) -> tuple[PoolUser, ...]:
    """Return who holds huge pages, as far as this account may see it."""
    pids = sorted(int(name) for name in host.names("/proc") if name.isdecimal())
    return tuple(user for pid in pids if (user := _user(host, pid)))


def _user(host: Host, pid: int) -> PoolUser | None:
    text = host.read(f"/proc/{pid}/status") or ""
    held, name = _HELD.search(text), _NAME.search(text)
    if held is None or name is None or held[1] == "0":
        return None
    return PoolUser(pid=pid, command=name[1], held_bytes=int(held[1]) * KIB)


def outside_of_pods(host: Host, users: tuple[PoolUser, ...], page_bytes: int) -> int:
    """Return how many huge pages are held by processes that run in no pod."""
    own = [u for u in users if "kubepods" not in (host.read(f"/proc/{u.pid}/cgroup") or "")]
    return sum(user.held_bytes for user in own) // page_bytes


CPUS: Final = "/sys/devices/system/cpu"
NODES: Final = "/sys/devices/system/node"


def topology_facts(host: Host) -> file.Finds:
    """Return which CPUs there are, which share a core, and which node they are on."""
    siblings = file.attempted(f"{CPUS}/cpu*/topology", lambda: _siblings(host))
    return {
        "cpus": file.read_fact(host, f"{CPUS}/online", parse_cpu_list),
        "nodes": file.attempted(NODES, lambda: _nodes(host)),
        "siblings": siblings,
        "smt": _smt(host, siblings),
        "allowed_cpus": _allowed(host),
    }


def _siblings(host: Host) -> file.Found:
    cores = set()
    for cpu in sorted(name for name in host.names(CPUS) if re.fullmatch(r"cpu\d+", name)):
        text = host.read(f"{CPUS}/{cpu}/topology/thread_siblings_list")
        if text and text.strip():
            cores.add(parse_cpu_list(text.strip()))
    source = f"{CPUS}/cpu*/topology/thread_siblings_list"
    return (
        file.seen(tuple(sorted(cores)), source) if cores else file.hidden(f"there is no {source}")
    )


def _smt(host: Host, siblings: file.Found) -> file.Found:
    found = file.read_fact(host, f"{CPUS}/smt/active", lambda text: bool(int(text)))
    if found.value is None and siblings.value:
        several = any(len(core) > 1 for core in siblings.value)
        return file.seen(several, siblings.origin.source)
    return found


def _allowed(host: Host) -> file.Found:
    cpus = allowed_cpus(host.read("/proc/self/status"))
    if cpus is None:
        return file.unknown("/proc/self/status names no Cpus_allowed_list")
    return file.seen(cpus, "Cpus_allowed_list in /proc/self/status")


def _nodes(host: Host) -> file.Found:
    names = [name for name in host.names(NODES) if re.fullmatch(r"node\d+", name)]
    nodes = [_node(host, int(name.removeprefix("node"))) for name in names]
    if not nodes:
        return file.hidden(f"there is no {NODES}: this kernel knows no NUMA nodes")
    return file.seen(tuple(sorted(nodes, key=lambda node: node.number)), f"{NODES}/node*")


def _node(host: Host, number: int) -> NumaNode:
    place = f"{NODES}/node{number}"
    cpus = (host.read(f"{place}/cpulist") or "").strip()  # empty of a node of memory alone
    return NumaNode(
        number=number,
        cpus=parse_cpu_list(cpus) if cpus else (),
        memory_bytes=memory_bytes(host.read(f"{place}/meminfo")).get("MemTotal"),
        distances=tuple(map(int, (host.read(f"{place}/distance") or "").split())),
        pools=pools_in(host, f"{place}/hugepages"),
    )


_NS_PER_S: Final = 1e9
_IDLE: Final = f"{CPUS}/cpuidle"
_FIRST: Final = f"{CPUS}/cpu0/cpuidle"
_DMA_LATENCY: Final = "/dev/cpu_dma_latency"
_NO_LIMIT_US: Final = 2_000_000_000  # PM_QOS_CPU_LATENCY_DEFAULT_VALUE, include/linux/pm_qos.h
_HYPERVISORS: Final = "the hypervisor governs it, and a virtual machine does not see that"


def cpu_facts(host: Host, *, virtual: bool | None) -> file.Finds:
    """Return the facts of CPUs; ``virtual`` says why some of them cannot be seen."""
    return {
        "scaling_driver": _frequency(host, "scaling_driver", virtual=virtual),
        "governor": _frequency(host, "scaling_governor", virtual=virtual),
        "energy_preference": _frequency(host, "energy_performance_preference", virtual=virtual),
        "idle_driver": file.read_fact(host, f"{_IDLE}/current_driver", str),
        "idle_governor": _idle_governor(host),
        "idle_states": _idle_states(host),
        "halt_poll_s": _halt_poll(host, virtual=virtual),
        "guest_halt_poll_s": _guest_halt_poll(host),
        "dma_latency_s": _dma_latency(host),
        "cpu_pressure_fraction": file.read_fact(
            host,
            "/proc/pressure/cpu",
            _pressure,
            absent="there is no /proc/pressure: this kernel does not account for pressure",
        ),
        "clocksource": file.read_fact(
            host, "/sys/devices/system/clocksource/clocksource0/current_clocksource", str
        ),
    }


def steal(before: str | None, after: str | None) -> file.Found:
    """Return the share of CPU time that a hypervisor gave to others between two looks.

    Args:
        before: Text of ``/proc/stat``.
        after: The same some time later.
    """
    first, last = cpu_times(before), cpu_times(after)
    if first is None or last is None:
        return file.hidden("/proc/stat does not say it")
    spent_s = last.total_s - first.total_s
    if spent_s <= 0:
        return file.unknown("no time passed between two looks at /proc/stat")
    stolen = (last.steal_s - first.steal_s) / spent_s
    return file.seen(stolen, "/proc/stat, two looks a second apart")


def _frequency(host: Host, name: str, *, virtual: bool | None) -> file.Found:
    """Return what all CPUs have, several different words joined by a comma."""
    words = set()
    for cpu in host.names(CPUS):
        text = host.read(f"{CPUS}/{cpu}/cpufreq/{name}") if re.fullmatch(r"cpu\d+", cpu) else None
        if text and text.strip():
            words.add(text.strip())
    if words:
        return file.seen(",".join(sorted(words)), f"{CPUS}/cpu*/cpufreq/{name}")
    if virtual:
        return file.hidden(_HYPERVISORS)
    return file.hidden(f"there is no {CPUS}/cpu*/cpufreq/{name}")


def _idle_governor(host: Host) -> file.Found:
    found = file.read_fact(host, f"{_IDLE}/current_governor", str)
    # Before Linux 5.17 the file that can be written is there on request only.
    return found if found.value else file.read_fact(host, f"{_IDLE}/current_governor_ro", str)


def _idle_states(host: Host) -> file.Found:
    matches = filter(None, (re.fullmatch(r"state(\d+)", name) for name in host.names(_FIRST)))
    states = [_state(host, f"{_FIRST}/state{n}") for n in sorted(int(m[1]) for m in matches)]
    found = tuple(state for state in states if state is not None)
    return file.seen(found, f"{_FIRST}/state*") if found else file.hidden(f"there is no {_FIRST}")


def _state(host: Host, place: str) -> IdleState | None:
    name, latency, disabled = (
        (host.read(f"{place}/{name}") or "").strip() for name in ("name", "latency", "disable")
    )
    if not name or not latency.isdecimal():
        return None
    return IdleState(
        name=name, exit_latency_s=int(latency) / US_PER_S, disabled=disabled not in ("", "0")
    )


def _halt_poll(host: Host, *, virtual: bool | None) -> file.Found:
    if virtual:
        return file.hidden(_HYPERVISORS)
    path = "/sys/module/kvm/parameters/halt_poll_ns"
    return file.read_fact(host, path, _seconds_of_ns, absent=f"there is no {path}: no KVM here")


def _guest_halt_poll(host: Host) -> file.Found:
    drivers = [host.read(f"{_IDLE}/{name}") for name in ("current_driver", "current_governor")]
    if not any("haltpoll" in (driver or "") for driver in drivers):
        return file.hidden("haltpoll is neither the idle driver nor its governor here")
    path = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
    return file.read_fact(host, path, _seconds_of_ns)


def _seconds_of_ns(text: str) -> float:
    return int(text) / _NS_PER_S


def _dma_latency(host: Host) -> file.Found:
    limit_us = host.number(_DMA_LATENCY)
    if limit_us is None:
        return file.unknown(f"{_DMA_LATENCY} is not there, or root alone may read it")
    if limit_us >= _NO_LIMIT_US:
        return file.seen(None, f"{_DMA_LATENCY}: nobody holds a limit")
    return file.seen(limit_us / US_PER_S, _DMA_LATENCY)


def _pressure(text: str) -> float:
    match = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    if match is None:
        raise ValueError
    return float(match[1]) / 100.0


_LAYER = "linux"
_LATER = "it takes a measurement, which nobody took"

Sighted = tuple[LinuxFacts, dict[str, Origin]]


def collect_linux(host: Host, data_directory: str | None = None) -> Sighted:
    """Return what the files of a machine say at one moment, and the origins below ``linux``.

    Args:
        host: The machine.
        data_directory: Of the database, whose disk is looked at; its links are resolved.
    """
    identity = identity_facts(host)
    virtual = {None: None, "none": False}.get(identity["virtualization"].value, True)
    finds = {
        **identity,
        **topology_facts(host),
        **memory_facts(host),
        **pool_facts(host),
        **cpu_facts(host, virtual=virtual),
        "steal_fraction": file.unknown(_LATER),
        "balloon": balloon_fact(host),
        "pool_users": pool_users(host),
        "device": file.attempted("the disk", lambda: device_fact(host, data_directory)),
        "ping_pong": file.unknown(_LATER),
    }
    return LinuxFacts(**file.values_of(finds)), file.origins_of(finds, _LAYER)


def with_finds(facts: LinuxFacts, origins: Mapping[str, Origin], finds: file.Finds) -> Sighted:
    """Return the facts with others that were found later."""
    return replace(facts, **file.values_of(finds)), {**origins, **file.origins_of(finds, _LAYER)}


_MOST_S: Final = 0.25  # so that the three of them take less than a second
_MOST: Final = 5_000
_LEAST: Final = 100  # fewer round trips have no 99th percentile

Pair = tuple[int, int]


def recorded_wakeups(host: Host) -> tuple[Fact, ...]:
    """Return what a campaign's record says of the wake-ups of the machine that it runs on."""
    kind = virtualization(host).value
    finds = cpu_facts(host, virtual=None if kind is None else kind != "none")
    limit = finds["dma_latency_s"].origin.visibility
    machine = LinuxFacts(virtualization=kind, **file.values_of(finds))
    return wake_up_facts(machine, limit_seen=limit is Visibility.YES)


def measure_wakeups(linux: LinuxFacts, processes: Processes) -> file.Found:
    """Return the round trips between two processes on one CPU, on two, on two NUMA nodes."""
    allowed = linux.allowed_cpus or ()
    if not allowed:
        return file.unknown("which CPUs may be used is not visible")
    pairs = {
        "same_cpu": (allowed[0], allowed[0]),
        "across": _across(linux, allowed),
        "other_node": _other_node(linux, allowed),
    }
    try:
        trips = {name: _trips(pair, processes) for name, pair in pairs.items() if pair}
    except SteelyardError as error:
        return file.unknown(f"the ping-pong failed: {error.message}")
    across = trips.get("across")
    facts = PingPong(
        same_cpu_s=_quantile(trips["same_cpu"], 50),
        across_s=_quantile(across, 50),
        across_p99_s=_quantile(across, 99),
        other_node_s=_quantile(trips.get("other_node"), 50),
    )
    on = "; ".join(f"CPUs {cpu_list(set(pair))}" for pair in pairs.values() if pair)
    return file.seen(facts, f"a byte back and forth over pipes, {_MOST_S} s each: {on}")


def _across(linux: LinuxFacts, allowed: tuple[int, ...]) -> Pair | None:
    """Return two CPUs of one node, of two cores where there are two."""
    pairs = list(combinations(allowed, 2))
    near = [pair for pair in pairs if len({_node_of_cpu(linux, cpu) for cpu in pair}) == 1]
    apart = [pair for pair in near if not any(set(pair) <= set(c) for c in linux.siblings or ())]
    return next(iter((*apart, *near)), None)


def _other_node(linux: LinuxFacts, allowed: tuple[int, ...]) -> Pair | None:
    far = (cpu for cpu in allowed if _node_of_cpu(linux, cpu) != _node_of_cpu(linux, allowed[0]))
    return next(((allowed[0], cpu) for cpu in far), None)


def _node_of_cpu(linux: LinuxFacts, cpu: int) -> int | None:
    return next((node.number for node in linux.nodes or () if cpu in node.cpus), None)


def _trips(pair: Pair, processes: Processes) -> tuple[float, ...]:
    return trials.ping_pong(
        Where.SAME if pair[0] == pair[1] else Where.ACROSS,
        processes=processes,
        directory=Path("/"),
        most_s=_MOST_S,
        most=_MOST,
        cpus=pair,
    ).trips_s


def _quantile(trips_s: tuple[float, ...] | None, percent: int) -> float | None:
    if trips_s is None or len(trips_s) < _LEAST:
        return None
    return quantiles(trips_s, n=100)[percent - 1]
