"""What dead campaigns and crash tests left here, on servers and in clusters, and how it is undone.

What records of others claim is shown, never done; taking one over is the user's word. Of several
attempts each is made, whatever became of the others. Whoever holds a file system of our own for a
moment yet is waited for. What carries Steelyard's label in a Kubernetes cluster and stands in no
record here is found as well.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

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
)
from steelyard.gateways.cgroups import Cgroups
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import remove_tree
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import own_password
from steelyard.places.aws import require_account, tagged
from steelyard.places.aws import undo as undo_in_aws
from steelyard.places.kubernetes.reaching import redis_knock, sql_knock
from steelyard.places.kubernetes.undoing import undo as undo_in_cluster
from steelyard.places.local.groups import remove_group
from steelyard.places.local.server import MEMORY
from steelyard.record import registry
from steelyard.record.directory import (
    CampaignDirectory,
    is_held,
    read_campaign,
    read_standing,
)
from steelyard.record.journal import Created, Removed
from steelyard.systems.existing import reached
from steelyard.systems.postgres.existing import server as undoing
from steelyard.systems.postgres.existing.server import Means, undo
from steelyard.systems.postgres.server import shared_memory_residue
from steelyard.systems.redis.existing import platform as redis_undoing
from steelyard.systems.redis.existing.platform import undo_on_redis
from steelyard.systems.redis.existing.readiness import RedisMeans
from steelyard.tuning.apply.kernel import kernel_doors

_T = TypeVar("_T")


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


def claim(made: Created) -> Iterator[str]:
    """Yield what undoing would have done, exactly, for somebody who does it by hand or not."""
    if made.thing is not None:
        thing = made.thing
        yield f"{thing.label}, as user {thing.user}"
        of = redis_undoing if thing.resource.is_of_redis else undoing
        yield from (f"  {line}" for line in of.described(thing))
    elif made.placed is not None:
        placed = made.placed
        yield f"{placed.label} ({placed.server})"
        where = f" -n {placed.ref.namespace}" if placed.ref.namespace else ""
        what = f"{placed.ref.kind.name} {placed.ref.name}{where}"
        patch = f" --type merge -p {shlex.quote(placed.before)}" if placed.before else ""
        yield f"  kubectl {'patch' if placed.before else 'delete'} {what}{patch}"
    elif made.rented is not None:
        yield f"{made.rented.label}"
        yield f"  steelyard clean --aws {made.rented.region} --account {made.rented.account}"
    elif made.knob is not None:
        yield f"knob {made.knob.label}; it was"
        yield f"  {made.knob.snapshot}"
    else:
        yield f"{'control group' if made.resource == 'cgroup' else made.resource} {made.name}"


def does(record: CampaignRecord) -> Iterator[str]:
    """Yield what going on with a campaign would use and run, by configuration."""
    for configuration in record.experiment.configurations:
        yield f"configuration {configuration.name}:"
        yield f"  {form_of(Configuration).dump_json(configuration, exclude_defaults=True).decode()}"
    if record.experiment.generator_flags:
        yield f"flags of the load generator: {shlex.join(record.experiment.generator_flags)}"
    if record.experiment.generator_host:
        yield f"host of the load generator: {record.experiment.generator_host}"
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
            directory.journal.append(Removed(resource=made.resource, name=made.name))
        if not stands.status.is_finished:
            registry.register(record.campaign_id, path, record.experiment)
    finally:
        directory.close()


def trouble_of(attempt: Callable[[], None]) -> LeftBehindError | None:
    """Return why an attempt left something behind; None where it did not.

    Raises:
        Interrupted: Nothing more is to be tried.
        RecordError: What is undone cannot be noted.
    """
    try:
        attempt()
    except RecordError:
        raise
    except LeftBehindError as error:
        return error
    except SteelyardError as error:
        return LeftBehindError(error.message, hint=error.hint)
    return None


def troubles_of(attempt: Callable[[_T], None], things: Iterable[_T]) -> list[LeftBehindError]:
    """Return why attempts left things behind: each is made, whatever became of the others."""
    tried = (trouble_of(partial(attempt, thing)) for thing in things)
    return [trouble for trouble in tried if trouble is not None]


@contextmanager
def _left_behind(said: str) -> Iterator[None]:
    """Raise whatever keeps something from being undone as that it is left behind.

    Raises:
        LeftBehindError: With what is said of the thing, and the way out.
    """
    try:
        yield
    except (RecordError, LeftBehindError):
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{said}: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error


def raise_all(troubles: Sequence[SteelyardError]) -> None:
    """Raise what is left behind as one error; nothing happens where nothing is.

    Raises:
        LeftBehindError: With all messages, and each hint once.
    """
    if troubles:
        raise LeftBehindError(
            "; ".join(error.message for error in troubles),
            hint=" ".join(dict.fromkeys(error.hint for error in troubles if error.hint)),
        )


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


def may_be_left(thing: outside.Outside, campaign_id: str, cgroups: Cgroups) -> bool:
    """Return whether something of ours may be there yet, and has the form of what we make.

    Of a path both can be seen from here.
    """
    if isinstance(thing, outside.MadeDirectory):
        return _has_our_form(thing.path, campaign_id) and thing.path.exists()
    if isinstance(thing, outside.ControlGroup):
        name = rf"steelyard-{re.escape(campaign_id)}(-[0-9]+)?-(server|generator)"
        is_named = re.fullmatch(name, thing.path.name) is not None
        return thing.path.parent in cgroups.roots() and is_named and cgroups.exists(thing.path)
    return True


def _has_our_form(path: Path, campaign_id: str) -> bool:
    """Return whether a path has the form of what Steelyard makes: nothing else is ever removed."""
    is_slot = path.name != campaign_id and re.fullmatch(r"slot-[0-9]+", path.name)
    campaign = path.parent if is_slot else path
    if not path.is_absolute() or path.is_symlink() or campaign.is_symlink() or ".." in path.parts:
        return False
    if path.parent in (Path("/tmp"), MEMORY):  # noqa: S108 - compared, not made
        return re.fullmatch(r"steelyard-[0-9a-f]{8}", path.name) is not None
    return campaign.parent.name == "live" and campaign.name == campaign_id


def undo_thing(thing: outside.Outside, doors: Doors) -> None:
    """Undo one thing that the registry knows to be ours.

    Raises:
        LeftBehindError: It is still there, or not as it was.
    """
    match thing:
        case outside.MadeDirectory():
            _free_shared_memory(thing.path, doors)
            remove_tree(thing.path)
        case outside.ControlGroup():
            remove_group(thing.path, doors.cgroups, doors.clock)
        case outside.OnServer():
            undo_on_server(thing, doors)
        case outside.InCluster():
            undo_placed(thing, doors)
        case outside.InAws():
            undo_rented(thing, doors)
        case outside.TurnedKnob():
            turn_back(thing, doors)


def _free_shared_memory(directory: Path, doors: Doors) -> None:
    for data in directory.glob("*/data"):
        for command in shared_memory_residue(data):
            with suppress(SteelyardError):  # without ipcrm it stays until the machine restarts
                doors.processes.run(command, timeout_s=10)


def turn_back(turned: outside.TurnedKnob, doors: Doors) -> None:
    """Turn a knob of the stack back to what was there.

    Raises:
        LeftBehindError: It is not as it was.
    """
    with _left_behind(f"{turned.label} is not as it was"):
        kernel_doors(doors.host, doors.kernel)[turned.knob.kind].revert(
            turned.knob, turned.snapshot
        )


_OF_CLUSTERS: Final = ("-rw", "-ro", "-r")  # how CloudNativePG names the Services of a Cluster


def undo_on_server(thing: outside.OnServer, doors: Doors) -> None:
    """Undo one thing on a server; one whose server is gone went with it.

    Raises:
        LeftBehindError: It is still there, or the server cannot be reached.
    """
    means = Means(sql=doors.sql, processes=doors.processes, clock=doors.clock)
    try:
        if thing.inside is None and thing.resource.is_of_redis:
            undo_on_redis(thing, _redis_means(doors), password=own_password())
        elif thing.inside is None:
            undo(thing, means)
        else:
            _undo_inside(thing, thing.inside, means, doors)
    except RecordError:
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{thing.label} is left behind: {error.message}", hint=_hint(thing, error)
        ) from error


def _redis_means(doors: Doors) -> RedisMeans:
    return RedisMeans(redis=doors.redis, processes=doors.processes, clock=doors.clock)


def _undo_inside(
    thing: outside.OnServer, inside: outside.ServerInCluster, means: Means, doors: Doors
) -> None:
    api = doors.kubernetes.connect(inside.context or None)
    is_sure = inside.server == api.server and (bool(inside.context) or api.is_inside)
    if is_sure and _is_gone(inside, api):
        return
    if thing.resource.is_of_redis:
        knock = redis_knock(doors.redis)
        with reached(inside, api, knock, doors.clock, database="") as address:
            undo_on_redis(thing, _redis_means(doors), reached=address)
        return
    with reached(inside, api, sql_knock(doors.sql), doors.clock) as address:
        undo(thing, means, reached=address)


def _is_gone(inside: outside.ServerInCluster, api: KubernetesApi) -> bool:
    """Return whether the server itself is gone, and not only the way to it.

    A Cluster's Service goes with the Cluster. Another Service may be gone while its server is
    there; that one counts as gone together with the Secret of its user.
    """
    if api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=inside.namespace)) is None:
        return True
    if _is_there(
        api, k8s.ObjectRef(kind=k8s.SERVICE, name=inside.service, namespace=inside.namespace)
    ):
        return False
    ending = next((each for each in _OF_CLUSTERS if inside.service.endswith(each)), "")
    name = inside.service.removesuffix(ending)
    if _is_there(api, k8s.ObjectRef(kind=k8s.CLUSTER, name=name, namespace=inside.namespace)):
        return False
    secret = inside.secret
    return not _is_there(
        api, k8s.ObjectRef(kind=k8s.SECRET, name=secret.name, namespace=secret.namespace)
    )


def _is_there(api: KubernetesApi, ref: k8s.ObjectRef) -> bool:
    return api.knows(ref.kind) and api.read(ref) is not None


def _hint(thing: outside.OnServer, error: SteelyardError) -> str:
    if isinstance(error, LeftBehindError) and error.hint:
        return error.hint
    if thing.inside is None:
        where = "REDISCLI_AUTH" if thing.resource.is_of_redis else "PGPASSWORD or ~/.pgpass"
        return (
            f"Run `steelyard clean` again with the password in {where}, when the server can be"
            " reached."
        )
    way = (
        f"Run `steelyard clean` again when the Service {thing.inside.service} in"
        f" {thing.inside.namespace} leads to the server, with its Secret"
        f" {thing.inside.secret.name}; where both are gone, the server counts as gone."
    )
    return f"{error.hint} {way}".strip()


def undo_rented(thing: outside.InAws, doors: Doors) -> None:
    """Delete one thing in an account of AWS, and return when it is gone.

    Raises:
        LeftBehindError: It is still there, or nobody could ask.
    """
    with _left_behind(f"{thing.label} may still be there, and be billed"):
        undo_in_aws(thing, doors.aws.connect(thing.region), doors.clock)


def look_for_tags(region: str, account: str, doors: Doors) -> dict[str, list[outside.InAws]]:
    """Return what campaigns have in a region of which no record here knows, by campaign.

    Raises:
        PreflightError: The credentials are those of another account.
    """
    api = doors.aws.connect(region)
    require_account(api, (account,))
    known = {name for name, _ in registry.records()}
    found: dict[str, list[outside.InAws]] = {}
    for thing in outside.in_undoing_order(tagged(api)):
        if thing.campaign_id not in known:
            found.setdefault(thing.campaign_id, []).append(thing)
    return found


def undo_tagged(
    campaign: str, things: Sequence[outside.InAws], doors: Doors, *, is_meant: bool
) -> list[LeftBehindError]:
    """Delete what a campaign has in an account, where its name was typed; return what is left."""
    if not is_meant:
        return [
            LeftBehindError(
                f"{campaign} is left as it is, and billed: its name was not typed",
                hint="Run `steelyard clean` with the same words again.",
            )
        ]
    left: list[outside.InAws] = []

    def undo(thing: outside.InAws) -> None:
        if thing.stays_with(left):
            return
        try:
            undo_rented(thing, doors)
        except SteelyardError:
            left.append(thing)
            raise

    return troubles_of(undo, things)


def undo_placed(thing: outside.InCluster, doors: Doors) -> None:
    """Remove or put back one thing in a cluster.

    Raises:
        LeftBehindError: It is still there; its context means another cluster, or leads to none.
    """
    with _left_behind(f"{thing.label} is left behind"):
        undo_in_cluster(thing, _connected(thing, doors), clock=doors.clock)


def _connected(thing: outside.InCluster, doors: Doors) -> KubernetesApi:
    api = doors.kubernetes.connect(thing.context or None)
    if thing.before and not thing.context and not api.is_inside:
        # What has no label cannot be told from its like in another cluster.
        raise LeftBehindError(
            f"{thing.label} are not as they were; they were changed from inside that cluster",
            hint=f"Put them back there: kubectl patch --type merge -p '{thing.before}'.",
        )
    return api


# In the order in which they go: what makes others first, the anchor and the namespace last.
_KINDS: Final = (
    *(
        k8s.JOB,
        k8s.CLUSTER,
        k8s.STATEFUL_SET,
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
    search = _Search(api=api, namespace=namespace)
    for kind in _KINDS:
        if kind.namespaced or not namespace:
            search.list(kind)
    if not search.seen:
        raise PrivilegeError(
            f"the account may not list anything of Steelyard's in {search.where}",
            hint="Name a namespace that it may look into with -n; `steelyard kubernetes rbac"
            " --clean` prints the role.",
        )
    if namespace:
        search.list_around()
    known = {k8s.campaign_value(name) for name, _ in registry.records() if _has_objects(name)}
    by_campaign: dict[str, list[k8s.Manifest]] = {}
    for manifest in sorted(search.found, key=_turn):
        campaign = _labels(manifest).get(k8s.CAMPAIGN)
        if campaign and campaign not in known:
            by_campaign.setdefault(campaign, []).append(manifest)
    found = (_labelled(api, campaign, by_campaign[campaign]) for campaign in sorted(by_campaign))
    return Look(found=tuple(found), unseen=tuple(search.unseen))


def _has_objects(campaign_id: str) -> bool:
    """Return whether a campaign of this account made something in a cluster."""
    return any(isinstance(made, outside.InCluster) for made in registry.made(campaign_id))


@dataclass(slots=True, kw_only=True)
class _Search:
    """Lists kinds, and keeps which of them may not be."""

    api: KubernetesApi
    namespace: str
    found: list[k8s.Manifest] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Return the place in words."""
        name = self.api.context
        return f"the namespace {self.namespace} of {name}" if self.namespace else f"all of {name}"

    def list(self, kind: k8s.Kind) -> None:
        """Find what carries the label of one kind."""
        if not self.api.knows(kind):
            return
        try:
            self.found += self.api.list(kind, self.namespace, _LABELS)
        except PrivilegeError:
            self.unseen.append(kind.name)
            return
        self.seen.append(kind.name)

    def list_around(self) -> None:
        """Find the namespace itself, and what has none and is of a campaign that was found."""
        try:
            space = self.api.read(k8s.ObjectRef(kind=k8s.NAMESPACE, name=self.namespace))
        except PrivilegeError:
            self.unseen.append(k8s.NAMESPACE.name)
            space = None
        if space is not None and _LABELS.items() <= _labels(space).items():
            self.found.append(space)
        campaigns = {_labels(each).get(k8s.CAMPAIGN) for each in self.found}
        for kind in (k8s.CLUSTER_ROLE_BINDING, k8s.CLUSTER_ROLE):
            try:
                listed = self.api.list(kind, "", _LABELS)
            except PrivilegeError:
                if campaigns:
                    self.unseen.append(kind.name)
                continue
            self.found += [each for each in listed if _labels(each).get(k8s.CAMPAIGN) in campaigns]


