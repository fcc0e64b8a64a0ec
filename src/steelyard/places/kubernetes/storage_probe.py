"""What a storage class can do: forced writes and reads, measured in a pod of a moment.

Only the running of the tools is here; who calls knows how to read what pg_test_fsync prints.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

from steelyard.core.errors import MeasurementError, TargetError
from steelyard.core.kubernetes import CLAIM, POD, PROBE, ContainerRef, Manifest, ObjectRef, ref_of
from steelyard.core.measurement import Fact
from steelyard.core.units import MS_PER_S
from steelyard.gateways.clock import Clock, SystemClock
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.generator_manifest import ANY_USER
from steelyard.places.kubernetes.pod_state import ReadyWait
from steelyard.places.kubernetes.volumes import claim_obstacle, require_class

SyncRates = Callable[[str], Mapping[str, float | None] | None]
"""Reads the output of pg_test_fsync: writes per second of each method; None: not complete."""

_CONTAINER: Final = "probe"
_FOLDER: Final = "/volume"
_SYNC_S: Final = 15  # five methods of a second, and making the file on a slow volume; a guess
_READ_S: Final = 2
_READS: Final = 300
_RUN_S: Final = 60.0
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
_SYSTEM_CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageQuestion:
    """Which storage is measured, and where.

    Attributes:
        image: With bash, coreutils and pg_test_fsync: the database's.
        storage_class: None: the cluster's default.
        size: Of the claim, as Kubernetes writes it.
        node_selector: Of the database's pods; so the next.
        tolerations: A JSON list.
        deadline_s: After so long the cluster ends the pod by itself.
    """

    image: str
    storage_class: str | None
    size: str = "1Gi"
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: str = "[]"
    deadline_s: int = 600


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

    Args:
        belongings: Makes and removes pod and claim.
        question: Which storage.
        sync_rates: Reads what pg_test_fsync prints.
        told: Is told what goes on.
        clock: Waits for the pod.

    Raises:
        PreflightError: The class does not exist, the claim gets no volume, or the pod cannot run.
    """
    api = belongings.api
    name = require_class(api, question.storage_class)
    what = f"storage class {name}" if name else "default storage class"
    told(f"measuring what a volume of the {what} can do")
    pod, claim = probe_manifests(question, name=belongings.name("storage"), storage_class=name)
    claim_ref = ref_of(belongings.completed(claim))
    pod_ref = ref_of(belongings.completed(pod))
    try:
        belongings.make(claim, role=PROBE)
        belongings.make(pod, role=PROBE)
        wait = ReadyWait(api, clock, told, also=lambda: claim_obstacle(api, claim_ref))
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
) -> tuple[Manifest, Manifest]:
    """Return the pod that measures and the claim of its volume."""
    tolerations = json.loads(question.tolerations)
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": question.deadline_s,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": ANY_USER,
            "runAsGroup": ANY_USER,
            "fsGroup": ANY_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(question.image)],
        "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": name}}],
        **({"nodeSelector": dict(question.node_selector)} if question.node_selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
    }
    pod = {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {"name": name},
        "spec": spec,
    }
    claim = {
        "apiVersion": CLAIM.api_version,
        "kind": CLAIM.name,
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": storage_class} if storage_class else {}),
            "resources": {"requests": {"storage": question.size}},
        },
    }
    return pod, claim


def _container(image: str) -> dict[str, Any]:
    return {
        "name": _CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "env": [{"name": "LC_ALL", "value": "C"}],
        "resources": {
            "requests": {"cpu": "200m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "volume", "mountPath": _FOLDER}],
    }


def _measured(
    belongings: Belongings, pod: ObjectRef, sync_rates: SyncRates, subject: str
) -> tuple[Fact, ...]:
    where = ContainerRef(namespace=pod.namespace, pod=pod.name, container=_CONTAINER)

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
