"""Campaigns that run inside a cluster: packed, started as a Job, followed by the journal, fetched.

A packed campaign is the resolved experiment with every script in it. Nothing that it refers to has
to be there, no name is looked up again, and the seed is drawn: what was checked here is what runs
there. What the journal tells is told again here; a way to a record that breaks is opened again.

A record is checksummed, resumable, and read before it is believed. Files come whole: each is put
together beside its place and moved there when its checksum fits. The journal comes last, so that
what it tells of is there whenever it is.
"""

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from pydantic import TypeAdapter, ValidationError

import steelyard
from steelyard.answers.campaign import analyse
from steelyard.campaign.run.runner import Progress
from steelyard.campaign.run.session import Request
from steelyard.core import wording
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.experiment import Experiment
from steelyard.core.kubernetes import ACCOUNT, CLAIM, NAMESPACE, SECRET, ContainerRef, ObjectRef
from steelyard.core.measurement import Run, SustainedRun
from steelyard.core.target import Target
from steelyard.gateways.files import make_directory, remove_tree, translated, write_text
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.process import Runner
from steelyard.places.kubernetes import job, own_install
from steelyard.places.kubernetes.belongings import object_name
from steelyard.places.kubernetes.own_install import PIPS_OWN, JobImage
from steelyard.places.kubernetes.permissions import Permission, Purpose, needed
from steelyard.record import journal
from steelyard.record.directory import COPY_NOTE, copied, read_campaign
from steelyard.targets.kubernetes_site import (
    LOAD_FROM_OUTSIDE,
    KubernetesSite,
    asked_once,
    deadline_s,
    require_allowed,
    server_purposes,
)
from steelyard.targets.rds import rents

# A ConfigMap holds 1 MiB (Kubernetes documentation, "ConfigMaps"); its other parts need little.
MOST_BYTES: Final = 1024**2 - 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    version: str
    request: Request


_PACKED: Final = TypeAdapter(_Packed)


def pack(request: Request) -> str:
    """Return a request as a ConfigMap takes it: compressed and in base64.

    Raises:
        InputError: It is too large for one.
    """
    packed = _Packed(version=steelyard.__version__, request=request)
    content = base64.b64encode(gzip.compress(_PACKED.dump_json(packed), mtime=0))
    if len(content) > MOST_BYTES:
        raise wording.InputError(
            f"the experiment with its scripts takes {wording.format_bytes(len(content))} when it is"
            f" compressed, and a ConfigMap has room for {wording.format_bytes(MOST_BYTES)}",
            hint="Have SQL make the data (generate_series), or run it from here, without"
            " --in-cluster.",
        )
    return content.decode()


def unpack(path: Path) -> Request:
    """Return the request in a file.

    Raises:
        InputError: It is none, or one of another version.
    """
    with translated(path, wording.InputError):
        content = path.read_bytes()
    try:
        packed = _PACKED.validate_json(gzip.decompress(content))
    except (ValidationError, OSError, EOFError) as error:
        raise wording.InputError(
            f"{path} holds no campaign that this version of Steelyard ({steelyard.__version__})"
            " can read",
            hint="Name an image with the version that started it: --image.",
        ) from error
    if packed.version != steelyard.__version__:
        raise wording.InputError(
            f"the campaign was packed by Steelyard {packed.version}, and this is"
            f" {steelyard.__version__}",
            hint="Name an image with that version: --image.",
        )
    return packed.request


def at_home(experiment: Experiment, namespace: str) -> Experiment:
    """Return an experiment as its Job runs it: in the cluster that it is in.

    Targets that name no namespace are in the Job's, where its account may work.
    """
    return replace(
        experiment,
        configurations=tuple(
            replace(configuration, target=_at_home(configuration.target, namespace))
            for configuration in experiment.configurations
        ),
    )


def _at_home(target: Target, namespace: str) -> Target:
    home = target.home
    if home is None:
        return target
    return target.at(replace(home, context=None, namespace=home.namespace or namespace))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAsked:
    """What the user says of the Job.

    Attributes:
        image: With Steelyard of this version, or with Python, where it is then installed; None:
            Python's own.
        index_url: That pods install from; None: pip's own.
        secrets: Names of Secrets that are there, whose keys are variables of the campaign.
        service_account: That is there; None: one of its own.
        storage_class: Of the volume for the record; None: the cluster's default.
        record_size: Of that volume.
    """

    image: str | None = None
    index_url: str | None = None
    secrets: tuple[str, ...] = ()
    service_account: str | None = None
    storage_class: str | None = None
    record_size: str = job.RECORD_SIZE


