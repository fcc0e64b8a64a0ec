"""Rules of the kernel: huge pages, swap, read-ahead, CPU time."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from steelyard.core.aws import CLASSES, cpu_outlook
from steelyard.core.findings import Severity
from steelyard.core.linux import PRESSED_FRACTION, WAITED_FRACTION, LinuxFacts, PagePool
from steelyard.core.stack import DomainFacts, StackFacts, Visibility
from steelyard.core.wording import GIB, KIB, MIB, format_bytes, format_duration, format_share
from steelyard.tuning.rules import rule

RULES: Final[list[rule.StackRule]] = []
_rule = partial(rule.enter, RULES, layers=("linux",), needs=())
_SPARE_SHARE: Final = 0.10  # a guess; with the next: what is left over on purpose
_SPARE_BYTES: Final = 256 * MIB
_EMULATOR: Final = "qemu"  # so begin the names of QEMU's processes


@_rule(
    code="OS001",
    severity=Severity.ERROR,
    title="All huge pages that were asked for were obtained",
    why="Setting vm.nr_hugepages succeeds when the kernel finds fewer pages: 200 asked, 82 "
    "given, exit code 0.",
    detect="The configured number of each page size against the lasting pages of "
    "/sys/kernel/mm/hugepages/hugepages-*/{nr,surplus}_hugepages.",
    remedy="Allocate at boot, before memory is fragmented; compact memory "
    "(/proc/sys/vm/compact_memory) and set the number again; let the unit that sets it fail "
    "when it reads back less.",
    source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst (nr_hugepages: success depends "
    "on how much contiguous memory there is); tried in a guest of two nodes under Linux 6.1",
    needs=("linux.pools",),
)
def _all_obtained(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    asked, default = dict(machine.requested_other_pages or {}), machine.requested_huge_pages
    if default is None and not asked:
        return rule.lacking("linux.requested_huge_pages")
    if default is not None:
        if machine.pool() is None:
            return rule.lacking("linux.huge_page_bytes")
        asked[machine.huge_page_bytes or 0] = default
    lasting = {pool.page_bytes: pool.own for pool in machine.pools or ()}
    return rule.violated(
        *(
            f"{pages} huge pages{_of_size(size, machine)} were asked for, {lasting.get(size, 0)}"
            " are there"
            for size, pages in sorted(asked.items())
            if lasting.get(size, 0) < pages
        )
    )


def _of_size(size: int, machine: LinuxFacts) -> str:
    return "" if size == machine.huge_page_bytes else f" of {format_bytes(size)}"


@_rule(
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
)
def _none_stranded(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    pools = [pool for pool in machine.pools or () if pool.total]
    return rule.combined(_stranded(facts, machine, pool) for pool in pools)


def _stranded(facts: StackFacts, machine: LinuxFacts, pool: PagePool) -> rule.Rulings:
    """Judge the pool of one page size by what is asked of it or in use, whichever is more."""
    asked = tuple(_asked_bytes(facts, machine, pool.page_bytes))
    if not asked:
        return _nobody_known(facts, machine, pool)
    pool_bytes = pool.total * pool.page_bytes
    needed_bytes = _needed_bytes(facts, machine, pool, sum(asked))
    spare_bytes = pool_bytes - needed_bytes
    much = spare_bytes > max(_SPARE_SHARE * pool_bytes, _SPARE_BYTES)
    if much and facts.hypervisor == machine and facts.unread_domains:
        return rule.of_unread_domains(facts)  # it may be theirs
    return rule.violated_if(
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
        domain.huge_bytes.get(pool.page_bytes, 0)
        for domain in (facts.domains or ()) * (facts.hypervisor == machine)
        if domain.running
    )
    return asked - held + max(used, held)


def _nobody_known(facts: StackFacts, machine: LinuxFacts, pool: PagePool) -> rule.Rulings:
    """Say whose needs are not known; that all are known is not known of any other page size."""
    if facts.kubernetes is not None and facts.kubernetes.pods is None:
        return rule.lacking("kubernetes.pods")
    size = rule.huge_page_of_server(facts) or machine.huge_page_bytes
    if size is None:
        return rule.lacking("linux.huge_page_bytes")
    return rule.lacking("postgres.huge_pages_needed") if pool.page_bytes == size else rule.NOTHING


def _asked_bytes(facts: StackFacts, machine: LinuxFacts, page_bytes: int) -> Iterator[int]:
    """Yield what pods ask of a page size; where none does, what PostgreSQL needs of its size.

    Virtual machines count where the machine is their hypervisor.
    """
    pods = (facts.kubernetes.pods if facts.kubernetes else None) or ()
    of_pods = [asked for pod in pods if (asked := rule.huge_pages_of(pod).get(page_bytes))]
    yield from of_pods
    pages = _pages_of_server(facts)
    if not of_pods and pages is not None and page_bytes == rule.huge_page_of_server(facts):
        yield pages * page_bytes
    if facts.hypervisor == machine:
        for domain in facts.domains or ():
            if size := domain.huge_bytes.get(page_bytes):
                yield size


def _pages_of_server(facts: StackFacts) -> int | None:
    """Return the pages that PostgreSQL needs: none where huge_pages is off."""
    asked = rule.huge_pages_asked(facts)
    if asked == "off":
        return 0
    return facts.postgres.huge_pages_needed if facts.postgres and asked else None


@_rule(
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
)
def _no_bystander(facts: StackFacts) -> rule.Rulings:
    """Judge the holders; where nobody knows who may, only where no server runs yet."""
    users = (facts.linux.pool_users if facts.linux else None) or ()
    if not users:
        return rule.HOLDS
    server = (facts.postgres.processes if facts.postgres else None) or ()
    own = frozenset((*server, *facts.intent.huge_page_pids))
    on_pages = any(domain.huge_bytes for domain in facts.domains or ())
    strangers = [
        user
        for user in users
        if user.pid not in own and not (on_pages and user.command.startswith(_EMULATOR))
    ]
    if not strangers:
        return rule.HOLDS
    starts_later = facts.postgres is not None and facts.postgres.running is False
    if not own and not starts_later:
        return rule.lacking("intent.huge_page_pids")
    if any(user.command.startswith(_EMULATOR) for user in strangers) and facts.unread_domains:
        return rule.of_unread_domains(facts)
    held = sum(user.held_bytes for user in strangers)
    commands = ", ".join(sorted({user.command for user in strangers}))
    first = strangers[0]
    told = f"{len(strangers)} other process(es) hold {format_bytes(held)} of huge pages: {commands}"
    return rule.violated(f"{told}, such as pid {first.pid}")


_SWAPPINESS: Final = 10  # of TuneD's latency-performance
_DIRTY_BYTES: Final = 2 * GIB  # a guess: seconds of a good disk
# From the kernel's default to what TuneD's throughput-performance raises it to.
LEAST_READ_AHEAD_BYTES: Final = 128 * KIB
MOST_READ_AHEAD_BYTES: Final = 4096 * KIB
_BLOCK_BYTES: Final = 8 * KIB  # of PostgreSQL
_NEVER_OVERCOMMIT: Final = 2


@_rule(
    code="OS005",
    severity=Severity.WARNING,
    title="vm.swappiness is at most 10, or there is no swap",
    why="A backend whose memory was swapped out waits for the disk within a statement.",
    detect="/proc/sys/vm/swappiness above 10 with swap in /proc/swaps.",
    remedy="vm.swappiness = 1 in a file of /etc/sysctl.d, or no swap.",
    source="TuneD, profiles/postgresql/tuned.conf (vm.swappiness=3) and "
    "profiles/latency-performance/tuned.conf (vm.swappiness=10)",
)
def _keeps_off_swap(facts: StackFacts) -> rule.Rulings:
    """Judge by either fact where it suffices: little swappiness, or no swap."""
    machine = facts.linux or LinuxFacts()
    swappiness, swap_bytes = machine.swappiness, machine.swap_bytes
    if swap_bytes == 0 or (swappiness is not None and swappiness <= _SWAPPINESS):
        return rule.HOLDS
    if swappiness is None or swap_bytes is None:
        return rule.lacking_of(machine, "linux", "swappiness", "swap_bytes")
    return rule.violated(f"vm.swappiness is {swappiness} with {format_bytes(swap_bytes)} of swap")


@_rule(
    code="OS006",
    severity=Severity.INFO,
    title="Little data waits to be written",
    why="20 % of a large memory is many GiB that a checkpoint's fsync writes at once while "
    "commits wait.",
    detect="/proc/sys/vm/dirty_bytes, else dirty_ratio of the memory outside of the pools of "
    "huge pages (an upper bound: the kernel takes it of what is available): more than 2 GiB, "
    "which is a guess.",
    remedy="vm.dirty_bytes = 536870912 and vm.dirty_background_bytes = 67108864.",
    source="TuneD, profiles/postgresql/tuned.conf (vm.dirty_bytes, vm.dirty_background_bytes); "
    "Linux, Documentation/admin-guide/sysctl/vm.rst, dirty_ratio",
)
def _bounded_dirt(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    if machine.dirty_bytes:
        return _dirt("vm.dirty_bytes", machine.dirty_bytes)
    ratio, memory_bytes = machine.dirty_ratio, machine.memory_bytes
    if ratio == 0 and machine.dirty_bytes is None:  # the one that is not in force is 0
        return rule.lacking("linux.dirty_bytes")
    if ratio is None or memory_bytes is None:
        return rule.lacking_of(machine, "linux", "dirty_ratio", "memory_bytes")
    pools_bytes = sum(pool.total * pool.page_bytes for pool in machine.pools or ())
    return _dirt(f"vm.dirty_ratio {ratio}", ratio * (memory_bytes - pools_bytes) // 100)


def _dirt(setting: str, limit_bytes: int) -> rule.Rulings:
    return rule.violated_if(
        limit_bytes > _DIRTY_BYTES,
        f"{setting} lets up to {format_bytes(limit_bytes)} wait to be written",
    )


@_rule(
    code="OS008",
    layers=("linux", "storage"),
    severity=Severity.INFO,
    title="Read-ahead lies between 128 KiB and 4 MiB",
    why="The kernel reads ahead where reads look sequential, and random reads of 8 kB do not: "
    "sequential scans and backups gain from more of it. Where neighbouring rows are read it "
    "fetches what nobody asked for, the more the larger it is.",
    detect="/sys/block/*/queue/read_ahead_kb of the data directory's disk: less than 128, the "
    "kernel's default, or more than 4096, what TuneD raises it to for throughput. Where it "
    "begins to harm is a guess.",
    remedy="echo 4096 > /sys/block/DISK/queue/read_ahead_kb, kept by a udev rule, and 128 "
    "where single rows are read; `linux: {read_ahead: 128kB}` of a configuration weighs the"
    " two.",
    source="TuneD, profiles/throughput-performance/tuned.conf (readahead=>4096); Linux, "
    "Documentation/ABI/stable/sysfs-block, read_ahead_kb; include/linux/pagemap.h "
    "(VM_READAHEAD_PAGES, 128 KiB)",
    needs=("linux.device.read_ahead_bytes",),
)
def _bounded_read_ahead(facts: StackFacts) -> rule.Rulings:
    device = (facts.linux or LinuxFacts()).device
    if device is None or device.read_ahead_bytes is None:
        return rule.NOTHING
    told = f"{device.name} reads {format_bytes(device.read_ahead_bytes)} ahead"
    if device.read_ahead_bytes < LEAST_READ_AHEAD_BYTES:
        return rule.violated(f"{told}: sequential scans and backups wait for many small requests")
    return rule.violated_if(device.read_ahead_bytes > MOST_READ_AHEAD_BYTES, told)


@_rule(
    code="OS009",
    layers=("linux", "postgres", "redis"),
    severity=Severity.WARNING,
    title="A page of memory is no larger than a block of the database",
    why="With pages of 64 KiB each block of 8 KiB is read and written as 64 KiB, the default "
    "huge page has 512 MiB, and a Redis whose jemalloc was built for 4 KiB does not start.",
    detect="getconf PAGESIZE; Hugepagesize in /proc/meminfo.",
    remedy="Boot a kernel of 4 KiB pages; or ask for huge pages of 2 MiB by size, and use "
    "programs that were built for these pages.",
    source="Linux, Documentation/arch/arm64/hugetlbpage.rst (sizes by granule); "
    "redis/redis#15185 (unsupported system page size)",
    needs=("linux.page_bytes",),
)
def _small_pages(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    page_bytes = machine.page_bytes
    if page_bytes is None:
        return rule.NOTHING
    default = machine.huge_page_bytes
    huge = f"; default huge page {format_bytes(default)}" if default else ""
    return rule.violated_if(
        page_bytes > _BLOCK_BYTES,
        f"pages of {format_bytes(page_bytes)}: the page cache reads and writes"
        f" {page_bytes / _BLOCK_BYTES:g} times a block of 8 KiB{huge}",
    )


@_rule(
    code="OS013",
    layers=("linux", "redis", "postgres"),
    severity=Severity.ERROR,
    title="vm.overcommit_memory suits every server on the machine",
    why="Redis forks to write its snapshot and needs as much again to be promised; with 2 the "
    "promise is refused. PostgreSQL's documentation advises 2, so the two do not share a "
    "machine with either's advice.",
    detect="/proc/sys/vm/overcommit_memory and the servers on the machine.",
    remedy="Give them machines of their own, or set 0 or 1 and limit the memory of each.",
    source='Redis documentation, "Redis administration" (vm.overcommit_memory = 1); PostgreSQL '
    '18 documentation, section 18.4.4 "Linux Memory Overcommit"',
    needs=("linux.overcommit_memory",),
)
def _overcommit_suits_all(facts: StackFacts) -> rule.Rulings:
    mode = (facts.linux or LinuxFacts()).overcommit_memory
    if mode != _NEVER_OVERCOMMIT:
        return rule.HOLDS
    if facts.redis is None:
        return rule.lacking("redis")
    told = "vm.overcommit_memory = 2 on the machine of Redis: the fork for a snapshot can fail"
    if facts.postgres is not None:
        told += "; PostgreSQL is advised this value, Redis is advised 1"
    return rule.violated_if(bool(facts.redis), told)


@_rule(
    code="OS004",
    severity=Severity.WARNING,
    title="Transparent huge pages are given on request only",
    why="With always, a fork of Redis copies 2 MiB for a byte that changes, and compaction "
    "stalls allocations of PostgreSQL's backends.",
    detect="/sys/kernel/mm/transparent_hugepage/enabled.",
    remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, at every boot.",
    source="Redis, src/syscheck.c, checkTHPEnabled; TuneD, profiles/postgresql/tuned.conf "
    "(transparent_hugepages=never)",
    needs=("linux.transparent_huge_pages",),
)
def _no_thp_always(facts: StackFacts) -> rule.Rulings:
    mode = (facts.linux or LinuxFacts()).transparent_huge_pages
    return rule.violated_if(mode == "always", "transparent huge pages: always")


_FAST_CLOCKS: Final = frozenset(
    {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "tod"}
)
_BURSTABLE: Final = re.compile(r"(?:db\.|cache\.)?t(?:1|2|3a?|4g)\.")


@_rule(
    code="OS003",
    layers=("linux", "hypervisor"),
    severity=Severity.INFO,
    title="No CPU governor is set within a virtual machine",
    why="The guest has no cpufreq: cpupower fails there or does nothing, and the hypervisor's "
    "clock stays as it was.",
    detect="The intent to set a governor, and no /sys/devices/system/cpu/cpu0/cpufreq.",
    remedy="Set it on the hypervisor (KVM014), or ask who runs it.",
    source='Linux, Documentation/admin-guide/pm/cpufreq.rst, section "Policy Interface in '
    'sysfs"; tried in guests of KVM and TCG (cpupower: "Error setting new values")',
    needs=("linux.virtualization",),
)
def _no_governor_in_guest(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    wanted = facts.intent.guest_governor
    if wanted is None or machine.virtualization == "none":
        return rule.NOTHING
    if machine.scaling_driver is not None:
        return rule.HOLDS
    if facts.origin("linux.scaling_driver").visibility is not Visibility.NO:
        return rule.lacking("linux.scaling_driver")
    return rule.violated(f"governor {wanted} is to be set in a virtual machine that has no cpufreq")


@_rule(
    code="OS007",
    severity=Severity.INFO,
    title="Automatic NUMA balancing is off where there is one node",
    why="It unmaps pages to see who touches them, at the price of page faults, and with one "
    "node there is nowhere to move them to. Memory that is bound to nodes is left alone by "
    "the kernel itself.",
    detect="/proc/sys/kernel/numa_balancing and /sys/devices/system/node/online.",
    remedy="kernel.numa_balancing = 0 in a file of /etc/sysctl.d.",
    source="Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; "
    "kernel/sched/fair.c, task_numa_work (passes over memory whose policy forbids moving); "
    "TuneD, profiles/network-latency/tuned.conf (kernel.numa_balancing=0)",
    needs=("linux.numa_balancing", "linux.nodes"),
)
def _no_idle_scanning(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    return rule.violated_if(
        bool(machine.numa_balancing) and len(machine.nodes or ()) == 1,
        f"kernel.numa_balancing = {machine.numa_balancing} with one node",
    )


@_rule(
    code="OS011",
    layers=("linux", "bench"),
    severity=Severity.WARNING,
    title="Nobody else takes CPU time",
    why="Busy neighbours made latencies 12 to 20 times longer. In a virtual machine they are "
    "pressure, below it they are steal; one does not show the other.",
    detect="Growth of steal in /proc/stat above 1 % of the time, or some of /proc/pressure/cpu "
    "above 10 % (guesses).",
    remedy="Find who it is, and measure when it is quiet.",
    source="Linux, Documentation/filesystems/proc.rst, section 1.7 (steal); "
    "Documentation/accounting/psi.rst; the factor was measured",
)
def _undisturbed(facts: StackFacts) -> rule.Rulings:
    machine = facts.linux or LinuxFacts()
    limits = {
        "steal_fraction": (WAITED_FRACTION, "steal"),
        "cpu_pressure_fraction": (PRESSED_FRACTION, "tasks waited for a CPU in"),
    }
    return rule.combined(
        rule.lacking(f"linux.{fact}")
        if (share := getattr(machine, fact)) is None
        else rule.violated_if(share > limit, f"{words} {format_share(share)} of the time")
        for fact, (limit, words) in limits.items()
    )


@_rule(
    code="OS012",
    layers=("linux", "bench"),
    severity=Severity.WARNING,
    title="The instance has its CPUs at all times",
    why="A burstable instance is entitled to a share (30 % of each CPU of a t3.large) and "
    "borrows the rest: a short test sees the burst only. RDS runs T3 in unlimited mode, so it "
    "bills what is borrowed and does not slow down.",
    detect="/sys/class/dmi/id/product_name or the metadata's instance-type, and the class "
    "compared with: t1, t2, t3, t3a, t4g.",
    remedy="Use a class of the m, r or c families; or run until credits are gone and record "
    "CPUCreditBalance and CPUSurplusCreditsCharged.",
    source='AWS, "Amazon EC2 User Guide", section "Burstable performance instances"; AWS, '
    '"Amazon RDS User Guide", section "DB instance class types" (T3 in unlimited mode)',
)
def _steady_instance(facts: StackFacts) -> rule.Rulings:
    """Judge the machine's own type, which bare metal has none of, and the class compared with."""
    machine = facts.linux or LinuxFacts()
    compared = facts.bench.reference_class if facts.bench else None
    own = rule.lacking("linux.instance_type") if machine.virtualization != "none" else rule.NOTHING
    return rule.combined(
        (
            _steady(machine.instance_type) if machine.instance_type else own,
            _steady(compared) if compared else rule.NOTHING,
        )
    )


