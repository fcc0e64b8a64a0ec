"""A campaign that runs in a cluster, from here: ``run`` makes it, ``attach`` finds it.

Step by step: find, follow, fetch, report, remove. It is removed when nothing that it changed waits
for its record.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign import in_cluster
from steelyard.campaign.in_cluster import Fetch, Fetched, Follower, JobAsked, fetch
from steelyard.campaign.run import session
from steelyard.cli.campaigns import (
    Gate,
    keep_noise,
    print_json,
    rendered,
    show,
    write_reports,
)
from steelyard.cli.kubernetes import manifest_text
from steelyard.cli.options import at_terminal
from steelyard.cli.progress import LiveProgress, progress_for
from steelyard.core import wording
from steelyard.core.campaign import Status
from steelyard.core.target import KubernetesPlace
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import RECORD_SIZE, JobPlan, Stand, Standing, record_files
from steelyard.record.directory import read_standing
from steelyard.targets.assembly import RegistryLedger
from steelyard.targets.kubernetes_site import KubernetesSite, find_site
from steelyard.targets.whereabouts import lacking


def remove_unfetched(plan: JobPlan, api: KubernetesApi, doors: Doors, *, again: str) -> None:
    """Remove a campaign whose record nobody wants, after a look into it.

    Raises:
        LeftBehindError: It changed something of others that is not as it was.
    """
    with tempfile.TemporaryDirectory(prefix="steelyard-") as place:
        if _is_brought(plan, api, doors, Path(place)):
            _require_put_back(Path(place), again)
    jobs.remove(plan, api, doors.clock)


def _is_brought(plan: JobPlan, api: KubernetesApi, doors: Doors, place: Path) -> bool:
    """Return whether there is a record; a campaign that wrote none has changed nothing."""
    asked = Fetch(campaign_id=plan.campaign_id, target=place, command="", told=lambda _: None)
    try:
        fetch(asked, partial(record_files, plan, api, doors.clock, asked.told), doors.clock)
    except (
        wording.PreflightError,
        wording.RecordError,
        wording.TargetError,
    ):  # whose image does not run changed nothing
        return False
    return True


def _require_put_back(record: Path, again: str) -> None:
    changed = list(dict.fromkeys(_open(record)))
    if changed:
        raise wording.LeftBehindError(
            f"the campaign changed {', '.join(changed)} and did not put that back; its record says"
            " how to",
            hint=f"Let it do so, then remove it: {again}",
        )


def _open(record: Path) -> Iterator[str]:
    """Yield what is changed of things that do not go with the campaign's own objects."""
    for made in read_standing(record).left:
        if made.resource == "on-server" or bool(getattr(made.thing, "before", None)):
            yield made.name


_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """The command line of ``attach``."""

    name: str | None
    context: str | None
    namespace: str | None
    only_list: bool = False
    fetch: bool = False
    out: Path | None = None
    resume: bool = False
    remove: bool = False
    yes: bool = False
    as_json: bool = False
    quiet: bool = False
    gate: Gate = field(default_factory=Gate)


def attach(options: AttachOptions) -> int:
    """Do what the command line asks; return the exit code."""
    doors = system_doors()
    api = doors.kubernetes.connect(options.context)
    found = jobs.find(api, options.namespace or in_cluster.visible(api))
    if options.only_list:
        _list(found, api, options)
        return wording.ExitCode.DONE
    plan = jobs.choose(found, options.name)
    if options.remove:
        return _remove(plan, api, doors, options)
    if options.resume:
        in_cluster.resume(plan, api, doors.clock)
        _tell(f"A new Job goes on with campaign {plan.campaign_id}.")
    return attend(plan, api, doors, options)


def attend(plan: JobPlan, api: KubernetesApi, doors: Doors, options: AttachOptions) -> int:
    """Follow a campaign, fetch and report it; return its exit code."""
    with _leaving(plan, options, f"campaign {plan.campaign_id} goes on in the cluster"):
        ended = _followed(plan, api, doors, options)
    if ended.stand is Stand.FAILED:
        _tell(f"The campaign ended early: {ended.reason}" if ended.reason else "It ended early.")
        for line in _last_words(ended, api):
            _tell(f"  {line}")
    with _leaving(plan, options, "what came of the record is kept"):
        fetched = _fetch(plan, api, doors, options)
    analysis = _report(fetched, plan, options)
    code = _conclude(plan, api, doors, options, ended, fetched)
    if code == wording.ExitCode.DONE and fetched.record.status.is_finished:
        return options.gate.code(analysis)
    if ended.is_over:
        early = wording.MeasurementError(f"the Job ended early: {ended.reason or 'see its record'}")
        options.gate.break_off(early, fetched.record.experiment.name, analysis)
    return code


def _followed(plan: JobPlan, api: KubernetesApi, doors: Doors, options: AttachOptions) -> Standing:
    """Return how the campaign ended; with --fetch, how it stands."""
    if options.fetch:
        return jobs.standing(plan, api)
    with progress_for(sys.stderr, quiet=options.quiet) as progress:
        told = progress.say if isinstance(progress, LiveProgress) else _tell
        return Follower(plan, api, doors.clock, progress, told).follow()


