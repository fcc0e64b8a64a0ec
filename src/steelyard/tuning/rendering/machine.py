"""Files for one Linux machine: its huge pages at boot, its sysctls, its tuned profile."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.model.stack import MachineDesign, PlannedSetting, PoolDesign, RenderedFile
from steelyard.model.units import KIB
from steelyard.tuning.rendering.remarks import HEAD, hashed, remark

UNIT_PATH: Final = "/etc/systemd/system/steelyard-huge-pages.service"
SYSCTL_PATH: Final = "/etc/sysctl.d/90-steelyard.conf"
PROFILE_PATH: Final = "/etc/tuned/steelyard/tuned.conf"

_THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"
_COMPACT: Final = "/proc/sys/vm/compact_memory"
_USERS: Final = (
    "kubelet.service libvirtd.service virtqemud.service postgresql.service sysinit.target"
)


def machine_files(design: MachineDesign, layer: str) -> Iterator[RenderedFile]:
    """Yield the files of a machine whose layer is ``hypervisor`` or ``linux``."""
    if design.pools:
        yield _file(layer, UNIT_PATH, huge_page_unit(design.pools), "systemd-analyze verify")
    if design.sysctls:
        yield _file(layer, SYSCTL_PATH, sysctl_file(design.sysctls), "sysctl --dry-run --load")
    if design.governor is not None or design.sysfs or design.sysctls:
        content = tuned_profile(design, hypervisor=layer == "hypervisor")
        yield RenderedFile(
            name=f"{layer}/tuned.conf",
            layer=layer,
            content=content,
            path=PROFILE_PATH,
            validated_by="tuned-adm profile steelyard && tuned-adm verify",
        )


def _file(layer: str, path: str, content: str, check: str) -> RenderedFile:
    name = f"{layer}/{path.rpartition('/')[2]}"
    return RenderedFile(
        name=name, layer=layer, content=content, path=path, validated_by=f"{check} {name}"
    )


def huge_page_unit(pools: Sequence[PoolDesign]) -> str:
    """Return a systemd unit that allocates huge pages at boot and reads back what it got.

    It never lowers a count: pages that somebody else asked for at boot stay. It comes before all
    ordinary services, because memory is whole then and nobody has taken pages yet.
    """
    head = hashed(
        f"{HEAD} Belongs in {UNIT_PATH}; then `systemctl enable steelyard-huge-pages`.",
        "The kernel gives fewer pages than it is asked for, and reports no error (measured: 82 of "
        "200); this unit fails then. Source: Linux, admin-guide/mm/hugetlbpage.rst.",
    )
    commands = "".join(
        f"ExecStart=/bin/sh -ec '{_allocation(pool)}'\n"
        f"ExecStartPost=/bin/sh -ec '{_reading_back(pool)}'\n"
        for pool in pools
    )
    return (
        f"{head}\n"
        "[Unit]\n"
        "Description=Allocate huge pages before their users start, and fail when there are fewer\n"
        "DefaultDependencies=no\n"
        "After=systemd-modules-load.service\n"
        f"Before={_USERS}\n"
        "\n[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{commands}"
        "\n[Install]\n"
        "WantedBy=sysinit.target\n"
    )


def pool_path(pool: PoolDesign) -> str:
    """Return the file that holds the number of pages of a pool."""
    above = "/sys/kernel/mm" if pool.node is None else f"/sys/devices/system/node/node{pool.node}"
    return f"{above}/hugepages/hugepages-{pool.page_bytes // KIB}kB/nr_hugepages"


def _allocation(pool: PoolDesign) -> str:
    """Return the command that asks for pages; systemd reads ``$$`` as ``$``."""
    path = pool_path(pool)
    ask = f"echo 1 >{_COMPACT}; echo {pool.pages} >{path}"
    return f'have=$$(cat {path}); if [ "$$have" -lt {pool.pages} ]; then {ask}; fi'


def _reading_back(pool: PoolDesign) -> str:
    where = "the machine" if pool.node is None else f"node {pool.node}"
    asked = f"{where}: {pool.pages} huge pages of {pool.page_bytes // KIB} kB asked for"
    failure = f'echo "{asked}, $$got given: free memory is too scattered or too small" >&2; exit 1'
    return f'got=$$(cat {pool_path(pool)}); [ "$$got" -ge {pool.pages} ] || {{ {failure}; }}'


def sysctl_file(settings: Sequence[PlannedSetting]) -> str:
    """Return a file for ``/etc/sysctl.d`` with the reason above every setting.

    Huge pages are not in it: ``vm.nr_hugepages`` spreads them over all nodes.
    """
    head = hashed(f"{HEAD} Belongs in {SYSCTL_PATH}; then `sysctl --system`.")
    lines = (f"{hashed(remark(each))}{each.name} = {each.value}\n" for each in settings)
    return "\n".join((head, *lines))


def tuned_profile(design: MachineDesign, *, hypervisor: bool) -> str:
    """Return a tuned profile on top of the one that tuned recommends for such a machine."""
    below = _profile_below(design, hypervisor=hypervisor)
    main = f"[main]\nsummary=Latency of a database, by steelyard stack plan\ninclude={below}\n"
    sections = (_cpu(design), _vm(design.sysfs), _sysctl(design.sysctls), _sysfs(design.sysfs))
    head = hashed(f"{HEAD} Belongs in {PROFILE_PATH}; then `tuned-adm profile steelyard`.")
    return "\n".join((head, main, *(section for section in sections if section)))


def _profile_below(design: MachineDesign, *, hypervisor: bool) -> str:
    if hypervisor:
        return "virtual-host"
    return "virtual-guest" if design.governor is None else "throughput-performance"


def _cpu(design: MachineDesign) -> str:
    """Return what only a machine that sees its CPUs' clock can set."""
    if design.governor is None:
        return ""
    why = hashed(
        "A deep idle state costs 85 to 170 us at each wake-up, which a single client waits for at "
        "every statement. Source: Linux, intel_idle.c; tuned, latency-performance."
    )
    epp = "energy_performance_preference=performance\n" if design.governor == "performance" else ""
    return f"[cpu]\ngovernor={design.governor}\n{epp}{why}force_latency=cstate.id_no_zero:1|3\n"


def _vm(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}transparent_hugepages={each.value}\n"
        for each in settings
        if each.name == _THP
    ]
    return f"[vm]\n{''.join(lines)}" if lines else ""


def _sysctl(settings: Sequence[PlannedSetting]) -> str:
    """Return the sysctls once more: the profile below sets some of them otherwise."""
    lines = "".join(f"{each.name}={each.value}\n" for each in settings)
    why = hashed(f"As in {SYSCTL_PATH}; said again, because the included profile differs.")
    return f"[sysctl]\n{why}{lines}" if lines else ""


def _sysfs(settings: Sequence[PlannedSetting]) -> str:
    lines = [
        f"{hashed(remark(each))}{each.name}={each.value}\n"
        for each in settings
        if each.name != _THP
    ]
    return f"[sysfs]\n{''.join(lines)}" if lines else ""
