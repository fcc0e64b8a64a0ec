"""Designs of stacks for the tests of rendering: one place each, with every layer that it has."""

from steelyard.core import stack
from steelyard.core.wording import GIB, MIB

_RESOURCES = "PostgreSQL documentation, 'Resource Consumption'"
_WAL = "PostgreSQL documentation, 'Write Ahead Log'"
_KERNEL = "Linux, admin-guide/sysctl/vm.rst"


def setting(
    name: str, value: str, scope: stack.Scope = stack.Scope.LIVE, **words: str
) -> stack.PlannedSetting:
    """Return a setting with a reason and a source, unless other words are given."""
    told = {"reason": f"What {name} is for", "source": _RESOURCES, **words}
    return stack.PlannedSetting(name=name, value=value, scope=scope, **told)


SETTINGS = (
    setting("huge_pages", "on", stack.Scope.SERVER, reason="`try` falls back and says nothing"),
    setting("shared_buffers", "6GB", stack.Scope.SERVER, effect="3 to 5 %, published"),
    setting("work_mem", "4MB", stack.Scope.SESSION),
    setting("wal_level", "replica", stack.Scope.SERVER, source=_WAL),
    setting("max_wal_size", "8GB", stack.Scope.RELOAD, source=_WAL),
    setting("checkpoint_timeout", "15min", stack.Scope.RELOAD, source=_WAL),
    setting("random_page_cost", "1.1", stack.Scope.SESSION),
    setting("io_method", "worker", stack.Scope.SERVER),
    setting("track_io_timing", "on", stack.Scope.RELOAD),
)


def postgres(*settings: stack.PlannedSetting) -> stack.PostgresDesign:
    """Return a server's settings; the usual ones where none are given."""
    return stack.PostgresDesign(
        version=18,
        settings=settings or SETTINGS,
        huge_pages=3200,
        counted_by="`postgres -C` of 18.6",
    )


def machine(**changed: object) -> stack.MachineDesign:
    """Return a machine with a pool on its second node."""
    values: dict[str, object] = {
        "pools": (stack.PoolDesign(page_bytes=2 * MIB, pages=3328, node=1),),
        "sysctls": (
            setting("vm.swappiness", "1", source=_KERNEL),
            setting("vm.dirty_bytes", "536870912", source=_KERNEL),
        ),
        "sysfs": (
            setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise", source=_KERNEL),
            setting("/sys/block/vda/queue/read_ahead_kb", "128", source=_KERNEL),
        ),
        "governor": "performance",
    }
    return stack.MachineDesign(**{**values, **changed})  # type: ignore[arg-type]


def domain(**changed: object) -> stack.DomainDesign:
    """Return a virtual machine of two whole cores on the second node of a hypervisor."""
    values: dict[str, object] = {
        "name": "pg",
        "memory_bytes": 8 * GIB,
        "vcpu_pins": (8, 24, 9, 25),
        "emulator_pins": (14, 30),
        "io_thread_pins": (15, 31),
        "nodes": (1,),
        "threads": 2,
        "hard_limit_bytes": 10 * GIB,
        "disks": ("/dev/vg_nvme/pg-root", "/srv/pg-data.qcow2"),
        "bridge": "br0",
    }
    return stack.DomainDesign(**{**values, **changed})  # type: ignore[arg-type]


def pod(**changed: object) -> stack.PodDesign:
    """Return a pod of two CPUs on a node of one NUMA node."""
    values: dict[str, object] = {
        "cpus": 2,
        "memory_bytes": 10 * GIB,
        "huge_pages_bytes": 6500 * MIB,
        "page_bytes": 2 * MIB,
        "reserved_cpus": (0, 1),
        "reserved_memory_bytes": (GIB, 512 * MIB, 500 * MIB),
        "instances": 3,
        "shm_bytes": 256 * MIB,
        "full_cores": True,
    }
    return stack.PodDesign(**{**values, **changed})  # type: ignore[arg-type]


def design(
    place: stack.Place, request: stack.StackRequest | None = None, **layers: object
) -> stack.StackDesign:
    """Return a design of a place with the layers that are given."""
    asked = request or stack.StackRequest(cpus=2, memory_bytes=16 * GIB, place=place, name="pg")
    values: dict[str, object] = {"postgres": postgres(), **layers}
    return stack.StackDesign(request=asked, arithmetic=(), **values)  # type: ignore[arg-type]


def local() -> stack.StackDesign:
    """Return a design of bare metal."""
    return design(stack.Place.LOCAL, machine=machine())


def kvm() -> stack.StackDesign:
    """Return a design of a hypervisor with one virtual machine."""
    guest = machine(
        governor=None, pools=(stack.PoolDesign(page_bytes=2 * MIB, pages=3200),), sysfs=()
    )
    return design(stack.Place.KVM, hypervisor=machine(), domain=domain(), machine=guest)


def cnpg() -> stack.StackDesign:
    """Return a design of a cluster."""
    return design(stack.Place.CNPG, pod=pod(), machine=machine(governor=None))


def rds() -> stack.StackDesign:
    """Return a design of a managed instance."""
    return design(stack.Place.RDS)
