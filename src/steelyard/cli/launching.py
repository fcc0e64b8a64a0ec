"""What ``run`` does, step by step: load, check, forecast, run, report.

The same steps serve ``estimate``, ``noise`` and ``capacity``. In a Kubernetes cluster ``--dry-run``
shows what would be made.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import get_terminal_size
from textwrap import TextWrapper
from typing import Final

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.outlook.section import outlook_document, outlook_json, shortfall
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.cleanup.leftovers import release_frozen, require_nothing_left
from steelyard.campaign.design.noise_profiles import profile_for
from steelyard.campaign.file import files
from steelyard.campaign.file.files import allow_existing
from steelyard.campaign.file.shortening import NOTICE
from steelyard.campaign.foresee import forecast as forecasts
from steelyard.campaign.foresee import planning
from steelyard.campaign.run import session
from steelyard.campaign.run.runner import Progress
from steelyard.cli import campaigns
from steelyard.cli.attaching import AttachOptions, JobOptions, ReadyJob, ready_job, run_as_job
from steelyard.cli.kubernetes import manifest_text
from steelyard.cli.options import at_terminal, require_form
from steelyard.cli.progress import TerminalOperator, dry_run_json, forecast_text, progress_for
from steelyard.core import wording
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding
from steelyard.core.linux import BlockDevice
from steelyard.core.places import KubernetesPlace
from steelyard.core.target import Here, RedisKubernetesTarget
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.files import cache_directory, free_bytes
from steelyard.gateways.host import is_of_this_machine
from steelyard.places.local.machine import capacity
from steelyard.record.directory import read_campaign, require_unused
from steelyard.targets.assembly import Assembly, assemble, placed, settled
from steelyard.targets.differences import same_twice
from steelyard.targets.kubernetes_site import campaign_manifests, place_in
from steelyard.targets.prices import load_prices
from steelyard.targets.rds import expiring, priced
from steelyard.targets.stack import require_huge_pages, require_shared_memory
from steelyard.targets.whereabouts import Whereabouts, place_for
from steelyard.tuning.facts.machine import device_fact
from steelyard.tuning.profiles import MachineFacts

_OPERATORS: Final = "default-of-the-operator"


def print_manifests(experiment: Experiment, assembly: Assembly, path: Path) -> None:
    """Print all objects that a campaign would make, for `kubectl apply -f -`."""
    site = assembly.site
    assert site is not None  # noqa: S101 - the caller saw that it is in a cluster
    namespace = site.namespace if site.is_there else None
    _print(experiment, path, namespace=namespace, where=f"in {site.api.context}")


def print_unseen(experiment: Experiment, path: Path, why: wording.SteelyardError) -> None:
    """Print the same without a cluster: as the file says, and what nobody could check.

    ``why`` is what kept a cluster from being asked.
    """
    place = place_in(experiment)
    named = [getattr(target, "image", None) for target in experiment.made_targets.values()]
    image = place.generators.image or next(filter(None, named), _OPERATORS)
    default = f" The image `{_OPERATORS}` stands for the one that the operator takes."
    click.echo(
        f"warning: {why.message}, so no cluster was asked. Not checked: the operator and its"
        " version, kinds and fields of objects, storage classes, settings, permissions, quotas, and"
        " room on the nodes; minutes and disk are not forecast."
        f"{default if image == _OPERATORS else ''}",
        err=True,
    )
    _print(experiment, path, namespace=place.namespace, where="in a cluster")


def _print(experiment: Experiment, path: Path, *, namespace: str | None, where: str) -> None:
    campaign_id = session.new_id(path)
    manifests = campaign_manifests(experiment, campaign_id, namespace=namespace)
    anew = "each start makes its own anew" if experiment.is_made_anew else "one is made at most"
    kind = "Redis server" if experiment.targets_of(RedisKubernetesTarget) else "Cluster"
    head = [
        f"What a campaign of this experiment makes {where}; its id is drawn anew.",
        f"A {kind} is here for each configuration; {anew}. The password is drawn at the start.",
    ]
    click.echo(manifest_text(manifests, head=head), nl=False)


def require_agreement(assembly: Assembly, *, yes: bool) -> None:
    """Ask before load is put into a namespace that was not made for the campaign.

    Raises:
        PreflightError: Nobody agreed.
    """
    site = assembly.site
    if site is None or site.is_own or yes:
        return
    fact = (
        f"the namespace {site.namespace} of {site.api.context} was not made for this campaign; the"
        " load will be felt by whatever else runs on its nodes"
    )
    if not at_terminal():
        raise wording.PreflightError(
            fact, hint="Add --yes if that is meant, or leave `namespace` out."
        )
    click.echo(f"warning: {fact}", err=True)
    if not click.confirm("Put the load there?", err=True):
        raise wording.PreflightError(
            "nothing was started", hint="Name another place with --namespace."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The command line of ``run``, or what another verb makes of its own.

    Attributes:
        source: What the experiment is called in messages.
        is_named: It is a file or preset, and nothing that a verb wrote.
    """

    source: str
    flags: tuple[str, ...]
    budget: str | None = None
    scheduler: str | None = None
    wait: str | None = None
    width: str | None = None
    trial: Path | None = None
    stop_early: str | None = None
    seed: int | None
    out: Path | None
    resume: Path | None = None
    overrides: tuple[str, ...] = ()
    short: bool = False
    dry_run: bool
    form: str
    quiet: bool
    verbose: bool = False
    yes: bool
    no_verdict: bool = False
    allow_existing: bool = False
    target: str | None = None
    memory: str | None = None
    cpus: str | None = None
    context: str | None = None
    namespace: str | None = None
    max_cost: float | None = None
    ttl: str | None = None
    prices: Path | None = None
    gate: campaigns.Gate = field(default_factory=campaigns.Gate)
    job: JobOptions = field(default_factory=JobOptions)
    is_named: bool = True

    @property
    def ttl_s(self) -> float | None:
        """Return how long made servers may live."""
        return None if self.ttl is None else wording.parse_duration_s(self.ttl)

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Return ``--override`` and the flags that stand for one."""
        named = {
            "target": self.target,
            "memory": self.memory,
            "cpus": self.cpus,
            "stop.budget": self.budget,
            "stop.width": self.width,
            "stop.early": self.stop_early,
            "generator.scheduler": self.scheduler,
            "generator.wait": self.wait,
            "gate": ", ".join(self.gate.conditions) or None,
        }
        return (
            *self.overrides,
            *(f"{path}={text}" for path, text in named.items() if text is not None),
        )

    @property
    def switches(self) -> tuple[str, ...]:
        """Return the other options that a repetition of the command needs."""
        given = {
            "--context": self.context,
            "--namespace": self.namespace,
            "--ttl": self.ttl,
            "--prices": None if self.prices is None else str(self.prices),
        }
        return (
            *(("--yes",) if self.yes else ()),
            *(("--no-verdict",) if self.no_verdict else ()),
            *(("--short",) if self.short else ()),
            *(("--allow-existing",) if self.allow_existing else ()),
            *(word for pair in given.items() if pair[1] is not None for word in pair),
            *self.job.switches,
        )


def run(options: RunOptions) -> None:
    """Run a new campaign and report it."""
    doors = real_doors()
    with options.gate.covering(options.source):
        loaded = load(options, doors)
    start(loaded, command_of(loaded, options), options, doors)


def real_doors() -> Doors:
    """Return the real doors, with whoever sits at the terminal."""
    return replace(system_doors(), operator=TerminalOperator())


def command_of(loaded: files.LoadedExperiment, options: RunOptions, *further: str) -> str:
    """Return the command line that runs an experiment again as it was asked for."""
    return session.command_line(
        loaded.source,
        loaded.experiment.seed,
        options.all_overrides,
        options.flags,
        switches=(*options.switches, *further),
    )


def start(
    loaded: files.LoadedExperiment,
    command: str,
    options: RunOptions,
    doors: Doors,
    *,
    told: Callable[[Assembly], None] = lambda _: None,
    answered: Callable[[Assembly], bool] = lambda _: False,
    agreed: Callable[[Assembly], None] = lambda _: None,
) -> None:
    """Check an experiment, run it as a new campaign and report it.

    ``answered`` returns whether no load is needed for an answer; ``told`` prints what is touched,
    behind the forecast; ``agreed`` is asked once everything is checked and told, and raises where
    nobody agrees.
    """
    options.gate.conditions_of(loaded.experiment, made=options.out)
    if options.job.detach:
        require_form(options.form, "a campaign that goes on by itself")
    with options.gate.covering(loaded.experiment.name):
        where = place_of(loaded.experiment, options, doors)
        release_frozen(doors, _told(options))
        checked = check(loaded, command, options, doors)
        path = _directory(loaded, options, doors)
        require_unused(path)
        if answered(checked.assembly):
            return
        forecasts.require_first_look(checked.expected, checked.request.experiment)
        job = job_of(checked, path, options, doors) if where.as_job else None
        foretell(checked, path, options)
        told(checked.assembly)
        _tell_place(where, job, options)
        agreed(checked.assembly)
        if job is not None:
            attach = AttachOptions(
                name=None,
                context=_context(loaded.experiment, options),
                namespace=None,
                out=path,
                yes=options.yes,
                form=options.form,
                quiet=options.quiet,
                gate=options.gate,
            )
            _exit(run_as_job(job, options.job, doors, attach))
            return

    def campaign(progress: Progress) -> CampaignAnalysis:
        try:
            return session.new_campaign(checked.request, path, doors, progress)
        except wording.SettingError as error:
            raise _located(loaded, error) from error

    _finish(campaign, path, options)


def place_of(experiment: Experiment, options: RunOptions, doors: Doors) -> Whereabouts:
    """Return where a campaign runs.

    Raises:
        InputError: It cannot run where the command line says, or that says what is not for there.
    """
    is_inside = False
    if experiment.is_in_kubernetes and options.job.as_job is None:
        # What keeps a cluster from being asked is told by the checks.
        with suppress(wording.SteelyardError):
            is_inside = doors.kubernetes.connect(_context(experiment, options)).is_inside
    where = place_for(
        experiment, as_job=options.job.as_job, is_inside=is_inside, is_own=is_of_this_machine
    )
    if not where.as_job:
        options.job.require_none(where.why)
    return where


def _context(experiment: Experiment, options: RunOptions) -> str | None:
    return place_in(experiment).context if experiment.is_in_kubernetes else options.context


def job_of(checked: "Checked", path: Path, options: RunOptions, doors: Doors) -> ReadyJob:
    """Return the Job of a campaign that is checked."""
    return ready_job(
        checked.request,
        options.job,
        doors,
        path=path,
        site=checked.assembly.site,
        place=KubernetesPlace(context=options.context, namespace=options.namespace),
        long_runs_s=checked.expected.sustained_most_s,
    )


def _foreseen_job(
    loaded: files.LoadedExperiment,
    assembly: Assembly,
    findings: tuple[Finding, ...],
    expected: Forecast,
    options: RunOptions,
    doors: Doors,
) -> ReadyJob:
    request = session.Request(
        experiment=loaded.experiment, text=loaded.text, command="", findings=findings
    )
    checked = Checked(request=request, assembly=assembly, expected=expected, warning="")
    return job_of(checked, _directory(loaded, options, doors), options, doors)


def _tell_place(where: Whereabouts, job: ReadyJob | None, options: RunOptions) -> None:
    """Say where the campaign runs, where there is a choice."""
    if options.quiet and not options.dry_run:
        return
    told = job.told if job is not None else (f"It runs here: {where.why}",) if where.why else ()
    for sentence in told:
        campaigns.tell(f"{sentence}.")


def _exit(code: int) -> None:
    if code:
        raise click.exceptions.Exit(code)


def _located(loaded: files.LoadedExperiment, error: wording.SettingError) -> wording.SteelyardError:
    """Return the error with the line of the setting that a server refused."""
    for configuration in loaded.experiment.configurations:
        for name, value in configuration.asked().items():
            if (name.lower(), value) == (error.setting, error.value):
                layer = configuration.server_layer.value
                path = ("configurations", configuration.name, layer, name)
                located = loaded.problem(path, error.message).located(loaded.source)
                return wording.TargetError(located, hint=error.hint)
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A campaign that may begin.

    Attributes:
        assembly: As it was looked at.
        warning: What its budget does not decide.
    """

    request: session.Request
    assembly: Assembly
    expected: Forecast
    warning: str


