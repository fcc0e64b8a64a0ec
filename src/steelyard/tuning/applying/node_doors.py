"""Looking at knobs of a cluster's node from afar, through a container on it; turning none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.fetched import Wanted
from steelyard.model.errors import PreflightError, SteelyardError, TargetError
from steelyard.model.stack import Knob, KnobKind
from steelyard.tuning.applying.door import Check, KnobDoor, Seen
from steelyard.tuning.applying.doors import Inside, Outside, kernel_doors
from steelyard.tuning.applying.sysctl import path_of
from steelyard.tuning.facts.cluster_objects import AskedCluster, find_database
from steelyard.tuning.facts.container_files import PodMachine, wanted_of_kernel
from steelyard.tuning.facts.node_probe import probe_on

_OF_KERNEL: Final = frozenset({KnobKind.SYSCTL, KnobKind.SYSFS, KnobKind.HUGE_PAGES})
_ON_NODE: Final = "Run `steelyard stack verify` on the node."


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenDoor:
    """Says why a knob of a node cannot be seen.

    Attributes:
        reason: A sentence.
    """

    reason: str

    def seen(self, knob: Knob) -> Seen:
        """Return that it cannot be seen."""
        return Seen(value=None, source=knob.place, reason=self.reason)

    def require(self, knob: Knob) -> None:
        """Refuse: it is turned on the node.

        Raises:
            PreflightError: Always.
        """
        raise PreflightError(f"{knob.name} is turned on the node", hint=_ON_NODE)

    def snapshot(self, _knob: Knob) -> str:
        """Return nothing."""
        return ""

    def apply(self, knob: Knob) -> None:
        """Do nothing."""

    def verify(self, _knob: Knob) -> Check:
        """Return that nobody can see it from here."""
        return Check(holds=None, facts=(self.reason,), remedy=_ON_NODE)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Do nothing."""

    def commands(self, _knob: Knob) -> Sequence[str]:
        """Return nothing."""
        return ()


class _Elsewhere:
    """The kernel's files of a machine that is only looked at."""

    def obstacle(self, path: str) -> str | None:
        """Return that nothing is written there."""
        return f"{path} is on another machine"

    def write(self, path: str, text: str) -> None:
        """Refuse.

        Raises:
            TargetError: Always.
        """
        raise TargetError(f"{path} is on another machine: {text!r} is not written", hint=_ON_NODE)


def with_node(
    doors: Mapping[KnobKind, KnobDoor],
    knobs: Sequence[Knob],
    cluster: str,
    inside: Inside,
    outside: Outside,
    *,
    probe: bool,
) -> Mapping[KnobKind, KnobDoor]:
    """Return doors that look at the node of a Cluster's primary where they looked at this machine.

    Args:
        doors: To everything.
        knobs: That are looked at.
        cluster: Name of the Cluster.
        inside: Where it is.
        outside: The gateways.
        probe: Make a pod of a moment on the node.
    """
    files = UnseenDoor(reason="Files and services of a node are not visible in a container.")
    unseen = dict.fromkeys((KnobKind.FILE, KnobKind.MANUAL), files)
    if not probe:
        reason = "It takes a probe on the node, and --no-node-probe left it out."
        kernel: Mapping[KnobKind, KnobDoor] = dict.fromkeys(_OF_KERNEL, UnseenDoor(reason=reason))
    else:
        kernel = _kernel(knobs, cluster, inside, outside)
    return {**doors, **unseen, **kernel}


def _kernel(
    knobs: Sequence[Knob], cluster: str, inside: Inside, outside: Outside
) -> Mapping[KnobKind, KnobDoor]:
    try:
        asked = AskedCluster(namespace=inside.namespace, cluster=cluster)
        database = find_database(inside.api, asked)
        with probe_on(inside.api, inside.namespace, database.pod, outside.clock) as where:
            host = PodMachine(api=inside.api, where=where).fetch(_wanted(knobs))
    except SteelyardError as error:
        reason = f"The node cannot be looked at: {error.message}."
        return dict.fromkeys(_OF_KERNEL, UnseenDoor(reason=reason))
    return kernel_doors(host, _Elsewhere())


def _wanted(knobs: Sequence[Knob]) -> Wanted:
    places = [knob.place for knob in knobs if knob.kind is KnobKind.SYSFS]
    places += [path_of(knob.place) for knob in knobs if knob.kind is KnobKind.SYSCTL]
    return Wanted(files=(*wanted_of_kernel().files, *places))
