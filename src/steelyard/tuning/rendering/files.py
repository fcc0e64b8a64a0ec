"""All files of a design."""

from collections.abc import Iterator
from typing import Final

from steelyard.model.command import quoted
from steelyard.model.stack import Place, PodDesign, RenderedFile, StackDesign
from steelyard.tuning.rendering.cluster import cluster
from steelyard.tuning.rendering.configuration import configuration_file
from steelyard.tuning.rendering.domain import domain_xml, patch_domain
from steelyard.tuning.rendering.kubelet import kubelet_configuration
from steelyard.tuning.rendering.machine import machine_files
from steelyard.tuning.rendering.parameter_group import parameter_group_files
from steelyard.tuning.rendering.storage import storage_class

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