def check(
    loaded: files.LoadedExperiment, command: str, options: RunOptions, doors: Doors
) -> Checked:
    """Return the campaign of an experiment, once everything is checked that can be before it.

    Raises:
        SteelyardError: It cannot run.
    """
    assembly = assemble(loaded.experiment, doors, told=_told(options))
    experiment = settled(loaded.experiment, assembly)
    findings = session.check(loaded, assembly)
    if not (options.quiet and options.is_named):
        _warn_of_equals(loaded, assembly, options)
    _require_machine(experiment, doors)
    measured = profile_for(experiment)
    expected = forecasts.forecast_either(experiment, assembly, measured=measured)
    forecasts.require_disk(expected)
    _require_affordable(experiment, expected.most_s(experiment), options)
    require_agreement(assembly, yes=options.yes or options.dry_run)
    request = session.Request(
        experiment=experiment, text=loaded.text, command=command, findings=findings
    )
    # Of a preset nobody has said what is to be detected.
    is_ours = options.source.startswith(files.PRESET) and not options.short
    warning = "" if options.quiet or is_ours else _shortfall(options, experiment, assembly)
    return Checked(request=request, assembly=assembly, expected=expected, warning=warning)


def _require_machine(experiment: Experiment, doors: Doors) -> None:
    """Raise where this machine lacks what the experiment's own servers need."""
    if any(place.store for place in experiment.targets_of(Here).values()):
        doors.stores.require()
    require_shared_memory(experiment, doors.host)
    require_huge_pages(experiment, doors.host)


