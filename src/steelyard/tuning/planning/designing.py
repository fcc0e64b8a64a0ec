"""One consistent design of all layers, from what is asked for and what is there."""

from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.model.errors import PreflightError, SteelyardError
from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack import (
    ArithmeticLine,
    DomainDesign,
    MachineDesign,
    Place,
    PodDesign,
    PostgresDesign,
    StackDesign,
    StackRequest,
)
from steelyard.model.stack_facts import StackFacts
from steelyard.model.units import format_bytes
from steelyard.tuning.planning.arithmetic import (
    POD_MARGIN,
    POOL_MARGIN,
    Budget,
    database_lines,
    divided,
)
from steelyard.tuning.planning.assumptions import of_volumes
from steelyard.tuning.planning.fitting import what_fits
from steelyard.tuning.planning.guests import GuestPlan, plan_guest
from steelyard.tuning.planning.huge_pages import PageCounter, formula_counter
from steelyard.tuning.planning.local_machine import LocalPlan, plan_local
from steelyard.tuning.planning.pods import pod_design
from steelyard.tuning.planning.postgres_settings import (
    Basis,
    fixed_settings,
    planned_settings,
    shm_bytes,
)
from steelyard.tuning.planning.refusals import DoesNotFitError
from steelyard.tuning.planning.sense import no_domain, require_sense
from steelyard.tuning.profiles import MachineFacts, ProfiledSetting, fitted

_HUGE_PAGE_SIZE_SINCE: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    """What the place has below the server."""

    hypervisor: MachineDesign | None = None
    domain: DomainDesign | None = None
    machine: MachineDesign | None = None
    pod: PodDesign | None = None
    lines: tuple[ArithmeticLine, ...] = ()
    assumptions: tuple[str, ...] = field(default=())


def design(request: StackRequest, facts: StackFacts, counter: PageCounter) -> StackDesign:
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
    if request.place is not Place.RDS:
        _require_page_size(request, facts)
    machine = MachineFacts(
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        storage=storage_of(request, facts),
    )
    profile = {each.setting.name: each for each in fitted(machine)}
    margin = POD_MARGIN if request.place is Place.CNPG else POOL_MARGIN
    budget = divided(request, fixed_settings(profile), counter, margin)
    shared_files = shm_bytes(budget, profile) if request.place is Place.CNPG else 0
    layers = _layers(request, facts, budget, shared_files)
    if layers.domain is None and (request.disks or request.bridge):
        raise no_domain(request)
    return StackDesign(
        request=request,
        arithmetic=(*database_lines(budget, request.page_bytes, shared_files), *layers.lines),
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


def _layers(request: StackRequest, facts: StackFacts, budget: Budget, shared_files: int) -> _Layers:
    if request.place is Place.RDS:
        words = ("Amazon RDS reserves the huge pages and chooses machine and storage by its class",)
        return _Layers(assumptions=words)
    if request.place is Place.LOCAL:
        return _local_layers(plan_local(request, facts, budget))
    below = below_of(request.place, facts)
    if below is None and request.place is Place.CNPG:
        found = plan_local(request, facts, budget)
        pod = pod_design(request, budget, facts.linux or LinuxFacts(), shared_files)
        return replace(_local_layers(found), pod=pod)
    if below is None:
        raise PreflightError(
            "nobody saw the hypervisor: without its NUMA nodes and cores no virtual machine can"
            " be planned",
            hint="Run `steelyard inspect --save facts.yaml` on it, and give --host-facts"
            " facts.yaml.",
        )
    return _guest_layers(request, budget, plan_guest(request, facts, budget, below), shared_files)


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


def _local_layers(found: LocalPlan) -> _Layers:
    return _Layers(machine=found.machine, lines=found.lines, assumptions=found.assumptions)


def _guest_layers(
    request: StackRequest, budget: Budget, guest: GuestPlan, shared_files: int
) -> _Layers:
    pod = None
    if request.place is Place.CNPG:
        pod = pod_design(request, budget, guest.linux, shared_files)
    return _Layers(
        hypervisor=guest.hypervisor,
        domain=guest.domain,
        machine=guest.machine,
        pod=pod,
        lines=guest.lines,
        assumptions=guest.assumptions,
    )


def _postgres(
    request: StackRequest,
    facts: StackFacts,
    budget: Budget,
    profile: dict[str, ProfiledSetting],
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
        huge_pages=budget.pages,
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
