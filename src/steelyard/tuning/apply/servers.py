"""The doors to running servers: PostgreSQL's settings, objects of a cluster, kubelets of its nodes.

ALTER SYSTEM changes a setting, and back to what stood there. The effect is what a new session sees;
of huge pages, what the server and its process map say. Source: PostgreSQL documentation, ALTER
SYSTEM, pg_settings (pending_restart), pg_file_settings.

A plan's object, a Cluster of CloudNativePG or a storage class, speaks of some fields. An absent one
is made. Of one that is there these fields alone are changed, by a merge patch, and what they were
is another merge patch, which puts them back. The effect is read from what the operator made of
it: healthy, its pods as asked, and its settings in force in the database, which is asked by SQL.

A kubelet's configuration is changed by the operator of the node, and configz says what is in force.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.core.experiment import EffectiveSetting, Layer, Setting
from steelyard.core.outside import ServerAddress
from steelyard.core.stack import Knob
from steelyard.gateways.host import Clock, Host, looks
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.refusals import lacks_verb, unknown_kind
from steelyard.gateways.sql import Sql, reload
from steelyard.places.kubernetes.undoing import (
    Difference,
    before,
    differences,
    merged,
    patch_for,
    strange,
)
from steelyard.systems.postgres.cloudnative_pg.operator import instance_pods, state_of
from steelyard.systems.postgres.existing import server as statements
from steelyard.systems.postgres.existing.server import in_system_file
from steelyard.systems.postgres.settings import as_boolean, deviations, effective_setting
from steelyard.tuning.apply.door import Check, KnobDoor, LookingDoor, Seen
from steelyard.tuning.apply.huge_pages import (
    HugePageNeed,
    find_process,
    huge_page_mapping,
    require_elsewhere,
    require_no_sigbus,
    require_pages,
)
from steelyard.tuning.facts.collecting import reached
from steelyard.tuning.facts.kubernetes import AskedCluster, find_database

_SETTING: Final = """
SELECT name, setting, unit, source, context, pending_restart FROM pg_settings
WHERE lower(name) = lower(%s)
"""
_SHOWN: Final = "SELECT current_setting(%s)"
_STATUS: Final = "SELECT setting FROM pg_settings WHERE name = 'huge_pages_status'"
_SUPERUSER: Final = "SELECT current_setting('is_superuser')"
_HUGE_PAGES: Final = "huge_pages"
_RESTART: Final = "a restart of the server"
_AUTOMATIC: Final = frozenset({"-1", "0"})
_FILES: Final = frozenset({"configuration file", "override"})
_UNSEEN_PAGES: Final = (
    "Whether its machine has the huge pages is not visible from here: without them the server does"
    " not start again."
)


def _statements(knob: Knob) -> tuple[str, str]:
    return (f"{statements.set_system(knob.place, knob.value)};", "SELECT pg_reload_conf();")


class NoServerDoor(LookingDoor):
    """Says of settings that no server is named, or that theirs cannot be reached."""

    def seen(self, knob: Knob) -> Seen:
        """Return that nobody looked."""
        return Seen(value=None, source=knob.place, reason="not looked at")

    def require(self, knob: Knob) -> None:
        """Refuse."""
        raise wording.PreflightError(
            f"{knob.name} cannot be turned here: there is no way to its {knob.kind}",
            hint="Leave it out with --only, or name its server with --dsn.",
        )

    def snapshot(self, knob: Knob) -> str:
        """Refuse, as ``require`` does."""
        self.require(knob)
        return ""

    def verify(self, knob: Knob) -> Check:
        """Return that nobody can look."""
        fact = f"There is no way to its {knob.kind} from here."
        return Check(holds=None, facts=(fact,), remedy="Name its server with --dsn.")

    def revert(self, knob: Knob, snapshot: str) -> None:  # noqa: ARG002 - as every door
        """Refuse."""
        raise wording.TargetError("its server cannot be reached", hint="Start it.")

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the statements."""
        return _statements(knob)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDoor(KnobDoor):
    """Turns settings of one server.

    Attributes:
        host: Where the server may be running; its process is looked for there.
        need: Huge pages of the plan.
    """

    sql: Sql
    clock: Clock
    address: ServerAddress
    host: Host
    need: HugePageNeed = field(default_factory=HugePageNeed)

    def seen(self, knob: Knob) -> Seen:
        """Return the value that a new session sees."""
        effective, pending = self._read(knob.place)
        if effective is None:
            reason = f"the server does not know {knob.place}"
            return Seen(value=None, source="pg_settings", reason=reason)
        shown = self._shown(effective)
        return Seen(value=shown, source="pg_settings", pending=_RESTART if pending else "")

    def require(self, knob: Knob) -> None:
        """Check that the server has the setting and its huge pages, and the user may change it."""
        rows = self.sql.rows(self.address, _SETTING, [knob.place])
        if (not rows and "." not in knob.place) or (rows and rows[0][4] == "internal"):
            raise wording.PreflightError(
                f"the server has no setting {knob.place} that could be changed",
                hint="Plan for its version: --postgres-version.",
            )
        if self.sql.rows(self.address, _SUPERUSER)[0][0] != "on":
            raise wording.PrivilegeError(
                f"{self.address.user or 'this user'} is no superuser of the server, so it may not"
                " change its settings",
                hint="Name another user in --dsn, or give these statements to who may.",
            )
        self._require_huge_pages(knob, planned=True)

    def snapshot(self, knob: Knob) -> str:
        """Return the text of ``postgresql.auto.conf``."""
        (saved,) = in_system_file([knob.place], self.sql, self.address)
        return json.dumps({"name": saved.name, "value": saved.value})

    def apply(self, knob: Knob) -> None:
        """Write the setting and have the server read it; not where its huge pages are missing."""
        self._require_huge_pages(knob, planned=False)
        self._write(knob.place, knob.value)

    def verify(self, knob: Knob) -> Check:
        """Return whether a new session sees the value, and of huge pages whether they are used."""
        effective, pending = self._read(knob.place)
        if effective is None:
            return Check(
                holds=False,
                facts=(f"The server does not know {knob.place}.",),
                remedy="Does the plan fit its version, and is the extension loaded?",
            )
        asked = Setting(layer=Layer.POSTGRES, name=knob.place, value=knob.value)
        deviates, shown = bool(deviations([asked], [effective])), self._shown(effective)
        if deviates and not pending and self._chose_itself(knob, effective):
            fact = f"For {knob.place} = {knob.value} the server chose {shown!r}."
            return Check(holds=True, facts=(fact,))
        if deviates:
            return self._deviating(knob, shown, pending=pending)
        if pending:
            fact = f"{knob.place} is {shown!r}, and another value waits for a restart."
            remedy = "Apply the plan: the file has to say it, too."
            return Check(holds=False, facts=(fact,), remedy=remedy)
        if knob.place.lower() == _HUGE_PAGES and _is_on(knob.value):
            return self._on_huge_pages()
        return Check(holds=True, facts=(f"{knob.place} is {shown!r}.",))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what stood in ``postgresql.auto.conf``, or remove the line."""
        before = json.loads(snapshot)
        if json.loads(self.snapshot(knob)) == before:
            return
        self._write(before["name"], before["value"])
        if json.loads(self.snapshot(knob)) != before:
            raise wording.TargetError(
                f"{knob.place} did not go back to what stood in postgresql.auto.conf",
                hint="Somebody else may be changing it.",
            )

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that postgresql.auto.conf has neither the plan's value nor the former one."""
        before = json.loads(snapshot)["value"]
        now = self._in_file(knob)
        if _plain(now) in (_plain(knob.value), _plain(before)):
            return ""
        there = "has no line for it any more" if now is None else f"says {now!r}"
        return (
            f"somebody has changed {knob.place} since: postgresql.auto.conf {there}, the plan"
            f" wrote {knob.value!r}"
        )

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the statements."""
        return _statements(knob)

    def _in_file(self, knob: Knob) -> str | None:
        """Return what stands in ``postgresql.auto.conf``, which counts before other files."""
        value = json.loads(self.snapshot(knob))["value"]
        return None if value is None else str(value)

    def _write(self, name: str, value: str | None) -> None:
        self.sql.execute(self.address, [statements.set_system(name, value)])
        reload(self.address, self.sql, self.clock)

    def _read(self, name: str) -> tuple[EffectiveSetting | None, bool]:
        """Return a setting as a new session sees it, and whether another waits for a restart."""
        rows = self.sql.rows(self.address, _SETTING, [name])
        if not rows:
            return None, False
        found, value, unit, source, _, pending = rows[0]
        return effective_setting(found, value, unit, source), bool(pending)

    def _chose_itself(self, knob: Knob, effective: EffectiveSetting) -> bool:
        """Return whether the server put a value of its own in the place of one that asks it to.

        When it reads ``wal_buffers = -1`` again it chooses at once, and names the file as source.
        """
        if knob.value.strip() not in _AUTOMATIC or effective.source not in _FILES:
            return False
        return self._in_file(knob) == knob.value

    def _shown(self, effective: EffectiveSetting) -> str:
        """Return a value as SHOW has it: 128MB, not 16384 pages of 8 kB."""
        return str(self.sql.rows(self.address, _SHOWN, [effective.name])[0][0])

    def _deviating(self, knob: Knob, shown: str, *, pending: bool) -> Check:
        fact = f"{knob.place} is {shown!r}; the plan sets {knob.value!r}."
        facts: tuple[str, ...] = (fact,)
        if pending and _plain(self._in_file(knob)) == _plain(knob.value):
            is_of_pages = knob.place.lower() == _HUGE_PAGES and _is_on(knob.value)
            if is_of_pages and find_process(self.address, self.sql, self.host) is None:
                facts += (_UNSEEN_PAGES,)
            return Check(holds=False, facts=facts, remedy="Restart the server.", pending=_RESTART)
        if pending:
            another = f"Another value of {knob.place} waits for a restart, not that of the plan."
            return Check(holds=False, facts=(*facts, another), remedy="Apply the plan.")
        remedy = "Does a role, a database, or the server's command line set it to something else?"
        return Check(holds=False, facts=facts, remedy=remedy)

    def _on_huge_pages(self) -> Check:
        status = [str(row[0]) for row in self.sql.rows(self.address, _STATUS)]
        pid = find_process(self.address, self.sql, self.host)
        mapping = huge_page_mapping(pid, self.host) if pid is not None else None
        facts = [f"huge_pages_status is {status[0]!r}."] if status else []
        if mapping is not None:
            facts.append(
                f"{wording.format_bytes(mapping.size_bytes)} of shared memory lie on pages of"
                f" {wording.format_bytes(mapping.page_bytes)} (/proc/{pid}/smaps)."
            )
        if status:
            used = status[0] == "on"
        elif pid is not None:
            used = mapping is not None
            facts = facts or [f"No mapping on huge pages is seen in /proc/{pid}/smaps."]
        else:  # before version 17 and elsewhere: it could not have started without them
            used, facts = True, ["huge_pages is on; the server would not run without them."]
        remedy = "" if used else "Restart the server, with enough huge pages free."
        return Check(holds=used, facts=tuple(facts), remedy=remedy)

    def _require_huge_pages(self, knob: Knob, *, planned: bool) -> None:
        if knob.place.lower() != _HUGE_PAGES or as_boolean(knob.value) == "off":
            return
        pid = find_process(self.address, self.sql, self.host)
        if pid is None:
            if _is_on(knob.value):
                require_elsewhere(self.need)
            return
        require_no_sigbus(self.need, pid, self.host)
        if _is_on(knob.value):
            require_pages(self.need, pid, self.host, planned=planned)


def _is_on(value: str) -> bool:
    return as_boolean(value) == "on"


def _plain(value: str | None) -> str | None:
    """Return a value of the file without the quotes and blanks that a list gets there."""
    return None if value is None else "".join(value.replace('"', "").split()).lower()


SETTINGS_IN_FORCE: Final = """
SELECT name, setting, unit, source, pending_restart FROM pg_settings WHERE name = ANY (%s)
"""
_RESTART_BY_OPERATOR: Final = "a restart of the server by its operator"


def settings_in_force(
    api: KubernetesApi, cluster: k8s.ObjectRef, settings: Mapping[str, str], sql: Sql, clock: Clock
) -> Check:
    """Return whether a Cluster's database has its settings in force; None where nobody can ask."""
    if not settings:
        return Check(holds=True, facts=())
    asked = AskedCluster(namespace=cluster.namespace, cluster=cluster.name)
    try:
        database = find_database(api, asked)
        with reached(database, asked, sql, clock) as address:
            rows = sql.rows(address, SETTINGS_IN_FORCE, [[name.lower() for name in settings]])
    except wording.SteelyardError as error:
        fact = f"What its database has in force could not be asked: {error.message}."
        return Check(holds=None, facts=(fact,), remedy=error.hint)
    effective = [effective_setting(*row[:4]) for row in rows]
    wanted = [
        Setting(layer=Layer.POSTGRES, name=name, value=str(value))
        for name, value in settings.items()
    ]
    waiting = [str(row[0]) for row in rows if row[4]]
    found = deviations(wanted, effective)
    if waiting:
        return Check(
            holds=False, facts=tuple(found), pending=f"{_RESTART_BY_OPERATOR}: {', '.join(waiting)}"
        )
    if found:
        facts = tuple(f"{each}." for each in found)
        return Check(holds=False, facts=facts, pending="the operator has the server read them")
    return Check(holds=True, facts=(f"Its database has all {len(wanted)} settings in force.",))


