"""What ``run`` does, step by step: load, check, forecast, run, report.

The same steps serve ``plan``, ``noise`` and ``capacity``. In a Kubernetes cluster ``--dry-run``
shows what would be made.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.outlook.section import outlook_document, outlook_json, shortfall
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.cleanup.ledger import release_frozen, require_nothing_left
from steelyard.campaign.design.noise_profiles import keep_profile, profile_for
from steelyard.campaign.file.files import (
    LoadedExperiment,
    Surroundings,
    allow_existing,
    load_experiment,
    load_text,
)
from steelyard.campaign.foresee import forecast as forecasts
from steelyard.campaign.foresee import planning
from steelyard.campaign.run import session
from steelyard.campaign.run import session as preflight
from steelyard.campaign.run.runner import Progress, Silence
from steelyard.cli.campaigns import Gate, print_whole, rendered, show, write_reports
from steelyard.cli.kubernetes import manifest_text
from steelyard.cli.options import TerminalOperator
from steelyard.cli.progress import (
    LiveProgress,
    PlainProgress,
    forecast_json,
    forecast_text,
    progress_for,
)
from steelyard.core.errors import (
    Interrupted,
    PreflightError,
    RefusedError,
    SteelyardError,
    TargetError,
    UnconfiguredError,
)
from steelyard.core.experiment import Experiment
from steelyard.core.kubernetes import SecretRef
from steelyard.core.linux import BlockDevice
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.files import cache_directory, free_bytes
from steelyard.places.kubernetes.generators import GeneratorPlan
from steelyard.places.local.machine import capacity
from steelyard.record.directory import read_campaign, require_unused
from steelyard.targets.assembly import Assembly, assemble, placed, settled
from steelyard.targets.differences import same_twice
from steelyard.targets.generators import campaign_manifests, generator_plan
from steelyard.targets.kubernetes_site import place_in
from steelyard.targets.prices import load_prices
from steelyard.targets.rds import expiring, priced
from steelyard.targets.stack import require_huge_pages, require_shared_memory
from steelyard.tuning.facts.machine import device_fact
from steelyard.tuning.profiles import MachineFacts

_OPERATORS: Final = "default-of-the-operator"


def print_manifests(experiment: Experiment, assembly: Assembly, path: Path) -> None:
    """Print all objects that a campaign would make, for `kubectl apply -f -`."""
    site = assembly.site
    assert site is not None  # noqa: S101 - the caller saw that it is in a cluster
    assert site.plan is not None  # noqa: S101 - every assembly there has generators
    namespace = site.namespace if site.is_there else None
    _print(experiment, site.plan, path, namespace=namespace, where=f"in {site.api.context}")


def print_unseen(experiment: Experiment, path: Path, why: SteelyardError) -> None:
    """Print the same without a cluster: as the file says, and what nobody could check.

    Args:
        experiment: Whose servers are all made.
        path: Of the campaign, whose id is in names.
        why: No cluster could be asked.
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
    # The Secret is that of the campaign, like its namespace.
    plan = generator_plan(experiment, place, image, SecretRef(namespace="", name=""))
    _print(experiment, plan, path, namespace=place.namespace, where="in a cluster")


