"""The door to objects of a Kubernetes cluster: a Cluster of CloudNativePG, a storage class.

What is absent is made, what is there is patched. The effect is read from what the operator made of
it: healthy, its pods as asked, and its settings in force in the database, which is asked by SQL.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.core.command import quoted
from steelyard.core.errors import PreflightError, SteelyardError, TargetError
from steelyard.core.experiment import Layer, Setting
from steelyard.core.kubernetes import CLUSTER, STORAGE_CLASS, Manifest, ObjectRef, ref_of
from steelyard.core.measurement import EffectiveSetting
from steelyard.core.stack import Knob
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.refusals import lacks_verb, unknown_kind
from steelyard.gateways.sql import Sql
from steelyard.places.kubernetes.undoing import before, differences, merged, patch_for, strange
from steelyard.systems.postgres.cloudnative_pg.diagnosis import CONTAINER, instance_pods, state_of
from steelyard.systems.postgres.settings import deviations
from steelyard.tuning.apply.door import Check, KnobDoor, Seen
from steelyard.tuning.apply.kernel import asked_of, manifest_of, told
from steelyard.tuning.facts.collecting import reached
from steelyard.tuning.facts.kubernetes import AskedCluster, find_database

SETTINGS_IN_FORCE: Final = """
SELECT name, setting, unit, source, pending_restart FROM pg_settings WHERE name = ANY (%s)
"""
_RESTART: Final = "a restart of the server by its operator"


def settings_in_force(
    api: KubernetesApi, cluster: ObjectRef, settings: Mapping[str, str], sql: Sql, clock: Clock
) -> Check:
    """Return whether a Cluster's database has its settings in force; None where nobody can ask."""
    if not settings:
        return Check(holds=True, facts=())
    asked = AskedCluster(namespace=cluster.namespace, cluster=cluster.name)
    try:
        database = find_database(api, asked)
        with reached(database, asked, sql, clock) as address:
            rows = sql.rows(address, SETTINGS_IN_FORCE, [[name.lower() for name in settings]])
    except SteelyardError as error:
        fact = f"What its database has in force could not be asked: {error.message}."
        return Check(holds=None, facts=(fact,), remedy=error.hint)
    effective = [
        EffectiveSetting(
            name=str(name),
            value=str(value),
            unit=None if unit is None else str(unit),
            source=str(source),
        )
        for name, value, unit, source, _ in rows
    ]
    wanted = [
        Setting(layer=Layer.POSTGRES, name=name, value=str(value))
        for name, value in settings.items()
    ]
    waiting = [str(row[0]) for row in rows if row[4]]
    found = deviations(wanted, effective)
    if waiting:
        return Check(holds=False, facts=tuple(found), pending=f"{_RESTART}: {', '.join(waiting)}")
    if found:
        facts = tuple(f"{each}." for each in found)
        return Check(holds=False, facts=facts, pending="the operator has the server read them")
    return Check(holds=True, facts=(f"Its database has all {len(wanted)} settings in force.",))


