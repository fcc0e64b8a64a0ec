"""Which files the facts of a machine are made of, and how they are read through a container there.

Of the node a container sees what the kernel shows to everybody below ``/proc`` and ``/sys``. It
sees neither the node's files nor the processes of others.

The probe is a pod of a moment on one node. It may do nothing: no privilege, no account of the
cluster, no directory of the node, any user but root (Pod Security Standard `restricted`). Its own
CPU set says which CPUs containers share that have none of their own.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from steelyard.core.errors import SteelyardError, TargetError
from steelyard.core.kubernetes import (
    CAMPAIGN,
    MANAGED_BY,
    MANAGER,
    POD,
    PROBE,
    ROLE,
    ContainerRef,
    Manifest,
    ref_of,
)
from steelyard.gateways.host import GROUPS, Clock, group_cpus, group_quota, mount_of, named_numbers
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.placed_files import FetchedHost, Wanted, new_mark, parse_fetched, script
from steelyard.places.kubernetes.pods import ReadyWait, mortal_pod, restricted_container
from steelyard.tuning.facts.linux import CPUS, NODES, POOLS, SYSCTL_PLACES
from steelyard.tuning.facts.machine import DMI, VIRTIO
from steelyard.tuning.facts.servers import HOLDING
from steelyard.tuning.files.files import UNIT_PATH

_QUEUE: Final = ("rotational", "read_ahead_kb", "scheduler", "write_cache")
# What the kernel shows to everybody on its machine, in containers too.
KERNEL_FILES: Final = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/cmdline", "/proc/pressure/cpu"),
    *("/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/status", "/proc/self/smaps"),
    "/proc/self/cgroup",
    *(f"/proc/sys/kernel/{name}" for name in ("arch", "osrelease", "numa_balancing")),
    "/proc/sys/kernel/io_uring_disabled",
    *(f"/proc/sys/vm/{name}" for name in ("swappiness", "overcommit_memory", "dirty_ratio")),
    *(f"/proc/sys/vm/{name}" for name in ("dirty_bytes", "dirty_background_bytes")),
    *(f"/proc/sys/vm/{name}" for name in ("zone_reclaim_mode", "nr_overcommit_hugepages")),
    *("/sys/hypervisor/type", f"{DMI}/sys_vendor", f"{DMI}/product_name"),
    "/sys/devices/system/clocksource/clocksource0/*_clocksource",
    *(f"{CPUS}/online", f"{CPUS}/smt/active", f"{CPUS}/cpuidle/*"),
    f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list",
    *(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_{name}" for name in ("driver", "governor")),
    f"{CPUS}/cpu[0-9]*/cpufreq/energy_performance_preference",
    *(f"{CPUS}/cpu0/cpuidle/state*/{name}" for name in ("name", "latency", "disable")),
    *(f"{NODES}/node[0-9]*/{name}" for name in ("cpulist", "meminfo", "distance")),
    *(f"{NODES}/node[0-9]*/hugepages/*/*_hugepages", f"{POOLS}/*/*_hugepages"),
    *("/sys/module/kvm/parameters/halt_poll_ns", "/sys/module/haltpoll/parameters/*"),
    *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag"),
    *(f"{VIRTIO}/*/device", f"{VIRTIO}/*/uevent"),
    *("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"),
)
_FILES: Final = (
    *KERNEL_FILES,
    "/proc/1/status",
    *("/etc/sysctl.conf", *(f"{place}/*.conf" for place in SYSCTL_PLACES)),
    UNIT_PATH,
    *("/run/systemd/container", "/.dockerenv", "/run/.containerenv"),
    *("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/cpu_manager_state"),
)


def wanted_at_first(directories: tuple[str, ...]) -> Wanted:
    """Return everything but what depends on it; ``directories`` of the machine are resolved."""
    return Wanted(
        files=_FILES,
        matching=(("/proc/[0-9]*/status", HOLDING),),
        numbers=("/dev/cpu_dma_latency",),
        directories=directories,
    )


def wanted_later(places: tuple[str, ...], pids: tuple[int, ...]) -> Wanted:
    """Return what is looked at a second time, with the disk's directories and some processes."""
    return Wanted(
        files=(
            "/proc/stat",
            *(f"{place}/queue/{name}" for place in places for name in _QUEUE),
            *(f"{place}/uevent" for place in places),
            *(f"{place}/device/{name}" for place in places for name in ("model", "vendor")),
            *(f"/proc/{pid}/cgroup" for pid in pids),
        )
    )