def foretell(checked: Checked, path: Path, options: RunOptions) -> None:
    """Print what is about to happen."""
    if not options.quiet:
        text = forecast_text(
            checked.request.experiment,
            checked.expected,
            path=path,
            warning=checked.warning,
            brief=not options.verbose,
        )
        _print_fitted(text, err=True)


def _print_fitted(text: str, *, err: bool) -> None:
    """Print lines that stay within a terminal, each below its name; a pipe gets them whole."""
    if (sys.stderr if err else sys.stdout).isatty():
        below = TextWrapper(
            width=max(get_terminal_size().columns, 60),
            subsequent_indent=" " * 13,
            break_long_words=False,
            break_on_hyphens=False,
        )
        text = "\n".join(map(below.fill, text.splitlines()))
    (campaigns.tell if err else click.echo)(text)


def resume(options: RunOptions, given: Sequence[str]) -> None:
    """Go on with a campaign and report it."""
    assert options.resume is not None  # noqa: S101 - the caller asked
    path = options.resume
    doors = real_doors()
    with options.gate.covering(path.name):
        session.require_resumable(path, given)
        options.gate.conditions_of(read_campaign(path).experiment)
        release_frozen(doors, _told(options))

    def campaign(progress: Progress) -> CampaignAnalysis:
        return session.resume_campaign(path, doors, progress, no_verdict=options.no_verdict)

    _finish(campaign, path, options)


