"""Rules of the pools of huge pages: obtained, used, by whom."""

from collections.abc import Iterator
from typing import Final

from steelyard.core.findings import Severity
from steelyard.core.linux import LinuxFacts, PagePool, PoolUser
from steelyard.core.stack_facts import StackFacts
from steelyard.core.units import MIB, format_bytes, format_share
from steelyard.tuning.rules.rule import (
    Outcome,
    Rule,
    combined,
    lacking,
    of_unread_domains,
    violated_if,
)
from steelyard.tuning.rules.subjects import huge_page_of_server, huge_pages_asked, huge_pages_of

_SPARE_SHARE: Final = 0.10  # a guess; with the next: what is left over on purpose
_SPARE_BYTES: Final = 256 * MIB
_EMULATOR: Final = "qemu"  # so begin the names of QEMU's processes


def _all_obtained(facts: StackFacts) -> Outcome:
    machine = facts.linux or LinuxFacts()
    asked, pool = machine.requested_huge_pages, machine.pool()
    if asked is None:
        return None
    if pool is None:
        return lacking("linux.huge_page_bytes")
    lasting = pool.total - pool.surplus
    return violated_if(lasting < asked, f"{asked} huge pages were asked for, {lasting} are there")


def _none_stranded(facts: StackFacts) -> Outcome:
    machine = facts.linux or LinuxFacts()
    pools = [pool for pool in machine.pools or () if pool.total]
    return combined(_stranded(facts, machine, pool) for pool in pools)


def _stranded(facts: StackFacts, machine: LinuxFacts, pool: PagePool) -> Outcome:
    """Judge the pool of one page size by what is asked of it or in use, whichever is more."""
    asked = tuple(_asked_bytes(facts, machine, pool.page_bytes))
    if not asked:
        return _nobody_known(facts, machine, pool)
    pool_bytes = pool.total * pool.page_bytes
    needed_bytes = _needed_bytes(facts, machine, pool, sum(asked))
    spare_bytes = pool_bytes - needed_bytes
    much = spare_bytes > max(_SPARE_SHARE * pool_bytes, _SPARE_BYTES)
    if much and facts.hypervisor == machine and facts.unread_domains:
        return of_unread_domains(facts)  # it may be theirs
    return violated_if(
        much,
        f"of {format_bytes(pool_bytes)} in pages of {format_bytes(pool.page_bytes)}"
        f" {format_bytes(needed_bytes)} are asked for or in use: {format_bytes(spare_bytes)}"
        f" ({format_share(spare_bytes / pool_bytes)}) lie idle",
    )


def _needed_bytes(facts: StackFacts, machine: LinuxFacts, pool: PagePool, asked: int) -> int:
    """Return what must be there: the pages in use are those asked for by whoever runs.

    A server that is about to start takes its pages beside those that others hold.
    """
    used = (pool.total - pool.available) * pool.page_bytes
    if facts.postgres is None or facts.postgres.running is not False:
        return max(asked, used)
    held = sum(
        domain.memory_bytes
        for domain in (facts.domains or ()) * (facts.hypervisor == machine)
        if domain.running and domain.huge_page_bytes == pool.page_bytes
    )
    return asked - held + max(used, held)


def _nobody_known(facts: StackFacts, machine: LinuxFacts, pool: PagePool) -> Outcome:
    """Say whose needs are not known; that all are known is not known of any other page size."""
    if facts.kubernetes is not None and facts.kubernetes.pods is None:
        return lacking("kubernetes.pods")
    size = huge_page_of_server(facts) or machine.huge_page_bytes
    if size is None:
        return lacking("linux.huge_page_bytes")
    return lacking("postgres.huge_pages_needed") if pool.page_bytes == size else None


def _asked_bytes(facts: StackFacts, machine: LinuxFacts, page_bytes: int) -> Iterator[int]:
    """Yield what pods ask of a page size; where none does, what PostgreSQL needs of its size.

    Virtual machines count where the machine is their hypervisor.
    """
    pods = (facts.kubernetes.pods if facts.kubernetes else None) or ()
    of_pods = [asked for pod in pods if (asked := huge_pages_of(pod).get(page_bytes))]
    yield from of_pods
    pages = _pages_of_server(facts)
    if not of_pods and pages is not None and page_bytes == huge_page_of_server(facts):
        yield pages * page_bytes
    if facts.hypervisor == machine:
        for domain in facts.domains or ():
            if domain.huge_page_bytes == page_bytes:
                yield domain.memory_bytes


