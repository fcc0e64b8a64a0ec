"""Which cluster something is in: names of contexts and URLs are not enough to tell.

From inside every cluster has much the same URL, and one that was made anew may have the old one's.
The uid of a namespace is no other cluster's.
"""

from typing import Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import LeftBehindError, PrivilegeError
from steelyard.model.kubernetes import NAMESPACE, ObjectRef
from steelyard.model.outside import InCluster

_ALWAYS_THERE: Final = "kube-system"


def identity(api: KubernetesApi, namespace: str) -> str:
    """Return what tells a cluster from others: a namespace with its uid; empty: none is seen.

    Args:
        api: The cluster.
        namespace: Of the campaign, for an account that may not read that of the cluster itself.
    """
    for name in (_ALWAYS_THERE, namespace):
        uid = _uid(api, name)
        if uid:
            return f"{name}={uid}"
    return ""


def require_same_cluster(thing: InCluster, api: KubernetesApi) -> None:
    """Look whether a cluster is the one that something is in.

    Raises:
        LeftBehindError: It is another, or nothing tells.
    """
    if thing.context and thing.server != api.server:
        raise LeftBehindError(
            f"{thing.label} was made at {thing.server}, and the context {thing.context} means"
            f" {api.server} now",
            hint="Name a kubeconfig in KUBECONFIG whose context means that cluster.",
        )
    name, _, uid = thing.cluster.partition("=")
    now = _uid(api, name) if name else ""
    if now and now != uid:
        raise LeftBehindError(
            f"{thing.label} is in another cluster than the one at {api.server} is now: there the"
            f" namespace {name} is another",
            hint="Make that cluster the current context of the kubeconfig in KUBECONFIG. Where it"
            " is gone for good, so is this: remove the record's directory and its note in the"
            " cache.",
        )
    if not now and not thing.context and not api.is_inside:
        raise LeftBehindError(
            f"{thing.label} was made from inside a cluster, and whether the one at {api.server} is"
            " that one cannot be told",
            hint="Look there with `steelyard clean --context NAME -n NAMESPACE`, which goes by the"
            " label.",
        )


def _uid(api: KubernetesApi, name: str) -> str:
    try:
        found = api.read(ObjectRef(kind=NAMESPACE, name=name))
    except PrivilegeError:
        return ""
    return "" if found is None else str(found["metadata"].get("uid") or "")
