"""A whole plan: designed, judged by the rules before it is a plan, and written to a directory.

It is judged by the facts as they will be: each layer at the moment before what runs on it is
started. Pools are full, the virtual machine and the server are about to take from them. That is
when rules are strictest.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from steelyard.core import stack
from steelyard.core.findings import Severity, State
from steelyard.core.linux import LinuxFacts, PagePool
from steelyard.core.wording import KIB, MIB, InputError, PreflightError, printable_json, quoted
from steelyard.gateways.files import make_directory, write_text
from steelyard.tuning.files.files import class_name, quantity, render
from steelyard.tuning.plan.arithmetic import PageCounter
from steelyard.tuning.plan.designing import below_of, design_stack, knobs_of, storage_of
from steelyard.tuning.plan.guests import as_guest, design_for, design_without, facts_with
from steelyard.tuning.plan.machine import IDLE, READ_AHEAD, THP
from steelyard.tuning.rules.catalogue import judge

_STRICT_LOCAL: Final = {"numberOfReplicas": "1", "dataLocality": "strict-local"}


def foreseen(design: stack.StackDesign, facts: stack.StackFacts) -> stack.StackFacts:
    """Return the facts once a design is in effect, where it was made from these facts.

    Of Amazon RDS nothing is seen but the server.
    """
    if design.request.place is stack.Place.RDS:
        alone = stack.StackFacts(postgres=facts.postgres)
        return stack.StackFacts(
            postgres=_postgres(design, alone, None), storage=design.request.storage
        )
    linux, below = _machine_facts(design, facts), below_of(design.request.place, facts)
    hypervisor = linux if facts.hypervisor == facts.linux else facts.hypervisor
    if design.hypervisor is not None and below is not None:
        hypervisor = _tuned(below, design.hypervisor)
    domains = facts.domains
    if design.domain is not None:
        own = next((it for it in domains or () if it.name == design.domain.name), None)
        others = (it for it in domains or () if it.name != design.domain.name)
        domains = (*others, _domain(design.domain, own))
    return replace(
        facts,
        hypervisor=hypervisor,
        linux=linux,
        domains=domains,
        kubernetes=_kubernetes(design, facts),
        postgres=_postgres(design, facts, linux),
        storage=storage_of(design.request, facts),
        intent=replace(
            facts.intent,
            exclusive_cpus=design.request.exclusive_cpus,
            logical_decoding=design.request.logical_decoding,
            guest_governor=None,
        ),
    )


def _machine_facts(design: stack.StackDesign, facts: stack.StackFacts) -> LinuxFacts | None:
    if design.machine is None:
        return facts.linux
    linux = facts.linux or LinuxFacts()
    if design.domain is not None:
        inside = linux if linux != below_of(design.request.place, facts) else LinuxFacts()
        domain = design.domain
        linux = as_guest(inside, len(domain.vcpu_pins), domain.threads, domain.memory_bytes)
        linux = replace(linux, huge_page_bytes=linux.huge_page_bytes or 2 * MIB)
    return _tuned(linux, design.machine)


def _tuned(linux: LinuxFacts, machine: stack.MachineDesign) -> LinuxFacts:
    sysctls: dict[str, Any] = {it.name.partition(".")[2]: int(it.value) for it in machine.sysctls}
    if "dirty_bytes" in sysctls:
        sysctls["dirty_ratio"] = 0  # the kernel clears it
    linux = _with_pools(replace(linux, **sysctls), machine)
    named = {each.name: each.value for each in machine.sysfs}
    device = linux.device
    if device is not None and (kib := named.get(READ_AHEAD.format(device=device.name))):
        device = replace(device, read_ahead_bytes=int(kib) * KIB)
    states = linux.idle_states
    if states is not None:
        states = tuple(
            replace(state, disabled=state.disabled or IDLE.format(number=number) in named)
            for number, state in enumerate(states)
        )
    return replace(
        linux,
        device=device,
        idle_states=states,
        transparent_huge_pages=named.get(THP, linux.transparent_huge_pages),
        governor=machine.governor or linux.governor,
    )


def _with_pools(linux: LinuxFacts, machine: stack.MachineDesign) -> LinuxFacts:
    pools, nodes = linux.pools or (), linux.nodes
    for design in machine.pools:
        if design.node is None:
            pools = _resized(pools, design, design.pages)
            continue
        before = sum(
            pool.total
            for node in nodes or ()
            if node.number == design.node
            for pool in node.pools
            if pool.page_bytes == design.page_bytes
        )
        nodes = tuple(
            replace(node, pools=_resized(node.pools, design, design.pages))
            if node.number == design.node
            else node
            for node in nodes or ()
        )
        whole = next((pool.total for pool in pools if pool.page_bytes == design.page_bytes), 0)
        pools = _resized(pools, design, max(whole - before, 0) + design.pages)
    default = [pool.total for pool in pools if pool.page_bytes == linux.huge_page_bytes]
    requested = linux.requested_huge_pages
    if default and (machine.steps or default[0] > (requested or 0)):
        requested = default[0]  # of the plan's unit; a step takes older requests away
    others = dict(linux.requested_other_pages or {})
    planned = {design.page_bytes for design in machine.pools if machine.steps} & others.keys()
    others |= {pool.page_bytes: pool.total for pool in pools if pool.page_bytes in planned}
    return replace(
        linux,
        pools=pools,
        nodes=nodes,
        requested_huge_pages=requested,
        requested_other_pages=others or None,
    )


def _resized(
    pools: tuple[PagePool, ...], design: stack.PoolDesign, total: int
) -> tuple[PagePool, ...]:
    """Return pools with one of them resized; what is in use stays in use."""
    size = design.page_bytes
    old = next(
        (pool for pool in pools if pool.page_bytes == size),
        PagePool(page_bytes=size, total=0, free=0),
    )
    free = max(total - (old.total - old.free), 0)
    return (
        *(pool for pool in pools if pool.page_bytes != size),
        replace(old, total=total, free=free),
    )


def _domain(domain: stack.DomainDesign, own: stack.DomainFacts | None) -> stack.DomainFacts:
    cells = tuple(
        stack.GuestCell(
            number=number,
            memory_bytes=domain.memory_bytes // len(domain.nodes),
            memory_nodes=(node,),
        )
        for number, node in enumerate(domain.nodes)
    )
    return stack.DomainFacts(
        name=domain.name,
        vcpus=len(domain.vcpu_pins),
        vcpu_pins={number: (cpu,) for number, cpu in enumerate(domain.vcpu_pins)},
        emulator_pins=domain.emulator_pins,
        io_thread_pins=domain.io_thread_pins,
        memory_bytes=domain.memory_bytes,
        cells=cells,
        memory_mode="strict",
        memory_nodes=domain.nodes,
        huge_page_bytes=domain.page_bytes,
        locked=domain.hard_limit_bytes is not None,
        hard_limit_bytes=domain.hard_limit_bytes,
        balloon="none",
        cpu_mode="maximum" if domain.emulated else "host-passthrough",
        threads_per_core=domain.threads,
        features=("topoext",) if domain.amd and domain.threads > 1 else (),
        disks=(
            *(stack.DomainDisk(device=path, cache="none", io="native") for path in domain.disks),
            *(
                replace(disk, cache="none") if disk.cache == "unsafe" else disk
                for disk in (own.disks if own is not None else ())
            ),
        ),
        lost_elements=(),
    )


def _kubernetes(design: stack.StackDesign, facts: stack.StackFacts) -> stack.KubernetesFacts | None:
    if design.pod is None or design.machine is None:
        return facts.kubernetes
    pod, seen = design.pod, facts.kubernetes or stack.KubernetesFacts()
    pages = sum(each.pages for each in design.machine.pools if each.page_bytes == pod.page_bytes)
    capacity = seen.capacity or {}
    if pages:
        capacity = {
            **{name: size for name, size in capacity.items() if not name.startswith("hugepages-")},
            _resource(pod.page_bytes): quantity(pages * pod.page_bytes),
        }
    resources = {"cpu": str(pod.cpus), "memory": quantity(pod.memory_bytes)}
    if pod.huge_pages_bytes:
        resources[_resource(pod.page_bytes)] = quantity(pod.huge_pages_bytes)
    name = f"{design.request.name}-1"
    return replace(
        seen,
        kubelet=_kubelet(design, pod),
        pods=(stack.PodFacts(name=name, database=True, requests=resources, limits=resources),),
        capacity=capacity,
        allocatable=None,
        shared_cpus=None,
        cluster=stack.ClusterFacts(
            instances=pod.instances,
            disruption_budget=pod.instances > 1,
            anti_affinity="required",
            parameters={each.name: each.value for each in design.postgres.settings},
            storage_class=class_name(design),
        ),
        storage_classes=_storage_classes(design, seen),
    )


def _kubelet(design: stack.StackDesign, pod: stack.PodDesign) -> stack.Kubelet:
    kube, system, eviction = pod.reserved_memory_bytes
    exclusive = design.request.exclusive_cpus
    reserved = quantity(kube + system + eviction)
    return stack.Kubelet(
        cpu_manager_policy="static" if exclusive else "none",
        cpu_manager_options={"full-pcpus-only": "true"} if pod.full_cores else {},
        topology_manager_policy="single-numa-node" if exclusive else "none",
        memory_manager_policy="Static" if exclusive else "None",
        reserved_system_cpus=",".join(map(str, pod.reserved_cpus)),
        kube_reserved={"memory": quantity(kube)},
        system_reserved={"memory": quantity(system)},
        eviction_hard={"memory.available": quantity(eviction)},
        reserved_memory=({"memory": reserved},) if exclusive else (),
    )


def _storage_classes(
    design: stack.StackDesign, seen: stack.KubernetesFacts
) -> tuple[stack.StorageClassFacts, ...] | None:
    """Return the classes with the one of the plan; one that was named stays what it is."""
    name = class_name(design)
    if design.request.storage_class is not None:
        return seen.storage_classes
    longhorn = "longhorn" in (design.request.storage or "")
    made = stack.StorageClassFacts(
        name=name,
        provisioner="driver.longhorn.io" if longhorn else "rancher.io/local-path",
        binding="WaitForFirstConsumer",
        parameters=_STRICT_LOCAL if longhorn else {},
    )
    return (*(each for each in seen.storage_classes or () if each.name != name), made)


def _postgres(
    design: stack.StackDesign, facts: stack.StackFacts, linux: LinuxFacts | None
) -> stack.PostgresFacts:
    seen = facts.postgres or stack.PostgresFacts()
    planned = {each.name: each.value for each in design.postgres.settings}
    kernel = linux.huge_page_bytes if linux is not None else None
    # The fact counts pages of the kernel's default size.
    counts = planned.get("huge_pages") == "on" and design.request.page_bytes == kernel
    return replace(
        seen,
        version=design.postgres.version,
        settings={**(seen.settings or {}), **planned},
        pending_restart=(),
        huge_pages_needed=design.postgres.huge_pages if counts else None,
        huge_pages_status=None,
        running=False,
        huge_page_mapping_bytes=None,
        usable_memory_bytes=None,  # it starts anew where the plan puts it
        usable_cpus=None,
        shared_memory_directory_bytes=(
            design.pod.shm_bytes if design.pod is not None else seen.shared_memory_directory_bytes
        ),
    )


def _resource(page_bytes: int) -> str:
    return f"hugepages-{quantity(page_bytes)}"


_SERIOUS: Final = (Severity.ERROR, Severity.WARNING)
_OTHERS: Final = {"bench", "redis"}  # layers that no plan has


def left_violated(design: stack.StackDesign, facts: stack.StackFacts) -> tuple[str, ...]:
    """Return what stays violated of errors and warnings once a design is in effect.

    What was violated before and is still so is nothing that the plan turns. What was not is its
    own doing.

    Raises:
        PreflightError: The design itself would break a rule.
    """
    # Who else holds pages can only be told apart while no server runs. Pages that a plan without
    # huge pages leaves idle lie idle already.
    settings = None if design.request.huge_pages else {"huge_pages": "off"}
    without = replace(facts, postgres=stack.PostgresFacts(running=False, settings=settings))
    before = {rule.code for seen in (facts, without) for rule in _violated(seen)}
    after = _violated(foreseen(design, facts))
    caused = [rule for rule in after if rule.code not in before]
    if caused:
        first = caused[0]
        raise PreflightError(
            f"this plan would break rule {first.code}, {first.title!r}: {first.messages[0]}",
            hint=first.remedy,
        )
    return tuple(f"{rule.code}: {message}" for rule in after for message in rule.messages)


def _violated(facts: stack.StackFacts) -> list[stack.JudgedRule]:
    return [
        rule
        for rule in judge(facts)
        if rule.state is State.VIOLATED
        and rule.severity in _SERIOUS
        and not _OTHERS.issuperset(rule.layers)
    ]


PLAN: Final = "plan.json"
_APPLIED: Final = "applied.jsonl"
_ADAPTER: Final = TypeAdapter(stack.StackPlan)


def make_plan(
    request: stack.StackRequest,
    facts: stack.StackFacts,
    counter: PageCounter,
    present: str | None = None,
) -> stack.StackPlan:
    """Return a plan.

    Args:
        request: What is asked for.
        facts: Of the machines that it is for.
        counter: Counts the huge pages of the server's settings.
        present: XML of the domain where it is there already; the plan changes that one.

    Raises:
        PreflightError: What is asked for cannot be had, with the constraint and what would fit; or
            the plan itself would break a rule.
        InputError: The domain's XML cannot be used for this plan.
    """
    if present is None:
        made = design_without(design_stack(request, facts, counter), facts)
    else:
        facts = facts_with(facts, present)
        made = design_for(design_stack(request, facts, counter), present)
    left = left_violated(made, facts)
    files = render(made, present)
    return stack.StackPlan(design=made, knobs=knobs_of(made, files), files=files, left=left)


def plan_json(plan: stack.StackPlan) -> str:
    """Return a plan as ``plan.json`` has it."""
    return printable_json(_ADAPTER.dump_json(plan, indent=2).decode()) + "\n"


def require_free(directory: Path) -> None:
    """Check that a plan may be written to a directory.

    Raises:
        InputError: Something else is there, or a plan that was applied.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory", hint="Name a new one with --dir.")
    if (directory / _APPLIED).exists():
        raise InputError(
            f"the plan in {directory} was applied, and its record is needed to revert it",
            hint=f"Revert it by `steelyard stack revert {quoted(directory)}`, or name another"
            " directory.",
        )
    if any(directory.iterdir()) and not (directory / PLAN).exists():
        raise InputError(
            f"{directory} has other files in it", hint="Name a new directory with --dir."
        )


def write_plan(directory: Path, plan: stack.StackPlan) -> None:
    """Write ``plan.json`` and every rendered file below ``files``.

    Raises:
        InputError: Something else is there, or a plan that was applied.
    """
    require_free(directory)
    for file in plan.files:
        path = directory / "files" / file.name
        make_directory(path.parent)
        write_text(path, file.content)
    make_directory(directory)
    write_text(directory / PLAN, plan_json(plan))
