"""A campaign that runs in a cluster, from here: ``run`` makes it, ``attach`` finds it.

Step by step: find, follow, fetch, report, remove. It is removed when nothing that it changed waits
for its record.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign import in_cluster
from steelyard.campaign.in_cluster import Fetch, Fetched, Follower, JobAsked, fetch
from steelyard.campaign.run import session
from steelyard.cli import campaigns
from steelyard.cli.campaigns import Gate, keep_noise, print_json, show, write_reports
from steelyard.cli.kubernetes import manifest_text
from steelyard.cli.options import at_terminal, require_form
from steelyard.cli.progress import LiveProgress, progress_for
from steelyard.core import wording
from steelyard.core.campaign import CampaignRecord, Status
from steelyard.core.places import KubernetesPlace
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes.job import RECORD_SIZE, JobPlan, Stand, Standing, record_files
from steelyard.record.directory import read_standing
from steelyard.targets.assembly import RegistryLedger
from steelyard.targets.kubernetes_site import KubernetesSite, find_site
from steelyard.targets.whereabouts import lacking

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
    form: str = "text"
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
    campaign = _Attached(jobs.choose(found, options.name), api, doors, options)
    if options.remove:
        return campaign.remove()
    if options.resume:
        in_cluster.resume(campaign.plan, api, doors.clock)
        _tell(f"A new Job goes on with campaign {campaign.plan.campaign_id}.")
    return campaign.attend()


@dataclass(frozen=True, slots=True)
class _Attached:
    """A campaign in a cluster, and what is wanted of it here."""

    plan: JobPlan
    api: KubernetesApi
    doors: Doors
    options: AttachOptions

    @property
    def path(self) -> Path:
        """Return where the record goes here."""
        return self.options.out or Path("campaigns") / self.plan.campaign_id

    def again(self, *words: str) -> str:
        """Return the command that attaches to it."""
        there = ["--context", self.options.context] if self.options.context else []
        named = ["steelyard", "attach", self.plan.campaign_id, "-n", self.plan.namespace]
        return " ".join([*named, *there, *words])

    def attend(self) -> int:
        """Follow it, fetch and report it; return its exit code."""
        gate = self.options.gate
        with self.leaving(f"campaign {self.plan.campaign_id} goes on in the cluster"):
            if self.options.fetch:  # how it stands
                ended = jobs.standing(self.plan, self.api)
            else:
                with progress_for(sys.stderr, quiet=self.options.quiet) as progress:
                    told = progress.say if isinstance(progress, LiveProgress) else _tell
                    clock = self.doors.clock
                    ended = Follower(self.plan, self.api, clock, progress, told).follow()
        if ended.stand is Stand.FAILED:
            why = f": {ended.reason}" if ended.reason else ""
            _tell(f"The campaign ended early{why}")
            with suppress(wording.SteelyardError):  # its pod may be gone
                last = self.api.logs(ended.last, lines=_LAST_LINES) if ended.last else ""
                for line in last.splitlines():
                    _tell(f"  {line}")
        with self.leaving("what came of the record is kept"):
            fetched = self._fetch(self.path, _tell)
        came = wording.format_bytes(fetched.came_bytes)
        _tell(f"The record is in {self.path}: {fetched.files} files, {came} brought and verified.")
        analysis, failed = self._report(fetched.record)
        code = self._conclude(ended, fetched.record)
        if code == wording.ExitCode.DONE and fetched.record.status.is_finished:
            return campaigns.ended(gate.code(analysis), failed)
        if ended.is_over:
            why = ended.reason or "see its record"
            early = wording.MeasurementError(f"the Job ended early: {why}")
            gate.break_off(early, fetched.record.experiment.name, analysis)
        return campaigns.ended(code, failed)

    @contextmanager
    def leaving(self, what_stays: str) -> Iterator[None]:
        """Say on Ctrl-C what stays, and how to come back."""
        try:
            yield
        except wording.Interrupted as stopped:
            raise wording.Interrupted(
                f"{stopped.message}; {what_stays}", hint=f"Come back to it: {self.again()}"
            ) from stopped

    def _fetch(self, target: Path, told: Callable[[str], None]) -> Fetched:
        asked = Fetch(
            campaign_id=self.plan.campaign_id, target=target, command=self.again(), told=told
        )
        clock = self.doors.clock
        return fetch(asked, partial(record_files, self.plan, self.api, clock, told), clock)

    def _report(self, record: CampaignRecord) -> tuple[CampaignAnalysis, OSError | None]:
        """Write the reports anew, show what there is to show; return it, and why it was not."""
        analysis, failed = analyse(record), None
        if analysis.blocks or record.status is not Status.RUNNING:
            write_reports(record, analysis, self.path)
        if analysis.blocks or self.options.form != "text":
            failed = campaigns.unprinted(lambda: show(analysis, self.path, self.options.form))
        if record.status.is_finished:
            keep_noise(analysis)
        return analysis, failed

    def _conclude(self, ended: Standing, record: CampaignRecord) -> int:
        """Offer to remove what is not needed any more, or say how to go on; return the code."""
        if not ended.is_over:
            _tell("This is what there is so far; the campaign goes on in the cluster.")
            return wording.ExitCode.DONE
        if not record.status.is_finished:
            _tell(f"Go on with it there: {self.again('--resume')}")
        elif self._agrees("Remove its Job, account and volume from the cluster?"):
            self._remove(self.path)
            in_cluster.release(self.path)
        else:
            _tell(f"It stays in the cluster; remove it: {self.again('--remove')}")
        return in_cluster.code_of(ended, record)

    def _agrees(self, question: str) -> bool:
        """Return whether to go on; where nobody can be asked, only --yes says so."""
        return self.options.yes or (at_terminal() and click.confirm(question, err=True))

    def remove(self) -> int:
        """Remove a campaign whose record nobody wants, after a look into it.

        Raises:
            LeftBehindError: It changed something of others that is not as it was.
        """
        name, stand = self.plan.campaign_id, jobs.standing(self.plan, self.api).stand
        if not self.options.yes and not at_terminal():
            raise wording.InputError(
                f"campaign {name} was not removed: nobody was there to ask", hint="Say --yes."
            )
        if self._agrees(f"Remove campaign {name} ({stand}) with its record in the cluster?"):
            with tempfile.TemporaryDirectory(prefix="steelyard-") as place:
                record = None  # of one that wrote none, or whose image does not run
                with suppress(wording.PreflightError, wording.RecordError, wording.TargetError):
                    self._fetch(Path(place), lambda _: None)
                    record = Path(place)
                self._remove(record)
        return wording.ExitCode.DONE

    def _remove(self, record: Path | None) -> None:
        """Remove all of it, if nothing of others waits for the record to be put back."""
        changed = [
            made.name
            for made in (read_standing(record).left if record else ())
            if made.resource == "on-server" or getattr(made.thing, "before", None)
        ]
        if changed:
            raise wording.LeftBehindError(
                f"the campaign changed {', '.join(dict.fromkeys(changed))} and did not put that"
                " back; its record says how to",
                hint=f"Let it do so, then remove it: {self.again('--resume')}",
            )
        jobs.remove(self.plan, self.api, self.doors.clock)
        _tell("Nothing of it is left in the cluster.")


def _list(found: tuple[JobPlan, ...], api: KubernetesApi, options: AttachOptions) -> None:
    stands = [(plan, jobs.standing(plan, api)) for plan in found]
    require_form(options.form, "a list of campaigns in a cluster")
    if options.form == "json":
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
class JobOptions(JobAsked):
    """What the command line says of the place, and of the Job.

    Attributes:
        as_job: In the cluster as a Job, or here; None: by where the servers are.
    """

    as_job: bool | None = None
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
    experiment = request.experiment
    if site is None:
        look = RegistryLedger()
        site = find_site(experiment, doors, look.campaign_id, look, place=place)
    image = in_cluster.look(options, site, _tell)
    plan = in_cluster.plan_job(options, session.new_id(path), image, site, long_runs_s)
    in_cluster.require_startable(plan, site.api)
    account, secrets = plan.account is not None, bool(plan.secrets)
    return ReadyJob(
        plan=plan,
        packed=in_cluster.packed(request, plan),
        api=site.api,
        told=(
            f"It runs as a Job in namespace {plan.namespace} of {site.api.context}",
            *in_cluster.sources(plan, image),
            *lacking(experiment, has_account=account, has_secrets=secrets),
        ),
    )


def run_as_job(job: ReadyJob, options: JobOptions, doors: Doors, attach: AttachOptions) -> int:
    """Make a Job, and attach to it unless told not to; return the exit code."""
    plan = job.plan
    jobs.make(plan, job.packed, job.api)
    campaign = _Attached(plan, job.api, doors, attach)
    way = campaign.again()
    if not attach.quiet:
        _tell(f"To come back to it: {way}")
    if not options.detach:
        return campaign.attend()
    with (
        campaign.leaving("the campaign is in the cluster"),
        progress_for(sys.stderr, quiet=True) as progress,
    ):
        Follower(plan, job.api, doors.clock, progress, _tell).until_sent()
    name, namespace = plan.campaign_id, plan.namespace
    if attach.form == "json":
        print_json({"format": 1, "campaign": name, "namespace": namespace, "attach": way})
    else:
        click.echo(f"Campaign {name} runs in namespace {namespace}: {way}")
    return wording.ExitCode.DONE