_PROBE_CONTAINER: Final = "probe"
_LABELS: Final = {MANAGED_BY: MANAGER, ROLE: PROBE}
_LOOK: Final = "inspect-"
_NOBODY: Final = 65534
_LASTS_S: Final = 300  # then the cluster ends it, whatever became of Steelyard; a guess


def probe_manifest(namespace: str, beside: Manifest) -> dict[str, Any]:
    """Return a probe for the node of another pod, of the image that this pod has there already."""
    spec = beside["spec"]
    name = f"{_LOOK}{secrets.token_hex(4)}"
    container = restricted_container(
        _PROBE_CONTAINER,
        spec["containers"][0]["image"],
        command=["sleep", str(_LASTS_S)],
        # Never Guaranteed: it would not be on the CPUs that others share.
        resources={
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "500m", "memory": "64Mi"},
        },
    )
    return POD.manifest(
        f"steelyard-{name}",
        namespace=namespace,
        # As of a campaign of its own: `clean --context` finds what a death left.
        labels={**_LABELS, CAMPAIGN: name},
        spec=mortal_pod(
            container,
            user=_NOBODY,
            lasts_s=_LASTS_S,
            nodeName=spec["nodeName"],
            tolerations=[{"operator": "Exists"}],
            imagePullSecrets=list(spec.get("imagePullSecrets") or ()),
        ),
    )


@contextmanager
def probe_on(
    api: KubernetesApi, namespace: str, beside: Manifest, clock: Clock
) -> Iterator[ContainerRef]:
    """Yield the container of a probe on the node of a pod; it is gone afterwards.

    Raises:
        SteelyardError: It may not be made there, or does not run.
    """
    _remove_ended(api, namespace)
    manifest = probe_manifest(namespace, beside)
    ref = ref_of(manifest)
    try:
        api.apply(manifest)
        ReadyWait(api, clock, lambda _message: None).until_ready((ref,))
        yield ContainerRef(namespace=namespace, pod=ref.name, container=_PROBE_CONTAINER)
    finally:
        with suppress(SteelyardError):  # it ends by itself, and the next one removes it
            api.delete(ref, grace_s=0)


def _remove_ended(api: KubernetesApi, namespace: str) -> None:
    """Remove probes whose Steelyard died before it could."""
    for pod in api.list(POD, namespace, _LABELS):
        campaign = (pod["metadata"].get("labels") or {}).get(CAMPAIGN, _LOOK)
        if (
            campaign.startswith(_LOOK)
            and (pod["metadata"]["name"]).startswith(f"steelyard-{_LOOK}")
            and (pod.get("status") or {}).get("phase") in _ENDED
        ):
            api.delete(ref_of(pod), grace_s=0)


