"""What dead campaigns and crash tests left here, on servers and in clusters, and how it is undone.

What records of others claim is shown, never done; taking one over is the user's word. Of several
attempts each is made, whatever became of the others. Whoever holds a file system of our own for a
moment yet is waited for. What carries Steelyard's label in a Kubernetes cluster and stands in no
record here is found as well.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core import outside
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Configuration, Workload
from steelyard.core.wording import (
    LeftBehindError,
    PreflightError,
    PrivilegeError,
    RecordError,
    SteelyardError,
    form_of,
    raise_all,
    troubles_of,
)
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import remove_tree
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import own_password
from steelyard.places import aws
from steelyard.places.kubernetes import undoing as in_cluster
from steelyard.places.kubernetes.reaching import redis_knock, sql_knock
from steelyard.places.local.groups import remove_group
from steelyard.places.local.server import MEMORY
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory, is_held, read_campaign, read_standing
from steelyard.record.journal import Created, Removed
from steelyard.systems.existing import ENTRANCE, reached
from steelyard.systems.postgres.existing import server as postgres
from steelyard.systems.postgres.server import file_line, shared_memory_residue
from steelyard.systems.redis.existing import platform as redis
from steelyard.systems.redis.settings import file_lines
from steelyard.tuning.apply.kernel import kernel_doors


def require_ours(record: CampaignRecord, path: Path) -> None:
    """Refuse to go on with a campaign that this account did not begin here.

    Raises:
        PreflightError: It would run somebody else's commands with this user's rights.
    """
    if not registry.began(record.campaign_id, path, record.experiment):
        raise PreflightError(
            f"{path} holds a campaign that this account did not begin here: its cache does not know"
            " it, and going on would use its servers and run its commands with your rights",
            hint=f"Look at what it does with `steelyard clean --adopt --dry-run {path}`; `steelyard"
            f" clean --adopt {path}` takes it over.",
        )


def does(record: CampaignRecord) -> Iterator[str]:
    """Yield what going on with a campaign would use and run, by configuration."""
    for configuration in record.experiment.configurations:
        yield f"configuration {configuration.name}:"
        yield f"  {form_of(Configuration).dump_json(configuration, exclude_defaults=True).decode()}"
    if record.experiment.generator_flags:
        yield f"flags of the load generator: {shlex.join(record.experiment.generator_flags)}"
    for workload in record.experiment.workloads:
        yield f"workload {workload.name}:"
        yield f"  {form_of(Workload).dump_json(workload, exclude_defaults=True).decode()}"


def adopt(path: Path, shown: CampaignRecord, doors: Doors) -> None:
    """Take a record over: what it lists outside counts as dealt with, and nothing there is touched.

    It is as ``shown`` to the user, or it is refused.

    Raises:
        PreflightError: It is a copy of one that is here, lists what is this account's, or is not
            what was shown any more.
        RecordError: There is none, it is damaged, or another process holds it.
    """
    record = read_campaign(path)
    if record != shown:
        raise PreflightError(
            f"{path} was changed while it was looked at", hint="Look at it again, when it is quiet."
        )
    own = registry.directories(record.campaign_id)[:1]
    if own and not registry.is_noted(record.campaign_id, path):
        raise PreflightError(
            f"{path} is a copy of the record in {own[0]}",
            hint=f"Go on with that one, or remove it first: steelyard clean {own[0]}",
        )
    stands = read_standing(path)
    ours, others = registry.known(record.campaign_id, path, stands)
    if ours:
        raise PreflightError(
            f"{path} lists {ours[0].label}, which this account's campaign left behind",
            hint=f"Remove that first: steelyard clean {path}",
        )
    directory = CampaignDirectory.reopen(path, doors.clock)
    try:
        for made in others:
            directory.journal.append(Removed.of(made))
        if not stands.status.is_finished:
            registry.register(record.campaign_id, path, record.experiment)
    finally:
        directory.close()


def is_alive(record: Path) -> bool:
    """Return whether a living process has a record; a crash test has a lock and no journal."""
    begun = (record / "journal.jsonl").exists() or (record / "lock").exists()
    return begun and is_held(record)


def our_mounts(campaign_id: str, directories: Sequence[Path], doors: Doors) -> Iterator[Path]:
    """Yield where something of ours is mounted: a file of a directory of ours, inside the same.

    Simulated storage is a file that is served from a directory beside, and mounted from there.
    """
    for place in registry.mounts(campaign_id):
        image = doors.volumes.mounted_from(place)
        if image is None or place.parent not in directories:
            continue
        if place.parent in (image.parent, image.parent.parent):
            yield place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How things of one class of ``Outside`` are shown and undone.

    Attributes:
        undo: Raises a LeftBehindError, or whatever keeps it from being undone.
        shown: Returns what undoing does, exactly, for somebody who does it by hand or not.
        trouble: What is said of one that could not be undone.
        may_be_left: Returns whether one of a campaign may be there yet, and has the form of what we
            make. Of a path both can be seen from here.
    """

    undo: Callable[[Any, Doors], None]
    shown: Callable[[Any], Iterable[str]]
    trouble: str = "is left behind"
    may_be_left: Callable[[Any, str, Cgroups], bool] = lambda *_: True