@contextmanager
def _leaving(plan: JobPlan, options: AttachOptions, what_stays: str) -> Iterator[None]:
    """Say on Ctrl-C what stays, and how to come back."""
    try:
        yield
    except wording.Interrupted as stopped:
        raise wording.Interrupted(
            f"{stopped.message}; {what_stays}",
            hint=f"Come back to it: {again(plan, options.context)}",
        ) from stopped


def again(plan: JobPlan, context: str | None, *words: str) -> str:
    """Return the command that attaches to a campaign."""
    there = ["--context", context] if context else []
    named = ["steelyard", "attach", plan.campaign_id, "-n", plan.namespace]
    return " ".join([*named, *there, *words])


def _fetch(plan: JobPlan, api: KubernetesApi, doors: Doors, options: AttachOptions) -> Fetched:
    asked = Fetch(
        campaign_id=plan.campaign_id,
        target=directory_of(plan, options),
        command=again(plan, options.context),
        told=_tell,
    )
    fetched = fetch(asked, partial(record_files, plan, api, doors.clock, _tell), doors.clock)
    came = wording.format_bytes(fetched.came_bytes)
    _tell(f"The record is in {asked.target}: {fetched.files} files, {came} brought and verified.")
    return fetched


def directory_of(plan: JobPlan, options: AttachOptions) -> Path:
    """Return where the record goes here."""
    return options.out or Path("campaigns") / plan.campaign_id


def _report(fetched: Fetched, plan: JobPlan, options: AttachOptions) -> CampaignAnalysis:
    """Write the reports anew, show what there is to show, and return it."""
    path = directory_of(plan, options)
    analysis = analyse(fetched.record)
    if analysis.blocks or fetched.record.status is not Status.RUNNING:
        write_reports(fetched.record, analysis, path)
    if options.as_json:
        click.echo(rendered(analysis, "json"), nl=False)
    elif analysis.blocks:
        show(analysis, path)
    if fetched.record.status.is_finished:
        keep_noise(analysis)
    return analysis


def _conclude(
    plan: JobPlan,
    api: KubernetesApi,
    doors: Doors,
    options: AttachOptions,
    ended: Standing,
    fetched: Fetched,
) -> int:
    """Offer to remove what is not needed any more, or say how to go on; return the exit code."""
    if not ended.is_over:
        _tell("This is what there is so far; the campaign goes on in the cluster.")
        return wording.ExitCode.DONE
    if not fetched.record.status.is_finished:
        _tell(f"Go on with it there: {again(plan, options.context, '--resume')}")
        return in_cluster.code_of(ended, fetched.record)
    if _agrees("Remove its Job, account and volume from the cluster?", options):
        way = again(plan, options.context, "--resume")
        _require_put_back(directory_of(plan, options), way)
        jobs.remove(plan, api, doors.clock)
        in_cluster.release(directory_of(plan, options))
        _tell("Nothing of it is left in the cluster.")
    else:
        _tell(f"It stays in the cluster; remove it: {again(plan, options.context, '--remove')}")
    return in_cluster.code_of(ended, fetched.record)


def _last_words(ended: Standing, api: KubernetesApi) -> list[str]:
    """Return what it printed last, while its pod is there and may be heard."""
    if ended.last is None:
        return []
    try:
        return api.logs(ended.last, lines=_LAST_LINES).splitlines()
    except wording.SteelyardError:
        return []


def _agrees(question: str, options: AttachOptions) -> bool:
    """Return whether to go on; where nobody can be asked, only --yes says so."""
    if options.yes:
        return True
    return at_terminal() and click.confirm(question, err=True)


def _remove(plan: JobPlan, api: KubernetesApi, doors: Doors, options: AttachOptions) -> int:
    stand = jobs.standing(plan, api).stand
    question = f"Remove campaign {plan.campaign_id} ({stand}) with its record in the cluster?"
    if not options.yes and not at_terminal():
        raise wording.InputError(
            f"campaign {plan.campaign_id} was not removed: nobody was there to ask",
            hint="Say --yes.",
        )
    if _agrees(question, options):
        way = again(plan, options.context, "--resume")
        remove_unfetched(plan, api, doors, again=way)
        _tell("Nothing of it is left in the cluster.")
    return wording.ExitCode.DONE


def _list(found: tuple[JobPlan, ...], api: KubernetesApi, options: AttachOptions) -> None:
    stands = [(plan, jobs.standing(plan, api)) for plan in found]
    if options.as_json:
        entries = [
            {
                "campaign": plan.campaign_id,
                "namespace": plan.namespace,
                "stand": now.stand.value,
                "exit_code": now.exit_code,
                "reason": now.reason or None,
            }
            for plan, now in stands
        ]
        print_json({"format": 1, "campaigns": entries})
        return
    if not stands:
        click.echo("No campaign is in the cluster.")
    for plan, now in stands:
        why = f": {now.reason}" if now.reason else ""
        click.echo(f"{plan.campaign_id}  {now.stand} in {plan.namespace}{why}")


