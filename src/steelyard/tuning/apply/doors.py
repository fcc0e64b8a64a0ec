"""Which door turns which kind of knob, on this machine, in a cluster or on a node of it.

Knobs of a node that is seen only through a container on it are looked at and never turned.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.core.command import ServerAddress
from steelyard.core.errors import PreflightError, SteelyardError, TargetError
from steelyard.core.stack import Knob, KnobKind
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.host import Host, KernelFiles, LocalHost, LocalKernelFiles
from steelyard.gateways.kubernetes.api import Kubernetes, KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.placed_files import LocalFiles, PlacedFiles, Wanted
from steelyard.gateways.process import Processes, SystemProcesses
from steelyard.gateways.sql import PsycopgSql, Sql
from steelyard.gateways.virsh import Virsh
from steelyard.systems.postgres.existing.settings import Means
from steelyard.tuning.apply.cluster import ClusterDoor, KubeletDoor
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.apply.door import Check, KnobDoor, LookingDoor
from steelyard.tuning.apply.huge_pages import HugePageNeed
from steelyard.tuning.apply.kernel import FileDoor, ManualDoor, RenderedDoor, kernel_doors
from steelyard.tuning.apply.postgres import NoServerDoor, PostgresDoor
from steelyard.tuning.facts.kubernetes import AskedCluster, find_database
from steelyard.tuning.facts.node_probe import PodMachine, probe_on, wanted_of_kernel


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
    """Return the door of every kind of knob.

    Args:
        outside: The gateways.
        rendered: Directory of the plan's rendered files.
        paths: Where those belong that belong to a machine, by name.
        server: Whose settings are turned; None: none is named, or it cannot be reached.
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
        KnobKind.POSTGRES: NoServerDoor(),
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


_ON_NODE: Final = "Run `steelyard stack verify` on the node."


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenDoor(LookingDoor):
    """Says why a knob of a node cannot be seen.

    Attributes:
        reason: A sentence.
    """

    reason: str

    def require(self, knob: Knob) -> None:
        """Refuse: it is turned on the node.

        Raises:
            PreflightError: Always.
        """
        raise PreflightError(f"{knob.name} is turned on the node", hint=_ON_NODE)

    def verify(self, _knob: Knob) -> Check:
        """Return that nobody can see it from here."""
        return Check(holds=None, facts=(self.reason,), remedy=_ON_NODE)

    def commands(self, _knob: Knob) -> Sequence[str]:
        """Return nothing."""
        return ()


class _Elsewhere:
    """The kernel's files of a machine that is only looked at."""

    def obstacle(self, path: str) -> str | None:
        """Return that nothing is written there."""
        return f"{path} is on another machine"

    def write(self, path: str, text: str) -> None:
        """Refuse.

        Raises:
            TargetError: Always.
        """
        raise TargetError(f"{path} is on another machine: {text!r} is not written", hint=_ON_NODE)


def with_node(
    doors: Mapping[KnobKind, KnobDoor],
    knobs: Sequence[Knob],
    cluster: str,
    inside: Inside,
    outside: Outside,
    *,
    probe: bool,
) -> Mapping[KnobKind, KnobDoor]:
    """Return doors that look at the node of a Cluster's primary where they looked at this machine.

    Args:
        doors: To everything.
        knobs: That are looked at.
        cluster: Name of the Cluster.
        inside: Where it is.
        outside: The gateways.
        probe: Start a short-lived probe pod on the node.
    """
    files = UnseenDoor(reason="Files and services of a node are not visible in a container.")
    found = {**doors, **dict.fromkeys((KnobKind.FILE, KnobKind.MANUAL), files)}
    reason = "It takes a probe on the node, and --no-node-probe left it out."
    if probe:
        try:
            asked = AskedCluster(namespace=inside.namespace, cluster=cluster)
            database = find_database(inside.api, asked)
            with probe_on(inside.api, inside.namespace, database.pod, outside.clock) as where:
                read = (file for knob in knobs for file in doors[knob.kind].kernel_files(knob))
                wanted = Wanted(files=(*wanted_of_kernel().files, *read))
                host = PodMachine(api=inside.api, where=where).fetch(wanted)
        except SteelyardError as error:
            reason = f"The node cannot be looked at: {error.message}."
        else:
            return {**found, **kernel_doors(host, _Elsewhere())}
    of_kernel = kernel_doors(outside.host, outside.kernel)
    return {**found, **dict.fromkeys(of_kernel, UnseenDoor(reason=reason))}
