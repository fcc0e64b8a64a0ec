"""All doors in one hand: who turns which kind of knob."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.host import Host, LocalHost
from steelyard.gateways.kernel import KernelFiles, LocalKernelFiles
from steelyard.gateways.kubernetes.api import Kubernetes, KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.placed_files import LocalFiles, PlacedFiles
from steelyard.gateways.process import Processes, SystemProcesses
from steelyard.gateways.sql import PsycopgSql, Sql
from steelyard.gateways.virsh import Virsh
from steelyard.model.command import ServerAddress
from steelyard.model.stack import KnobKind
from steelyard.platforms.endpoint.restarting import Means
from steelyard.tuning.applying.cluster_door import ClusterDoor
from steelyard.tuning.applying.domain import DomainDoor
from steelyard.tuning.applying.door import KnobDoor
from steelyard.tuning.applying.files import FileDoor
from steelyard.tuning.applying.huge_page_need import HugePageNeed
from steelyard.tuning.applying.huge_pages import HugePagesDoor
from steelyard.tuning.applying.kubelet_door import KubeletDoor
from steelyard.tuning.applying.manual import ManualDoor, RenderedDoor
from steelyard.tuning.applying.postgres import PostgresDoor
from steelyard.tuning.applying.sysctl import SysctlDoor
from steelyard.tuning.applying.sysfs import SysfsDoor


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The gateways that a plan needs."""

    host: Host = field(default_factory=LocalHost)
    kernel: KernelFiles = field(default_factory=LocalKernelFiles)
    files: PlacedFiles = field(default_factory=LocalFiles)
    processes: Processes = field(default_factory=SystemProcesses)
    sql: Sql = field(default_factory=PsycopgSql)
    clock: Clock = field(default_factory=SystemClock)
    kubernetes: Kubernetes = field(default_factory=KubectlConfiguration)

    @property
    def means(self) -> Means:
        """Return those that a change on a server needs."""
        return Means(sql=self.sql, processes=self.processes, clock=self.clock)


def kernel_doors(host: Host, kernel: KernelFiles) -> Mapping[KnobKind, KnobDoor]:
    """Return the doors to the kernel of this machine: sysctl, /sys and huge pages."""
    pools = HugePagesDoor(host=host, kernel=kernel)
    return {
        KnobKind.SYSCTL: SysctlDoor(host=host, kernel=kernel, pools=pools),
        KnobKind.SYSFS: SysfsDoor(host=host, kernel=kernel),
        KnobKind.HUGE_PAGES: pools,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A Kubernetes cluster whose objects are turned.

    Attributes:
        namespace: Of the objects that have one.
        nodes: That the database runs on; empty: wherever it may.
    """

    api: KubernetesApi
    namespace: str
    nodes: tuple[str, ...] = ()


def doors(
    outside: Outside,
    *,
    rendered: Path,
    paths: Mapping[str, str],
    server: ServerAddress | None = None,
    need: HugePageNeed | None = None,
    inside: Inside | None = None,
) -> Mapping[KnobKind, KnobDoor]:
    """Return the door of every kind of knob; PostgreSQL's only where its server is known.

    Args:
        outside: The gateways.
        rendered: Directory of the plan's rendered files.
        paths: Where those belong that belong to a machine, by name.
        server: Whose settings are turned.
        need: Huge pages of that server.
        inside: Cluster whose objects are turned; None: they are named with their command.
    """
    unapplied = RenderedDoor(directory=rendered)
    found: dict[KnobKind, KnobDoor] = {
        **kernel_doors(outside.host, outside.kernel),
        KnobKind.FILE: FileDoor(
            files=outside.files,
            uid=os.geteuid(),
            gid=os.getegid(),
            rendered={path: rendered / name for name, path in paths.items() if path},
        ),
        KnobKind.DOMAIN: DomainDoor(domains=Virsh(processes=outside.processes), host=outside.host),
        KnobKind.MANUAL: ManualDoor(processes=outside.processes, host=outside.host),
        **dict.fromkeys((KnobKind.RENDERED, KnobKind.OBJECT, KnobKind.KUBELET), unapplied),
    }
    if inside is not None:
        found[KnobKind.KUBELET] = KubeletDoor(api=inside.api, nodes=inside.nodes)
        found[KnobKind.OBJECT] = ClusterDoor(
            api=inside.api, namespace=inside.namespace, sql=outside.sql, clock=outside.clock
        )
    if server is not None:
        found[KnobKind.POSTGRES] = PostgresDoor(
            means=outside.means,
            address=server,
            host=outside.host,
            need=need or HugePageNeed(),
        )
    return found
