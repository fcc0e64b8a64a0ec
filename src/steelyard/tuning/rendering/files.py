"""All files of a design."""

from collections.abc import Iterator

from steelyard.model.stack import DomainDesign, RenderedFile, StackDesign
from steelyard.tuning.rendering.domain import domain_xml


def render(design: StackDesign) -> tuple[RenderedFile, ...]:
    """Return the ready files of every layer that a design has."""
    return tuple(_files(design))


def _files(design: StackDesign) -> Iterator[RenderedFile]:
    if design.domain is not None:
        yield _domain(design.domain)


def _domain(design: DomainDesign) -> RenderedFile:
    name = f"kvm/{design.name}.xml"
    return RenderedFile(
        name=name,
        layer="kvm",
        content=domain_xml(design),
        validated_by=f"virt-xml-validate {name} domain",
    )
