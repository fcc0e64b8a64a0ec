"""The kubelet's configuration of a design.

Files for one Linux machine: its huge pages at boot, its sysctls, its tuned profile.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.core.linux import cpu_list
from steelyard.core.stack import MachineDesign, PlannedSetting, PodDesign, PoolDesign, RenderedFile
from steelyard.core.units import KIB, MIB
from steelyard.tuning.files.yaml_text import HEAD, Entry, hashed, quantity, remark, yaml_text

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


UNIT_PATH: Final = "/etc/systemd/system/steelyard-huge-pages.service"
SYSCTL_PATH: Final = "/etc/sysctl.d/90-steelyard.conf"
PROFILE_PATH: Final = "/etc/tuned/steelyard/tuned.conf"

_THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
_COMPACT: Final = "/proc/sys/vm/compact_memory"
_USERS: Final = (
    "kubelet.service libvirtd.service virtqemud.service postgresql.service sysinit.target"
)


def machine_files(design: MachineDesign, layer: str) -> Iterator[RenderedFile]:
    """Yield the files of a machine whose layer is ``hypervisor`` or ``linux``."""
    if design.pools:
        yield _file(layer, UNIT_PATH, huge_page_unit(design.pools), "systemd-analyze verify")
    if design.sysctls:
        yield _file(layer, SYSCTL_PATH, sysctl_file(design.sysctls), "sysctl --dry-run --load")
    if design.governor is not None or design.sysfs or design.sysctls:
        content = tuned_profile(design, hypervisor=layer == "hypervisor")
        yield RenderedFile(
            name=f"{layer}/tuned.conf",
            layer=layer,
            content=content,
            path=PROFILE_PATH,
            validated_by="tuned-adm profile steelyard && tuned-adm verify",
        )


def _file(layer: str, path: str, content: str, check: str) -> RenderedFile:
    name = f"{layer}/{path.rpartition('/')[2]}"
    return RenderedFile(
        name=name, layer=layer, content=content, path=path, validated_by=f"{check} {name}"
    )


def huge_page_unit(pools: Sequence[PoolDesign]) -> str:
    """Return a systemd unit that allocates huge pages at boot and reads back what it got.

    It never lowers a count: pages that somebody else asked for at boot stay. It comes before all
    ordinary services, because memory is whole then and nobody has taken pages yet.
    """
    head = hashed(
        f"{HEAD} Belongs in {UNIT_PATH}; then `systemctl enable steelyard-huge-pages`.",
        "The kernel gives fewer pages than it is asked for, and reports no error (measured: 82 of "
        "200); this unit fails then. Source: Linux, admin-guide/mm/hugetlbpage.rst.",
    )
    commands = "".join(
        f"ExecStart=/bin/sh -ec '{_allocation(pool)}'\n"
        f"ExecStartPost=/bin/sh -ec '{_reading_back(pool)}'\n"
        for pool in pools
    )
    return (
        f"{head}\n"
        "[Unit]\n"
        "Description=Allocate huge pages before their users start, and fail when there are fewer\n"
        "DefaultDependencies=no\n"
        "After=systemd-modules-load.service\n"
        f"Before={_USERS}\n"
        "\n[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{commands}"
        "\n[Install]\n"
        "WantedBy=sysinit.target\n"
    )


def pool_path(pool: PoolDesign) -> str:
    """Return the file that holds the number of pages of a pool."""
    above = "/sys/kernel/mm" if pool.node is None else f"/sys/devices/system/node/node{pool.node}"
    return f"{above}/hugepages/hugepages-{pool.page_bytes // KIB}kB/nr_hugepages"


def _allocation(pool: PoolDesign) -> str:
    """Return the command that asks for pages; systemd reads ``$$`` as ``$``."""
    path = pool_path(pool)
    ask = f"echo 1 >{_COMPACT}; echo {pool.pages} >{path}"
    return f'have=$$(cat {path}); if [ "$$have" -lt {pool.pages} ]; then {ask}; fi'


def _reading_back(pool: PoolDesign) -> str:
    where = "the machine" if pool.node is None else f"node {pool.node}"
    asked = f"{where}: {pool.pages} huge pages of {pool.page_bytes // KIB} kB asked for"
    failure = f'echo "{asked}, $$got given: free memory is too scattered or too small" >&2; exit 1'
    return f'got=$$(cat {pool_path(pool)}); [ "$$got" -ge {pool.pages} ] || {{ {failure}; }}'


def sysctl_file(settings: Sequence[PlannedSetting]) -> str:
    """Return a file for ``/etc/sysctl.d`` with the reason above every setting.

    Huge pages are not in it: ``vm.nr_hugepages`` spreads them over all nodes.
    """
    head = hashed(f"{HEAD} Belongs in {SYSCTL_PATH}; then `sysctl --system`.")
    lines = (f"{hashed(remark(each))}{each.name} = {each.value}\n" for each in settings)
    return "\n".join((head, *lines))


def tuned_profile(design: MachineDesign, *, hypervisor: bool) -> str:
    """Return a tuned profile on top of the one that tuned recommends for such a machine."""
    below = _profile_below(design, hypervisor=hypervisor)
    main = f"[main]\nsummary=Latency of a database, by steelyard stack plan\ninclude={below}\n"
    sections = (_cpu(design), _vm(design.sysfs), _sysctl(design.sysctls), _sysfs(design.sysfs))
    head = hashed(f"{HEAD} Belongs in {PROFILE_PATH}; then `tuned-adm profile steelyard`.")
    return "\n".join((head, main, *(section for section in sections if section)))


def _profile_below(design: MachineDesign, *, hypervisor: bool) -> str:
    if hypervisor:
        return "virtual-host"
    return "virtual-guest" if design.governor is None else "throughput-performance"


def _cpu(design: MachineDesign) -> str:
    """Return what only a machine that sees its CPUs' clock can set."""
    if design.governor is None:
        return ""
    why = hashed(
        "A deep idle state costs 85 to 170 us at each wake-up, which a single client waits for at "
        "every statement. Source: Linux, intel_idle.c; tuned, latency-performance."
    )
    epp = "energy_performance_preference=performance\n" if design.governor == "performance" else ""
    return f"[cpu]\ngovernor={design.governor}\n{epp}{why}force_latency=cstate.id_no_zero:1|3\n"


def _vm(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}transparent_hugepages={each.value}\n"
        for each in settings
        if each.name == _THP
    ]
    return f"[vm]\n{''.join(lines)}" if lines else ""


def _sysctl(settings: Sequence[PlannedSetting]) -> str:
    """Return the sysctls once more: the profile below sets some of them otherwise."""
    lines = "".join(f"{each.name}={each.value}\n" for each in settings)
    why = hashed(f"As in {SYSCTL_PATH}; said again, because the included profile differs.")
    return f"[sysctl]\n{why}{lines}" if lines else ""


def _sysfs(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}{each.name}={each.value}\n"
        for each in settings
        if each.name != _THP
    ]
    return f"[sysfs]\n{''.join(lines)}" if lines else ""
