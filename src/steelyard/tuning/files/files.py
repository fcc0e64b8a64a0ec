"""All files of a design, filled into templates.

For Kubernetes: the CloudNativePG cluster, the storage class of its volumes, the kubelet's
configuration. For the machine: huge pages at boot, sysctls, the tuned profile. Longhorn itself was
never run here: its parameters follow its documentation. The templates are the files in
``templates``. A text in YAML is always quoted, so that no reader takes ``on`` for a truth or ``2``
for a number; a comment above a setting says why it has its value.

PostgreSQL's settings are an include for ``postgresql.conf`` and a parameter group for Amazon RDS.
RDS takes whole numbers in the unit that ``pg_settings.unit`` names, 0 and 1 for switches, and at
most 20 parameters per call (Amazon RDS API, ModifyDBParameterGroup).

A libvirt domain from its design and an existing one that is changed to fit are made by the same
functions, which change an element where it is and append it where it lacks. The reasons are those
of the rules KVM001 to KVM018.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from string import ascii_lowercase
from textwrap import wrap
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent

from jinja2 import Environment, PackageLoader, StrictUndefined

from steelyard.core import stack
from steelyard.core.kubernetes import LATE, LOCAL_PATH, LONGHORN, OVERWRITTEN, REFUSED
from steelyard.core.linux import cpu_list
from steelyard.core.stack import DomainDesign
from steelyard.core.wording import GIB, KIB, MIB, InputError, in_unit, quoted
from steelyard.tuning.facts.domain_xml import domain_text, parse_domain, whole

_WIDTH: Final = 98


def rendered(template: str, **values: object) -> str:
    """Return a template of this package, filled; a value that it lacks is an error."""
    return _environment().get_template(f"{template}.j2").render(values)


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 - no HTML: values go into YAML, units and settings
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = {
        "comment": _comment,
        "pool_path": pool_path,
        "quantity": quantity,
        "quoted": _yaml_quoted,
        "remark": remark,
    }
    environment.filters.update(filters)
    return environment


def _comment(text: str, depth: int = 0) -> str:
    """Return a text as lines of comment; those after the first are indented to their depth."""
    return f"\n{' ' * depth}".join(f"# {line}" for line in wrap(text, _WIDTH - depth))


def _yaml_quoted(value: str) -> str:
    """Return a text as YAML writes it between quotes; what no reader takes as it is, by number."""
    plain = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in plain)


def remark(setting: stack.PlannedSetting) -> str:
    """Return why a setting has its value, what it is expected to bring and where that is from."""
    parts = [
        setting.reason.rstrip(" ."),
        f"Expected: {setting.effect.rstrip(' .')}" if setting.effect else "",
        f"Source: {setting.source.rstrip(' .')}" if setting.source else "",
    ]
    return " ".join(f"{part}." for part in parts if part)


def quantity(count: int) -> str:
    """Return bytes as Kubernetes writes them, exactly, in the largest unit: ``6500Mi``, ``2Gi``."""
    for suffix, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class LonghornVolumes:
    """What Longhorn is told of the volumes of a class.

    Attributes:
        locality: ``disabled``, ``best-effort`` or ``strict-local``.
        disks: A tag of disks; empty: any.
    """

    replicas: int
    locality: str
    disks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A storage class to be made.

    Attributes:
        summary: What it is for, in a sentence or two.
        longhorn: None: directories of the node, by the local-path provisioner.
        reclaim: What becomes of a volume whose claim is gone.
    """

    name: str
    summary: str = ""
    longhorn: LonghornVolumes | None = None
    reclaim: str = "Delete"


