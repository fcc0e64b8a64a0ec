"""A virtual machine for the database, new or there already, and the hypervisor below it.

Of a domain that is there already a plan changes what it speaks of, and keeps all the rest.
"""

from dataclasses import replace
from typing import Final

from steelyard.core import stack
from steelyard.core.linux import LinuxFacts, NumaNode
from steelyard.core.wording import MIB, InputError, PreflightError, format_bytes
from steelyard.tuning.facts.domain_xml import domain_facts, parse_domain
from steelyard.tuning.plan import machine, topology
from steelyard.tuning.plan.arithmetic import Budget, summed
from steelyard.tuning.rules.domains import FOR_GUESTS

# What a kernel takes of a machine's memory before it counts it: 64 bytes for each page of 4 KiB,
# and itself. A guest of 256 MiB counted 217 MiB, one of 24 GiB 23.59 GiB.
_OF_A_PAGE: Final = 64
_KERNEL_BYTES: Final = 40 * MIB


def plan_guest(
    request: stack.StackRequest,
    facts: stack.StackFacts,
    budget: Budget,
    below: LinuxFacts,
    shared_files_bytes: int,
) -> machine.Layers:
    """Return the plan of a virtual machine for the database, and of the pod inside where one is.

    Raises:
        PreflightError: No NUMA node of the hypervisor has room for it.
    """
    if below.nodes is None:
        raise PreflightError(
            "nobody saw the hypervisor's NUMA nodes",
            hint="Run `steelyard inspect --save facts.yaml` on it, and give --host-facts"
            " facts.yaml.",
        )
    _require_mount(request, below)
    in_pod = request.place is stack.Place.CNPG
    threads = topology.threads_per_core(below)
    if in_pod:
        topology.require_whole_cores(request, threads)
    pages = topology.pool_pages(budget, request)
    lines = _guest_lines(request, budget, pages)
    wanted = topology.Wanted(
        name=request.name,
        vcpus=topology.whole_cores(request.cpus, threads) + (threads if in_pod else 0),
        memory_bytes=lines[-1].amount_bytes,
        page_bytes=request.page_bytes,
    )
    place = topology.place_domain(wanted, below, facts.domains or ())
    inside = facts.linux if facts.linux != below else None
    linux = as_guest(inside or LinuxFacts(), wanted.vcpus, place.threads, wanted.memory_bytes)
    pool = stack.PoolDesign(page_bytes=request.page_bytes, pages=pages, node=0)
    below_pool = replace(pool, pages=place.pool_pages, node=place.node.number)
    return machine.Layers(
        hypervisor=machine.hypervisor_design(below, facts, (below_pool,)),
        domain=_domain(request, wanted, place, below),
        machine=machine.machine_design(linux, facts, (pool,), linux.cpus or ()),
        pod=topology.pod_design(request, budget, linux, shared_files_bytes) if in_pod else None,
        lines=(*lines, *_node_lines(wanted, place)),
        assumptions=_assumptions(request, facts, below, wanted),
    )


def _require_mount(request: stack.StackRequest, below: LinuxFacts) -> None:
    if below.hugetlbfs is not None and request.page_bytes not in below.hugetlbfs:
        size = request.page_bytes // 1024
        raise PreflightError(
            f"the hypervisor has no hugetlbfs mounted for pages of"
            f" {format_bytes(request.page_bytes)}, and QEMU needs one",
            hint=f"mount -t hugetlbfs -o pagesize={size}K hugetlbfs /dev/hugepages-{size}kB",
        )