def _steady(name: str) -> rule.Rulings:
    return rule.violated_if(bool(_BURSTABLE.match(name)), f"{name} is burstable{_lasting(name)}")


def _lasting(name: str) -> str:
    """Return what of a class lasts and for how long the rest does, where its credits are known."""
    kind = CLASSES.get(f"db.{name.removeprefix('db.')}")
    if kind is None or not kind.is_burstable:
        return ""
    full = cpu_outlook(kind, 1.0, balance=kind.most_credits)
    return (
        f": {kind.cpu_baseline:.0%} of each vCPU last, and {kind.most_credits:.0f} credits, a full"
        f" balance, last {format_duration(full.lasts_s)} at full load"
    )


@_rule(
    code="OS014",
    layers=("linux", "kvm", "hypervisor"),
    severity=Severity.INFO,
    title="A guest that spans NUMA nodes is shown them",
    why="A guest that takes two nodes for one cannot keep a process near its memory.",
    detect="Host nodes of numatune and of the pinned CPUs against the domain's numa cells.",
    remedy="Show one cell for each host node, bound by numatune/memnode.",
    source='libvirt, Domain XML format, sections "NUMA Node Tuning" (memnode) and "CPU model '
    'and topology" (numa, cell)',
    needs=("domains",),
    among=rule.domains_of,
)
def _shows_its_nodes(domain: DomainFacts, facts: StackFacts) -> rule.Rulings:
    nodes = (facts.hypervisor.nodes if facts.hypervisor else None) or ()
    home = {cpu: node.number for node in nodes for cpu in node.cpus}
    bound = {*domain.memory_nodes, *(n for cell in domain.cells for n in cell.memory_nodes)}
    spanned = bound | {home[cpu] for cpu in domain.pinned_cpus if cpu in home}
    shown = max(1, len(domain.cells))
    if not spanned:
        return rule.NOTHING
    if len(spanned) <= shown and not home and domain.pinned_cpus:
        return rule.lacking("hypervisor.nodes")
    return rule.violated_if(
        len(spanned) > shown,
        f"{domain.name}: it spans nodes {rule.listed(spanned)} and its guest is shown {shown}",
    )


@_rule(
    code="OS010",
    severity=Severity.WARNING,
    title="Reading the clock needs no system call",
    why="hpet, acpi_pm and xen make each look at the clock a system call or an exit to the "
    "hypervisor: EXPLAIN ANALYZE, track_io_timing and Redis look often.",
    detect="/sys/devices/system/clocksource/clocksource0/current_clocksource; pg_test_timing "
    "shows more than 200 ns.",
    remedy="Use tsc, or kvm-clock in a guest of KVM: write it to current_clocksource; find out "
    "from the kernel's log why it was given up.",
    source="Redis, src/syscheck.c, checkClocksource; PostgreSQL 18 documentation, "
    '"pg_test_timing"; a guest under TCG fell back to hpet',
    needs=("linux.clocksource",),
)
def _fast_clock(facts: StackFacts) -> rule.Rulings:
    clock = (facts.linux or LinuxFacts()).clocksource
    return rule.violated_if(clock not in _FAST_CLOCKS, f"clock source {clock}")