def look(asked: JobAsked, site: KubernetesSite, told: Callable[[str], None]) -> JobImage:
    """Return what the Job's image is to it, once a pod of it has shown that.

    Raises:
        PreflightError: The image is not found, or has too little; pods reach no index; or the load
            has no node.
    """
    site.require_node_for_load()
    image = asked.image or own_install.PYTHON_IMAGE

    def ask(processes: Runner) -> JobImage:
        found = own_install.look(image, processes)
        # A Secret may name an index of its own.
        if not found.is_complete and (asked.index_url or not asked.secrets):
            own_install.require_index(image, asked.index_url, processes)
        return found

    return asked_once((image, asked.index_url, asked.secrets), site, told, ask=ask)


_INSTALLED_BYTES: Final = 512 * 1024**2  # 302 MB were measured, and the record needs some


def plan_job(
    asked: JobAsked, campaign_id: str, image: JobImage, site: KubernetesSite, long_runs_s: float
) -> job.JobPlan:
    """Return the Job that a campaign will be.

    Its targets in Kubernetes share one place in one cluster. ``long_runs_s`` are the seconds of
    the runs after the last block, which come on top of the budget.

    Raises:
        InputError: The volume for the record has no room for Steelyard itself.
    """
    experiment, api, namespace = site.experiment, site.api, site.place.namespace
    makes_all = experiment.makes_all_in_kubernetes
    if namespace is None and not makes_all:
        namespace = api.namespace  # where the server is that is there already
    extras = (
        *(("aws",) if rents(experiment) else ()),
        *(("embedded",) if site.plan is None else ()),  # whose pgbench there is
    )
    if not image.is_complete and experiment.workers is not None:
        raise wording.InputError(
            f"the image {image.name} has no Steelyard, which pods of workers need",
            hint="Name one, made by the Containerfile: --image.",
        )
    if not image.is_complete and wording.parse_quantity(asked.record_size) < _INSTALLED_BYTES:
        raise wording.InputError(
            f"--record-size {asked.record_size}: Steelyard is installed on that volume and takes"
            " about 300 MB of it",
            hint=f"Say 1Gi or more; {job.RECORD_SIZE} is taken without the option.",
        )
    plan = job.JobPlan(
        campaign_id=campaign_id,
        namespace=namespace or object_name(campaign_id),
        makes_namespace=makes_all and (namespace is None or _is_absent(namespace, api)),
        image=image.name,
        installs=not image.is_complete,
        extras=extras,
        load=_load(site),
        account=asked.service_account,
        purposes=(
            *server_purposes(experiment),
            *((Purpose.WORKERS,) if experiment.workers is not None else ()),
        ),
        storage=asked.record_size,
        storage_class=asked.storage_class,
        index_url=asked.index_url,
        secrets=asked.secrets,
        deadline_s=deadline_s(experiment, long_runs_s),
    )
    return replace(plan, withheld=_withheld(plan, api))


def sources(plan: job.JobPlan, image: JobImage) -> Iterator[str]:
    """Yield where Steelyard and the programs of the load come from, in a sentence each."""
    if image.is_complete:
        yield f"Steelyard {image.steelyard} is in the image {image.name}"
    else:
        yield (
            f"Steelyard {steelyard.__version__} is sent to a pod of the image {image.name} (Python"
            f" {'.'.join(map(str, image.python))}) and installed from"
            f" {plan.index_url or PIPS_OWN}"
        )
    if plan.load:
        yield f"The load's programs come from {plan.load.image}"
    elif plan.installs:
        yield (
            "The load's programs come from the index: a pgbench without TLS, and no"
            " redis-benchmark; for others name an image made by the Containerfile (--image)"
        )


def _load(site: KubernetesSite) -> job.JobLoad | None:
    """Return what the load asks of the Job's pod."""
    plan = site.plan
    if plan is None:
        return None
    pod = plan.place.generators
    # What the campaign makes is labelled by its own name, not by that of the look.
    there = {} if site.experiment.made_targets else plan.away_from
    return job.JobLoad(
        image=plan.image,
        resources=pod.resources,
        node_selector=pod.node_selector,
        tolerations=pod.tolerations,
        is_apart=plan.is_apart,
        away_from=tuple(there.items()),
        away_from_nodes=plan.away_from_nodes if plan.is_apart else (),
    )