_TIMEOUT_S: Final = 60.0
# Of version 2, and of version 1 under each name that it is mounted by.
_PLACES: Final = ("", "/cpu", "/cpu,cpuacct", "/cpuset", "/hugetlb")
_GROUP_FILES: Final = (
    *("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"),
    *("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"),
    *("hugetlb.*.current", "hugetlb.*.usage_in_bytes"),
)
_OF_GROUP: Final = tuple(f"{GROUPS}{place}/{name}" for place in _PLACES for name in _GROUP_FILES)
_CHARGED: Final = re.compile(r"/hugetlb\.[^/]+?\.(rsvd\.)?(?:current|usage_in_bytes)$")
_SERVERS: Final = r"^[0-9]* (postgres)"  # as grep writes it, of /proc/PID/stat
_SERVER: Final = re.compile(r"^([0-9]+) \(postgres\) \S ([0-9]+) ")
_SIZE: Final = re.compile(r"size=([0-9]{1,15})k")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMachine:
    """A container whose files are read by a shell in it."""

    api: KubernetesApi
    where: ContainerRef

    def fetch(self, wanted: Wanted) -> FetchedHost:
        """Return what is wanted.

        Raises:
            SteelyardError: The account may not run commands there, or nothing runs there.
            TargetError: There is no shell for us.
        """
        mark = new_mark()
        done = self.api.run(
            self.where, ("sh", "-s"), timeout_s=_TIMEOUT_S, stdin=script(wanted, mark)
        )
        host = parse_fetched(done.stdout, mark)
        if host is None:
            reason = done.tail(1) or f"exit status {done.exit_status}"
            raise TargetError(
                f"the container {self.where.container} of {self.where.pod} did not run a shell"
                f" script to its end: {reason}",
                hint="Its image needs a POSIX shell with cat, grep and od.",
            )
        return host


def wanted_of_container() -> Wanted:
    """Return what says how a container is limited, and where its server is."""
    return Wanted(
        files=(*_OF_GROUP, "/proc/self/mountinfo", "/proc/meminfo"),
        matching=(("/proc/[0-9]*/stat", _SERVERS),),
    )


def wanted_of_kernel() -> Wanted:
    """Return what the kernel of the node shows in any container of it, with its own limits."""
    return Wanted(files=(*KERNEL_FILES, *_OF_GROUP))


def with_files(host: FetchedHost, other: FetchedHost, paths: Iterable[str]) -> FetchedHost:
    """Return a machine with these files of another look, where that has them."""
    taken = {path: text for path in paths if (text := other.read(path)) is not None}
    return host.with_more(FetchedHost(files=taken))


def cpus_of(host: FetchedHost) -> tuple[int, ...] | None:
    """Return the CPUs that a container may run on; None where its CPU set is not visible."""
    return group_cpus(partial(_of_group, host))


def quota_of(host: FetchedHost) -> float | None:
    """Return how many CPUs a container's quota is worth; None without one."""
    return group_quota(partial(_of_group, host))


def throttled_of(host: FetchedHost) -> int | None:
    """Return in how many periods the quota held a container back; None where it is not visible."""
    return named_numbers(_of_group(host, "cpu.stat")).get("nr_throttled")


def huge_bytes_of(host: FetchedHost) -> int | None:
    """Return the huge pages charged to a container, promised ones too; None where not counted."""
    charged: dict[bool, int] = {}
    for path, text in host.files.items():
        kind = _CHARGED.search(path)
        if kind and path.startswith(GROUPS) and text.strip().isdecimal():
            reserved = bool(kind[1])
            charged[reserved] = charged.get(reserved, 0) + int(text)
    return max(charged.values(), default=None)


def server_of(host: FetchedHost) -> int | None:
    """Return the first process of the server, as its container counts them."""
    texts = (text for path, text in host.files.items() if path.endswith("/stat"))
    parents = {int(m[1]): int(m[2]) for m in map(_SERVER.match, texts) if m}
    return next((pid for pid, parent in parents.items() if parent not in parents), None)


def shm_bytes_of(host: FetchedHost) -> int | None:
    """Return the size of a container's ``/dev/shm``; None where its mount names none or is torn."""
    try:
        mount = mount_of(host, "/dev/shm")  # noqa: S108 - it is looked at
    except (ValueError, LookupError):
        return None
    sizes = map(_SIZE.fullmatch, mount.options if mount and mount.at == "/dev/shm" else ())  # noqa: S108
    return next((int(size[1]) * 1024 for size in sizes if size), None)


def _of_group(host: FetchedHost, name: str) -> str:
    found = (host.read(f"{GROUPS}{place}/{name}") for place in _PLACES)
    return next((text.strip() for text in found if text and text.strip()), "")