_PATIENCE_S: Final = 600.0  # a rollout of several instances; a guess
_PAUSE_S: Final = 2.0
_KINDS: Final = {kind.name: kind for kind in (CLUSTER, STORAGE_CLASS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDoor(KnobDoor):
    """Makes and changes objects of one cluster.

    Attributes:
        namespace: Of what has one.
        sql: Asks the database of a Cluster for its settings.
    """

    api: KubernetesApi
    namespace: str
    sql: Sql
    clock: Clock

    def seen(self, knob: Knob) -> Seen:
        """Return how far the object is as asked."""
        ref, _, live = self._sides(knob)
        if live is None:
            return Seen(value=None, source=ref.label, reason="it is not there")
        check = self.verify(knob)
        value = "as asked" if check.holds else " ".join(check.facts)
        return Seen(value=value, source=ref.label, pending=check.pending)

    def require(self, knob: Knob) -> None:
        """Check that the cluster takes the object and the account may write it.

        Raises:
            PreflightError: It does not, or it would have to be made anew.
            PrivilegeError: The account may not.
            InputError: The cluster does not know a field.
        """
        ref, manifest, live = self._sides(knob)
        if not self.api.knows(ref.kind):
            raise unknown_kind(ref.kind)
        for verb in ("get", "patch", *(() if live is not None else ("create",))):
            if not self.api.allowed(verb, ref.kind, ref.namespace):
                raise lacks_verb(verb, f"{ref.kind.name.lower()}s", ref.namespace)
        if live is None:
            self.api.apply(manifest, dry_run=True)
            return
        patch = patch_for(asked_of(manifest, live), live)
        _require_changeable(ref, patch, live)
        if patch:
            parts = {name: merged(live.get(name) or {}, part) for name, part in patch.items()}
            self.api.apply({**_head(manifest), **parts}, dry_run=True)

    def snapshot(self, knob: Knob) -> str:
        """Return the fields that would be changed as they are, or that there is no object."""
        _, manifest, live = self._sides(knob)
        if live is None:
            return json.dumps({"made": True})
        patch = patch_for(asked_of(manifest, live), live)
        return json.dumps({"before": before(patch, live)})

    def apply(self, knob: Knob) -> None:
        """Make or patch the object, and wait until a Cluster is healthy again.

        Raises:
            SteelyardError: It is refused.
        """
        ref, manifest, live = self._sides(knob)
        if live is None:
            self.api.apply(manifest)
        else:
            patch = patch_for(asked_of(manifest, live), live)
            if patch:
                self.api.patch(ref, patch)
        self._wait(knob)

    def verify(self, knob: Knob) -> Check:
        """Return whether the object is as asked and, of a Cluster, whether that is in effect."""
        ref, manifest, live = self._sides(knob)
        if live is None:
            return Check(holds=False, facts=(f"{ref.label} is not there.",), remedy="Apply it.")
        asked = asked_of(manifest, live)
        found = list(differences(asked, live))
        if found:
            return Check(holds=False, facts=told(found), remedy="Apply the plan.")
        if ref.kind.name != CLUSTER.name:
            return Check(holds=True, facts=(f"{ref.label} is as asked.",))
        return self._rolled_out(ref, asked, live)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Put back the fields that were changed; remove a storage class that was made.

        Raises:
            TargetError: A Cluster that was made may hold data by now: that is the operator's.
        """
        ref, _, live = self._sides(knob)
        kept = json.loads(snapshot)
        if live is None:
            if "made" in kept:
                return
            raise TargetError(
                f"{ref.label} is gone, and with it what the plan changed",
                hint="Revert with --changed keep, which forgets it.",
            )
        if "made" not in kept:
            self.api.patch(ref, kept["before"])
        elif ref.kind.name == CLUSTER.name:
            raise TargetError(
                f"{ref.label} was made by the plan, and may hold data by now",
                hint=f"Where it may go: kubectl delete cluster {ref.name} -n {ref.namespace}; then"
                " revert again.",
            )
        else:
            self.api.delete(ref)

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that the object has neither the plan's fields nor the former ones."""
        ref, manifest, live = self._sides(knob)
        kept = json.loads(snapshot)
        if live is None or "made" in kept:
            return ""
        paths = strange(asked_of(manifest, live), kept["before"], live)
        return f"somebody has changed {', '.join(paths)} of {ref.label} since" if paths else ""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the command that would do the same."""
        where = f" -n {self.namespace}" if self.namespace else ""
        context = quoted(self.api.context)
        return (f"kubectl --context {context}{where} apply -f {quoted(knob.place)}",)

    def _sides(self, knob: Knob) -> tuple[ObjectRef, dict[str, Any], Manifest | None]:
        """Return which object it is, as asked and as it is there."""
        manifest = manifest_of(knob, self.namespace)
        found = ref_of(manifest)
        kind = _KINDS.get(found.kind.name, found.kind)
        ref = ObjectRef(kind=kind, name=found.name, namespace=found.namespace)
        if not self.api.knows(kind):
            return ref, manifest, None
        return ref, manifest, self.api.read(ref)

    def _wait(self, knob: Knob) -> None:
        """Wait for a rollout; one that takes longer is pending."""
        until = self.clock.monotonic() + _PATIENCE_S
        while self.clock.monotonic() < until:
            check = self.verify(knob)
            if check.holds is not False or not check.pending:
                return
            self.clock.sleep(_PAUSE_S)

    def _rolled_out(self, ref: ObjectRef, asked: Mapping[str, Any], live: Manifest) -> Check:
        pods = instance_pods(self.api, ref)
        state = state_of(ref, live, pods)
        pending = f"{ref.label} is brought to it by its operator"
        if not state.is_healthy:
            fact = f"{ref.label}: {state.progress}."
            return Check(holds=False, facts=(fact,), pending=pending)
        old = _pods_of_before(pods, asked["spec"])
        if old:
            fact = f"{', '.join(old)}: the container has other resources yet."
            return Check(holds=False, facts=(fact,), pending=pending)
        settings = (asked["spec"].get("postgresql") or {}).get("parameters") or {}
        check = settings_in_force(self.api, ref, settings, self.sql, self.clock)
        whole = f"{ref.label} is healthy, with {state.ready} instances as asked."
        return Check(
            holds=check.holds,
            facts=(whole, *check.facts),
            remedy=check.remedy,
            pending=check.pending,
        )


def _pods_of_before(pods: Sequence[Manifest], spec: Mapping[str, Any]) -> list[str]:
    """Return the instances whose container does not have the resources yet."""
    asked = spec.get("resources") or {}
    return [
        str(pod["metadata"]["name"])
        for pod in pods
        for container in pod["spec"]["containers"]
        if container["name"] == CONTAINER
        if any(differences(asked, container.get("resources")))
    ]


def _head(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: manifest[name] for name in ("apiVersion", "kind", "metadata")}


def _require_changeable(ref: ObjectRef, patch: Mapping[str, Any], live: Manifest) -> None:
    """Refuse what only a new object can have.

    Raises:
        PreflightError: With what would do.
    """
    if ref.kind.name == STORAGE_CLASS.name and patch:
        raise PreflightError(
            f"{ref.label} is there with other {', '.join(patch)}, and a class cannot be changed",
            hint="Plan with --storage-class NAME for one that is there, or give it another name.",
        )
    for name in ("storage", "walStorage"):
        asked = ((patch.get("spec") or {}).get(name) or {}).get("storageClass")
        if asked is not None:
            there = (live["spec"].get(name) or {}).get("storageClass") or "the default class"
            raise PreflightError(
                f"{ref.label} has its volumes on {there}, and the plan asks for {asked}",
                hint=f"Plan with --storage-class {there}, or make another Cluster and move to it.",
            )