def _pages_of_server(facts: StackFacts) -> int | None:
    """Return the pages that PostgreSQL needs: none where huge_pages is off."""
    if huge_pages_asked(facts) == "off":
        return 0
    return facts.postgres.huge_pages_needed if facts.postgres else None


def _no_bystander(facts: StackFacts) -> Outcome:
    """Judge the holders; where nobody knows who may, only where no server runs yet."""
    users = (facts.linux.pool_users if facts.linux else None) or ()
    strangers = [user for user in users if not _is_expected(user, facts)]
    if not strangers:
        return ()
    starts_later = facts.postgres is not None and facts.postgres.running is False
    if not _own_processes(facts) and not starts_later:
        return lacking("intent.huge_page_pids")
    if any(user.command.startswith(_EMULATOR) for user in strangers) and facts.unread_domains:
        return of_unread_domains(facts)
    held = sum(user.held_bytes for user in strangers)
    commands = ", ".join(sorted({user.command for user in strangers}))
    first = strangers[0]
    told = f"{len(strangers)} other process(es) hold {format_bytes(held)} of huge pages: {commands}"
    return (f"{told}, such as pid {first.pid}",)


def _is_expected(user: PoolUser, facts: StackFacts) -> bool:
    """Return whether a process may hold pages: named so, or the QEMU of a known domain."""
    on_pages = any(domain.huge_page_bytes for domain in facts.domains or ())
    return user.pid in _own_processes(facts) or (on_pages and user.command.startswith(_EMULATOR))


def _own_processes(facts: StackFacts) -> frozenset[int]:
    """Return the processes that may hold pages: the server's own, and those that were named."""
    server = (facts.postgres.processes if facts.postgres else None) or ()
    return frozenset((*server, *facts.intent.huge_page_pids))


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        code="OS001",
        layers=("linux",),
        severity=Severity.ERROR,
        title="All huge pages that were asked for were obtained",
        why="Setting vm.nr_hugepages succeeds when the kernel finds fewer pages: 200 asked, 82 "
        "given, exit code 0.",
        detect="The configured number against the lasting pages of "
        "/sys/kernel/mm/hugepages/hugepages-*/{nr,surplus}_hugepages.",
        remedy="Allocate at boot, before memory is fragmented; compact memory "
        "(/proc/sys/vm/compact_memory) and set the number again; let the unit that sets it fail "
        "when it reads back less.",
        source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst (nr_hugepages: success depends "
        "on how much contiguous memory there is); tried in a guest of two nodes under Linux 6.1",
        needs=("linux.requested_huge_pages", "linux.pools"),
        check=_all_obtained,
    ),
    Rule(
        code="OS002",
        layers=("linux", "kubernetes", "postgres"),
        severity=Severity.WARNING,
        title="No large part of a pool of huge pages lies idle",
        why="Pages of a pool serve nobody else: not the page cache, not other programs, and "
        "Kubernetes takes the whole pool off the memory that it gives to pods.",
        detect="Each page size by itself: pool against the limits of pods, else PostgreSQL's "
        "shared_memory_size_in_huge_pages, or against what is in use where that is more. More "
        "than 10 % and 256 MiB over is too much (a guess).",
        remedy="Reserve what is needed and 2 % of it.",
        source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst (pages in the pool cannot be "
        "used for other purposes); Kubernetes 1.34, "
        "pkg/kubelet/cm/memorymanager/policy_static.go (memory less all huge pages)",
        needs=("linux.pools",),
        check=_none_stranded,
    ),
    Rule(
        code="OS015",
        layers=("linux", "kubernetes", "postgres"),
        severity=Severity.WARNING,
        title="Nobody else holds pages of the pool",
        why="PostgreSQL's default huge_pages=try takes pages first come, first served: a bystander "
        "on the same kernel leaves too few, and a server with huge_pages=on does not start.",
        detect="HugetlbPages in /proc/*/status of processes that are neither the server's own "
        "(with --dsn, where it runs on this machine), nor named in intent.huge_page_pids, nor the "
        "QEMU of a domain on huge pages.",
        remedy="Set huge_pages=off for bystanders, or reserve pages for them, too.",
        source='PostgreSQL 18 documentation, section 19.4.1 "Memory" (huge_pages: try is the '
        "default); Linux, Documentation/filesystems/proc.rst (HugetlbPages); met twice while "
        "measuring",
        needs=("linux.pool_users",),
        check=_no_bystander,
    ),
)