def _turn(manifest: k8s.Manifest) -> int:
    return [kind.name for kind in _KINDS].index(manifest["kind"])


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
    return Labelled(
        campaign=campaign,
        things=tuple(things),
        since=min(str(each["metadata"].get("creationTimestamp") or "") for each in manifests),
        running=tuple(k8s.ref_of(each).label for each in manifests if _is_running(each)),
        record=next((k8s.ref_of(each) for each in manifests if _is_record(each)), None),
    )


def _is_running(manifest: k8s.Manifest) -> bool:
    status = manifest.get("status") or {}
    is_pod = manifest["kind"] == k8s.POD.name and status.get("phase") in {"Pending", "Running"}
    return is_pod or (manifest["kind"] == k8s.JOB.name and bool(status.get("active")))


def _is_record(manifest: k8s.Manifest) -> bool:
    return manifest["kind"] == k8s.CLAIM.name and _labels(manifest).get(k8s.ROLE) == k8s.RUNNER


def _labels(manifest: k8s.Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
    return labels


def undo_labelled(found: Labelled, api: KubernetesApi, doors: Doors) -> None:
    """Remove what a campaign has in a cluster; one that fails does not keep the others.

    Raises:
        LeftBehindError: Something is still there.
    """
    raise_all(
        troubles_of(lambda thing: undo_in_cluster(thing, api, clock=doors.clock), found.things)
    )
