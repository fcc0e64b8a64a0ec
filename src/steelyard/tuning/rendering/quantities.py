"""Amounts of memory as Kubernetes writes them."""

from steelyard.model.units import GIB, KIB, MIB


def quantity(count: int) -> str:
    """Return bytes as Kubernetes writes them, exactly, in the largest unit: ``6500Mi``, ``2Gi``."""
    for suffix, size in (("Gi", GIB), ("Mi", MIB), ("Ki", KIB)):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)
