"""Storage of a cluster: classes, volumes, why a claim has no volume, what a volume can do.

Facts of classes and volumes are worth knowing and nothing needs them: what an account may not see
is left out. Forced writes and reads are measured in a short-lived pod; only the running of the
tools is here: who calls knows how to read what pg_test_fsync prints.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core.findings import Fact, facts_about
from steelyard.core.stack import StorageClassFacts
from steelyard.core.wording import (
    MS_PER_S,
    MeasurementError,
    PreflightError,
    PrivilegeError,
    TargetError,
)
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import pods
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.manifests import render_manifest

_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def require_class(api: KubernetesApi, name: str | None) -> str | None:
    """Return the name of a storage class that is there; for None that of the cluster's default.

    Who may not see classes gets back what was asked for.

    Raises:
        PreflightError: There is none of that name, or no default.
    """
    try:
        found = {str(each["metadata"]["name"]): each for each in api.list(k8s.STORAGE_CLASS)}
    except PrivilegeError:
        return name
    there = f"the cluster has {', '.join(sorted(found)) or 'none'}"
    if name is None:
        for each, manifest in found.items():
            if _is_default(manifest):
                return each
        raise PreflightError(
            f"the cluster has no default storage class; {there}",
            hint="Name one with `storage_class:`.",
        )
    if name not in found:
        raise PreflightError(
            f"there is no storage class {name}; {there}",
            hint="Name one of them with `storage_class:`, or make it first: `steelyard kubernetes"
            " storage-classes` prints those that presets name.",
        )
    return name


def claim_obstacle(api: KubernetesApi, claim: k8s.ObjectRef) -> pods.Obstacle | None:
    """Return why a claim has no volume; None where it has one, or nothing is said of it."""
    found = api.read(claim)
    if found is None or (found.get("status") or {}).get("phase") == "Bound":
        return None
    warnings = pods.warnings_about(api, claim)
    if not warnings:
        return None
    said = f"{warnings[0].get('reason', '')}: {warnings[0].get('message', '')}"
    return pods.Obstacle(
        message=f"{claim.label} gets no volume: {said}",
        hint="Look at the storage class and its provisioner.",
        passes=True,
    )


_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_HOST: Final = "kubernetes.io/hostname"


def storage_class_facts(api: KubernetesApi, names: Iterable[str | None]) -> tuple[Fact, ...]:
    """Return the classes of these names, and for None the cluster's default, as facts."""
    asked = set(names)
    found = [
        each
        for each in pods.listed(api, k8s.STORAGE_CLASS)
        if each["metadata"]["name"] in asked or (None in asked and _is_default(each))
    ]
    return tuple(
        fact
        for each in found
        for fact in k8s.class_facts(
            StorageClassFacts(
                name=str(each["metadata"]["name"]),
                provisioner=str(each["provisioner"]),
                binding=str(each.get("volumeBindingMode") or "Immediate"),
                parameters={str(k): str(v) for k, v in (each.get("parameters") or {}).items()},
            ),
            is_default=_is_default(each),
        )
    )


def _is_default(each: k8s.Manifest) -> bool:
    return _annotations(each).get(_IS_DEFAULT) == "true"


def volume_facts(api: KubernetesApi, namespace: str, labels: Mapping[str, str]) -> tuple[Fact, ...]:
    """Return driver, class, size, node and replicas of the volumes behind these claims."""
    claims = sorted(
        pods.listed(api, k8s.CLAIM, namespace, labels),
        key=lambda each: str(each["metadata"]["name"]),
    )
    return tuple(fact for claim in claims for fact in _facts_behind(api, claim))


