"""Which door turns which kind of knob, on this machine, in a cluster or on a node of it.

Knobs of a node that is seen only through a container on it are looked at and never turned.

Of the plan of a directory: the server it is for, its doors, and which knobs are turned, in order.
Each knob comes after those that must be in effect before it. A plan may have knobs for two
machines: a hypervisor, and the virtual machine with the database. They have files of the same
names, so each is only turned on its own machine.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from steelyard import __version__
from steelyard.core.kubernetes import CLUSTER, OF_CLUSTER, POD
from steelyard.core.outside import Foreign, OnServer, ServerAddress, host_and_port
from steelyard.core.stack import Knob, KnobKind, Site, StackPlan
from steelyard.core.wording import InputError, PreflightError, SteelyardError, TargetError, quoted
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import read_text
from steelyard.gateways.host import Host, KernelFiles
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.placed_files import Wanted
from steelyard.gateways.sql import Sql, parsed_uri
from steelyard.gateways.virsh import Domains
from steelyard.record.journal import AppliedCluster, StackBegun
from steelyard.tuning.apply.domain import DomainDoor
from steelyard.tuning.apply.door import Check, KnobDoor, LookingDoor
from steelyard.tuning.apply.huge_pages import HugePageNeed
from steelyard.tuning.apply.kernel import FileDoor, ManualDoor, RenderedDoor, kernel_doors
from steelyard.tuning.apply.servers import ClusterDoor, KubeletDoor, NoServerDoor, PostgresDoor
from steelyard.tuning.facts.kubernetes import (
    AskedCluster,
    PodMachine,
    find_database,
    probe_on,
    wanted_of_kernel,
)
from steelyard.tuning.plan.designing import is_rendered_check


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
    outside: Doors,
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
        KnobKind.DOMAIN: DomainDoor(
            domains=Domains(processes=outside.processes), host=outside.host
        ),
        KnobKind.MANUAL: ManualDoor(
            processes=outside.processes, is_ours=is_rendered_check, host=outside.host
        ),
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
            sql=outside.sql,
            clock=outside.clock,
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
        """Refuse: it is turned on the node."""
        raise PreflightError(f"{knob.name} is turned on the node", hint=_ON_NODE)

    def verify(self, _knob: Knob) -> Check:
        """Return that nobody can see it from here."""
        return Check(holds=None, facts=(self.reason,), remedy=_ON_NODE)

    def commands(self, _knob: Knob) -> Sequence[str]:
        """Return nothing."""
        return ()


class _Elsewhere(KernelFiles):
    """The kernel's files of a machine that is only looked at."""

    def obstacle(self, path: str) -> str | None:
        """Return that nothing is written there."""
        return f"{path} is on another machine"

    def write(self, path: str, text: str) -> None:
        """Refuse."""
        raise TargetError(f"{path} is on another machine: {text!r} is not written", hint=_ON_NODE)


def with_node(
    doors: Mapping[KnobKind, KnobDoor],
    knobs: Sequence[Knob],
    cluster: str,
    inside: Inside,
    outside: Doors,
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


_HINT = "Make the plan anew with `steelyard stack plan`."


def ordered(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """Return knobs so that none comes before one of its ``after``; else as they were given.

    Raises:
        InputError: A name is there twice, is unknown, or waits for itself.
    """
    by_name = {knob.name: knob for knob in knobs}
    if len(by_name) != len(knobs):
        raise InputError("the plan names a knob twice", hint=_HINT)
    unknown = sorted({name for knob in knobs for name in knob.after} - set(by_name))
    if unknown:
        raise InputError(f"the plan has no knob {', '.join(unknown)}", hint=_HINT)
    placed: dict[str, Knob] = {}
    while len(placed) < len(knobs):
        ready = [k for k in knobs if k.name not in placed and set(k.after) <= set(placed)]
        if not ready:
            circle = [knob.name for knob in knobs if knob.name not in placed]
            raise InputError(f"knobs wait for each other: {', '.join(circle)}", hint=_HINT)
        placed[ready[0].name] = ready[0]
    return tuple(placed.values())


NAME: Final = "plan.json"
FILES: Final = "files"
_FORMAT: Final = 1
_IDENTIFIER: Final = "SELECT system_identifier::text FROM pg_control_system()"
_SERVER_PLACE: Final = """
SELECT current_setting('data_directory') || '@' ||
       coalesce(pg_read_file('/etc/machine-id', 0, 64, true), '')
"""


def read_plan(directory: Path) -> StackPlan:
    """Return the plan of a directory.

    Raises:
        InputError: There is none, it is damaged, or this version does not know its format.
    """
    path = directory / NAME
    text = read_text(path)
    if text is None:
        raise InputError(
            f"there is no {NAME} in {directory}",
            hint=f"Make one: steelyard stack plan --cpus 2 --memory 8GiB --dir {quoted(directory)}",
        )
    try:
        plan = TypeAdapter(StackPlan).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path} is no plan: {place}: {first['msg']}", hint="Make it anew."
        ) from None
    if plan.format != _FORMAT:
        raise InputError(
            f"{path} has format {plan.format}, which this version does not know",
            hint="Use the version of Steelyard that made it, or make it anew.",
        )
    ordered(plan.knobs)
    return plan


