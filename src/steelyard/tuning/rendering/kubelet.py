"""The kubelet's configuration of a design."""

from collections.abc import Iterator
from typing import Final

from steelyard.model.cgroup import cpu_list
from steelyard.model.stack import PodDesign
from steelyard.model.units import MIB
from steelyard.tuning.rendering.quantities import quantity
from steelyard.tuning.rendering.remarks import HEAD, hashed
from steelyard.tuning.rendering.yaml_text import Entry, yaml_text

_CPUS: Final = "Kubernetes, 'Control CPU Management Policies on the Node'"
_MEMORY: Final = "Kubernetes, 'Utilizing the NUMA-aware Memory Manager'"


def kubelet_configuration(pod: PodDesign, *, exclusive: bool) -> str:
    """Return the part of a kubelet's configuration that the plan says.

    ``reservedMemory`` is exactly kubeReserved + systemReserved + evictionHard, without which the
    kubelet does not start, and names no huge pages, which none of these can reserve.
    """
    head = hashed(
        f"{HEAD} Merge it into the node's configuration: a file such as "
        "/etc/kubernetes/kubelet.conf.d/90-steelyard.conf with `kubelet --config-dir` (1.30 or "
        "later), else by hand.",
        "Drain the node, stop the kubelet, remove /var/lib/kubelet/cpu_manager_state and "
        "memory_manager_state, start it. It counts huge pages once, when it starts: allocate them "
        "before.",
    )
    kube, system, eviction = pod.reserved_memory_bytes
    return yaml_text(
        head,
        (
            Entry(key="apiVersion", value="kubelet.config.k8s.io/v1beta1"),
            Entry(key="kind", value="KubeletConfiguration"),
            *(_policies(pod) if exclusive else ()),
            *_reserved_cpus(pod),
            Entry(key="kubeReserved", value=_memory(kube)),
            Entry(key="systemReserved", value=_memory(system)),
            _eviction(eviction),
            *(_reserved_memory(pod) if exclusive else ()),
        ),
    )


def _memory(count: int) -> tuple[Entry, ...]:
    return (Entry(key="memory", value=quantity(count)),)


def _policies(pod: PodDesign) -> Iterator[Entry]:
    why = (
        "Whole CPUs of a Guaranteed pod are its own; with the default, none, they are a quota. "
        f"Source: {_CPUS}."
    )
    yield Entry(key="cpuManagerPolicy", value="static", why=why)
    if pod.full_cores:
        why = "No other pod gets the sibling thread of a core of the database."
        options = (Entry(key="full-pcpus-only", value="true", why=why),)
        yield Entry(key="cpuManagerPolicyOptions", value=options)
    why = "CPUs, memory and huge pages of a pod come from one NUMA node, or it is not admitted."
    yield Entry(key="topologyManagerPolicy", value="single-numa-node", why=why)
    yield Entry(key="topologyManagerScope", value="pod")
    yield Entry(key="memoryManagerPolicy", value="Static")


def _reserved_cpus(pod: PodDesign) -> Iterator[Entry]:
    if pod.reserved_cpus:
        why = f"For the system and the kubelet; static needs a reservation. Source: {_CPUS}."
        yield Entry(key="reservedSystemCPUs", value=cpu_list(pod.reserved_cpus), why=why)


def _eviction(memory_bytes: int) -> Entry:
    """Return all thresholds: naming one takes the defaults of the others away."""
    thresholds = {
        "memory.available": quantity(memory_bytes),
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }
    why = (
        "All but memory are the kubelet's defaults, said again because naming one takes them away. "
        "Source: Kubernetes, 'Node-pressure Eviction'."
    )
    told = tuple(Entry(key=key, value=value) for key, value in thresholds.items())
    return Entry(key="evictionHard", value=told, why=why)


def _reserved_memory(pod: PodDesign) -> Iterator[Entry]:
    parts = pod.reserved_memory_bytes
    told = " + ".join(quantity(part) for part in parts)
    why = f"Exactly {told}: the kubelet does not start otherwise. Source: {_MEMORY}."
    shares = _shares(sum(parts), len(pod.numa_nodes))
    nodes = tuple(
        (Entry(key="numaNode", value=node), Entry(key="limits", value=_memory(share)))
        for node, share in zip(pod.numa_nodes, shares, strict=True)
    )
    yield Entry(key="reservedMemory", value=nodes, why=why)


def _shares(count: int, parts: int) -> list[int]:
    """Return bytes as equal parts of whole MiB; the first has what is left over."""
    each = count // parts // MIB * MIB
    return [count - each * (parts - 1), *[each] * (parts - 1)]
