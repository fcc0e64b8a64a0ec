"""CPUs, cores and NUMA nodes of a machine."""

import re
from typing import Final

from steelyard.gateways.host import Host
from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.linux_facts import NumaNode
from steelyard.model.units import KIB
from steelyard.tuning.facts.found import Finds, Found, attempted, hidden, read_fact, seen, unknown
from steelyard.tuning.facts.pools import pools_in

CPUS: Final = "/sys/devices/system/cpu"
NODES: Final = "/sys/devices/system/node"
_MEMORY: Final = re.compile(r"MemTotal:\s+(\d+) kB")


def topology_facts(host: Host) -> Finds:
    """Return which CPUs there are, which share a core, and which node they are on."""
    siblings = attempted(f"{CPUS}/cpu*/topology", lambda: _siblings(host))
    return {
        "cpus": read_fact(host, f"{CPUS}/online", parse_cpu_list),
        "nodes": attempted(NODES, lambda: _nodes(host)),
        "siblings": siblings,
        "smt": _smt(host, siblings),
        "allowed_cpus": attempted("/proc/self/status", lambda: _allowed(host)),
    }


def _siblings(host: Host) -> Found:
    cores = set()
    for cpu in sorted(name for name in host.names(CPUS) if re.fullmatch(r"cpu\d+", name)):
        text = host.read(f"{CPUS}/{cpu}/topology/thread_siblings_list")
        if text and text.strip():
            cores.add(parse_cpu_list(text.strip()))
    source = f"{CPUS}/cpu*/topology/thread_siblings_list"
    return seen(tuple(sorted(cores)), source) if cores else hidden(f"there is no {source}")


def _smt(host: Host, siblings: Found) -> Found:
    found = read_fact(host, f"{CPUS}/smt/active", lambda text: bool(int(text)))
    if found.value is None and siblings.value:
        several = any(len(core) > 1 for core in siblings.value)
        return seen(several, siblings.origin.source)
    return found


def _allowed(host: Host) -> Found:
    status = host.read("/proc/self/status") or ""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    if match is None:
        return unknown("/proc/self/status names no Cpus_allowed_list")
    return seen(parse_cpu_list(match[1]), "Cpus_allowed_list in /proc/self/status")


def _nodes(host: Host) -> Found:
    names = [name for name in host.names(NODES) if re.fullmatch(r"node\d+", name)]
    nodes = [_node(host, int(name.removeprefix("node"))) for name in names]
    if not nodes:
        return hidden(f"there is no {NODES}: this kernel knows no NUMA nodes")
    return seen(tuple(sorted(nodes, key=lambda node: node.number)), f"{NODES}/node*")


def _node(host: Host, number: int) -> NumaNode:
    place = f"{NODES}/node{number}"
    cpus = (host.read(f"{place}/cpulist") or "").strip()  # empty of a node of memory alone
    memory = _MEMORY.search(host.read(f"{place}/meminfo") or "")
    return NumaNode(
        number=number,
        cpus=parse_cpu_list(cpus) if cpus else (),
        memory_bytes=int(memory[1]) * KIB if memory else None,
        distances=tuple(map(int, (host.read(f"{place}/distance") or "").split())),
        pools=pools_in(host, f"{place}/hugepages"),
    )