def claim(made: Created) -> Iterable[str]:
    """Return what undoing would do, exactly; claims of a record are shown alike."""
    if made.thing is not None:
        return _KINDS[type(made.thing)].shown(made.thing)
    return [f"{'control group' if made.resource == 'cgroup' else made.resource} {made.name}"]


def may_be_left(thing: outside.Outside, campaign_id: str, cgroups: Cgroups) -> bool:
    """Return whether something of ours may be there yet, and has the form of what we make."""
    return _KINDS[type(thing)].may_be_left(thing, campaign_id, cgroups)


def undo_thing(thing: outside.Outside, doors: Doors) -> None:
    """Undo one thing that the registry knows to be ours, and return when it is gone.

    Raises:
        LeftBehindError: It is still there, or not as it was.
    """
    kind = _KINDS[type(thing)]
    try:
        kind.undo(thing, doors)
    except (RecordError, LeftBehindError):
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{thing.label} {kind.trouble}: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error


def undo_each(
    things: Iterable[outside.Outside], doors: Doors
) -> Iterator[tuple[outside.Outside, SteelyardError | None]]:
    """Undo things in order, each whatever becomes of others; yield each, and why it is left."""
    rented: list[outside.InAws] = []  # and still there
    for thing in outside.in_undoing_order(things):
        if isinstance(thing, outside.InAws) and thing.stays_with(rented):
            continue
        trouble = next(iter(troubles_of(lambda it: undo_thing(it, doors), [thing])), None)
        if trouble is not None and isinstance(thing, outside.InAws):
            rented.append(thing)
        yield thing, trouble


def undo_all_of(things: Iterable[outside.Outside], doors: Doors) -> None:
    """Undo things that were looked for; one that fails does not keep the others.

    Raises:
        LeftBehindError: Something is still there.
    """
    raise_all([trouble for _, trouble in undo_each(things, doors) if trouble is not None])


def _is_our_group(group: outside.ControlGroup, campaign_id: str, cgroups: Cgroups) -> bool:
    name = rf"steelyard-{re.escape(campaign_id)}(-[0-9]+)?-(server|generator)"
    is_named = re.fullmatch(name, group.path.name) is not None
    return group.path.parent in cgroups.roots() and is_named and cgroups.exists(group.path)


def _is_our_directory(made: outside.MadeDirectory, campaign_id: str, _: Cgroups) -> bool:
    """Return whether a path has the form of what Steelyard makes: nothing else is ever removed."""
    path = made.path
    is_slot = path.name != campaign_id and re.fullmatch(r"slot-[0-9]+", path.name)
    campaign = path.parent if is_slot else path
    if not path.is_absolute() or path.is_symlink() or campaign.is_symlink() or ".." in path.parts:
        return False
    if path.parent in (Path("/tmp"), MEMORY):  # noqa: S108 - compared, not made
        return re.fullmatch(r"steelyard-[0-9a-f]{8}", path.name) is not None and path.exists()
    is_live = campaign.parent.name == "live" and campaign.name == campaign_id
    return is_live and path.exists()


