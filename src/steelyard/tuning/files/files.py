"""All files of a design.

Settings of PostgreSQL as a file that ``postgresql.conf`` includes.
"""

import re
from collections.abc import Iterator
from typing import Final

from steelyard.core.command import quoted
from steelyard.core.stack import (
    Place,
    PlannedSetting,
    PodDesign,
    PostgresDesign,
    RenderedFile,
    Scope,
    StackDesign,
)
from steelyard.tuning.files.cluster import cluster, storage_class
from steelyard.tuning.files.domain import domain_xml, patch_domain
from steelyard.tuning.files.machine import kubelet_configuration, machine_files
from steelyard.tuning.files.parameter_group import parameter_group_files
from steelyard.tuning.files.yaml_text import HEAD, hashed, remark

_BARE: Final = re.compile(r"[A-Za-z0-9._-]+")


def configuration_file(design: PostgresDesign) -> RenderedFile:
    """Return the file to include, with reason and source above every setting."""
    name = "postgres/steelyard.conf"
    return RenderedFile(
        name=name,
        layer="postgres",
        content=configuration(design),
        validated_by="postgres -D DATA_DIRECTORY -C shared_memory_size_in_huge_pages",
    )


def configuration(design: PostgresDesign) -> str:
    """Return the settings as text, with what each needs before it is in effect."""
    head = hashed(
        f"{HEAD} For PostgreSQL {design.version}; copy it to a `conf.d` folder that the server "
        "includes, or add `include = 'steelyard.conf'` at the end of postgresql.conf.",
        f"Its shared memory takes {design.huge_pages} huge pages, by {design.counted_by}.",
    )
    return "\n".join((head, *(_lines(setting) for setting in design.settings)))


def _lines(setting: PlannedSetting) -> str:
    needs = f" Takes effect with a {Scope.SERVER}." if setting.scope is Scope.SERVER else ""
    return f"{hashed(remark(setting) + needs)}{setting.name} = {_quoted(setting.value)}\n"


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else "'" + value.replace("'", "''") + "'"


_DRY_RUN: Final = "kubectl apply --dry-run=server -f"


def render(design: StackDesign, present: str | None = None) -> tuple[RenderedFile, ...]:
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


def _files(design: StackDesign, present: str | None) -> Iterator[RenderedFile]:
    if design.hypervisor is not None:
        yield from machine_files(design.hypervisor, "hypervisor")
    if design.domain is not None:
        domain = design.domain
        content = domain_xml(domain) if present is None else patch_domain(present, domain)
        yield _file("kvm", f"{design.domain.name}.xml", content, "virt-xml-validate {} domain")
    if design.machine is not None:
        yield from machine_files(design.machine, "linux")
    if design.pod is not None:
        yield from _objects(design, design.pod)
    if design.request.place is Place.RDS:
        yield from parameter_group_files(design)
    elif design.pod is None:
        yield configuration_file(design.postgres)


def _objects(design: StackDesign, pod: PodDesign) -> Iterator[RenderedFile]:
    """Yield what Kubernetes is given; the server's settings are in the cluster."""
    kubelet = kubelet_configuration(pod, exclusive=design.request.exclusive_cpus)
    yield _file("kubernetes", "kubelet.yaml", kubelet, "kubelet --config {}")
    if design.request.storage_class is None:  # one that was named is the cluster's own
        yield _file("kubernetes", "storage-class.yaml", storage_class(design), f"{_DRY_RUN} {{}}")
    yield _file("kubernetes", "cluster.yaml", cluster(design, pod), f"{_DRY_RUN} {{}}")


def _file(layer: str, name: str, content: str, check: str) -> RenderedFile:
    full = f"{layer}/{name}"
    return RenderedFile(
        name=full, layer=layer, content=content, validated_by=check.format(quoted(full))
    )
