"""The door to a kubelet's configuration: the operator of the node changes it, configz tells it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import SteelyardError
from steelyard.model.kubernetes import NODE, Manifest
from steelyard.model.stack import Knob
from steelyard.platforms.kubernetes.patches import differences
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.applying.manifests import told

_CONFIGZ: Final = "/api/v1/nodes/{node}/proxy/configz"
_HEAD: Final = ("apiVersion", "kind")
_HOW: Final = "merge {place} into the kubelet's configuration of {nodes}, as its first lines say"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDoor:
    """Looks at the kubelets of the nodes that a database may be put on; turns nothing.

    Attributes:
        nodes: Names; empty: all that take pods without a toleration.
    """

    api: KubernetesApi
    nodes: tuple[str, ...] = ()

    def seen(self, knob: Knob) -> Seen:
        """Return whether all of them have it, as ``done`` or ``open``."""
        check = self.verify(knob)
        if check.holds is None:
            return Seen(value=None, source="configz", reason=" ".join(check.facts))
        value = "done" if check.holds else "open"
        return Seen(value=value, source="configz", pending=check.pending)

    def require(self, knob: Knob) -> None:
        """Accept every configuration: the operator of the node writes it."""

    def snapshot(self, _knob: Knob) -> str:
        """Return nothing: nothing is changed from here."""
        return ""

    def apply(self, knob: Knob) -> None:
        """Do nothing."""

    def verify(self, knob: Knob) -> Check:
        """Return whether the kubelets run with what is asked, by what they answer themselves."""
        given = YAML(typ="safe", pure=True).load(knob.value)
        asked = {name: value for name, value in given.items() if name not in _HEAD}
        open_nodes: list[str] = []
        facts: list[str] = []
        try:
            names = self.nodes or tuple(_taking(self.api.list(NODE)))
            for node in names:
                found = list(differences(asked, self._configuration(node)))
                if found:
                    open_nodes.append(node)
                    facts += [f"{node}: {fact}" for fact in told(found)]
        except (SteelyardError, ValueError, LookupError) as error:
            words = error.message if isinstance(error, SteelyardError) else str(error)
            todo = _HOW.format(place=knob.place, nodes="the database's node")
            fact = f"The kubelet's configuration cannot be read: {words}."
            return Check(holds=None, facts=(fact,), pending=todo)
        if not open_nodes:
            return Check(holds=True, facts=(f"configz of {', '.join(names)} says all of it.",))
        todo = _HOW.format(place=knob.place, nodes=", ".join(open_nodes))
        return Check(holds=False, facts=tuple(facts), remedy=todo, pending=todo)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Do nothing."""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the step, as a comment."""
        nodes = ", ".join(self.nodes) or "the database's node"
        return (f"# {_HOW.format(place=knob.place, nodes=nodes)}",)

    def _configuration(self, node: str) -> dict[str, Any]:
        answered = json.loads(self.api.raw(_CONFIGZ.format(node=node)))
        found: dict[str, Any] = answered["kubeletconfig"]
        return found


def _taking(nodes: Sequence[Manifest]) -> Iterator[str]:
    """Yield the nodes that take pods which tolerate nothing."""
    for node in nodes:
        spec = node.get("spec") or {}
        effects = {taint.get("effect") for taint in spec.get("taints") or ()}
        if not spec.get("unschedulable") and not effects & {"NoSchedule", "NoExecute"}:
            yield str(node["metadata"]["name"])