MATRIX: Final = (
    StorageClass(
        name="local-path",
        summary="A directory of the node's own disk. Leave it out where the cluster has it:"
        " the local-path provisioner brings a class of this name.",
    ),
    StorageClass(
        name="longhorn-1r",
        summary="One replica, near the pod, on a disk of its own.",
        longhorn=LonghornVolumes(replicas=1, locality="best-effort", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r",
        summary="Two replicas on two nodes, one of them near the pod, on disks of their own.",
        longhorn=LonghornVolumes(replicas=2, locality="best-effort", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r-shared",
        summary="As longhorn-2r, on disks that something else uses, too.",
        longhorn=LonghornVolumes(replicas=2, locality="best-effort", disks="shared"),
    ),
    StorageClass(
        name="longhorn-1r-no-locality",
        summary="As longhorn-1r, with the replica on any node: often across the network.",
        longhorn=LonghornVolumes(replicas=1, locality="disabled", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-1r-strict-local",
        summary="As longhorn-1r, with the replica on the pod's node or none at all.",
        longhorn=LonghornVolumes(replicas=1, locality="strict-local", disks="dedicated"),
    ),
    StorageClass(
        name="longhorn-2r-no-locality",
        summary="As longhorn-2r, with the replicas on any two nodes.",
        longhorn=LonghornVolumes(replicas=2, locality="disabled", disks="dedicated"),
    ),
)
"""The classes that the presets for Kubernetes name, and those that differ in locality alone."""


def class_text(each: StorageClass, head: str = "") -> str:
    """Return a class as YAML with the reason for each parameter, below a head of comment lines."""
    return rendered(
        "storage-class.yaml",
        head=head or each.summary,
        name=each.name,
        provisioner=LONGHORN if each.longhorn else LOCAL_PATH,
        reclaim=each.reclaim,
        binding=LATE,
        longhorn=each.longhorn,
    )


LONGHORN_CLASS: Final = "longhorn-strict-local"
LOCAL_CLASS: Final = "local-path-late"

_STRICT: Final = LonghornVolumes(replicas=1, locality="strict-local")


def storage_class(design: stack.StackDesign) -> str:
    """Return a new class for the database's volumes: local to its node, bound when it is placed."""
    made = StorageClass(
        name=class_name(design),
        longhorn=_STRICT if _is_longhorn(design) else None,
        reclaim="Retain",
    )
    head = (
        "Made by `steelyard stack plan`. A class cannot be changed once it is there: leave this"
        " file out where the cluster has one of this name that binds as late and keeps one copy."
    )
    return class_text(made, head)


def class_name(design: stack.StackDesign) -> str:
    """Return the name of the storage class: the cluster's that was named, else a new one's."""
    asked = design.request.storage_class or (design.pod.storage_class if design.pod else None)
    return asked or (LONGHORN_CLASS if _is_longhorn(design) else LOCAL_CLASS)


def _is_longhorn(design: stack.StackDesign) -> bool:
    return "longhorn" in (design.request.storage or "")


def cluster(design: stack.StackDesign, pod: stack.PodDesign) -> str:
    """Return the cluster; its pods are Guaranteed and its parameters texts.

    It has the parameters that the operator takes; without decoding, its wal_level is too much.
    """
    settings = [s for s in design.postgres.settings if s.name not in REFUSED | OVERWRITTEN]
    level = "logical" if design.request.logical_decoding else "replica"
    return rendered(
        "cluster.yaml",
        request=design.request,
        postgres=design.postgres,
        pod=pod,
        storage_class=class_name(design),
        settings=settings,
        level="" if any(each.name == "wal_level" for each in settings) else level,
    )


def kubelet_configuration(pod: stack.PodDesign, *, exclusive: bool) -> str:
    """Return the part of a kubelet's configuration that the plan says.

    ``reservedMemory`` is exactly kubeReserved + systemReserved + evictionHard, without which the
    kubelet does not start, and names no huge pages, which none of these can reserve.
    """
    kube, system, eviction = pod.reserved_memory_bytes
    # Equal parts of whole MiB; the first has what is left over.
    whole, others = kube + system + eviction, len(pod.numa_nodes) - 1
    share = whole // (others + 1) // MIB * MIB
    shares = [whole - share * others, *[share] * others] if exclusive else []
    return rendered(
        "kubelet.yaml",
        pod=pod,
        exclusive=exclusive,
        reserved_cpus=cpu_list(pod.reserved_cpus),
        kube=kube,
        system=system,
        eviction=eviction,
        shares=list(zip(pod.numa_nodes, shares, strict=exclusive)),
    )


_THP: Final = "/sys/kernel/mm/transparent_hugepage/enabled"


def machine_files(design: stack.MachineDesign, layer: str) -> Iterator[stack.RenderedFile]:
    """Yield the files of a machine whose layer is ``hypervisor`` or ``linux``."""
    if design.pools:
        content = huge_page_unit(design.pools)
        yield _file(layer, stack.UNIT_PATH, content, "systemd-analyze verify {}")
    if design.sysctls:
        # No huge pages are in it: ``vm.nr_hugepages`` spreads them over all nodes.
        content = rendered("sysctl.conf", settings=design.sysctls)
        yield _file(layer, stack.SYSCTL_PATH, content, "sysctl --dry-run --load {}")
    if design.governor is not None or design.sysfs or design.sysctls:
        # On top of the profile that tuned recommends for such a machine.
        in_guest = "virtual-guest" if design.governor is None else "throughput-performance"
        content = rendered(
            "tuned.conf",
            below="virtual-host" if layer == "hypervisor" else in_guest,
            governor=design.governor,
            huge_pages=[each for each in design.sysfs if each.name == _THP],
            sysctls=design.sysctls,
            sysfs=[each for each in design.sysfs if each.name != _THP],
        )
        yield stack.RenderedFile(
            name=f"{layer}/tuned.conf",
            layer=layer,
            content=content,
            path=stack.PROFILE_PATH,
            validated_by="tuned-adm profile steelyard && tuned-adm verify",
        )


def huge_page_unit(pools: Sequence[stack.PoolDesign]) -> str:
    """Return a systemd unit that allocates huge pages at boot and reads back what it got.

    It never lowers a count: pages that somebody else asked for at boot stay. It comes before all
    ordinary services, because memory is whole then and nobody has taken pages yet.
    """
    return rendered("huge-pages.service", pools=pools)


def pool_path(pool: stack.PoolDesign) -> str:
    """Return the file that holds the number of pages of a pool."""
    above = "/sys/kernel/mm" if pool.node is None else f"/sys/devices/system/node/node{pool.node}"
    return f"{above}/hugepages/hugepages-{pool.page_bytes // KIB}kB/nr_hugepages"


MOST_PER_CALL: Final = 20
# Left as RDS has them: durability is its own affair, and wal_level follows a switch of its own.
LEFT_OUT: Final = frozenset({"fsync", "full_page_writes", "wal_level", "wal_sync_method"})
_DECODING: Final = stack.PlannedSetting(
    name="rds.logical_replication",
    value="1",
    reason="Logical decoding was asked for; it sets wal_level",
    source="Amazon RDS User Guide, 'Performing logical replication for Amazon RDS for PostgreSQL'",
    scope=stack.Scope.SERVER,
)

_UNITS: Final = {  # pg_settings.unit of PostgreSQL 13 to 18
    "8kB": """shared_buffers wal_buffers effective_cache_size temp_buffers io_combine_limit
        io_max_combine_limit min_parallel_table_scan_size min_parallel_index_scan_size
        bgwriter_flush_after checkpoint_flush_after backend_flush_after wal_writer_flush_after""",
    "kB": """work_mem maintenance_work_mem autovacuum_work_mem logical_decoding_work_mem
        temp_file_limit max_stack_depth wal_skip_threshold gin_pending_list_limit
        vacuum_buffer_usage_limit huge_page_size log_temp_files""",
    "MB": """max_wal_size min_wal_size wal_keep_size max_slot_wal_keep_size
        min_dynamic_shared_memory""",
    "s": "checkpoint_timeout checkpoint_warning archive_timeout autovacuum_naptime",
    "ms": """statement_timeout lock_timeout deadlock_timeout wal_writer_delay bgwriter_delay
        idle_in_transaction_session_timeout idle_session_timeout log_min_duration_statement
        vacuum_cost_delay autovacuum_vacuum_cost_delay""",
}
_UNIT_OF: Final = {name: unit for unit, names in _UNITS.items() for name in names.split()}
_QUANTITY: Final = re.compile(r"[0-9]+ ?(?:B|kB|MB|GB|TB|ms|s|min|h|d)")
_CHOICES: Final = frozenset(  # `on` and `off` are words among others, not a switch
    {"huge_pages", "synchronous_commit", "wal_compression", "constraint_exclusion"}
)
_SWITCH: Final = {"on": "1", "off": "0", "true": "1", "false": "0"}


def parameter_group_files(design: stack.StackDesign) -> tuple[stack.RenderedFile, ...]:
    """Return the parameters, in files of one call each, and the commands that use them.

    Raises:
        InputError: A setting has a unit, and nothing says in which one RDS takes it.
    """
    taken = tuple(each for each in design.postgres.settings if each.name not in LEFT_OUT)
    if design.request.logical_decoding:
        taken = (*taken, _DECODING)
    calls = [taken[at : at + MOST_PER_CALL] for at in range(0, len(taken), MOST_PER_CALL)]
    family = f"postgres{design.postgres.version}"
    names = [f"rds/parameters-{number}.json" for number, _ in enumerate(calls, 1)]
    parameters = tuple(
        stack.RenderedFile(
            name=name,
            layer="postgres",
            content=_call(design.request.name, call),
            validated_by="aws rds describe-engine-default-parameters "
            f"--db-parameter-group-family {family}",
        )
        for name, call in zip(names, calls, strict=True)
    )
    return (*parameters, _commands(design, names, taken))


def _call(group: str, settings: Sequence[stack.PlannedSetting]) -> str:
    content = {
        "DBParameterGroupName": group,
        "Parameters": [
            {
                "ParameterName": each.name,
                "ParameterValue": rds_value(each.name, each.value),
                "ApplyMethod": "pending-reboot"
                if each.scope is stack.Scope.SERVER
                else "immediate",
            }
            for each in settings
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def rds_value(name: str, value: str) -> str:
    """Return a value as RDS takes it: ``6GB`` of shared_buffers is 786432 pages of 8 kB.

    Raises:
        InputError: It has a unit that the parameter does not take, or that nobody knows.
    """
    if name not in _CHOICES and value in _SWITCH:
        return _SWITCH[value]
    if not _QUANTITY.fullmatch(value):
        return value
    number = in_unit(value, _UNIT_OF.get(name))
    if number is None:
        message = f"`{name} = {value}`: the unit in which RDS takes it is not known"
        raise InputError(message, hint="`pg_settings.unit` names it; leave the setting out.")
    return str(int(number))


def _commands(
    design: stack.StackDesign, names: Sequence[str], taken: Sequence[stack.PlannedSetting]
) -> stack.RenderedFile:
    """Return the commands as a text to read: they need an account that the plan does not have."""
    content = rendered(
        "rds-commands.txt",
        left_out=LEFT_OUT,
        settings=taken,
        group=design.request.name,
        family=f"postgres{design.postgres.version}",
        files=names,
    )
    return stack.RenderedFile(name="rds/commands.txt", layer="postgres", content=content)


_BARE: Final = re.compile(r"[A-Za-z0-9._-]+")


def configuration(design: stack.PostgresDesign) -> str:
    """Return the file to include, with what each setting needs before it is in effect."""
    needs = f" Takes effect with a {stack.Scope.SERVER}."
    settings = [
        (
            each,
            needs if each.scope is stack.Scope.SERVER else "",
            each.value
            if _BARE.fullmatch(each.value)
            else "'" + each.value.replace("\\", "\\\\").replace("'", "''") + "'",
        )
        for each in design.settings
    ]
    return rendered(
        "steelyard.conf",
        version=design.version,
        huge_pages=design.huge_pages,
        counted_by=design.counted_by,
        settings=settings,
    )


_DRY_RUN: Final = "kubectl apply --dry-run=server -f"


def render(design: stack.StackDesign, present: str | None = None) -> tuple[stack.RenderedFile, ...]:
    """Return the ready files of every layer that a design has, lowest layer first.

    Files that belong on a machine have a path; domains, objects of a cluster and settings of a
    server are handed over in other ways and have none.

    Args:
        design: Of all layers.
        present: XML of the domain where it is there already: it is changed, not written anew.

    Raises:
        InputError: A setting cannot be written for the place of the design, or the XML is that of
            another domain.
    """
    return tuple(_files(design, present))


def _files(design: stack.StackDesign, present: str | None) -> Iterator[stack.RenderedFile]:
    if design.hypervisor is not None:
        yield from machine_files(design.hypervisor, "hypervisor")
    if design.domain is not None:
        domain = design.domain
        content = domain_xml(domain) if present is None else patch_domain(present, domain)
        yield _file("kvm", f"{design.domain.name}.xml", content, "virt-xml-validate {} domain")
    if design.machine is not None:
        yield from machine_files(design.machine, "linux")
    if design.pod is not None:
        kubelet = kubelet_configuration(design.pod, exclusive=design.request.exclusive_cpus)
        yield _file("kubernetes", "kubelet.yaml", kubelet, "kubelet --config {}")
        if design.request.storage_class is None:  # one that was named is the cluster's own
            made = storage_class(design)
            yield _file("kubernetes", "storage-class.yaml", made, f"{_DRY_RUN} {{}}")
        made = cluster(design, design.pod)
        yield _file("kubernetes", "cluster.yaml", made, f"{_DRY_RUN} {{}}")
    if design.request.place is stack.Place.RDS:
        yield from parameter_group_files(design)
    elif design.pod is None:
        yield stack.RenderedFile(
            name="postgres/steelyard.conf",
            layer="postgres",
            content=configuration(design.postgres),
            validated_by="postgres -D DATA_DIRECTORY -C shared_memory_size_in_huge_pages",
        )


def _file(layer: str, path: str, content: str, check: str) -> stack.RenderedFile:
    """Return a file of a layer; with a whole path it is placed there."""
    *parents, name = path.split("/")
    full = f"{layer}/{name}"
    return stack.RenderedFile(
        name=full,
        layer=layer,
        content=content,
        path=path if parents else "",
        validated_by=check.format(quoted(full)),
    )


def ensured(parent: Element, path: str) -> Element:
    """Return the first element at a path below a parent; what lacks is appended."""
    for tag in path.split("/"):
        found = parent.find(tag)
        parent = SubElement(parent, tag) if found is None else found
    return parent


def emptied(parent: Element, tag: str) -> Element:
    """Return the first child of a tag, in its place, without what was in it."""
    child = ensured(parent, tag)
    after = child.tail
    child.clear()
    child.tail = after
    return child


def removed(parent: Element, *tags: str) -> None:
    """Remove all children of some tags."""
    for child in [each for each in parent if each.tag in tags]:
        parent.remove(child)


def added(parent: Element, tag: str, attributes: Mapping[str, str], text: str = "") -> Element:
    """Append a child and return it."""
    child = SubElement(parent, tag, dict(attributes))
    if text:
        child.text = text
    return child


def set_amount(root: Element, path: str, count: int) -> None:
    """Set an amount of memory, in KiB as libvirt writes it."""
    element = ensured(root, path)
    element.set("unit", "KiB")
    element.text = kib(count)


def kib(count: int) -> str:
    """Return bytes in whole KiB, rounded up."""
    return str(-(-count // KIB))


_RANDOM: Final = "/dev/urandom"
_NAMES: Final = tuple("vd" + "".join(pair) for pair in product(("", *"abc"), ascii_lowercase))


def add_devices(root: Element, design: DomainDesign) -> None:
    """Add the devices of a new domain."""
    devices = added(root, "devices", {})
    for name, path in zip(_NAMES, design.disks, strict=False):
        _add_disk(devices, name, path, design)
    if design.bridge is not None:
        interface = added(devices, "interface", {"type": "bridge"})
        added(interface, "source", {"bridge": design.bridge})
        added(interface, "model", {"type": "virtio"})
        if not design.emulated:
            queues = str(len(design.vcpu_pins))
            added(interface, "driver", {"name": "vhost", "queues": queues})
    added(devices, "serial", {"type": "pty"})
    added(devices, "console", {"type": "pty"})
    added(devices, "memballoon", {"model": "none"})
    added(added(devices, "rng", {"model": "virtio"}), "backend", {"model": "random"}, _RANDOM)


def patch_devices(root: Element, design: DomainDesign) -> None:
    """Take the balloon away, and make disks keep flushes and use the I/O thread."""
    removed(root, "memballoon")  # misplaced: libvirt would drop it and add a balloon
    devices = ensured(root, "devices")
    emptied(devices, "memballoon").set("model", "none")
    for driver in devices.findall("disk/driver"):
        if driver.get("cache") == "unsafe":
            driver.set("cache", "none")
    if design.io_thread_pins:
        given = root.find("iothreadids/iothread")
        thread = "1" if given is None else given.get("id", "1")
        for disk in devices.findall("disk"):
            target = disk.find("target")
            if target is not None and target.get("bus") == "virtio":
                driver = ensured(disk, "driver")
                driver.set("iothread", driver.get("iothread", thread))


def _add_disk(devices: Element, name: str, path: str, design: DomainDesign) -> None:
    """Add a disk past the host's page cache, which would only keep a second copy."""
    block = path.startswith("/dev/")
    disk = added(devices, "disk", {"type": "block" if block else "file", "device": "disk"})
    form = "qcow2" if path.endswith(".qcow2") else "raw"
    driver = {"name": "qemu", "type": form, "cache": "none", "io": "native", "discard": "unmap"}
    if design.io_thread_pins:
        driver["iothread"] = "1"
    added(disk, "driver", driver | {"queues": str(len(design.vcpu_pins))})
    added(disk, "source", {"dev" if block else "file": path})
    added(disk, "target", {"dev": name, "bus": "virtio"})


_X86: Final = "x86_64"
_KEPT_OF_CELL: Final = ("memAccess", "discard")  # vhost-user and virtiofs need the first


def set_hints(root: Element, design: DomainDesign) -> None:
    """Tell the guest that its CPUs are its own, so that it may poll before it halts.

    KVM on x86 alone has these; without exclusive CPUs polling would cost somebody else.
    """
    if design.emulated or design.architecture != _X86:
        return
    for hint in ("hint-dedicated", "poll-control"):
        ensured(root, f"features/kvm/{hint}").set("state", "on")


def set_processor(root: Element, design: DomainDesign) -> None:
    """Set model, topology, caches and cells."""
    cpu = ensured(root, "cpu")
    removed(cpu, "model", "vendor")
    cpu.attrib.pop("match", None)
    cpu.set("mode", "maximum" if design.emulated else "host-passthrough")
    if not design.emulated:
        cpu.set("check", "none")
    native_x86 = design.architecture == _X86 and not design.emulated
    if native_x86:
        cpu.set("migratable", "off")
    _set_topology(cpu, design)
    if native_x86:
        ensured(cpu, "cache").set("mode", "passthrough")
        if design.amd and design.threads > 1:  # measured: without it, a guest saw no siblings
            for feature in cpu.findall("feature"):
                if feature.get("name") == "topoext":
                    cpu.remove(feature)
            added(cpu, "feature", {"policy": "require", "name": "topoext"})
    _set_cells(cpu, design)


def _set_topology(cpu: Element, design: DomainDesign) -> None:
    """Show one socket per cell, and the threads of a core where CPUs come in whole cores."""
    count = len(design.vcpu_pins)
    threads = design.threads if count % design.threads == 0 else 1
    cells = len(design.nodes)
    sockets = cells if count % (cells * threads) == 0 else 1
    shape = {"sockets": sockets, "dies": 1, "cores": count // (sockets * threads)}
    told = {name: str(number) for name, number in {**shape, "threads": threads}.items()}
    emptied(cpu, "topology").attrib.update(told)


def _set_cells(cpu: Element, design: DomainDesign) -> None:
    former = cpu.findall("numa/cell")
    numa = emptied(cpu, "numa")
    cpus = _shares(len(design.vcpu_pins), len(design.nodes))
    pages = _shares(design.memory_bytes // design.page_bytes, len(design.nodes))
    first = 0
    for number, (width, count) in enumerate(zip(cpus, pages, strict=True)):
        kept = former[number].attrib if number < len(former) else {}
        cell = {
            "id": str(number),
            "cpus": cpu_list(range(first, first + width)),
            "memory": kib(count * design.page_bytes),
            "unit": "KiB",
        }
        added(numa, "cell", cell | {name: kept[name] for name in _KEPT_OF_CELL if name in kept})
        first += width


def _shares(count: int, parts: int) -> list[int]:
    """Return a number as whole parts that differ by one at most, the larger ones first."""
    each, rest = divmod(count, parts)
    return [each + (part < rest) for part in range(parts)]


_HEAD: Final = """\
<!-- Made by `steelyard stack plan`. Have libvirt validate it when it is defined: without that it
     drops what it does not know, and says nothing. -->
"""


def domain_xml(design: DomainDesign) -> str:
    """Return the XML of a new domain; it validates against libvirt's schema."""
    root = Element("domain", type="qemu" if design.emulated else "kvm")
    ensured(root, "name").text = design.name
    _set_memory(root, design)
    _set_pins(root, design)
    _add_system(root, design)
    set_hints(root, design)
    set_processor(root, design)
    _add_clock(root, design)
    add_devices(root, design)
    indent(root)
    return _HEAD + domain_text(root)


def patch_domain(existing_xml: str, design: DomainDesign) -> str:
    """Return an existing domain's XML with what the plan says, and nothing else, changed.

    Its devices stay, with two exceptions: the memory balloon, and a disk cache that ignores
    flushes. Disks on virtio get the I/O thread that the plan pins.

    Raises:
        InputError: It is no XML of a domain, or that of another domain.
    """
    root = parse_domain(existing_xml)
    name = (root.findtext("name") or "").strip()
    if name != design.name:
        message = f"the XML is that of domain `{name}`; the plan is for `{design.name}`"
        raise InputError(message, hint=f"Plan for it with `--name {name}`, or give the other XML.")
    if root.find("devices/memory") is not None:
        raise InputError(
            f"the XML of `{name}` has memory modules, which libvirt adds to the planned memory",
            hint="Take them and <maxMemory> out: virsh detach-device NAME FILE --config.",
        )
    _set_memory(root, design)
    _set_pins(root, design)
    set_hints(root, design)
    set_processor(root, design)
    patch_devices(root, design)
    indent(root)
    return domain_text(root)


def _set_memory(root: Element, design: DomainDesign) -> None:
    set_amount(root, "memory", design.memory_bytes)
    set_amount(root, "currentMemory", design.memory_bytes)
    if design.hard_limit_bytes is not None:
        set_amount(root, "memtune/hard_limit", design.hard_limit_bytes)
    backing = ensured(root, "memoryBacking")
    cells = {"nodeset": cpu_list(range(len(design.nodes)))}
    page = {"size": kib(design.page_bytes), "unit": "KiB", **cells}
    added(emptied(backing, "hugepages"), "page", page)
    ensured(backing, "nosharepages")
    if design.hard_limit_bytes is None:
        removed(backing, "locked")
    else:
        ensured(backing, "locked")
    ensured(backing, "allocation").set("mode", "immediate")


def _set_pins(root: Element, design: DomainDesign) -> None:
    vcpu = ensured(root, "vcpu")
    vcpu.attrib.pop("current", None)
    vcpu.set("placement", "static")
    vcpu.set("cpuset", cpu_list(design.vcpu_pins))
    vcpu.text = str(len(design.vcpu_pins))
    removed(root, "vcpus")  # the state of each CPU of the former number
    if design.io_thread_pins and root.find("iothreads") is None:
        ensured(root, "iothreads").text = "1"
    tune = ensured(root, "cputune")
    removed(tune, "vcpupin", "emulatorpin", "iothreadpin")
    for number, cpu in enumerate(design.vcpu_pins):
        added(tune, "vcpupin", {"vcpu": str(number), "cpuset": str(cpu)})
    if design.emulator_pins:
        added(tune, "emulatorpin", {"cpuset": cpu_list(design.emulator_pins)})
    for thread in _io_threads(root) if design.io_thread_pins else ():
        pin = {"iothread": thread, "cpuset": cpu_list(design.io_thread_pins)}
        added(tune, "iothreadpin", pin)
    memory = ensured(root, "numatune")
    removed(memory, "memory", "memnode")
    added(memory, "memory", {"mode": "strict", "nodeset": cpu_list(design.nodes)})
    for cell, node in enumerate(design.nodes):
        added(memory, "memnode", {"cellid": str(cell), "mode": "strict", "nodeset": str(node)})


def _io_threads(root: Element) -> list[str]:
    """Return the ids of the I/O threads; they count from 1 where none are given."""
    given = [each.get("id", "") for each in root.findall("iothreadids/iothread")]
    count = whole(root.findtext("iothreads"), "number of I/O threads")
    spare = (str(number) for number in range(1, count + len(given) + 1) if str(number) not in given)
    return (given + list(spare))[:count]


def _add_system(root: Element, design: DomainDesign) -> None:
    intel = design.architecture == _X86
    system = added(root, "os", {} if intel else {"firmware": "efi"})  # ACPI on Arm needs it
    machine = {"arch": design.architecture, "machine": "q35" if intel else "virt"}
    added(system, "type", machine, "hvm")
    added(system, "boot", {"dev": "hd"})
    features = added(root, "features", {})
    for feature in ("acpi", "apic") if intel else ("acpi",):
        added(features, feature, {})


def _add_clock(root: Element, design: DomainDesign) -> None:
    clock = added(root, "clock", {"offset": "utc"})
    if design.architecture == _X86:
        added(clock, "timer", {"name": "rtc", "tickpolicy": "catchup"})
        added(clock, "timer", {"name": "pit", "tickpolicy": "delay"})
        added(clock, "timer", {"name": "hpet", "present": "no"})
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "restart")):
        added(root, f"on_{event}", {}, action)