def _facts_behind(api: KubernetesApi, claim: k8s.Manifest) -> Iterator[Fact]:
    bound, volume = str(claim["spec"].get("volumeName") or ""), None
    with suppress(PrivilegeError):
        volume = api.read(k8s.ObjectRef(kind=k8s.VOLUME, name=bound)) if bound else None
    if volume is None:
        return
    csi = volume["spec"].get("csi") or {}
    told = {
        "driver": str(csi.get("driver") or _annotations(volume).get(_PROVISIONED_BY) or ""),
        "class": str(volume["spec"].get("storageClassName") or ""),
        "size": str((volume["spec"].get("capacity") or {}).get("storage") or ""),
        "node": ", ".join(_nodes(volume)),
        "replicas": (csi.get("volumeAttributes") or {}).get("numberOfReplicas", ""),
    }
    yield from facts_about(f"volume of {claim['metadata']['name']}", told)


def _nodes(volume: k8s.Manifest) -> Iterator[str]:
    """Yield the nodes it can be used on, where it is bound to some by name."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            if expression.get("key") == _HOST and expression.get("operator") == "In":
                yield from map(str, expression.get("values") or ())


def _annotations(each: k8s.Manifest) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = each["metadata"].get("annotations") or {}
    return annotations


SyncRates = Callable[[str], Mapping[str, float | None] | None]
"""Reads the output of pg_test_fsync: writes per second of each method; None: not complete."""

_CONTAINER: Final = "probe"
_FOLDER: Final = "/volume"
_SYNC_S: Final = 15  # five methods of a second, and making the file on a slow volume; a guess
_READ_S: Final = 2
_READS: Final = 300
_RUN_S: Final = 60.0
_LASTS_S: Final = 600  # then the cluster ends the pod by itself
_SIZE: Final = "1Gi"
# pg_test_fsync is told to stop when its first table is there: what follows says nothing of commits.
_SYNC: Final = f"""
program=$(type -P pg_test_fsync) || program=$(pg_config --bindir)/pg_test_fsync
[[ -x $program ]] || {{ echo "the image has no pg_test_fsync" >&2; exit 127; }}
file={_FOLDER}/data/sync-test
"$program" --secs-per-test=1 --filename="$file" >{_FOLDER}/data/said 2>&1 &
for ((turn = 0; turn < {_SYNC_S * 5}; turn++)); do
    sleep 0.2
    kill -0 $! 2>/dev/null || break
    [[ $(grep -c '^Compare' {_FOLDER}/data/said) -lt 2 ]] || break
done
kill -INT $! 2>/dev/null
kill -KILL $! 2>/dev/null
wait
cat {_FOLDER}/data/said
rm -f "$file" {_FOLDER}/data/said
"""
# dd says how long it copied, without the time to start a program.
_READ: Final = f"""
file={_FOLDER}/data/read-test
dd if=/dev/urandom of="$file" bs=1M count=64 conv=fsync status=none || exit 1
over=$((SECONDS + {_READ_S}))
for ((turn = 0; turn < {_READS} && SECONDS <= over; turn++)); do
    dd if="$file" of=/dev/null bs=8k count=1 skip=$((RANDOM % 8192)) iflag=direct 2>&1 || break
