"""Which door turns which kind of knob, on this machine, in a cluster or on a node of it.

Two doors are defined here as well. A kubelet's configuration is changed by the operator of the
node, and configz says what is in force. Knobs of a node that is seen only through a container on it
are looked at and never turned.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from steelyard.core.command import ServerAddress
from steelyard.core.errors import PreflightError, SteelyardError, TargetError
from steelyard.core.kubernetes import NODE, Manifest
from steelyard.core.stack import Knob, KnobKind
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.gateways.doors import Doors
from steelyard.gateways.host import Host, KernelFiles, LocalHost, LocalKernelFiles
from steelyard.gateways.kubernetes.api import Kubernetes, KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.placed_files import LocalFiles, PlacedFiles, Wanted
from steelyard.gateways.process import Processes, SystemProcesses
from steelyard.gateways.sql import PsycopgSql, Sql
from steelyard.gateways.virsh import Virsh
from steelyard.places.kubernetes.undoing import differences
from steelyard.systems.postgres.existing.settings import Means
from steelyard.tuning.apply.cluster import ClusterDoor
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.apply.door import Check, KnobDoor, LookingDoor
from steelyard.tuning.apply.huge_pages import HugePageNeed, HugePagesDoor
from steelyard.tuning.apply.kernel import (
    FileDoor,
    ManualDoor,
    RenderedDoor,
    SysctlDoor,
    SysfsDoor,
    told,
)
from steelyard.tuning.apply.postgres import NoServerDoor, PostgresDoor
from steelyard.tuning.facts.kubernetes import AskedCluster, find_database
from steelyard.tuning.facts.node_probe import PodMachine, probe_on, wanted_of_kernel

_CONFIGZ: Final = "/api/v1/nodes/{node}/proxy/configz"
_HEAD: Final = ("apiVersion", "kind")
_HOW: Final = "merge {place} into the kubelet's configuration of {nodes}, as its first lines say"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDoor(LookingDoor):
    """Looks at the kubelets of the nodes that a database may be put on; turns nothing.

    Attributes:
        nodes: Names; empty: all that take pods without a toleration.
    """

    api: KubernetesApi
    nodes: tuple[str, ...] = ()

    def verify(self, knob: Knob) -> Check:
        """Return whether the kubelets run with what is asked, by what they answer themselves."""
        given = YAML(typ="safe", pure=True).load(knob.value)
        asked = {name: value for name, value in given.items() if name not in _HEAD}
        open_nodes: list[str] = []
        facts: list[str] = []
        try:
            names = self.nodes or tuple(_taking(self.api.list(NODE)))
            for node in names:
                found = list(differences(asked, self._configuration(node)))
                if found:
                    open_nodes.append(node)
                    facts += [f"{node}: {fact}" for fact in told(found)]
        except (SteelyardError, ValueError, LookupError) as error:
            words = error.message if isinstance(error, SteelyardError) else str(error)
            todo = _HOW.format(place=knob.place, nodes="the database's node")
            fact = f"The kubelet's configuration cannot be read: {words}."
            return Check(holds=None, facts=(fact,), pending=todo)
        if not open_nodes:
            return Check(holds=True, facts=(f"configz of {', '.join(names)} says all of it.",))
        todo = _HOW.format(place=knob.place, nodes=", ".join(open_nodes))
        return Check(holds=False, facts=tuple(facts), remedy=todo, pending=todo)

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the step, as a comment."""
        nodes = ", ".join(self.nodes) or "the database's node"
        return (f"# {_HOW.format(place=knob.place, nodes=nodes)}",)

    def _configuration(self, node: str) -> dict[str, Any]:
        answered = json.loads(self.api.raw(_CONFIGZ.format(node=node)))
        found: dict[str, Any] = answered["kubeletconfig"]
        return found


def _taking(nodes: Sequence[Manifest]) -> Iterator[str]:
    """Yield the nodes that take pods which tolerate nothing."""
    for node in nodes:
        spec = node.get("spec") or {}
        effects = {taint.get("effect") for taint in spec.get("taints") or ()}
        if not spec.get("unschedulable") and not effects & {"NoSchedule", "NoExecute"}:
            yield str(node["metadata"]["name"])


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


def stack_doors(doors: Doors) -> Mapping[KnobKind, KnobDoor]:
    """Return the door to each kind of knob; nothing is asked yet."""
    domains = DomainDoor(domains=Virsh(processes=doors.processes), host=doors.host)
    return {**kernel_doors(doors.host, doors.kernel), KnobKind.DOMAIN: domains}


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
        probe: Make a pod of a moment on the node.
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