def _tell(text: str) -> None:
    click.echo(text, err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What the command line says of the place, and of the Job.

    Attributes:
        as_job: In the cluster as a Job, or here; None: by where the servers are.
    """

    as_job: bool | None = None
    image: str | None = None
    index_url: str | None = None
    secrets: tuple[str, ...] = ()
    service_account: str | None = None
    storage_class: str | None = None
    record_size: str = RECORD_SIZE
    detach: bool = False

    @property
    def switches(self) -> tuple[str, ...]:
        """Return what a repetition of the command needs of it."""
        if self.as_job is None:
            return ()
        if not self.as_job:
            return ("--here",)
        return ("--in-cluster", *(("--image", self.image) if self.image else ()))

    def require_none(self, why: str) -> None:
        """Refuse what is only for a Job, rather than pass over it.

        An image may be named by the environment, once for all campaigns.

        Raises:
            InputError: Something is.
        """
        named = {
            "--detach": self.detach,
            "--index-url": self.index_url,
            "--record-size": self.record_size != RECORD_SIZE,
            "--secret": self.secrets,
            "--service-account": self.service_account,
            "--storage-class": self.storage_class,
        }
        if given := [name for name, value in named.items() if value]:
            reason = f": {why}" if why else ""
            raise wording.InputError(
                f"{', '.join(given)}: for a Job, and this campaign runs here{reason}",
                hint="Leave it out, or run it in the cluster: --in-cluster.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyJob:
    """A Job that may be made.

    Attributes:
        told: Where it runs, what it runs, and what it lacks, in a sentence each.
    """

    plan: JobPlan
    packed: str
    api: KubernetesApi
    told: tuple[str, ...]

    @property
    def manifests(self) -> str:
        """Return what is made, for `kubectl apply -f -`."""
        return manifest_text(jobs.manifests_of(self.plan, self.packed))


def ready_job(
    request: session.Request,
    options: JobOptions,
    doors: Doors,
    *,
    path: Path,
    site: KubernetesSite | None,
    place: KubernetesPlace,
    long_runs_s: float,
) -> ReadyJob:
    """Return the Job of a campaign once everything is looked at that it needs.

    Args:
        request: The campaign, which may run.
        options: What the command line says of the Job.
        doors: To the outside.
        path: Where the record will be here.
        site: Where its servers are in a cluster; None where none is.
        place: Of the Job where no server is in a cluster.
        long_runs_s: Of the runs after the last block.

    Raises:
        SteelyardError: It cannot be made, or could not run.
    """
    asked = JobAsked(
        image=options.image,
        storage=options.record_size,
        storage_class=options.storage_class,
        account=options.service_account,
        index_url=options.index_url,
        secrets=options.secrets,
    )
    experiment = request.experiment
    if site is None:
        look = RegistryLedger()
        site = find_site(experiment, doors, look.campaign_id, look, place=place)
    ground = in_cluster.look(asked, site, _tell)
    plan = in_cluster.plan_job(
        asked,
        experiment,
        session.new_id(path),
        ground=ground,
        api=site.api,
        place=site.place,
        long_runs_s=long_runs_s,
    )
    in_cluster.require_startable(plan, site.api)
    account, secrets = plan.account is not None, bool(plan.secrets)
    return ReadyJob(
        plan=plan,
        packed=in_cluster.packed(request, plan),
        api=site.api,
        told=(
            f"It runs as a Job in namespace {plan.namespace} of {site.api.context}",
            *ground.told,
            *lacking(experiment, has_account=account, has_secrets=secrets),
        ),
    )


def run_as_job(job: ReadyJob, options: JobOptions, doors: Doors, attach: AttachOptions) -> int:
    """Make a Job, and attach to it unless told not to; return the exit code."""
    plan = job.plan
    jobs.make(plan, job.packed, job.api)
    way = again(plan, attach.context)
    if not attach.quiet:
        _tell(f"To come back to it: {way}")
    attach = replace(attach, name=plan.campaign_id, namespace=plan.namespace)
    if not options.detach:
        return attend(plan, job.api, doors, attach)
    with (
        _leaving(plan, attach, "the campaign is in the cluster"),
        progress_for(sys.stderr, quiet=True) as progress,
    ):
        Follower(plan, job.api, doors.clock, progress, _tell).until_sent()
    _say_where(way, plan.campaign_id, plan.namespace, as_json=attach.as_json)
    return wording.ExitCode.DONE


def _say_where(command: str, campaign_id: str, namespace: str, *, as_json: bool) -> None:
    if as_json:
        found = {"format": 1, "campaign": campaign_id, "namespace": namespace, "attach": command}
        print_json(found)
    else:
        click.echo(f"Campaign {campaign_id} runs in namespace {namespace}: {command}")