def dry_run(options: RunOptions) -> None:
    """Show what would happen; nothing is started and nothing is written."""
    doors = real_doors()
    foresee(load(options, doors), options, doors)


def foresee(
    loaded: files.LoadedExperiment,
    options: RunOptions,
    doors: Doors,
    *,
    told: Callable[[Assembly], None] = lambda _: None,
) -> None:
    """Check an experiment and show its design, minutes and disk.

    Where a cluster would be asked and none answers, its objects are shown as the file has them.

    ``told`` prints what else is to be known, behind the forecast.
    """
    require_form(options.form, "a dry run")
    options.gate.conditions_of(loaded.experiment, made=options.out)
    where = place_of(loaded.experiment, options, doors)
    try:
        assembly = assemble(loaded.experiment, doors, told=_told(options))
    except (wording.UnconfiguredError, wording.TargetError) as error:
        if options.form == "json" or not _is_unseen(loaded.experiment, doors):
            raise
        print_unseen(loaded.experiment, _directory(loaded, options, doors), error)
        return
    findings = session.check(loaded, assembly)
    _warn_of_equals(loaded, assembly, options)
    _require_machine(loaded.experiment, doors)
    measured = profile_for(loaded.experiment)
    expected = forecasts.forecast_either(loaded.experiment, assembly, measured=measured)
    if options.form == "json":
        campaigns.print_json(dry_run_json(loaded.experiment, expected))
    else:
        warning = _shortfall(options, loaded.experiment, assembly)
        pods = assembly.site is not None
        text = forecast_text(loaded.experiment, expected, warning=warning)
        job = (
            _foreseen_job(loaded, assembly, findings, expected, options, doors)
            if where.as_job
            else None
        )
        _print_fitted(text, err=pods or where.as_job)
        told(assembly)
        _tell_place(where, job, options)
        if pods:  # what is printed can be handed to kubectl
            path = _directory(loaded, options, doors)
            print_manifests(loaded.experiment, assembly, path)
        if job is not None:
            click.echo(job.manifests, nl=False)
    forecasts.require_disk(expected)
    forecasts.require_first_look(expected, loaded.experiment)
    _require_affordable(loaded.experiment, expected.most_s(loaded.experiment), options)


