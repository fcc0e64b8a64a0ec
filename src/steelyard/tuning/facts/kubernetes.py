"""Facts of Kubernetes that a node's own files tell: its kubelet, and which CPUs pods share."""

import json
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.gateways.host import Host
from steelyard.model.cgroup import parse_cpu_list
from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack_facts import Kubelet, KubernetesFacts, Origin
from steelyard.tuning.facts.found import (
    Found,
    hidden,
    origins_of,
    parsed,
    seen,
    unknown,
    values_of,
)
from steelyard.tuning.facts.processes import outside_of_pods

CONFIGURATION: Final = "/var/lib/kubelet/config.yaml"
CPU_STATE: Final = "/var/lib/kubelet/cpu_manager_state"
_TEXTS: Final = {
    "cpuManagerPolicy": "cpu_manager_policy",
    "topologyManagerPolicy": "topology_manager_policy",
    "memoryManagerPolicy": "memory_manager_policy",
    "reservedSystemCPUs": "reserved_system_cpus",
}
_MAPPINGS: Final = {
    "cpuManagerPolicyOptions": "cpu_manager_options",
    "kubeReserved": "kube_reserved",
    "systemReserved": "system_reserved",
    "evictionHard": "eviction_hard",
}
_API: Final = "only the API of the cluster tells it"


def collect_kubernetes(
    host: Host, linux: LinuxFacts
) -> tuple[KubernetesFacts | None, dict[str, Origin]]:
    """Return what the node's files tell; None where no kubelet is seen on this machine."""
    text, state = host.read(CONFIGURATION), host.read(CPU_STATE)
    if text is None and state is None:
        reason = f"no kubelet is seen here: there is no {CONFIGURATION} that we may read"
        return None, {"kubernetes": hidden(reason).origin}
    finds = {
        "kubelet": parsed(text, CONFIGURATION, parse_kubelet)
        if text is not None
        else unknown(f"{CONFIGURATION} is not there, or root alone may read it"),
        "shared_cpus": parsed(state, CPU_STATE, _shared)
        if state is not None
        else unknown(f"{CPU_STATE} is not there, or root alone may read it"),
        "non_pod_huge_pages": _non_pod(host, linux),
    }
    return KubernetesFacts(**values_of(finds)), {
        "kubernetes": hidden(_API).origin,
        **origins_of(finds, "kubernetes"),
    }


def parse_kubelet(text: str) -> Kubelet:
    """Return a kubelet's configuration from its file.

    Raises:
        ValueError: It is no such file.
    """
    try:
        given: Any = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, LookupError, AttributeError, TypeError, AssertionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(given, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - what the callers of a parser expect
    quota = given.get("cpuCFSQuota")
    texts: dict[str, Any] = {f: str(given[n]) for n, f in _TEXTS.items() if given.get(n)}
    maps: dict[str, Any] = {f: _texts(given[n]) for n, f in _MAPPINGS.items() if given.get(n)}
    return Kubelet(
        **texts,
        **maps,
        reserved_memory=tuple(map(_reserved, given.get("reservedMemory") or ())),
        cpu_cfs_quota=quota is not False,
    )


def _texts(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - what the callers of a parser expect
    return {str(name): _text(each) for name, each in value.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reserved(entry: object) -> Mapping[str, str]:
    flat = dict(entry) if isinstance(entry, dict) else {}
    limits = flat.pop("limits", None)
    return _texts({**flat, **(limits if isinstance(limits, dict) else {})})


def _shared(text: str) -> tuple[int, ...]:
    state = json.loads(text)
    if not isinstance(state, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - what the callers of a parser expect
    return parse_cpu_list(str(state["defaultCpuSet"]))


def _non_pod(host: Host, linux: LinuxFacts) -> Found:
    if linux.pool_users is None or not linux.huge_page_bytes:
        return unknown("who holds huge pages is not visible")
    pages = outside_of_pods(host, linux.pool_users, linux.huge_page_bytes)
    return seen(pages, "HugetlbPages and cgroup in /proc/*")