done
rm -f "$file"
"""
_COPIED: Final = re.compile(r"^8192 bytes.* copied, (\d+(?:\.\d+)?(?:e-\d+)?) s,", re.MULTILINE)
_LEAST_READS: Final = 20
_SYSTEM_CLOCK: Final = Clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageQuestion:
    """Which storage is measured, and where.

    Attributes:
        image: With bash, coreutils and pg_test_fsync: the database's.
        storage_class: None: the cluster's default.
        node_selector: Of the database's pods; so the next.
        tolerations: A JSON list.
    """

    image: str
    storage_class: str | None
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"


def probe_storage(
    belongings: Belongings,
    question: StorageQuestion,
    *,
    sync_rates: SyncRates,
    told: Callable[[str], None],
    clock: Clock = _SYSTEM_CLOCK,
) -> tuple[Fact, ...]:
    """Return what a volume of a storage class does; pod and volume are removed again.

    What cannot be measured is a fact that says why.

    Raises:
        PreflightError: The class does not exist, the claim gets no volume, or the pod cannot run.
    """
    api = belongings.api
    name = require_class(api, question.storage_class)
    what = f"storage class {name}" if name else "default storage class"
    told(f"measuring what a volume of the {what} can do")
    pod, claim = probe_manifests(question, name=belongings.name("storage"), storage_class=name)
    claim_ref = k8s.ref_of(belongings.completed(claim))
    pod_ref = k8s.ref_of(belongings.completed(pod))
    try:
        belongings.make(claim, role=k8s.PROBE)
        belongings.make(pod, role=k8s.PROBE)
        wait = pods.ReadyWait(api, clock, told, also=lambda: claim_obstacle(api, claim_ref))
        (there,) = wait.until_ready([pod_ref])
        # Not the class's own subject: there every fact is one of its parameters.
        subject = f"probe of {what}"
        return (
            Fact(name="probed on node", value=str(there["spec"]["nodeName"]), subject=subject),
            *_measured(belongings, pod_ref, sync_rates, subject),
        )
    finally:
        belongings.remove(pod_ref, grace_s=0)
        belongings.remove(claim_ref)


def probe_manifests(
    question: StorageQuestion, *, name: str, storage_class: str | None
) -> tuple[k8s.Manifest, k8s.Manifest]:
    """Return the pod that measures and the claim of its volume."""
    pod = pods.waiting_pod(
        _CONTAINER,
        question.image,
        lasts_s=_LASTS_S,
        name=name,
        requests={"cpu": "200m", "memory": "128Mi"},
        limits={"cpu": "1", "memory": "128Mi"},
        claim=name,
        **pods.placing(question.node_selector, question.tolerations),
    )
    claim = render_manifest(
        __package__, "claim", name=name, size=_SIZE, storage_class=storage_class
    )
    return pod, claim


def _measured(
    belongings: Belongings, pod: k8s.ObjectRef, sync_rates: SyncRates, subject: str
) -> tuple[Fact, ...]:
    where = k8s.ContainerRef(namespace=pod.namespace, pod=pod.name, container=_CONTAINER)

    def said(script: str) -> str:
        argv = ("bash", "-c", f"mkdir -p {_FOLDER}/data || exit 1\n{script}")
        completed = belongings.api.run(where, argv, timeout_s=_RUN_S)
        if not completed.succeeded:
            raise TargetError(completed.tail(1) or f"status {completed.exit_status}")
        return completed.stdout

    tests = {
        "forced writes of 8 KiB": lambda: _syncs(sync_rates(said(_SYNC))),
        "reads of 8 KiB past the page cache": lambda: _reads(said(_READ)),
    }
    return tuple(
        Fact(name=name, value=_or_why_not(test), subject=subject) for name, test in tests.items()
    )


def _or_why_not(test: Callable[[], str]) -> str:
    try:
        return test()
    except (TargetError, MeasurementError) as error:
        return f"not known: {error.message}"


def _syncs(rates: Mapping[str, float | None] | None) -> str:
    found = {method: rate for method, rate in (rates or {}).items() if rate}
    if not found:
        raise MeasurementError("pg_test_fsync printed no rates in time")
    each = [f"{method} {rate:.0f}/s, {MS_PER_S / rate:.2f} ms" for method, rate in found.items()]
    return "; ".join(each)


def _reads(text: str) -> str:
    times_s: Sequence[float] = [float(each) for each in _COPIED.findall(text)]
    if len(times_s) < _LEAST_READS:
        last = (text.strip().splitlines() or ["nothing"])[-1]
        raise MeasurementError(f"the reads did not work: {last}")
    high = quantiles(times_s, n=20, method="inclusive")[-1]
    return (
        f"median {median(times_s) * MS_PER_S:.2f} ms, 95 % below {high * MS_PER_S:.2f} ms:"
        f" {len(times_s)} reads of one reader at random places of 64 MiB just written"
    )