def _require_affordable(experiment: Experiment, most_s: float, options: RunOptions) -> None:
    forecasts.require_affordable(experiment, most_s, most=options.max_cost, ttl_s=options.ttl_s)


def _directory(loaded: files.LoadedExperiment, options: RunOptions, doors: Doors) -> Path:
    return options.out or session.default_directory(loaded.experiment.name, doors)


def _is_unseen(experiment: Experiment, doors: Doors) -> bool:
    """Return whether all is made in a cluster that does not answer, or that nothing names."""
    if not experiment.makes_all_in_kubernetes:
        return False
    try:
        doors.kubernetes.connect(place_in(experiment).context).version()
    except wording.RefusedError:
        return False
    except (wording.UnconfiguredError, wording.TargetError):
        return True
    return False


def estimate(options: RunOptions) -> None:
    """Show what an experiment can decide and when; nothing is started and nothing is written."""
    loaded = load(options, doors := real_doors())
    where = place_of(loaded.experiment, options, doors)
    assembly = assemble(loaded.experiment, doors, told=_told(options))
    findings = session.check(loaded, assembly)
    _warn_of_equals(loaded, assembly, options)
    require_shared_memory(loaded.experiment, doors.host)
    job = None
    if where.as_job:
        expected = forecasts.forecast_either(loaded.experiment, assembly)
        job = _foreseen_job(loaded, assembly, findings, expected, options, doors)
    _tell_place(where, job, options)
    trial = None if options.trial is None else read_campaign(options.trial)
    found = planning.plan_campaign(loaded.experiment, assembly, trial=trial)
    campaigns.print_answer(
        options.form, lambda: outlook_document(found), lambda: outlook_json(found)
    )
    _require_affordable(loaded.experiment, found.expected.most_s(loaded.experiment), options)


def _warn_of_equals(
    loaded: files.LoadedExperiment, assembly: Assembly, options: RunOptions
) -> None:
    """Tell of configurations that are the same, which may be a slip: in a file it is no mistake.

    Raises:
        InputError: They were written from a command line that names what is to differ.
    """
    for one, other in same_twice(loaded.experiment, assembly.engine):
        if not options.is_named:
            asked = loaded.experiment.configuration(other).asked()
            named = ", ".join(f"{name} = {value}" for name, value in asked.items())
            raise wording.InputError(
                f"nothing would differ: the server has {named} already",
                hint="Name another value; `steelyard noise` measures a server against itself.",
            )
        if loaded.only_extends(one) or loaded.only_extends(other):
            continue  # it is meant to be the same
        campaigns.tell(
            f"warning: `{other}` does not differ from `{one}`: this compares a configuration with"
            " itself"
        )


