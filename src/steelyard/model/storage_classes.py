"""What a storage class says of where the data of its volumes lie, and how a record keeps that."""

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.model.environment import Fact
from steelyard.model.stack_facts import StorageClassFacts

LONGHORN: Final = "driver.longhorn.io"
LOCAL_PATH: Final = "rancher.io/local-path"
LATE: Final = "WaitForFirstConsumer"
# Provisioners whose volumes live on one node; those of Longhorn say so by their parameters.
_NODE_BOUND: Final = ("local-path", "no-provisioner", "openebs.io/local", "topolvm", "local.csi")
_DEFAULT_REPLICAS: Final = "3"  # Longhorn documentation, 'Storage Class Parameters'

_SUBJECT: Final = "storage class "
_PROVISIONER: Final = "provisioner"
_BINDING: Final = "volume binding"
_DEFAULT: Final = "default of the cluster"


def is_longhorn(each: StorageClassFacts) -> bool:
    """Return whether Longhorn makes the volumes."""
    return "longhorn" in each.provisioner


def is_strict(each: StorageClassFacts) -> bool:
    """Return whether Longhorn keeps the only replica on the node of the pod."""
    return is_longhorn(each) and each.parameters.get("dataLocality") == "strict-local"


def is_node_bound(each: StorageClassFacts) -> bool:
    """Return whether a volume is a directory or a disk of one node."""
    return any(name in each.provisioner for name in _NODE_BOUND)


def replicas(each: StorageClassFacts) -> str:
    """Return how many replicas a volume of Longhorn has, as its class says it."""
    return each.parameters.get("numberOfReplicas", _DEFAULT_REPLICAS)


def class_facts(each: StorageClassFacts, *, is_default: bool = False) -> tuple[Fact, ...]:
    """Return a class as facts of a record."""
    told = {
        _PROVISIONER: each.provisioner,
        _BINDING: each.binding,
        **({_DEFAULT: "yes"} if is_default else {}),
        **each.parameters,
    }
    return tuple(Fact(name=n, value=v, subject=_SUBJECT + each.name) for n, v in told.items())


def class_in(facts: Sequence[Fact], name: str | None) -> StorageClassFacts | None:
    """Return a class that a record tells of; without a name the cluster's default."""
    told = _told(facts)
    if name is None:
        name = next((each for each, known in told.items() if _DEFAULT in known), None)
    if name is None or _PROVISIONER not in told.get(name, {}):
        return None
    known = dict(told[name])
    known.pop(_DEFAULT, None)
    return StorageClassFacts(
        name=name,
        provisioner=known.pop(_PROVISIONER),
        binding=known.pop(_BINDING, "Immediate"),
        parameters=known,
    )


def _told(facts: Sequence[Fact]) -> Mapping[str, Mapping[str, str]]:
    told: dict[str, dict[str, str]] = {}
    for fact in facts:
        if fact.subject.startswith(_SUBJECT):
            told.setdefault(fact.subject.removeprefix(_SUBJECT), {})[fact.name] = fact.value
    return told
