"""What is worth knowing of the place of a server that a campaign has in a cluster."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.model.environment import Fact
from steelyard.model.findings import Finding, Severity
from steelyard.model.storage_classes import LATE, class_in, is_node_bound
from steelyard.platforms.kubernetes.removal import Held

_BIND: Final = "Bind it to one node by `node_selector:`, or let every visit have another."


def early_volumes(what: str, storage_class: str | None, facts: Sequence[Fact]) -> Iterator[Finding]:
    """Yield that volumes come to a node before anybody knows where their pod runs.

    Args:
        what: Runs on them: the database, the server.
        storage_class: Of the target; None: the default one.
        facts: Of the place, with those of the class.
    """
    storage = class_in(facts, storage_class)
    if storage is not None and storage.binding != LATE and is_node_bound(storage):
        yield place_finding(
            "volume-before-pod",
            f"the storage class {storage.name} binds volumes to a node before a pod needs them"
            f" (volumeBindingMode: {storage.binding}), so the {what} runs wherever they came",
            f"Use a class with volumeBindingMode: {LATE}.",
        )


def moved(what: str, nodes: Sequence[str], remedy: str = _BIND) -> Iterator[Finding]:
    """Yield that a server was on several nodes, where it was on more than one.

    Args:
        what: Ran on them: the primary, the server.
        nodes: In order.
        remedy: How it stays on one.
    """
    if len(nodes) > 1:
        yield place_finding(
            "database-moved",
            f"the {what} ran on several nodes: {', '.join(nodes)}; what differs between them is in"
            " the numbers",
            remedy,
        )


def stays(held: Held) -> Finding:
    """Return that a volume was left, because its class wants it so."""
    storage_class = f"class {held.storage_class}" if held.storage_class else "class"
    return place_finding(
        "volume-retained",
        f"{held.ref.label} is still there: its {storage_class} retains volumes"
        " (reclaimPolicy: Retain)",
        f"kubectl delete pv {held.ref.name}, and what it holds, when nobody needs it.",
        Severity.INFO,
    )


def place_finding(
    code: str, message: str, remedy: str, severity: Severity = Severity.WARNING
) -> Finding:
    """Return a finding of a campaign's place."""
    return Finding(code=code, severity=severity, message=message, remedy=remedy, subject="campaign")