def _told(options: RunOptions) -> Callable[[str], None]:
    """Return what tells of a look at a cluster, which takes seconds."""
    return (lambda _: None) if options.quiet else campaigns.tell


def _shortfall(options: RunOptions, experiment: Experiment, assembly: Assembly) -> str:
    """Return what the budget does not decide of what is asked, in one sentence.

    An A/A campaign has nothing to decide, and a shortened run decides nothing.
    """
    if options.short:
        return NOTICE
    if experiment.twin_of is not None:
        return ""
    found = planning.plan_campaign(experiment, assembly, effects=(experiment.stop.detect,))
    return shortfall(found, options.source if options.is_named else None)


def load(options: RunOptions, doors: Doors) -> files.LoadedExperiment:
    """Return the experiment that was named, with everything from the command line in it."""
    loaded = files.load_experiment(
        options.source,
        facts=_facts(doors),
        overrides=options.all_overrides,
        seed=options.seed,
        generator_flags=options.flags,
        short=options.short,
    )
    return _as_told(loaded, options)


def load_written(text: str, options: RunOptions, doors: Doors) -> files.LoadedExperiment:
    """Return the experiment of a text that Steelyard wrote from a command line."""
    surroundings = files.Surroundings(
        base=Path.cwd(), facts=_facts(doors), seed=options.seed, generator_flags=options.flags
    )
    return _as_told(files.load_text(text, options.source, surroundings), options)


def _as_told(loaded: files.LoadedExperiment, options: RunOptions) -> files.LoadedExperiment:
    """Return the experiment with what the command line says of its servers."""
    experiment = loaded.experiment
    if experiment.is_in_kubernetes or not options.job.as_job:  # else they are the Job's place
        experiment = placed(experiment, context=options.context, namespace=options.namespace)
    experiment = expiring(priced(experiment, lambda: load_prices(options.prices)), options.ttl_s)
    experiment = replace(experiment, no_verdict=options.no_verdict or options.short)
    loaded = replace(loaded, experiment=experiment)
    return allow_existing(loaded) if options.allow_existing else loaded


def _facts(doors: Doors) -> MachineFacts:
    usable = capacity(doors.host)
    device = device_fact(doors.host, str(cache_directory().resolve())).value
    return MachineFacts(
        cpus=usable.cpus,
        memory_bytes=usable.memory_bytes,
        free_disk_bytes=free_bytes(cache_directory()),
        storage=device.kind if isinstance(device, BlockDevice) else None,
    )


def _finish(work: Callable[[Progress], CampaignAnalysis], path: Path, options: RunOptions) -> None:
    """Run to the end, and report whatever there is, also after a failure or Ctrl-C."""
    try:
        with progress_for(sys.stderr, quiet=options.quiet, verbose=options.verbose) as progress:
            analysis = work(progress)
    except (wording.SteelyardError, wording.Interrupted) as error:
        partial = _report_what_there_is(path, options)
        name = path.name if partial is None else partial.experiment.name
        options.gate.break_off(error, name, partial)
        raise
    with options.gate.covering(analysis.experiment.name):
        # First what a full disk cannot take away.
        failed = campaigns.unprinted(lambda: campaigns.show(analysis, path, options.form))
        campaigns.write_reports(read_campaign(path), analysis, path)
        campaigns.keep_noise(analysis)
        code = options.gate.code(analysis)
    _exit(campaigns.ended(code, failed))


def _report_what_there_is(path: Path, options: RunOptions) -> CampaignAnalysis | None:
    """Report a campaign that broke off, and return it; None: there is none."""
    try:
        record = read_campaign(path)
    except wording.SteelyardError:
        return None  # the error itself follows
    analysis = analyse(record)
    if analysis.blocks:
        with suppress(OSError):  # of standard output; the error itself follows
            campaigns.show(analysis, path, options.form)
    with suppress(wording.SteelyardError):  # the disk that failed may be this one
        campaigns.write_reports(record, analysis, path)
    campaigns.tell(f"The record is in {path}.")
    try:
        require_nothing_left(path)
    except wording.SteelyardError as left:
        campaigns.tell(f"{left.message}; {left.hint}")
    return analysis