_PATIENCE_S: Final = 600.0  # a rollout of several instances; a guess
_PAUSE_S: Final = 2.0
_KINDS: Final = {kind.name: kind for kind in (k8s.CLUSTER, k8s.STORAGE_CLASS)}


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
        """Check that the cluster takes the object, without making it anew; it knows its fields."""
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
            head = {name: manifest[name] for name in ("apiVersion", "kind", "metadata")}
            self.api.apply({**head, **parts}, dry_run=True)

    def snapshot(self, knob: Knob) -> str:
        """Return the fields that would be changed as they are, or that there is no object."""
        _, manifest, live = self._sides(knob)
        if live is None:
            return json.dumps({"made": True})
        patch = patch_for(asked_of(manifest, live), live)
        return json.dumps({"before": before(patch, live)})

    def apply(self, knob: Knob) -> None:
        """Make or patch the object, and wait until a Cluster is healthy again."""
        ref, manifest, live = self._sides(knob)
        if live is None:
            self.api.apply(manifest)
        else:
            patch = patch_for(asked_of(manifest, live), live)
            if patch:
                self.api.patch(ref, patch)
        for _ in looks(self.clock, _PATIENCE_S, _PAUSE_S):  # a longer rollout is pending
            check = self.verify(knob)
            if check.holds is not False or not check.pending:
                return

    def verify(self, knob: Knob) -> Check:
        """Return whether the object is as asked and, of a Cluster, whether that is in effect."""
        ref, manifest, live = self._sides(knob)
        if live is None:
            return Check(holds=False, facts=(f"{ref.label} is not there.",), remedy="Apply it.")
        asked = asked_of(manifest, live)
        found = list(differences(asked, live))
        if found:
            return Check(holds=False, facts=told(found), remedy="Apply the plan.")
        if ref.kind.name != k8s.CLUSTER.name:
            return Check(holds=True, facts=(f"{ref.label} is as asked.",))
        return self._rolled_out(ref, asked, live)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Put back the fields that were changed; remove a storage class that was made.

        A Cluster that was made may hold data by now: that is the operator's.
        """
        ref, _, live = self._sides(knob)
        kept = json.loads(snapshot)
        if live is None:
            if "made" in kept:
                return
            raise wording.TargetError(
                f"{ref.label} is gone, and with it what the plan changed",
                hint="Revert with --changed keep, which forgets it.",
            )
        if "made" not in kept:
            self.api.patch(ref, kept["before"])
        elif ref.kind.name == k8s.CLUSTER.name:
            raise wording.TargetError(
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
        context = wording.quoted(self.api.context)
        return (f"kubectl --context {context}{where} apply -f {wording.quoted(knob.place)}",)

    def _sides(self, knob: Knob) -> tuple[k8s.ObjectRef, dict[str, Any], k8s.Manifest | None]:
        manifest = manifest_of(knob, self.namespace)
        found = k8s.ref_of(manifest)
        kind = _KINDS.get(found.kind.name, found.kind)
        ref = k8s.ObjectRef(kind=kind, name=found.name, namespace=found.namespace)
        if not self.api.knows(kind):
            return ref, manifest, None
        return ref, manifest, self.api.read(ref)

    def _rolled_out(
        self, ref: k8s.ObjectRef, asked: Mapping[str, Any], live: k8s.Manifest
    ) -> Check:
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


def _pods_of_before(pods: Sequence[k8s.Manifest], spec: Mapping[str, Any]) -> list[str]:
    """Return the instances whose container does not have the resources yet."""
    asked = spec.get("resources") or {}
    return [
        str(pod["metadata"]["name"])
        for pod in pods
        for container in pod["spec"]["containers"]
        if container["name"] == k8s.SERVER_CONTAINER
        if any(differences(asked, container.get("resources")))
    ]


def _require_changeable(ref: k8s.ObjectRef, patch: Mapping[str, Any], live: k8s.Manifest) -> None:
    """Refuse what only a new object can have.

    Raises:
        PreflightError: With what would do.
    """
    if ref.kind.name == k8s.STORAGE_CLASS.name and patch:
        raise wording.PreflightError(
            f"{ref.label} is there with other {', '.join(patch)}, and a class cannot be changed",
            hint="Plan with --storage-class NAME for one that is there, or give it another name.",
        )
    for name in ("storage", "walStorage"):
        asked = ((patch.get("spec") or {}).get(name) or {}).get("storageClass")
        if asked is not None:
            there = (live["spec"].get(name) or {}).get("storageClass") or "the default class"
            raise wording.PreflightError(
                f"{ref.label} has its volumes on {there}, and the plan asks for {asked}",
                hint=f"Plan with --storage-class {there}, or make another Cluster and move to it.",
            )


# Of a Cluster that is there: which image it has is not what a plan is about, and CloudNativePG
# takes one way of saying it at a time.
_IMAGE: Final = ("imageCatalogRef", "imageName")
_MOST_TOLD: Final = 4


def manifest_of(knob: Knob, namespace: str) -> dict[str, Any]:
    """Return the object that a knob asks for; one of a namespace is in this one.

    Raises:
        InputError: It is no object.
    """
    try:
        given = YAML(typ="safe", pure=True).load(knob.value)
    except YAMLError as error:
        raise wording.InputError(
            f"{knob.place} is no YAML: {error}", hint="Make the plan anew."
        ) from error
    if not isinstance(given, dict) or not {"apiVersion", "kind", "metadata"} <= given.keys():
        raise wording.InputError(
            f"{knob.place} is no object of a cluster", hint="Make the plan anew."
        )
    made = json.loads(json.dumps(given))
    metadata = {**made["metadata"], "labels": {k8s.MANAGED_BY: k8s.MANAGER}}
    if made["kind"] == k8s.CLUSTER.name:
        metadata["namespace"] = namespace
    return {**made, "metadata": metadata}


def asked_of(manifest: Mapping[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a plan asks of an object that is there, without what stays as it is.

    Name and labels are no question; a Cluster keeps its image, and a volume that is larger.
    """
    asked = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind", "metadata")}
    if live is None or manifest["kind"] != k8s.CLUSTER.name:
        return asked
    spec, there = dict(asked["spec"]), live.get("spec") or {}
    if any(name in there for name in _IMAGE):
        spec = {name: value for name, value in spec.items() if name not in _IMAGE}
    for name in ("storage", "walStorage"):
        size = (spec.get(name) or {}).get("size")
        if size is not None and _is_at_least((there.get(name) or {}).get("size"), size):
            spec[name] = {key: value for key, value in spec[name].items() if key != "size"}
    return {**asked, "spec": spec}