def _print(
    experiment: Experiment, plan: GeneratorPlan, path: Path, *, namespace: str | None, where: str
) -> None:
    campaign_id = session.new_id(path)
    manifests = campaign_manifests(experiment, plan, campaign_id, namespace=namespace)
    anew = "each start makes its own anew" if experiment.is_made_anew else "one is made at most"
    kind = "Redis server" if experiment.redis_in_kubernetes else "Cluster"
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
    if not sys.stdin.isatty():
        raise PreflightError(fact, hint="Add --yes if that is meant, or leave `namespace` out.")
    click.echo(f"warning: {fact}", err=True)
    if not click.confirm("Put the load there?", err=True):
        raise PreflightError("nothing was started", hint="Name another place with --namespace.")


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
    precision: str | None = None
    seed: int | None
    out: Path | None
    resume: Path | None = None
    overrides: tuple[str, ...] = ()
    dry_run: bool
    as_json: bool
    quiet: bool
    yes: bool
    allow_existing: bool = False
    target: str | None = None
    memory: str | None = None
    cpus: str | None = None
    context: str | None = None
    namespace: str | None = None
    max_cost: float | None = None
    ttl: float | None = None
    prices: Path | None = None
    gate: Gate = field(default_factory=Gate)
    is_named: bool = True

    @property
    def all_overrides(self) -> tuple[str, ...]:
        """Return ``--set`` and the flags that stand for one."""
        named = {
            "target": self.target,
            "memory": self.memory,
            "cpus": self.cpus,
            "stop.budget": self.budget,
            "stop.precision": self.precision,
            "stop.fail_if": ", ".join(self.gate.fail_if) or None,
        }
        return (
            *self.overrides,
            *(f"{path}={text}" for path, text in named.items() if text is not None),
        )

    @property
    def switches(self) -> tuple[str, ...]:
        """Return the other options that a repetition of the command needs."""
        placed = (("--context", self.context), ("--namespace", self.namespace))
        return (
            *(("--yes",) if self.yes else ()),
            *(("--allow-existing",) if self.allow_existing else ()),
            *(word for option, name in placed if name is not None for word in (option, name)),
        )


def run(options: RunOptions) -> None:
    """Run a new campaign and report it."""
    doors = real_doors()
    loaded = load(options, doors)
    start(loaded, command_of(loaded, options), options, doors)


def real_doors() -> Doors:
    """Return the real doors, with whoever sits at the terminal."""
    return replace(system_doors(), operator=TerminalOperator())


def command_of(loaded: LoadedExperiment, options: RunOptions, *further: str) -> str:
    """Return the command line that runs an experiment again as it was asked for.

    Args:
        loaded: The experiment.
        options: Of the command line.
        further: Other words of it.
    """
    return session.command_line(
        loaded.source,
        loaded.experiment.seed,
        options.all_overrides,
        options.flags,
        switches=(*options.switches, *further),
    )