def reached(uri: str, sql: Sql) -> tuple[OnServer, ServerAddress]:
    """Return the server of a URI: for the record, without a password, and with it.

    Raises:
        InputError: The URI is none, or has a password in it.
        TargetError: The server cannot be reached.
    """
    address = sql.reach(parsed_uri(uri))
    server = OnServer(
        resource=Foreign.SETTINGS,
        host=address.host,
        port=address.port,
        user=address.user,
        parameters=address.parameters,
        database=address.database,
        entrance=address.database,
        mark="",
    )
    return server, address


def identifier(address: ServerAddress, sql: Sql) -> str:
    """Return what tells the data of a server from those of any other."""
    return str(sql.rows(address, _IDENTIFIER)[0][0])


def server_place(address: ServerAddress, sql: Sql) -> str:
    """Return what tells a server from its standby; empty where its user may not see it."""
    try:
        return str(sql.rows(address, _SERVER_PLACE)[0][0]).strip()
    except TargetError:
        return ""


def require_same_server(begun: StackBegun, address: ServerAddress, sql: Sql) -> None:
    """Check that a server is the one whose settings were changed.

    Raises:
        PreflightError: It is another.
    """
    found, where = identifier(address, sql), host_and_port(address.host, address.port)
    if begun.system_identifier and found != begun.system_identifier:
        raise PreflightError(
            f"the server at {where} has other data than the one the plan was applied to",
            hint="Name that one with --dsn.",
        )
    place = server_place(address, sql)
    if place and begun.server_place and place != begun.server_place:
        raise PreflightError(
            f"the server at {where} has the same data as the one the plan was applied to, and runs"
            " at another place: it is a standby or a copy of it",
            hint="Name that one with --dsn.",
        )


def require_same_machine(begun: StackBegun | None, host: Host) -> None:
    """Check that this is the machine whose files and settings were changed.

    Raises:
        PreflightError: The record comes from another.
    """
    if begun is not None and begun.machine and begun.machine != machine(host):
        raise PreflightError(
            "the plan was applied on another machine than this one",
            hint="Revert it there, or apply it here from a copy without applied.jsonl.",
        )


def machine(host: Host) -> str:
    """Return what tells a machine from any other, empty where it has no such thing."""
    return (host.read("/etc/machine-id") or "").strip()


def inside(
    plan: StackPlan, outside: Doors, context: str | None, namespace: str | None
) -> Inside | None:
    """Return the cluster that a context or a namespace names; None where neither does.

    Raises:
        InputError: There is no such context, or the plan has no object for a cluster.
    """
    if context is None and namespace is None:
        return None
    if not any(knob.kind.site is Site.CLUSTER for knob in plan.knobs):
        raise InputError(
            "the plan has nothing for a Kubernetes cluster", hint="Leave --context and -n out."
        )
    api = outside.kubernetes.connect(context)
    place, nodes = namespace or api.namespace, set[str]()  # of instances that are there
    if api.knows(CLUSTER):
        pods = api.list(POD, place, {OF_CLUSTER: plan.design.request.name})
        nodes = {str(pod["spec"].get("nodeName") or "") for pod in pods} - {""}
    return Inside(api=api, namespace=place, nodes=tuple(sorted(nodes)))