def _remove_directory(made: outside.MadeDirectory, doors: Doors) -> None:
    for data in made.path.glob("*/data"):
        for command in shared_memory_residue(data):
            with suppress(SteelyardError):  # without ipcrm it stays until the machine restarts
                doors.processes.run(command, timeout_s=10)
    remove_tree(made.path)


def _kubectl(thing: outside.InCluster) -> tuple[str, str]:
    where = f" -n {thing.ref.namespace}" if thing.ref.namespace else ""
    what = f"{thing.ref.kind.name} {thing.ref.name}{where}"
    patch = f" --type merge -p {shlex.quote(thing.before)}" if thing.before else ""
    verb = "patch" if thing.before else "delete"
    return f"{thing.label} ({thing.server})", f"  kubectl {verb} {what}{patch}"


def _undo_on_server(thing: outside.OnServer, doors: Doors) -> None:
    """Undo one thing on a server; one whose server is gone went with it."""
    inside, is_of_redis = thing.inside, thing.resource.is_of_redis
    try:
        if inside is None:
            _undo_there(thing, None, doors)
            return
        api = doors.kubernetes.connect(inside.context or None)
        is_sure = inside.server == api.server and (bool(inside.context) or api.is_inside)
        if is_sure and _is_gone(inside, api):
            return
        knock = redis_knock(doors.redis) if is_of_redis else sql_knock(doors.sql)
        database = "" if is_of_redis else ENTRANCE
        with reached(inside, api, knock, doors.clock, database=database) as address:
            _undo_there(thing, address, doors)
    except RecordError:
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{thing.label} is left behind: {error.message}", hint=_hint(thing, error)
        ) from error


def _undo_there(
    thing: outside.OnServer, address: outside.ServerAddress | None, doors: Doors
) -> None:
    if thing.resource.is_of_redis:
        redis.undo_on_redis(thing, doors, password=own_password(), reached=address)
    else:
        postgres.undo(thing, doors, reached=address)


def _statements(thing: outside.OnServer) -> Iterator[str]:
    yield f"{thing.label}, as user {thing.user}"
    system = redis if thing.resource.is_of_redis else postgres
    yield from (f"  {line}" for line in system.described(thing))


def _is_gone(inside: outside.ServerInCluster, api: KubernetesApi) -> bool:
    """Return whether the server itself is gone, and not only the way to it.

    A Cluster's Service goes with the Cluster. Another Service may be gone while its server is
    there; that one counts as gone together with the Secret of its user.
    """

    def is_there(kind: k8s.Kind, name: str, namespace: str = inside.namespace) -> bool:
        ref = k8s.ObjectRef(kind=kind, name=name, namespace=namespace)
        return api.knows(kind) and api.read(ref) is not None

    # CloudNativePG names the Services of a Cluster so.
    cluster = re.sub(r"-(rw|ro|r)$", "", inside.service)
    return not is_there(k8s.NAMESPACE, inside.namespace, "") or not (
        is_there(k8s.SERVICE, inside.service)
        or is_there(k8s.CLUSTER, cluster)
        or is_there(k8s.SECRET, inside.secret.name, inside.secret.namespace)
    )


def _hint(thing: outside.OnServer, error: SteelyardError) -> str:
    if isinstance(error, LeftBehindError) and error.hint:
        return error.hint
    if thing.inside is None:
        where = "REDISCLI_AUTH" if thing.resource.is_of_redis else "PGPASSWORD or ~/.pgpass"
        return (
            f"Run `steelyard clean` again with the password in {where}, when the server can be"
            f" reached.{_if_down(thing)}"
        )
    way = (
        f"Run `steelyard clean` again when the Service {thing.inside.service} in"
        f" {thing.inside.namespace} leads to the server, with its Secret"
        f" {thing.inside.secret.name}; where both are gone, the server counts as gone."
    )
    return f"{error.hint} {way}".strip()


