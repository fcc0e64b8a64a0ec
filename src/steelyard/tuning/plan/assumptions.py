"""What a plan takes for granted: every gap in the facts that it went on without, in sentences.

Among them are older requests for huge pages, which come back at the next boot.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.core.linux import LinuxFacts, NumaNode
from steelyard.core.stack import Place, PlannedSetting, PodDesign, PoolDesign, Scope, StackRequest
from steelyard.core.stack_facts import DomainFacts, Origin, StackFacts, Visibility
from steelyard.core.units import format_bytes
from steelyard.tuning.files.manifests import UNIT_PATH
from steelyard.tuning.plan.pods import bystander_pages
from steelyard.tuning.plan.topology import cpus_of, floating, machines_here

_QUOTA: Final = "Kubernetes is 1.33 or later: before, exclusive CPUs keep a CFS quota"


def of_local_machine(
    request: StackRequest,
    facts: StackFacts,
    nodes: Sequence[NumaNode],
    pools: Sequence[PoolDesign],
) -> tuple[str, ...]:
    """Return what is taken for granted of a machine that is there."""
    linux = facts.linux or LinuxFacts()
    said = [*of_cpus(linux, "the machine")]
    if linux.nodes is None:
        said.append("nobody saw the machine's NUMA nodes: the pool is left to the kernel")
    if linux.memory_bytes is None:
        said.append("nobody saw the machine's memory: it is taken to be enough")
    if linux.pools is None:
        said.append("nobody saw the machine's huge pages: none are taken to be in use")
    if len(nodes) > 1:
        parts = {pool.node: pool.pages for pool in pools}
        told = ", ".join(f"{parts.get(node.number, 0)} on node {node.number}" for node in nodes)
        said.append(f"no NUMA node holds the database: it spans them, with huge pages {told}")
    bystanders = bystander_pages(facts, request.page_bytes)
    if bystanders:
        said.append(
            f"{bystanders} huge pages are held by, or promised to, programs outside of this plan;"
            " the pool has them besides"
        )
    said += of_neighbours(machines_here(facts))
    said += of_request(request)
    return tuple(said)


def of_cpus(linux: LinuxFacts, name: str) -> Iterator[str]:
    """Yield what is not known of a machine's CPUs."""
    if not cpus_of(linux):
        yield f"nobody saw the CPUs of {name}: they are taken to be enough"
    elif linux.siblings is None and linux.smt is not False:
        seen = ", though SMT is on" if linux.smt else ""
        yield f"nobody saw which CPUs of {name} share a core{seen}: each is taken for a core"


def of_neighbours(domains: Sequence[DomainFacts]) -> Iterator[str]:
    """Yield what the other virtual machines of the same machine may do to the plan."""
    loose = floating(domains)
    if loose:
        yield (
            f"CPUs of the virtual machine(s) {', '.join(loose)} are pinned nowhere: they may run on"
            " those of this plan, too"
        )


def of_request(request: StackRequest) -> Iterator[str]:
    """Yield what a request leaves open."""
    if request.place is not Place.CNPG:
        if request.instances > 1:
            yield (
                f"{request.instances} instances were asked for: this is the plan of one machine,"
                " and says nothing of the others"
            )
        return
    yield _QUOTA
    if request.instances > 1:
        yield (
            f"each of the {request.instances} instances has a node like this one, planned and"
            " tuned alike: this plan tunes one"
        )


def of_volumes(request: StackRequest, facts: StackFacts, pod: PodDesign | None) -> Iterator[str]:
    """Yield what is not known of a cluster's volumes and their class."""
    if pod is None:
        return
    if request.volume_bytes is None:
        yield (
            f"volumes of {format_bytes(pod.volume_bytes)}: nobody said how large the data are"
            " (--volume-size)"
        )
    classes = facts.kubernetes.storage_classes if facts.kubernetes is not None else None
    if request.storage_class is not None and request.storage_class not in {
        each.name for each in classes or ()
    }:
        yield (
            f"the cluster has a storage class {request.storage_class!r} that binds when the pod is"
            " placed: nobody saw it"
        )


_SOURCE: Final = "Linux documentation, 'HugeTLB Pages'; sysctl.d(5)"
_PATH: Final = re.compile(r"(/[\w./@+-]+)$")
_COMMAND_LINE: Final = "/proc/cmdline"


def old_requests(
    linux: LinuxFacts, pools: tuple[PoolDesign, ...], facts: StackFacts, layer: str
) -> Iterator[PlannedSetting]:
    """Yield the step that ends an older request for pages of the kernel's default size.

    Args:
        linux: The machine that the pools are planned for.
        pools: All of them.
        facts: With the origins, which name the file.
        layer: ``hypervisor`` or ``linux``.
    """
    asked, size = linux.requested_huge_pages, linux.huge_page_bytes
    planned = [pool.pages for pool in pools if pool.page_bytes == size]
    if asked is None or not planned or (asked == sum(planned) and len(planned) == 1):
        return
    path = _path_of(facts, layer)
    if path == UNIT_PATH or (path is None and not asked):
        return
    told = f"{asked} huge pages are asked for"
    what = "whatever asks for them" if path is None else f"vm.nr_hugepages in {path}"
    if path == _COMMAND_LINE:
        what = "hugepages= on the kernel's command line"
    yield PlannedSetting(
        name=f"Take away {what}",
        value="" if path is None else _check(path),
        reason=f"{told} beside this plan's {sum(planned)}: the next boot would allocate them, over"
        " all nodes, or take the plan's away",
        source=_SOURCE,
        scope=Scope.REBOOT,
    )


def _path_of(facts: StackFacts, layer: str) -> str | None:
    """Return the file that the request is in; None where nobody knows it."""
    origin = facts.origin(f"{layer}.requested_huge_pages")
    if origin.visibility is not Visibility.YES and facts.hypervisor == facts.linux:
        origin = facts.origin("linux.requested_huge_pages")
    return _named_in(origin)


def _named_in(origin: Origin) -> str | None:
    found = _PATH.search(origin.source)
    return found[1] if found is not None and origin.visibility is Visibility.YES else None


def _check(path: str) -> str:
    if path == _COMMAND_LINE:
        return f"! grep -Eq '(^| )hugepages=' {path}"
    return f"! grep -Eqs '^[[:space:]]*-?[[:space:]]*vm[./]nr_hugepages' {path}"