def inside_again(begun: StackBegun, outside: Doors) -> Inside | None:
    """Return the cluster that an application turned objects of; None where it turned none.

    Raises:
        PreflightError: Its context means another cluster now.
    """
    cluster = begun.cluster
    if cluster is None:
        return None
    api = outside.kubernetes.connect(cluster.context or None)
    if api.server != cluster.server:
        raise PreflightError(
            f"the plan was applied to the cluster at {cluster.server}, and the context"
            f" {cluster.context} means {api.server} now",
            hint="Let that context of the kubeconfig mean the former cluster again.",
        )
    return Inside(api=api, namespace=cluster.namespace)


def beginning(
    plan: StackPlan,
    server: OnServer | None,
    address: ServerAddress | None,
    outside: Doors,
    inside: Inside | None = None,
) -> StackBegun:
    """Return the entry that begins an application."""
    return StackBegun(
        knobs=plan.knobs,
        version=__version__,
        server=server,
        system_identifier=identifier(address, outside.sql) if address else "",
        server_place=server_place(address, outside.sql) if address else "",
        machine=machine(outside.host),
        cluster=None
        if inside is None
        else AppliedCluster(
            context=inside.api.context, server=inside.api.server, namespace=inside.namespace
        ),
    )


def doors_of(
    plan: StackPlan,
    directory: Path,
    outside: Doors,
    address: ServerAddress | None,
    *,
    remote: bool = False,
    inside: Inside | None = None,
) -> Mapping[KnobKind, KnobDoor]:
    """Return the doors to what a plan turns; ``remote``: its server is on another machine."""
    size = plan.design.request.page_bytes
    # The pools of a hypervisor are its guest's.
    pools = [k for k in plan.knobs if k.kind is KnobKind.HUGE_PAGES and k.layer != "hypervisor"]
    return doors(
        outside,
        rendered=directory / FILES,
        paths={file.name: file.path for file in plan.files},
        server=address,
        need=HugePageNeed(
            pages=plan.design.postgres.huge_pages or None,
            page_bytes=size,
            pools=tuple(knob for knob in pools if knob.place.endswith(f"/{size}")),
            counted_by=plan.design.postgres.counted_by,
            elsewhere=remote,
        ),
        inside=inside,
    )


HYPERVISOR: Final = frozenset({"hypervisor", "kvm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a plan is turned.

    Attributes:
        layers: Asked for; empty: all.
        elsewhere: Layers that are on another machine, so that nothing tells of them here.
    """

    layers: frozenset[str] = field(default_factory=frozenset)
    elsewhere: frozenset[str] = field(default_factory=frozenset)

    def wants(self, knob: Knob) -> bool:
        """Return whether a knob is to be turned."""
        return not self.layers or knob.layer in self.layers

    def sees(self, knob: Knob) -> bool:
        """Return whether a knob can be looked at from here."""
        return knob.layer not in self.elsewhere


def selection_of(knobs: Sequence[Knob], layers: Sequence[str], *, local_server: bool) -> Selection:
    """Return what of a plan is turned from here.

    Args:
        knobs: Of the plan.
        layers: Asked for; empty: all.
        local_server: The server of the plan's settings runs here, or there is none.

    Raises:
        InputError: That would be knobs of two machines.
    """
    asked = frozenset(layers)
    chosen = [knob for knob in knobs if not asked or knob.layer in asked]
    here = {k.layer in HYPERVISOR for k in chosen if k.kind.site is Site.MACHINE}
    if len(here) > 1:
        raise InputError(
            "the plan has knobs for two machines: the hypervisor, and the one of the database",
            hint="On the hypervisor say --only hypervisor --only kvm, in the virtual machine"
            " --only linux --only postgres.",
        )
    if here == {True}:
        return Selection(layers=asked, elsewhere=frozenset({"linux"}))
    if here == set() and not local_server:
        return Selection(layers=asked, elsewhere=frozenset({"linux", *HYPERVISOR}))
    return Selection(layers=asked, elsewhere=HYPERVISOR)
