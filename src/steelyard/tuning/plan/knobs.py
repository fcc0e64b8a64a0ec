"""The knobs of a design: one per change, each with what must be in effect before it.

The edges go from the bottom up: the hypervisor's pool, the domain, the guest's pool, the kubelet,
the pod, PostgreSQL. A knob's layer says on which machine it is turned: ``hypervisor`` and ``kvm``
on the hypervisor, ``linux`` on the machine of the database, the rest through their own doors.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from steelyard.core.stack import (
    Knob,
    KnobKind,
    MachineDesign,
    Place,
    PlannedSetting,
    PoolDesign,
    RenderedFile,
    Scope,
    StackDesign,
)
from steelyard.core.units import format_bytes
from steelyard.tuning.files.machine import PROFILE_PATH, UNIT_PATH

GOVERNORS: Final = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"

_HUGETLB: Final = "Linux documentation, 'HugeTLB Pages'"
_LIBVIRT: Final = "libvirt documentation, 'Domain XML format'"
_FREQUENCY: Final = "Linux documentation, 'intel_pstate' and 'CPU Performance Scaling'"
_PERSISTS: Final = "Keeps it over a reboot, where it is enabled"
_SYSTEMD: Final = "manual pages systemctl(1), sd_booted(3), tuned-adm(8)"
_BOOTED: Final = (
    "{ [ -d /run/systemd/system ] || { echo 'no systemd runs here (a container?): nothing keeps it"
    " over a reboot' >&2; false; }; }"
)
_UNIT: Final = UNIT_PATH.rpartition("/")[2]
# What to do for a placed file, how it is checked, and how it is undone.
_ENABLING: Final = {
    UNIT_PATH: (
        f"systemctl daemon-reload && systemctl enable {_UNIT}",
        f"systemctl is-enabled {_UNIT}",
        f"systemctl disable {_UNIT}",
    ),
    PROFILE_PATH: (
        "systemctl enable --now tuned && tuned-adm profile steelyard",
        "systemctl is-enabled tuned && tuned-adm active | grep -x '.*: steelyard'",
        "tuned-adm profile NAME, with the profile of before, or tuned-adm off where none was",
    ),
}
_UNDO_KUBELET: Final = "take it out of the node's kubelet configuration, and restart the kubelet"
_PINNED: Final = (
    "on a machine of one NUMA node, which CPU server and client ran on changed the latency at one"
    " client 3.2-fold, 6-fold beside a busy neighbour. Of the published change at one client, on"
    " another machine, memory distance explains 1 to 6 % at most"
)


def knobs_of(design: StackDesign, files: Sequence[RenderedFile]) -> tuple[Knob, ...]:
    """Return the knobs of a design, in an order that its edges allow.

    Args:
        design: Of all layers.
        files: Rendered from it; those with a place on a machine become knobs.
    """
    below = _machine("hypervisor", design.hypervisor, files, after=())
    domain = _domain(design, files, after=_pools_of(below))
    machine = _machine("linux", design.machine, files, after=_names(domain))
    objects = _objects(design, files, after=_pools_of(machine) or _names(domain))
    turned = tuple(knob for knob in machine if knob.kind is not KnobKind.MANUAL)
    settings = _postgres(design, after=_pools_of(machine) or _names(turned))
    return (*below, *domain, *machine, *objects, *settings)


def _machine(
    layer: str, machine: MachineDesign | None, files: Sequence[RenderedFile], after: tuple[str, ...]
) -> tuple[Knob, ...]:
    if machine is None:
        return ()
    pools = tuple(_pool(layer, pool, after) for pool in machine.pools)
    return (
        *pools,
        *(_setting(layer, each, KnobKind.SYSCTL, after) for each in machine.sysctls),
        *(_setting(layer, each, KnobKind.SYSFS, after) for each in machine.sysfs),
        *_governor(layer, machine, after),
        *_persisting(layer, files, after=(*after, *_names(pools))),
        *(_step(layer, each) for each in machine.steps),
    )


def _step(layer: str, step: PlannedSetting) -> Knob:
    return Knob(
        name=f"{layer}:{step.name}",
        layer=layer,
        kind=KnobKind.MANUAL,
        place=step.name,
        value=step.value,
        scope=step.scope,
        reason=step.reason,
        source=step.source,
    )


def _pool(layer: str, pool: PoolDesign, after: tuple[str, ...]) -> Knob:
    node = "all" if pool.node is None else str(pool.node)
    where = "spread by the kernel" if pool.node is None else f"on node {node}"
    return Knob(
        name=f"{layer}:huge-pages@{node}",
        layer=layer,
        kind=KnobKind.HUGE_PAGES,
        place=f"{node}/{pool.page_bytes}",
        value=str(pool.pages),
        after=after,
        reason=f"{pool.pages} pages of {format_bytes(pool.page_bytes)} {where}, as the arithmetic"
        " says; the kernel may give fewer and say nothing",
        source=_HUGETLB,
    )


def _setting(layer: str, setting: PlannedSetting, kind: KnobKind, after: tuple[str, ...]) -> Knob:
    return Knob(
        name=f"{layer}:{setting.name}",
        layer=layer,
        kind=kind,
        place=setting.name,
        value=setting.value,
        after=after,
        scope=setting.scope,
        reason=setting.reason,
        source=setting.source,
        effect=setting.effect,
    )


def _governor(layer: str, machine: MachineDesign, after: tuple[str, ...]) -> Iterator[Knob]:
    if machine.governor is not None:
        yield Knob(
            name=f"{layer}:governor",
            layer=layer,
            kind=KnobKind.SYSFS,
            place=GOVERNORS,
            value=machine.governor,
            after=after,
            reason="A clock that follows the load is slow when a single client waits",
            source=_FREQUENCY,
            effect="0.1 to 0.4 ms per statement at low load, estimated; 5 % at most at saturation",
        )


def _persisting(
    layer: str, files: Iterable[RenderedFile], after: tuple[str, ...]
) -> Iterator[Knob]:
    for file in files:
        if file.layer == layer and file.path:
            yield Knob(
                name=f"{layer}:{file.path}",
                layer=layer,
                kind=KnobKind.FILE,
                place=file.path,
                value=file.content,
                after=after,
                reason=_PERSISTS,
                source=file.name,
            )
            if file.path in _ENABLING:
                yield _enabling(layer, file.path)


def _enabling(layer: str, path: str) -> Knob:
    """Return the step that has a placed file take effect at boot; Steelyard enables nothing."""
    what, check, undo = _ENABLING[path]
    return Knob(
        name=f"{layer}:enable {path}",
        layer=layer,
        kind=KnobKind.MANUAL,
        place=what,
        value=f"{_BOOTED} && {check}",
        after=(f"{layer}:{path}",),
        reason="The file is placed, not enabled: nothing reads it at boot before this is done",
        source=_SYSTEMD,
        undo=undo,
    )


def _domain(
    design: StackDesign, files: Iterable[RenderedFile], after: tuple[str, ...]
) -> tuple[Knob, ...]:
    if design.domain is None:
        return ()
    name = design.domain.name
    return tuple(
        Knob(
            name=f"kvm:domain {name}",
            layer="kvm",
            kind=KnobKind.DOMAIN,
            place=name,
            value=file.content,
            after=after,
            scope=Scope.MACHINE,
            reason="Whole cores and memory of one NUMA node, on huge pages, helpers beside them",
            source=_LIBVIRT,
            effect=_PINNED,
        )
        for file in files
        if file.layer == "kvm" and file.name.endswith(".xml")
    )


def _objects(
    design: StackDesign, files: Iterable[RenderedFile], after: tuple[str, ...]
) -> tuple[Knob, ...]:
    """Return objects of Kubernetes and RDS: the kubelet first, the cluster last."""
    wanted = "kubernetes" if design.pod is not None else ""
    last = Scope.POD
    if design.request.place is Place.RDS:
        wanted, last = "postgres", Scope.SERVER
    knobs: list[Knob] = []
    for file in sorted((each for each in files if each.layer == wanted), key=_rank):
        before = (*after, *(knob.name for knob in knobs if _rank_of(knob.place) < _rank(file)))
        knobs.append(
            Knob(
                name=f"{file.layer}:{file.name}",
                layer=file.layer,
                kind=_kind_of(design, file),
                place=file.name,
                value=file.content,
                after=before,
                scope=(Scope.KUBELET, Scope.LIVE, last)[_rank(file)],
                reason="An object to be applied with the tools of its place",
                source=file.validated_by,
                undo=_UNDO_KUBELET if _rank(file) == 0 else "",
            )
        )
    return tuple(knobs)


def _kind_of(design: StackDesign, file: RenderedFile) -> KnobKind:
    if design.pod is None:
        return KnobKind.RENDERED
    return KnobKind.KUBELET if _rank(file) == 0 else KnobKind.OBJECT


def _rank(file: RenderedFile) -> int:
    return _rank_of(file.name)


def _rank_of(name: str) -> int:
    """Return 0 for the kubelet's configuration, 1 for storage, 2 for the cluster or group."""
    return 0 if "kubelet" in name else 1 if "storage" in name else 2


def _postgres(design: StackDesign, after: tuple[str, ...]) -> tuple[Knob, ...]:
    """Return the server's settings; those of a cluster or of RDS are in its objects."""
    if design.pod is not None or design.machine is None:
        return ()
    return tuple(
        _setting("postgres", each, KnobKind.POSTGRES, after) for each in design.postgres.settings
    )


def _names(knobs: Iterable[Knob]) -> tuple[str, ...]:
    return tuple(knob.name for knob in knobs)


def _pools_of(knobs: Iterable[Knob]) -> tuple[str, ...]:
    return tuple(knob.name for knob in knobs if knob.kind is KnobKind.HUGE_PAGES)