def start(
    loaded: LoadedExperiment,
    command: str,
    options: RunOptions,
    doors: Doors,
    *,
    agreed: Callable[[Assembly], None] = lambda _: None,
) -> None:
    """Check an experiment, run it as a new campaign and report it.

    Args:
        loaded: The experiment.
        command: That repeats it.
        options: Of the command line.
        doors: To the outside.
        agreed: Is asked once everything is checked and told, and raises where nobody agrees.
    """
    options.gate.conditions(loaded.experiment)
    release_frozen(doors, _told(options))
    checked = check(loaded, command, options, doors)
    path = _directory(loaded, options, doors)
    require_unused(path)
    foretell(checked, path, options)
    agreed(checked.assembly)
    request = checked.request
    _finish(lambda progress: session.new_campaign(request, path, doors, progress), path, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A campaign that may begin.

    Attributes:
        assembly: As it was looked at.
        warning: What its budget does not decide.
    """

    request: session.Request
    assembly: Assembly
    expected: forecasts.Forecast
    warning: str


def check(loaded: LoadedExperiment, command: str, options: RunOptions, doors: Doors) -> Checked:
    """Return the campaign of an experiment, once everything is checked that can be before it.

    Raises:
        SteelyardError: It cannot run, or its budget ends before the first look.
    """
    assembly = assemble(loaded.experiment, doors, told=_told(options))
    experiment = settled(loaded.experiment, assembly)
    findings = preflight.check(loaded, assembly)
    if not options.quiet:
        _warn_of_equals(loaded, assembly)
    require_shared_memory(experiment, doors.host)
    require_huge_pages(experiment, doors.host)
    expected = forecasts.forecast(experiment, assembly, measured=profile_for(experiment))
    forecasts.require_disk(expected)
    if not options.yes:
        forecasts.require_first_look(expected, experiment)
    _require_affordable(experiment, expected.most_s(experiment), options)
    require_agreement(assembly, yes=options.yes or options.dry_run)
    request = session.Request(
        experiment=experiment, text=loaded.text, command=command, findings=findings
    )
    warning = "" if options.quiet else _shortfall(options, experiment, assembly)
    return Checked(request=request, assembly=assembly, expected=expected, warning=warning)


def foretell(checked: Checked, path: Path, options: RunOptions) -> None:
    """Print what is about to happen."""
    if not options.quiet:
        experiment = checked.request.experiment
        text = forecast_text(experiment, checked.expected, path=path, warning=checked.warning)
        click.echo(text, err=True)


def resume(options: RunOptions, given: Sequence[str]) -> None:
    """Go on with a campaign and report it."""
    assert options.resume is not None  # noqa: S101 - the caller asked
    path = options.resume
    session.require_resumable(path, given)
    doors = real_doors()
    release_frozen(doors, _told(options))
    _finish(lambda progress: session.resume_campaign(path, doors, progress), path, options)


def dry_run(options: RunOptions) -> None:
    """Show what would happen; nothing is started and nothing is written."""
    doors = real_doors()
    foresee(load(options, doors), options, doors)


def foresee(
    loaded: LoadedExperiment,
    options: RunOptions,
    doors: Doors,
    *,
    told: Callable[[Assembly], None] = lambda _: None,
) -> None:
    """Check an experiment and show its schedule, minutes and disk.

    Where a cluster would be asked and none answers, its objects are shown as the file has them.

    Args:
        loaded: The experiment.
        options: Of the command line.
        doors: To the outside.
        told: Tells what else is to be known before it.
    """
    try:
        assembly = assemble(loaded.experiment, doors, told=_told(options))
    except (UnconfiguredError, TargetError) as error:
        if options.as_json or not _is_unseen(loaded.experiment, doors):
            raise
        print_unseen(loaded.experiment, _directory(loaded, options, doors), error)
        return
    preflight.check(loaded, assembly)
    _warn_of_equals(loaded, assembly)
    require_shared_memory(loaded.experiment, doors.host)
    require_huge_pages(loaded.experiment, doors.host)
    measured = profile_for(loaded.experiment)
    expected = forecasts.forecast(loaded.experiment, assembly, measured=measured)
    if options.as_json:
        click.echo(session.as_json(forecast_json(loaded.experiment, expected)), nl=False)
    else:
        warning = _shortfall(options, loaded.experiment, assembly)
        pods = assembly.site is not None
        text = forecast_text(loaded.experiment, expected, warning=warning, with_schedule=True)
        click.echo(text, err=pods)
        told(assembly)
        if pods:  # what is printed can be handed to kubectl
            path = _directory(loaded, options, doors)
            print_manifests(loaded.experiment, assembly, path)
    forecasts.require_disk(expected)
    forecasts.require_first_look(expected, loaded.experiment)
    _require_affordable(loaded.experiment, expected.most_s(loaded.experiment), options)


def _require_affordable(experiment: Experiment, most_s: float, options: RunOptions) -> None:
    forecasts.require_affordable(experiment, most_s, most=options.max_cost, ttl_s=options.ttl)


def _directory(loaded: LoadedExperiment, options: RunOptions, doors: Doors) -> Path:
    return options.out or session.default_directory(loaded.experiment.name, doors)


def _is_unseen(experiment: Experiment, doors: Doors) -> bool:
    """Return whether all is made in a cluster that does not answer, or that nothing names."""
    if not experiment.makes_all_in_kubernetes:
        return False
    try:
        doors.kubernetes.connect(place_in(experiment).context).version()
    except RefusedError:
        return False
    except (UnconfiguredError, TargetError):
        return True
    return False


def plan(options: RunOptions) -> None:
    """Show what an experiment can decide and when; nothing is started and nothing is written."""
    doors = real_doors()
    loaded = load(options, doors)
    assembly = assemble(loaded.experiment, doors, told=_told(options))
    preflight.check(loaded, assembly)
    _warn_of_equals(loaded, assembly)
    require_shared_memory(loaded.experiment, doors.host)
    found = planning.plan_campaign(loaded.experiment, assembly)
    if options.as_json:
        click.echo(session.as_json(outlook_json(found)), nl=False)
    else:
        print_whole(outlook_document(found))
    _require_affordable(loaded.experiment, found.most_s, options)


def _warn_of_equals(loaded: LoadedExperiment, assembly: Assembly) -> None:
    """Tell of configurations that are the same, which may be a slip: it is no mistake to ask."""
    for one, other in same_twice(loaded.experiment, assembly.engine):
        if loaded.only_extends(one) or loaded.only_extends(other):
            continue  # it is meant to be the same
        click.echo(
            f"warning: `{other}` does not differ from `{one}`: this compares a configuration with"
            " itself",
            err=True,
        )


def _told(options: RunOptions) -> Callable[[str], None]:
    """Return what tells of a look at a cluster, which takes seconds."""
    return (lambda _: None) if options.quiet else (lambda what: click.echo(what, err=True))


def _shortfall(options: RunOptions, experiment: Experiment, assembly: Assembly) -> str:
    """Return what the budget does not decide of what is asked, in one sentence.

    An A/A campaign has nothing to decide.
    """
    if experiment.twin_of is not None:
        return ""
    found = planning.plan_campaign(experiment, assembly, effects=(experiment.stop.decide,))
    return shortfall(found, options.source if options.is_named else None)


def load(options: RunOptions, doors: Doors) -> LoadedExperiment:
    """Return the experiment that was named, with everything from the command line in it."""
    loaded = load_experiment(
        options.source,
        facts=_facts(doors),
        overrides=options.all_overrides,
        seed=options.seed,
        generator_flags=options.flags,
    )
    return _as_told(loaded, options)


def load_written(text: str, options: RunOptions, doors: Doors) -> LoadedExperiment:
    """Return the experiment of a text that Steelyard wrote from a command line."""
    surroundings = Surroundings(
        base=Path.cwd(), facts=_facts(doors), seed=options.seed, generator_flags=options.flags
    )
    return _as_told(load_text(text, options.source, surroundings), options)


def _as_told(loaded: LoadedExperiment, options: RunOptions) -> LoadedExperiment:
    """Return the experiment with what the command line says of its servers."""
    experiment = placed(loaded.experiment, context=options.context, namespace=options.namespace)
    experiment = expiring(priced(experiment, lambda: load_prices(options.prices)), options.ttl)
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
        with _listener(quiet=options.quiet) as progress:
            analysis = work(progress)
    except (SteelyardError, Interrupted):
        _report_what_there_is(path, options)
        raise
    # First what a full disk cannot take away.
    _print_analysis(analysis, path, options)
    write_reports(read_campaign(path), analysis, path)
    _keep_noise(analysis)
    if code := options.gate.code(analysis):
        raise click.exceptions.Exit(code)


def _keep_noise(analysis: CampaignAnalysis) -> None:
    """Keep what an A/A campaign measured for later plans; of any other there is nothing."""
    try:
        kept = keep_profile(analysis)
    except SteelyardError as error:
        click.echo(f"The noise profile was not kept: {error.message}", err=True)
        return
    if kept is not None:
        click.echo(f"The noise profile is kept in {kept}; later plans use it.", err=True)


def _listener(*, quiet: bool) -> Silence | PlainProgress | LiveProgress:
    return Silence() if quiet else progress_for(sys.stderr)


def _report_what_there_is(path: Path, options: RunOptions) -> None:
    try:
        record = read_campaign(path)
    except SteelyardError:
        return  # there is no campaign; the error itself follows
    analysis = analyse(record)
    if analysis.blocks:
        _print_analysis(analysis, path, options)
    with suppress(SteelyardError):  # the disk that failed may be this one
        write_reports(record, analysis, path)
    click.echo(f"The record is in {path}.", err=True)
    try:
        require_nothing_left(path)
    except SteelyardError as left:
        click.echo(f"{left.message}; {left.hint}", err=True)


def _print_analysis(analysis: CampaignAnalysis, path: Path, options: RunOptions) -> None:
    if options.as_json:
        click.echo(rendered(analysis, "json"), nl=False)
    else:
        show(analysis, path)