def _if_down(thing: outside.OnServer) -> str:
    """Return what to write where a server does not start with the settings that it was given."""
    if thing.resource is outside.Foreign.SETTINGS:
        file, line = "postgresql.auto.conf", file_line
    elif thing.resource is outside.Foreign.CONFIG and thing.restart_command:
        file, line = "redis.conf", lambda name, value: file_lines({name: value}).strip()
    else:
        return ""
    was = (f"no {s.name}" if s.value is None else line(s.name, s.value) for s in thing.saved)
    return f" If it does not start: its {file} had {', '.join(was)}."


_KINDS: Final[Mapping[type[outside.Outside], _Kind]] = {
    outside.OnServer: _Kind(undo=_undo_on_server, shown=_statements),
    outside.InCluster: _Kind(
        undo=lambda thing, doors: in_cluster.undo(
            thing, doors.kubernetes.connect(thing.context or None), clock=doors.clock
        ),
        shown=_kubectl,
    ),
    outside.InAws: _Kind(
        undo=lambda thing, doors: aws.undo(thing, doors.aws.connect(thing.region), doors.clock),
        shown=lambda it: (it.label, f"  steelyard clean --aws {it.region} --account {it.account}"),
        trouble="may still be there, and be billed",
    ),
    outside.TurnedKnob: _Kind(
        undo=lambda turned, doors: kernel_doors(doors.host, doors.kernel)[turned.knob.kind].revert(
            turned.knob, turned.snapshot
        ),
        shown=lambda turned: (f"knob {turned.label}; it was", f"  {turned.snapshot}"),
        trouble="is not as it was",
    ),
    outside.ControlGroup: _Kind(
        undo=lambda group, doors: remove_group(group.path, doors.cgroups, doors.clock),
        shown=lambda group: (f"control group {group.label}",),
        may_be_left=_is_our_group,
    ),
    outside.MadeDirectory: _Kind(
        undo=_remove_directory,
        shown=lambda made: (f"directory {made.label}",),
        may_be_left=_is_our_directory,
    ),
}


def look_for_tags(region: str, account: str, doors: Doors) -> dict[str, list[outside.InAws]]:
    """Return what campaigns have in a region of which no record here knows, by campaign.

    Raises:
        PreflightError: The credentials are those of another account.
    """
    api = doors.aws.connect(region)
    aws.require_account(api, (account,))
    known = {name for name, _ in registry.records()}
    found: dict[str, list[outside.InAws]] = {}
    for thing in outside.in_undoing_order(aws.tagged(api)):
        if thing.campaign_id not in known:
            found.setdefault(thing.campaign_id, []).append(thing)
    return found


