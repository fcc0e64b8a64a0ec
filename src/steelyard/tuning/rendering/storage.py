"""The storage class of a design's volumes."""

from typing import Final

from steelyard.model.stack import StackDesign
from steelyard.tuning.rendering.remarks import HEAD, hashed
from steelyard.tuning.rendering.storage_classes import (
    LonghornVolumes,
    StorageClass,
    class_text,
)

LONGHORN_CLASS: Final = "longhorn-strict-local"
LOCAL_CLASS: Final = "local-path-late"

_STRICT: Final = LonghornVolumes(replicas=1, locality="strict-local")


def storage_class(design: StackDesign) -> str:
    """Return a new class for the database's volumes: local to its node, bound when it is placed."""
    head = hashed(
        f"{HEAD} A class cannot be changed once it is there: leave this file out where the "
        "cluster has one of this name that binds as late and keeps one copy."
    )
    made = StorageClass(
        name=class_name(design),
        longhorn=_STRICT if _is_longhorn(design) else None,
        reclaim="Retain",
    )
    return class_text(made, head)


def class_name(design: StackDesign) -> str:
    """Return the name of the storage class: the cluster's that was named, else a new one's."""
    asked = design.request.storage_class or (design.pod.storage_class if design.pod else None)
    return asked or (LONGHORN_CLASS if _is_longhorn(design) else LOCAL_CLASS)


def _is_longhorn(design: StackDesign) -> bool:
    return "longhorn" in (design.request.storage or "")