def _is_absent(namespace: str, api: KubernetesApi) -> bool:
    return api.read(ObjectRef(kind=NAMESPACE, name=namespace)) is None


def _withheld(plan: job.JobPlan, api: KubernetesApi) -> tuple[str, ...]:
    """Return what this account cannot give to the Job's, because it may not do it itself.

    Kubernetes refuses a role that allows more than who makes it may (RBAC documentation, "Privilege
    escalation prevention"). What no campaign runs without was looked at before.
    """
    return tuple(
        each.resource
        for each in plan.permissions
        if each.optional and not all(_may(verb, each, plan, api) for verb in each.verbs)
    )


def require_startable(plan: job.JobPlan, api: KubernetesApi) -> None:
    """Look whether this account may start a campaign as a Job and read its record.

    Raises:
        PreflightError: A Secret or ServiceAccount that the Job is to have is not there.
        PrivilegeError: With everything that it may not.
    """
    named = [(SECRET, name) for name in plan.secrets]
    named += [(ACCOUNT, plan.account)] if plan.account else []
    for kind, name in named:
        ref = ObjectRef(kind=kind, name=name, namespace=plan.namespace)
        with suppress(wording.PrivilegeError):  # the Job's pod may see it all the same
            if plan.makes_namespace or api.read(ref) is None:
                raise wording.PreflightError(
                    f"{ref.label} is not there, and the Job is to have it",
                    hint="Name the namespace that has it with -n, or make it there.",
                )
    asked = {Purpose.RUNNER} if plan.account else {Purpose.RUNNER, Purpose.RUNNER_ACCOUNT}
    missing = []
    for each in needed(asked):
        verbs = tuple(verb for verb in each.verbs if not _may(verb, each, plan, api))
        if each.purpose in asked and verbs:
            missing.append((each, verbs))
    require_allowed(tuple(missing), api, plan.namespace)


def _may(verb: str, permission: Permission, plan: job.JobPlan, api: KubernetesApi) -> bool:
    where = "" if permission.cluster_wide else plan.namespace
    return api.allowed(verb, permission.kind, where, permission.part)


def packed(request: Request, plan: job.JobPlan) -> str:
    """Return a campaign as its Job takes it; only the look came from outside, not the load.

    Raises:
        InputError: It is too large.
    """
    return pack(
        replace(
            request,
            experiment=at_home(request.experiment, plan.namespace),
            campaign_id=plan.campaign_id,
            findings=tuple(each for each in request.findings if each.code != LOAD_FROM_OUTSIDE),
        )
    )


def resume(plan: job.JobPlan, api: KubernetesApi, clock: Clock) -> None:
    """Make a new Job that goes on with a campaign whose Job ended early.

    Raises:
        PreflightError: Its Job is at work, or it was finished.
        TargetError: Its record is gone.
    """
    now = job.standing(plan, api)
    if not now.is_over or now.stand is job.Stand.DONE:
        raise wording.PreflightError(
            f"campaign {plan.campaign_id} is {now.stand}", hint="Attach without --resume."
        )
    job.make_again(plan, api, clock)


def visible(api: KubernetesApi) -> str:
    """Return where to look for campaigns: everywhere (empty), or where this account may look."""
    return "" if api.allowed("list", CLAIM) else api.namespace


def code_of(ended: job.Standing, record: CampaignRecord) -> wording.ExitCode:
    """Return the exit code of a campaign that is over; that of its pod, where it is known."""
    if ended.exit_code in set(wording.ExitCode):
        return wording.ExitCode(ended.exit_code)
    if record.status.is_finished:
        return wording.ExitCode.DONE
    return (
        wording.ExitCode.INTERRUPTED
        if record.status is Status.INTERRUPTED
        else wording.ExitCode.MEASUREMENT
    )


def release(copy: Path) -> None:
    """Make a copy the record itself: nothing else is left of the campaign."""
    (copy / COPY_NOTE).unlink(missing_ok=True)