def _guest_lines(
    request: stack.StackRequest, budget: Budget, pages: int
) -> tuple[stack.ArithmeticLine, ...]:
    """Return the guest's memory, a multiple of the page size."""
    margin = pages * request.page_bytes - budget.reserved_bytes
    parts = (
        ("the database in the virtual machine", budget.memory_bytes, ""),
        ("margin of the guest's pool", margin, "rule OS002"),
        ("the guest's own system", machine.system_bytes(request), "a guess"),
    )
    counted = sum(size for _, size, _ in parts)
    total = -(-(counted + _KERNEL_BYTES) * _OF_A_PAGE // (_OF_A_PAGE - 1))
    kernel = "1/64 for its page descriptors and 40 MiB; seen in two guests"
    rounding = -total % request.page_bytes
    last = (
        ("what its kernel takes before", total - counted, kernel),
        ("rounding", rounding, "whole huge pages of the hypervisor; rule KVM017"),
    )
    return summed((*parts, *last), "memory of the virtual machine")


def counted_bytes(memory_bytes: int) -> int:
    """Return what a guest of a size counts as its memory."""
    return memory_bytes - memory_bytes // _OF_A_PAGE - _KERNEL_BYTES


def _node_lines(
    wanted: topology.Wanted, place: topology.DomainPlace
) -> tuple[stack.ArithmeticLine, ...]:
    memory = place.node.memory_bytes or 0
    kept = memory - int(FOR_GUESTS * memory)
    return summed(
        (
            (f"memory of the hypervisor's node {place.node.number}", memory, ""),
            ("kept for the hypervisor", -kept, "6 %; rule KVM003"),
            ("other virtual machines and huge pages", -place.others_bytes, ""),
            (f"virtual machine {wanted.name}", -wanted.memory_bytes, "strictly on this node"),
        ),
        f"left on node {place.node.number}",
    )


def _domain(
    request: stack.StackRequest,
    wanted: topology.Wanted,
    place: topology.DomainPlace,
    below: LinuxFacts,
) -> stack.DomainDesign:
    cpus = tuple(cpu for core in place.cores for cpu in core)
    return stack.DomainDesign(
        name=wanted.name,
        memory_bytes=wanted.memory_bytes,
        vcpu_pins=cpus[: wanted.vcpus],
        emulator_pins=place.emulator,
        io_thread_pins=place.io_thread,
        nodes=(place.node.number,),
        threads=place.threads,
        page_bytes=wanted.page_bytes,
        disks=request.disks,
        bridge=request.bridge,
        architecture=below.architecture or "x86_64",
        amd=bool(below.has_amd_cpu),
    )


def as_guest(inside: LinuxFacts, vcpus: int, threads: int, memory_bytes: int) -> LinuxFacts:
    """Return a guest as it will be; of the one that is there its disk and swap are kept."""
    cpus = tuple(range(vcpus))
    counted = counted_bytes(memory_bytes)
    return replace(
        inside,
        virtualization="kvm",
        cpus=cpus,
        allowed_cpus=None,
        siblings=tuple(cpus[at : at + threads] for at in range(0, vcpus, threads)),
        smt=threads > 1,
        memory_bytes=counted,
        nodes=(NumaNode(number=0, cpus=cpus, memory_bytes=counted),),
        pools=(),
        balloon=False,
        governor=None,
        scaling_driver=None,
    )


def _assumptions(
    request: stack.StackRequest, facts: stack.StackFacts, below: LinuxFacts, wanted: topology.Wanted
) -> tuple[str, ...]:
    said = [*machine.of_cpus(below, "the hypervisor")]
    if below.virtualization not in (None, "none"):
        said.append(
            "the hypervisor is itself a virtual machine: its CPUs and nodes are those it is shown"
        )
    known = {domain.name for domain in facts.domains or ()}
    if facts.domains is None:
        said.append("nobody saw the hypervisor's other virtual machines: their CPUs are not known")
    given = (("--disk", request.disks), ("--bridge", request.bridge))
    lacks = " and no ".join(option for option, value in given if not value)
    if wanted.name not in known and lacks:
        said.append(
            f"there is no domain {wanted.name!r} yet, and no {lacks} was given: add them before it"
            " is defined"
        )
    if wanted.vcpus > request.cpus and request.place is not stack.Place.CNPG:
        said.append(
            f"{wanted.vcpus} virtual CPUs, not {request.cpus}: whole cores, so that nobody shares"
            " one"
        )
    others = tuple(domain for domain in facts.domains or () if domain.name != wanted.name)
    said += machine.of_neighbours(others)
    said += machine.of_request(request)
    return tuple(said)


_AS_DEFINED: Final = "Write it by `virsh dumpxml NAME --inactive`."


def present_name(xml: str) -> str:
    """Return the name of a domain that a plan can start from.

    Raises:
        InputError: It is none, that of a running machine, or has a password in it.
    """
    root = parse_domain(xml)
    if "id" in root.attrib:
        message = "the domain XML is that of the running machine, not its definition"
        raise InputError(message, hint=_AS_DEFINED)
    if any("passwd" in each.attrib for each in root.iter()):
        message = "the domain XML has a password in it, and plans carry no secrets"
        raise InputError(message, hint=f"{_AS_DEFINED} It leaves passwords out.")
    name = (root.findtext("name") or "").strip()
    if not name:
        raise InputError("the domain XML has no <name>", hint=_AS_DEFINED)
    return name


def facts_with(facts: stack.StackFacts, xml: str) -> stack.StackFacts:
    """Return facts that know of the domain; those that knew of it stay."""
    found, known = domain_facts(xml), facts.domains or ()
    if any(each.name == found.name for each in known):
        return facts
    return replace(facts, domains=(*known, found))


def design_for(design: stack.StackDesign, xml: str) -> stack.StackDesign:
    """Return a design for the present domain: run by what runs it, and said to be that one.

    Raises:
        InputError: The design has no domain, or devices were asked for.
    """
    _require_its_devices(design.request)
    if design.domain is None:
        message = f"a plan for `{design.request.place}` has no domain here, and one was given"
        raise InputError(message, hint="Leave --domain-xml out, or plan --for kvm.")
    domain = replace(design.domain, emulated=parse_domain(xml).get("type") == "qemu")
    said = (
        f"the domain {domain.name!r} is still as in the XML that the plan started from; what the"
        " plan does not speak of stays"
    )
    return replace(design, domain=domain, assumptions=(*design.assumptions, said))


def design_without(design: stack.StackDesign, facts: stack.StackFacts) -> stack.StackDesign:
    """Return a design that says so where its domain is there and nobody gave its XML."""
    names = {each.name for each in facts.domains or ()}
    if design.domain is None or design.domain.name not in names:
        return design
    disks = "other" if design.domain.disks else "no"
    said = (
        f"the domain {design.domain.name!r} is there and its XML was not given: this one has"
        f" {disks} disks, and is not defined over one that has its own; --domain-xml starts from it"
    )
    return replace(design, assumptions=(*design.assumptions, said))


def _require_its_devices(request: stack.StackRequest) -> None:
    """Refuse devices for a domain that is there: it keeps its own."""
    if request.disks or request.bridge:
        option = "--disk" if request.disks else "--bridge"
        raise InputError(
            f"{option} is for a new virtual machine, and {request.name!r} is there: it keeps its"
            " devices",
            hint="Leave it out, or plan for another --name.",
        )
