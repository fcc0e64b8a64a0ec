"""One consistent design of all layers, from what is asked for and what is there, and its knobs.

For a request that does not fit, what would fit is found by planning it.

There is one knob per change, each with what must be in effect before it. The edges go from the
bottom up: the hypervisor's pool, the domain, the guest's pool, the kubelet, the pod, PostgreSQL. A
knob's layer says on which machine it is turned: ``hypervisor`` and ``kvm`` on the hypervisor,
``linux`` on the machine of the database, the rest through their own doors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import (
    PROFILE_PATH,
    UNIT_PATH,
    Knob,
    KnobKind,
    MachineDesign,
    Place,
    PlannedSetting,
    PoolDesign,
    PostgresDesign,
    RenderedFile,
    Scope,
    StackDesign,
    StackFacts,
    StackRequest,
)
from steelyard.core.wording import MIB, InputError, PreflightError, SteelyardError, format_bytes
from steelyard.tuning.plan.arithmetic import (
    POD_MARGIN,
    POOL_MARGIN,
    Budget,
    DoesNotFitError,
    PageCounter,
    database_lines,
    divided,
    formula_counter,
)
from steelyard.tuning.plan.guests import plan_guest
from steelyard.tuning.plan.machine import Layers, is_check, of_volumes, plan_local
from steelyard.tuning.plan.postgres_settings import (
    Basis,
    fixed_settings,
    planned_settings,
    shm_bytes,
)
from steelyard.tuning.plan.topology import no_domain, pod_design, require_sense
from steelyard.tuning.profiles import MachineFacts, ProfiledSetting, fitted

Fits = Callable[[StackRequest], bool]

_STEPS: Final = 30
_FACTOR: Final = 0.85  # from one size that is tried to the next
_FINE: Final = 64  # a found size is the limit within so many parts of itself
_FEWEST_CONNECTIONS: Final = 4
_MORE_CPUS: Final = 8
_NOTHING: Final = "Nothing of the kind fits there: plan for a larger machine, or free this one."


def what_fits(request: StackRequest, fits: Fits) -> str:
    """Return the changes of a request that make it fit, each alone, as options of the command.

    Args:
        request: One that does not fit.
        fits: Plans another one.
    """
    found = list(_changed_alone(request, fits)) or list(_smaller(request, fits))
    if not found:
        return _NOTHING
    told = [f"`{option}`" for option in found]
    either = f"either of {', '.join(told)}" if len(told) > 1 else told[0]
    return f"With everything else as asked, {either} would fit."


def _changed_alone(request: StackRequest, fits: Fits) -> Iterator[str]:
    mebibytes, cpus = request.memory_bytes // MIB, request.cpus

    def with_memory(size: int) -> bool:
        return fits(replace(request, memory_bytes=size * MIB))

    def with_cpus(count: int) -> bool:
        return fits(replace(request, cpus=count))

    for sizes in (_below(mebibytes), _above(mebibytes)):
        size = _nearest(mebibytes, sizes, with_memory)
        if size is not None:
            yield f"--memory {size}MiB"
    for counts in (range(cpus - 1, 0, -1), range(cpus + 1, 2 * cpus + _MORE_CPUS)):
        count = next((each for each in counts if with_cpus(each)), None)
        if count is not None:
            yield f"--cpus {count}"
    yield from _what_was_asked_beside(request, fits)


def _what_was_asked_beside(request: StackRequest, fits: Fits) -> Iterator[str]:
    """Yield smaller buffers and fewer connections, where they were asked for at all."""
    if request.shared_buffers_bytes is not None:
        asked = request.shared_buffers_bytes // MIB
        size = _nearest(
            asked,
            _below(asked),
            lambda each: fits(replace(request, shared_buffers_bytes=each * MIB)),
        )
        if size is not None:
            yield f"--shared-buffers {size}MiB"
    if request.max_connections is not None:
        least = (each for each in _below(request.max_connections) if each >= _FEWEST_CONNECTIONS)
        count = _nearest(
            request.max_connections,
            least,
            lambda each: fits(replace(request, max_connections=each)),
        )
        if count is not None:
            yield f"--max-connections {count}"


def _smaller(request: StackRequest, fits: Fits) -> Iterator[str]:
    """Yield the largest request that fits with fewer CPUs and less memory at once."""
    count = request.cpus
    while count > 1:
        count = max(count // 2, 1)
        fewer = replace(request, cpus=count)
        size = _nearest(
            request.memory_bytes // MIB,
            _below(request.memory_bytes // MIB),
            lambda each, fewer=fewer: fits(replace(fewer, memory_bytes=each * MIB)),  # type: ignore[misc]
        )
        if size is not None:
            yield f"--cpus {count} --memory {size}MiB"
            return


def _below(start: int) -> Iterator[int]:
    size = start
    for _ in range(_STEPS):
        size = min(int(size * _FACTOR), size - 1)
        if size < 1:
            return
        yield size


def _above(start: int) -> Iterator[int]:
    size = start
    for _ in range(_STEPS):
        size = max(int(size / _FACTOR), size + 1)
        yield size


def _nearest(start: int, others: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    """Return a number that fits, near to where numbers towards ``start`` do not any more."""
    beyond = start
    for number in others:
        if fits(number):
            break
        beyond = number
    else:
        return None
    inside = number
    while abs(beyond - inside) > max(inside // _FINE, 1):
        middle = (inside + beyond) // 2
        inside, beyond = (middle, beyond) if fits(middle) else (inside, middle)
    return inside


_HUGE_PAGE_SIZE_SINCE: Final = 14


def design_stack(request: StackRequest, facts: StackFacts, counter: PageCounter) -> StackDesign:
    """Return the design of every layer that the place has.

    Args:
        request: What is asked for.
        facts: Of the machines that it is for; what nobody saw becomes an assumption, or an error
            where nothing can be planned without it.
        counter: Counts the huge pages of the server's settings.

    Raises:
        PreflightError: What is asked for cannot be had: the constraint, and what would fit.
    """
    try:
        return _designed(request, facts, counter)
    except DoesNotFitError as error:
        hint = what_fits(request, lambda other: _is_possible(other, facts))
        raise PreflightError(error.message, hint=hint) from error


def _is_possible(request: StackRequest, facts: StackFacts) -> bool:
    try:
        _designed(request, facts, formula_counter(request.postgres_version))
    except SteelyardError:
        return False
    return True


def _designed(request: StackRequest, facts: StackFacts, counter: PageCounter) -> StackDesign:
    require_sense(request)
    if request.place is not Place.RDS and request.huge_pages:
        _require_page_size(request, facts)
    machine = MachineFacts(
        cpus=request.cpus, memory_bytes=request.memory_bytes, storage=storage_of(request, facts)
    )
    profile = {each.setting.name: each for each in fitted(machine)}
    margin = POD_MARGIN if request.place is Place.CNPG else POOL_MARGIN
    margin = margin if request.huge_pages else 0.0
    budget = divided(request, fixed_settings(profile), counter, margin)
    shared_files = shm_bytes(budget, profile) if request.place is Place.CNPG else 0
    layers = _layers(request, facts, budget, shared_files)
    if layers.domain is None and (request.disks or request.bridge):
        raise no_domain(request)
    return StackDesign(
        request=request,
        arithmetic=(*database_lines(budget, request, shared_files), *layers.lines),
        postgres=_postgres(request, facts, budget, profile),
        hypervisor=layers.hypervisor,
        domain=layers.domain,
        machine=layers.machine,
        pod=layers.pod,
        assumptions=(*layers.assumptions, *of_volumes(request, facts, layers.pod)),
    )


def storage_of(request: StackRequest, facts: StackFacts) -> str | None:
    """Return the kind of the storage below the data: as asked for, else as seen."""
    device = facts.linux.device if facts.linux is not None else None
    return request.storage or facts.storage or (device.kind if device is not None else None)


def _layers(request: StackRequest, facts: StackFacts, budget: Budget, shared_files: int) -> Layers:
    below = below_of(request.place, facts)
    if not request.huge_pages and (request.place is Place.RDS or below is not None):
        raise InputError(
            "--no-huge-pages is for a database on a machine or in a cluster: a virtual machine is"
            " planned on huge pages, and Amazon RDS reserves its own",
            hint="Leave it out, or plan for the virtual machine from inside of it.",
        )
    if request.place is Place.RDS:
        words = ("Amazon RDS reserves the huge pages and chooses machine and storage by its class",)
        return Layers(assumptions=words)
    if request.place is Place.LOCAL:
        return plan_local(request, facts, budget)
    if below is None and request.place is Place.CNPG:
        found = plan_local(request, facts, budget)
        pod = pod_design(request, budget, facts.linux or LinuxFacts(), shared_files)
        return replace(found, pod=pod)
    if below is None:
        raise PreflightError(
            "nobody saw the hypervisor: without its NUMA nodes and cores no virtual machine can"
            " be planned",
            hint="Run `steelyard inspect --save facts.yaml` on it, and give --host-facts"
            " facts.yaml.",
        )
    return plan_guest(request, facts, budget, below, shared_files)


def below_of(place: Place, facts: StackFacts) -> LinuxFacts | None:
    """Return the machine below the virtual machine; None where there is none, or nobody saw it.

    Facts that were taken on the hypervisor itself have it as their Linux. Kubernetes on such a
    machine is Kubernetes on bare metal.
    """
    if facts.hypervisor is not None and facts.hypervisor != facts.linux:
        return facts.hypervisor if place in (Place.KVM, Place.CNPG) else None
    return facts.linux if place is Place.KVM else None


def default_page_bytes(place: Place, facts: StackFacts) -> int | None:
    """Return the default huge page of the kernel that the database runs on; None: not seen.

    What runs on a hypervisor is another kernel.
    """
    if facts.linux is None or facts.linux == below_of(place, facts):
        return None
    return facts.linux.huge_page_bytes


def _postgres(
    request: StackRequest, facts: StackFacts, budget: Budget, profile: dict[str, ProfiledSetting]
) -> PostgresDesign:
    settings = facts.postgres.settings if facts.postgres is not None else None
    basis = Basis(
        request=request,
        budget=budget,
        profile=profile,
        kernel_page_bytes=default_page_bytes(request.place, facts),
        present=settings or {},
    )
    return PostgresDesign(
        version=request.postgres_version,
        settings=planned_settings(basis),
        huge_pages=budget.pages if request.huge_pages else 0,
        counted_by=budget.counted_by,
    )


def _require_page_size(request: StackRequest, facts: StackFacts) -> None:
    """Refuse huge pages that a kernel of the stack does not have."""
    size, default = request.page_bytes, default_page_bytes(request.place, facts)
    for machine in (facts.linux, below_of(request.place, facts)):
        there = [pool.page_bytes for pool in (machine and machine.pools) or ()]
        if there and size not in there:
            raise PreflightError(
                f"the kernel has no huge pages of {format_bytes(size)}",
                hint=f"It has {', '.join(format_bytes(each) for each in sorted(there))}.",
            )
    if request.postgres_version < _HUGE_PAGE_SIZE_SINCE and default not in (None, size):
        raise PreflightError(
            f"PostgreSQL {request.postgres_version} takes the kernel's default huge pages of"
            f" {format_bytes(default or 0)}, not {format_bytes(size)}",
            hint=f"huge_page_size came with PostgreSQL {_HUGE_PAGE_SIZE_SINCE}.",
        )


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
# Without its pool a server on huge pages would not start, or larger buffers took ordinary pages.
_ON_HUGE_PAGES: Final = frozenset(
    {"huge_pages", "huge_page_size", "shared_buffers", "shared_memory_type"}
)
_UNDO_KUBELET: Final = "take it out of the node's kubelet configuration, and restart the kubelet"
_PINNED: Final = (
    "on a machine of one NUMA node, which CPU server and client ran on changed the latency at one"
    " client 3.2-fold, 6-fold beside a busy neighbour. Of the change at one client that Iwan"
    ' Setiawan published ("Bare Metal vs. AWS RDS", part 2), memory distance explains 1 to 6 % at'
    " most"
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
    settings = _postgres_knobs(design, after=_names(domain), pools=_pools_of(machine))
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
        *(_setting(layer, each, KnobKind.MANUAL, ()) for each in machine.steps),
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
                after=after if file.path == UNIT_PATH else (),
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


def is_rendered_check(command: str) -> bool:
    """Return whether this version would write a command as the check of an operator's step."""
    booted = {f"{_BOOTED} && {check}" for _, check, _ in _ENABLING.values()}
    return command in booted or is_check(command)


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
    objects = [file for file in files if file.layer == wanted]
    for file in sorted(objects, key=lambda file: _rank(file.name)):
        rank = _rank(file.name)
        of_cluster = KnobKind.OBJECT if rank else KnobKind.KUBELET
        earlier = (knob.name for knob in knobs if _rank(knob.place) < rank)
        knobs.append(
            Knob(
                name=f"{file.layer}:{file.name}",
                layer=file.layer,
                kind=KnobKind.RENDERED if design.pod is None else of_cluster,
                place=file.name,
                value=file.content,
                after=(*after, *earlier) if rank != 1 else (),  # a class waits for nothing
                scope=(Scope.KUBELET, Scope.LIVE, last)[rank],
                reason="An object to be applied with the tools of its place",
                source=file.validated_by,
                undo=_UNDO_KUBELET if rank == 0 else "",
            )
        )
    return tuple(knobs)


def _rank(name: str) -> int:
    """Return 0 for the kubelet's configuration, 1 for storage, 2 for the cluster or group."""
    return 0 if "kubelet" in name else 1 if "storage" in name else 2


def _postgres_knobs(
    design: StackDesign, after: tuple[str, ...], pools: tuple[str, ...]
) -> tuple[Knob, ...]:
    """Return the server's settings; those of a cluster or of RDS are in its objects."""
    if design.pod is not None or design.machine is None:
        return ()
    return tuple(
        _setting("postgres", each, KnobKind.POSTGRES, after + pools * (each.name in _ON_HUGE_PAGES))
        for each in design.postgres.settings
    )


def _names(knobs: Iterable[Knob]) -> tuple[str, ...]:
    return tuple(knob.name for knob in knobs)


def _pools_of(knobs: Iterable[Knob]) -> tuple[str, ...]:
    return tuple(knob.name for knob in knobs if knob.kind is KnobKind.HUGE_PAGES)
