"""One consistent design of all layers, from what is asked for and what is there.

What would fit in place of a request that does not: found by planning it, so that it does.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from steelyard.core.errors import PreflightError, SteelyardError
from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import (
    ArithmeticLine,
    DomainDesign,
    MachineDesign,
    Place,
    PodDesign,
    PostgresDesign,
    StackDesign,
    StackRequest,
)
from steelyard.core.stack_facts import StackFacts
from steelyard.core.units import MIB, format_bytes
from steelyard.tuning.plan.arithmetic import (
    POD_MARGIN,
    POOL_MARGIN,
    Budget,
    DoesNotFitError,
    database_lines,
    divided,
)
from steelyard.tuning.plan.assumptions import of_volumes
from steelyard.tuning.plan.guests import GuestPlan, plan_guest
from steelyard.tuning.plan.huge_pages import PageCounter, formula_counter
from steelyard.tuning.plan.local_machine import LocalPlan, plan_local
from steelyard.tuning.plan.pods import no_domain, pod_design, require_sense
from steelyard.tuning.plan.postgres_settings import (
    Basis,
    fixed_settings,
    planned_settings,
    shm_bytes,
)
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
    """Yield options that make a request fit without any other change."""
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
    """Yield ever smaller sizes."""
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
            return _refined(number, beyond, fits)
        beyond = number
    return None


def _refined(inside: int, outside: int, fits: Callable[[int], bool]) -> int:
    while abs(outside - inside) > max(inside // _FINE, 1):
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if fits(middle) else (inside, middle)
    return inside


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