# In the order in which they go: what makes others first, the anchor and the namespace last.
_OBJECTS: Final = (
    *(
        k8s.JOB,
        k8s.CLUSTER,
        k8s.STATEFUL_SET,
        k8s.DEPLOYMENT,
        k8s.POD,
        k8s.CLAIM,
        k8s.SERVICE,
        k8s.SECRET,
        k8s.ROLE_BINDING,
        k8s.ROLE_KIND,
        k8s.ACCOUNT,
    ),
    *(k8s.CLUSTER_ROLE_BINDING, k8s.CLUSTER_ROLE, k8s.CONFIG_MAP, k8s.NAMESPACE),
)
_LABELS: Final = {k8s.MANAGED_BY: k8s.MANAGER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """What carries the label of one campaign that no record here knows.

    Attributes:
        campaign: Value of the label.
        things: In the order in which they go.
        since: When the oldest of them was made, as the cluster says it.
        running: Its pods that run and its Jobs that are active.
        record: The claim of the volume that holds its record, where it ran as a Job.
    """

    campaign: str
    things: tuple[outside.InCluster, ...]
    since: str
    running: tuple[str, ...] = ()
    record: k8s.ObjectRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found in a cluster.

    Attributes:
        unseen: Names of the kinds that this account may not list there.
    """

    found: tuple[Labelled, ...]
    unseen: tuple[str, ...]


def look_for_labels(api: KubernetesApi, namespace: str = "") -> Look:
    """Return what campaigns have in a cluster of which no record here knows, by campaign.

    Args:
        api: The cluster.
        namespace: Where to look; empty: everywhere. The namespace itself belongs to it, and of
            kinds without namespaces what is of a campaign that has something there.

    Raises:
        PrivilegeError: The account may list nothing of it.
    """
    unseen: list[str] = []
    kinds = [kind for kind in _OBJECTS if kind.namespaced or not namespace]
    kinds = [kind for kind in kinds if api.knows(kind)]
    manifests = [it for kind in kinds for it in _listed(api, kind, namespace, unseen)]
    if len(unseen) == len(kinds):
        where = (
            f"the namespace {namespace} of {api.context}" if namespace else f"all of {api.context}"
        )
        raise PrivilegeError(
            f"the account may not list anything of Steelyard's in {where}",
            hint="Name a namespace that it may look into with -n; `steelyard kubernetes rbac"
            " --clean` prints the role.",
        )
    if namespace:
        manifests += _around(api, namespace, manifests, unseen)
    known = {
        k8s.campaign_value(name)
        for name, _ in registry.records()
        if any(isinstance(made, outside.InCluster) for made in registry.made(name))
    }
    turns = [kind.name for kind in _OBJECTS]
    by_campaign: dict[str, list[k8s.Manifest]] = {}
    for manifest in sorted(manifests, key=lambda it: turns.index(it["kind"])):
        campaign = _campaign_of(manifest)
        if campaign and campaign not in known:
            by_campaign.setdefault(campaign, []).append(manifest)
    found = (_labelled(api, campaign, by_campaign[campaign]) for campaign in sorted(by_campaign))
    return Look(found=tuple(found), unseen=tuple(unseen))


def _listed(
    api: KubernetesApi, kind: k8s.Kind, namespace: str, unseen: list[str]
) -> Sequence[k8s.Manifest]:
    try:
        return api.list(kind, namespace, _LABELS)
    except PrivilegeError:
        unseen.append(kind.name)
        return ()


def _around(
    api: KubernetesApi, namespace: str, inside: Sequence[k8s.Manifest], unseen: list[str]
) -> Iterator[k8s.Manifest]:
    """Yield the namespace itself, and what has none and is of a campaign that has something."""
    campaigns = {_campaign_of(manifest) for manifest in inside}
    try:
        space = api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=namespace))
    except PrivilegeError:
        unseen.append(k8s.NAMESPACE.name)
        space = None
    if space is not None and _LABELS.items() <= _labels(space).items():
        campaigns.add(_campaign_of(space))
        yield space
    for kind in (k8s.CLUSTER_ROLE_BINDING, k8s.CLUSTER_ROLE) if campaigns else ():
        listed = _listed(api, kind, "", unseen)
        yield from (it for it in listed if _campaign_of(it) in campaigns)


def _labelled(api: KubernetesApi, campaign: str, manifests: Sequence[k8s.Manifest]) -> Labelled:
    things = (
        outside.InCluster(
            context="" if api.is_inside else api.context,
            server=api.server,
            ref=k8s.ref_of(manifest),
            campaign_id=campaign,
        )
        for manifest in manifests
    )
    running, record = [], None
    for each in manifests:
        status, kind = each.get("status") or {}, each["kind"]
        is_pod = kind == k8s.POD.name and status.get("phase") in {"Pending", "Running"}
        if is_pod or (kind == k8s.JOB.name and bool(status.get("active"))):
            running.append(k8s.ref_of(each).label)
        if kind == k8s.CLAIM.name and _labels(each).get(k8s.ROLE) == k8s.RUNNER:
            record = record or k8s.ref_of(each)
    return Labelled(
        campaign=campaign,
        things=tuple(things),
        since=min(str(each["metadata"].get("creationTimestamp") or "") for each in manifests),
        running=tuple(running),
        record=record,
    )


def _campaign_of(manifest: k8s.Manifest) -> str | None:
    return _labels(manifest).get(k8s.CAMPAIGN)


def _labels(manifest: k8s.Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
    return labels