def told(found: list[Difference]) -> tuple[str, ...]:
    """Return differences as sentences, not too many of them."""
    sentences = [
        f"{path} is {_shown(live)}; the plan sets {_shown(asked)}."
        for path, asked, live in found[:_MOST_TOLD]
    ]
    more = len(found) - _MOST_TOLD
    return (*sentences, f"So are {more} more fields.") if more > 0 else tuple(sentences)


def _is_at_least(size: object, asked: object) -> bool:
    try:
        return size is not None and wording.parse_quantity(str(size)) >= wording.parse_quantity(
            str(asked)
        )
    except wording.InputError:
        return False


def _shown(value: object) -> str:
    return "absent" if value is None else json.dumps(value)


_CONFIGZ: Final = "/api/v1/nodes/{node}/proxy/configz"
_HEAD: Final = ("apiVersion", "kind")
_HOW: Final = "merge {place} into the kubelet's configuration of {nodes}, as its first lines say"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDoor(LookingDoor):
    """Looks at the kubelets of the nodes that a database may be put on; turns nothing.

    Attributes:
        nodes: Names; empty: all that take pods without a toleration.
    """

    api: KubernetesApi
    nodes: tuple[str, ...] = ()

    def verify(self, knob: Knob) -> Check:
        """Return whether the kubelets run with what is asked, by what they answer themselves."""
        given = YAML(typ="safe", pure=True).load(knob.value)
        asked = {name: value for name, value in given.items() if name not in _HEAD}
        open_nodes: list[str] = []
        facts: list[str] = []
        try:
            names = self.nodes or tuple(
                str(node["metadata"]["name"])
                for node in self.api.list(k8s.NODE)
                if _takes_pods(node.get("spec") or {})
            )
            for node in names:
                answered = json.loads(self.api.raw(_CONFIGZ.format(node=node)))
                found = list(differences(asked, answered["kubeletconfig"]))
                if found:
                    open_nodes.append(node)
                    facts += [f"{node}: {fact}" for fact in told(found)]
        except (wording.SteelyardError, ValueError, LookupError) as error:
            words = error.message if isinstance(error, wording.SteelyardError) else str(error)
            todo = _HOW.format(place=knob.place, nodes="the database's node")
            fact = f"The kubelet's configuration cannot be read: {words}."
            return Check(holds=None, facts=(fact,), pending=todo)
        if not open_nodes:
            return Check(holds=True, facts=(f"configz of {', '.join(names)} says all of it.",))
        todo = _HOW.format(place=knob.place, nodes=", ".join(open_nodes))
        return Check(holds=False, facts=tuple(facts), remedy=todo, pending=todo)

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the step, as a comment."""
        nodes = ", ".join(self.nodes) or "the database's node"
        return (f"# {_HOW.format(place=knob.place, nodes=nodes)}",)


def _takes_pods(spec: k8s.Manifest) -> bool:
    """Return whether a node takes pods which tolerate nothing."""
    effects = {taint.get("effect") for taint in spec.get("taints") or ()}
    return not spec.get("unschedulable") and not effects & {"NoSchedule", "NoExecute"}