_PAUSE_S: Final = 5.0  # each look starts a short program in the Job's pod
_PIECE_BYTES: Final = 1024**2
_STUCK_S: Final = 300.0  # with a reason not to run; a guess: a large image takes a few minutes


def _named(run: Run | SustainedRun) -> str:
    return f"{run.configuration}, {run.cell.workload}, {run.cell.load.label}"


class Follower:
    """Follows one campaign until its Job is over, across lost connections.

    ``progress`` hears what the journal tells, ``told`` what is to say of the Job and of the
    connection, each once.
    """

    def __init__(
        self,
        plan: job.JobPlan,
        api: KubernetesApi,
        clock: Clock,
        progress: Progress,
        told: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._api = api
        self._clock = clock
        self._told = told
        self._progress = progress
        self._tail = journal.JournalTail("the journal in the cluster")
        self._lines: list[journal.Line] = []
        self._read_bytes = 0
        self._said = self._stage = ""
        self._sent_to: set[str] = set()
        self._stuck_since: float | None = None

    def follow(self) -> job.Standing:
        """Return how the Job ended.

        Raises:
            TargetError: It cannot begin; it waits in the cluster until its deadline.
            RecordError: Its journal is damaged.
        """
        return self._until(lambda _: False)

    def until_sent(self) -> None:
        """Return when its pod needs nothing from here any more.

        Raises:
            TargetError: It cannot begin; it waits in the cluster until its deadline.
        """
        if self._plan.installs:
            self._until(lambda now: bool(self._lines) or self._is_sent_to(now.pod))

    def _until(self, enough: Callable[[job.Standing], bool]) -> job.Standing:
        """Return how the Job stands, once that is enough or it is over."""
        while True:
            try:
                now = self._look()
            except (wording.TargetError, wording.MeasurementError) as error:
                self._say(f"{error.message}; the campaign goes on there, trying again")
            else:
                if now.is_over or enough(now):
                    return now
                self._require_beginning(now)
            self._clock.sleep(_PAUSE_S)

    def _look(self) -> job.Standing:
        now = job.standing(self._plan, self._api)
        if now.pod is None:
            if now.reason:
                self._say(f"it waits: {now.reason}")
            return now
        files = job.RecordFiles(self._api, now.pod, job.RECORD)
        while True:
            piece = job.Piece(name=job.JOURNAL, offset=self._read_bytes, size_bytes=_PIECE_BYTES)
            (content,) = files.read([piece])
            self._hear(content)
            if len(content) < _PIECE_BYTES:
                break
        # Beside a campaign that has begun nothing is sent: that would cost CPU time of its pod.
        if self._plan.installs and not self._lines and not self._is_sent_to(now.pod):
            own_install.send(self._api, now.pod, job.INSTALLED)
            self._sent_to.add(now.pod.pod)
        if not any(isinstance(line.entry, journal.Planned) for line in self._lines):
            self._tell_stage(now.pod)
        self._said = ""
        return now

    def _is_sent_to(self, pod: ContainerRef | None) -> bool:
        return pod is not None and pod.pod in self._sent_to

    def _hear(self, piece: bytes) -> None:
        """Take the next piece of the journal, and tell what it tells as the campaign itself did."""
        self._read_bytes += len(piece)
        new = self._tail.feed(piece)
        self._lines += new
        for line in new:
            self._tell(line)
        ended = [line.entry for line in new if isinstance(line.entry, journal.BlockEnded)]
        if any(entry.outcome.complete for entry in ended):
            analysis = analyse(journal.replay(self._lines))
            self._progress.looked(analysis, elapsed_s=self._lines[-1].elapsed_s)

    def _tell(self, line: journal.Line) -> None:
        entry = line.entry
        if isinstance(entry, journal.Planned):
            self._progress.planned(entry.plan, elapsed_s=line.elapsed_s)
        elif isinstance(entry, journal.BlockStarted):
            self._progress.run_started(block=entry.index, label="begins")
        elif isinstance(entry, journal.RunFinished):
            self._progress.run_started(block=entry.run.block, label=f"{_named(entry.run)} is done")
        elif isinstance(entry, journal.SustainedFinished):
            self._progress.stage(f"the long run of {_named(entry.run)} is done")
        elif isinstance(entry, journal.BlockEnded):
            self._progress.block_ended(entry.outcome)
        elif isinstance(entry, journal.Resumed):
            self._progress.stage("it goes on after an interruption")

    def _tell_stage(self, pod: ContainerRef) -> None:
        """Tell what the campaign said last; the steps before the plan are not in its journal."""
        try:
            said = self._api.logs(pod, lines=1).strip().removesuffix(" ...")
        except wording.PrivilegeError:
            return
        if said and said != self._stage:
            self._stage = said
            self._progress.stage(said)

    def _require_beginning(self, now: job.Standing) -> None:
        """Raise when something has kept the Job from running for minutes.

        Raises:
            TargetError: With what the cluster says.
        """
        if now.stand is not job.Stand.WAITING or not now.reason:
            self._stuck_since = None
            return
        since = self._stuck_since = self._stuck_since or self._clock.monotonic()
        if self._clock.monotonic() - since > _STUCK_S:
            raise wording.TargetError(
                f"campaign {self._plan.campaign_id} does not begin: {now.reason}",
                hint="Mend it and attach again, or remove it:"
                f" steelyard attach {self._plan.campaign_id} --remove",
            )

    def _say(self, text: str) -> None:
        if text != self._said:
            self._told(text)
        self._said = text


_PATIENCE_S: Final = 900.0  # without any answer; a guess: a laptop changes its network


class Source(Protocol):
    """Where a record is."""

    def listed(self) -> tuple[job.RecordFile, ...]:
        """Return its files with their checksums, the journal first."""
        ...

    def read(self, pieces: Sequence[job.Piece]) -> tuple[bytes, ...]:
        """Return pieces of them."""
        ...


_MOST_BYTES: Final = 2 * 1024**2  # of one request; the answer is a third longer
_MOST_PIECES: Final = 40  # they stand in the request's URL, and some proxies take 8 KiB of it
_TRIES: Final = 3  # of what changes while it is brought
_PARTS: Final = ".parts"  # files that are not whole yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A record that is here.

    Attributes:
        record: What it tells.
        files: How many it has.
        came_bytes: What had to be brought; the rest was here.
    """

    record: CampaignRecord
    files: int
    came_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One record to bring here.

    Attributes:
        campaign_id: That it must be of.
        target: Directory, new or of an earlier fetch.
        command: That brings it again, noted in the directory.
        told: Hears how it goes.
    """

    campaign_id: str
    target: Path
    command: str
    told: Callable[[str], None]


def fetch(
    asked: Fetch, opened: Callable[[], AbstractContextManager[Source]], clock: Clock
) -> Fetched:
    """Bring a record here, or what of it is not here yet; return it, verified.

    A way that breaks is ``opened`` again.

    Raises:
        RecordError: The directory holds something else, files change faster than they are brought,
            or what came is no record of this campaign.
        TargetError: The cluster cannot be reached for a long time.
    """
    _require_room(asked)
    came: list[int] = []
    answers, lost_s = -1, 0.0
    while True:
        try:
            with opened() as source:
                return _fetched(asked, source, came)
        except (wording.TargetError, wording.MeasurementError) as error:
            now_s = clock.monotonic()
            if len(came) != answers:
                answers, lost_s = len(came), now_s
                asked.told(f"{error.message}; trying again")
            elif now_s - lost_s > _PATIENCE_S:
                hint = "What came is kept; attach again, and it goes on there."
                raise wording.TargetError(error.message, hint=hint) from error
        clock.sleep(_PAUSE_S)


def _fetched(asked: Fetch, source: Source, came: list[int]) -> Fetched:
    """Return a record once it is here; ``came`` gets the bytes of each piece."""
    spoilt = []
    for _ in range(_TRIES):
        listed = source.listed()
        _require_journal(listed, asked)
        missing = [each for each in listed if not _is_here(asked.target / each.name, each)]
        spoilt = _bring(missing, asked.target, source, came)
        if not spoilt:
            return Fetched(record=_verified(asked), files=len(listed), came_bytes=sum(came))
    raise wording.RecordError(
        f"the checksum of {', '.join(spoilt)} does not fit, however often it is brought",
        hint="Attach again when the campaign is at its end.",
    )


def _require_room(asked: Fetch) -> None:
    """Make the directory, or see that it is of an earlier fetch, and note where it comes from.

    Raises:
        RecordError: It holds something else.
    """
    target, note = asked.target, asked.target / COPY_NOTE
    occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if occupied and copied(target, "campaign") != asked.campaign_id:
        raise wording.RecordError(
            f"{target} exists and is no copy of campaign {asked.campaign_id}",
            hint="Name another directory with --dir.",
        )
    make_directory(target)
    text = json.dumps({"campaign": asked.campaign_id, "command": asked.command}, indent=1)
    write_text(note, f"{text}\n", error_type=wording.RecordError)


def _require_journal(listed: Sequence[job.RecordFile], asked: Fetch) -> None:
    if job.JOURNAL not in {each.name for each in listed}:
        raise wording.RecordError(
            f"campaign {asked.campaign_id} has written nothing yet",
            hint="Attach again when it has begun. One that failed begins anew by `steelyard attach"
            f" {asked.campaign_id} --resume`, and is removed by --remove.",
        )


def _is_here(path: Path, wanted: job.RecordFile) -> bool:
    whole = path.is_file() and path.stat().st_size == wanted.size_bytes
    return whole and _digest(path) == wanted.sha256


def _digest(path: Path) -> str:
    with translated(path, wording.RecordError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bring(
    missing: Sequence[job.RecordFile], target: Path, source: Source, came: list[int]
) -> list[str]:
    """Bring files, the journal last; return the names of those that changed on the way."""
    parts = target / _PARTS
    make_directory(parts)
    ordered = sorted(missing, key=lambda each: each.name == job.JOURNAL)
    by_name = {each.name: each for each in ordered}
    for each in ordered:
        _begin(each, parts, target)
    for batch in _batches(ordered, parts):
        for piece, content in zip(batch, source.read(batch), strict=True):
            part = _part(by_name[piece.name], parts)
            with translated(part, wording.RecordError), part.open("ab") as file:
                file.write(content)
            came.append(len(content))
    spoilt = [each.name for each in ordered if not _settled(each, parts, target)]
    if not spoilt:
        remove_tree(parts)
    return spoilt


def _part(wanted: job.RecordFile, parts: Path) -> Path:
    """Return where a file is put together: a place of its own for each name and content."""
    return parts / hashlib.sha256(f"{wanted.sha256} {wanted.name}".encode()).hexdigest()


def _begin(wanted: job.RecordFile, parts: Path, target: Path) -> None:
    """Begin a part where there is none; that of a journal with the shorter one that is here."""
    part, here = _part(wanted, parts), target / wanted.name
    if part.exists():
        return
    with translated(part, wording.RecordError):
        if wanted.name == job.JOURNAL and here.exists():
            shutil.copyfile(here, part)
        else:
            part.touch()


def _batches(ordered: Sequence[job.RecordFile], parts: Path) -> Iterator[list[job.Piece]]:
    """Yield the pieces that are not here yet, as many at once as one request takes."""
    batch: list[job.Piece] = []
    room = _MOST_BYTES
    for each in ordered:
        offset = _part(each, parts).stat().st_size
        while offset < each.size_bytes:
            size = min(room, each.size_bytes - offset)
            batch.append(job.Piece(name=each.name, offset=offset, size_bytes=size))
            offset, room = offset + size, room - size
            if not room or len(batch) == _MOST_PIECES:
                yield batch
                batch, room = [], _MOST_BYTES
    if batch:
        yield batch


def _settled(wanted: job.RecordFile, parts: Path, target: Path) -> bool:
    """Move a part to its place and return true; one that does not fit is thrown away."""
    part, place = _part(wanted, parts), target / wanted.name
    if _digest(part) != wanted.sha256:
        part.unlink()
        if wanted.name == job.JOURNAL:
            place.unlink(missing_ok=True)  # it was no beginning of the new one
        return False
    make_directory(place.parent)
    with translated(place, wording.RecordError):
        part.replace(place)
    return True


def _verified(asked: Fetch) -> CampaignRecord:
    """Return the campaign that the journal here tells of, every line of it checked.

    Raises:
        RecordError: It is damaged, or of another campaign.
    """
    record = read_campaign(asked.target)
    if record.campaign_id != asked.campaign_id:
        raise wording.RecordError(
            f"the record that came is of campaign {record.campaign_id}, not of {asked.campaign_id}",
            hint="Look at the volume in the cluster before anything is removed.",
        )
    return record
