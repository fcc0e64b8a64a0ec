"""One session of work on a campaign: new or resumed, from an experiment to its files.

Everything that can be known to fail before it is started is said at once.
"""

import math
import re
import secrets
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import steelyard
from steelyard.answers.campaign import analyse
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.cleanup import leftovers, undoing
from steelyard.campaign.file.files import LoadedExperiment, unknown_settings
from steelyard.campaign.foresee.forecast import forecast, require_disk
from steelyard.campaign.run.bench import Bench
from steelyard.campaign.run.blocks import Slots
from steelyard.campaign.run.ceilings import CeilingTaker
from steelyard.campaign.run.in_order import is_possible
from steelyard.campaign.run.runner import Campaign, Progress
from steelyard.campaign.run.taking import Slot
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment, Layer, generator_place
from steelyard.core.findings import Fact, Finding
from steelyard.core.wording import InputError, LeftBehindError, PreflightError, Problem
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import holding_cache
from steelyard.places.local.machine import DATA_FACTS, capacity, machine_facts
from steelyard.places.protocol import Platform
from steelyard.record import registry
from steelyard.record.directory import COPY_NOTE, CampaignDirectory, copied, read_campaign
from steelyard.record.journal import Resumed, Started
from steelyard.systems.protocol import Engine
from steelyard.targets.assembly import Assembly, assemble
from steelyard.targets.kubernetes_site import SERVER
from steelyard.tuning.facts.linux import recorded_wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for, once it is validated.

    Attributes:
        text: The experiment file as given.
        command: The command line that reproduces the campaign.
        findings: Of the preflight.
        campaign_id: Chosen before; empty: made of the directory's name.
    """

    experiment: Experiment
    text: str
    command: str
    findings: tuple[Finding, ...] = ()
    campaign_id: str = ""


def new_campaign(
    request: Request, path: Path, doors: Doors, progress: Progress
) -> CampaignAnalysis:
    """Run a new campaign in a new directory.

    Raises:
        SteelyardError: It failed or was interrupted; the record tells what there is.
    """
    campaign_id = request.campaign_id or new_id(path)
    with holding_cache():
        directory = CampaignDirectory.create(path, doors.clock, experiment_text=request.text)
        with _ended(directory, campaign_id):
            registry.register(campaign_id, path, request.experiment)
            directory.journal.append(
                Started(
                    campaign_id=campaign_id,
                    experiment=request.experiment,
                    command=request.command,
                    version=steelyard.__version__,
                )
            )
            asked, findings = request.experiment, request.findings
            return _work(asked, campaign_id, directory, doors, progress, findings)


def new_id(path: Path) -> str:
    """Return an id for a new campaign in a directory, which no other has."""
    # As a file name in the registry and the cache: never hidden, never odd.
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.absolute().name).strip("-") or "campaign"
    return f"{name}-{secrets.token_hex(3)}"


def resume_campaign(
    path: Path, doors: Doors, progress: Progress, *, no_verdict: bool = False
) -> CampaignAnalysis:
    """Go on with a campaign; what its last session left behind is removed first.

    With ``no_verdict`` also where no interim result falls into its budget.

    Raises:
        SteelyardError: It failed or was interrupted again; the record tells what there is.
    """
    record = read_campaign(path)
    if record.status.is_finished:
        # It may have died after its last line, when it was writing its reports.
        CampaignDirectory.reopen(path, doors.clock).close()
        with suppress(LeftBehindError):
            _forget_if_clean(record.campaign_id, path)
        return analyse(record)
    undoing.require_ours(record, path)
    with holding_cache():
        # What is not put back would be taken for what was there before the campaign.
        leftovers.undo_all(leftovers.find_leftovers(doors, [path]), doors)
        _require_room(record, doors)
        directory = CampaignDirectory.reopen(path, doors.clock)
        with _ended(directory, record.campaign_id):
            registry.register(record.campaign_id, path, record.experiment)
            leftovers.note_gone(directory)
            directory.journal.append(Resumed(version=steelyard.__version__))
            asked = record.experiment
            asked = replace(asked, no_verdict=asked.no_verdict or no_verdict)
            return _work(asked, record.campaign_id, directory, doors, progress, ())


@contextmanager
def _ended(directory: CampaignDirectory, campaign_id: str) -> Iterator[None]:
    """Give a record back at the end, and forget its campaign if it left nothing behind.

    Raises:
        LeftBehindError: It did, and nothing else went wrong.
    """
    try:
        yield
    except BaseException:
        with suppress(Exception):
            leftovers.settle(campaign_id, directory.path)
        directory.close()
        with suppress(Exception):  # then clean must find it, whatever the reason
            _forget_if_clean(campaign_id, directory.path)
        raise
    directory.close()
    _forget_if_clean(campaign_id, directory.path)


def _forget_if_clean(campaign_id: str, path: Path) -> None:
    leftovers.forget_if_over(campaign_id, path, leftovers.require_nothing_left(path))


def _work(
    experiment: Experiment,
    campaign_id: str,
    directory: CampaignDirectory,
    doors: Doors,
    progress: Progress,
    findings: tuple[Finding, ...],
) -> CampaignAnalysis:
    assembly = assemble(
        experiment,
        doors,
        campaign_id=campaign_id,
        ledger=leftovers.JournalLedger(directory.journal, campaign_id),
        told=progress.stage,
    )
    try:
        return _campaign(assembly, experiment, directory, doors, progress, findings).run()
    finally:
        assembly.close()  # also what a failure before the first step left


def _campaign(
    assembly: Assembly,
    experiment: Experiment,
    directory: CampaignDirectory,
    doors: Doors,
    progress: Progress,
    findings: tuple[Finding, ...],
) -> Campaign:
    record = directory.read()
    _require_same_versions(record, assembly.engine)
    _require_same_cluster(record, assembly)
    bench = Bench(experiment, assembly, doors.clock, doors.host)
    return Campaign(
        experiment=experiment,
        engine=assembly.engine,
        bench=bench,
        directory=directory,
        clock=doors.clock,
        progress=progress,
        operator=doors.operator,
        facts=facts_of(experiment, assembly, doors),
        findings=findings,
        ceilings=CeilingTaker(experiment, assembly.engine, bench, doors.processes),
        cpus=_generator_cpus(experiment, doors),
        room=assembly.room,
        slots=Slots(made=partial(_slots, experiment, assembly, doors), guards=doors.guards),
    )


def _slots(
    experiment: Experiment, assembly: Assembly, doors: Doors, number: int
) -> tuple[Slot, ...]:
    """Return places for so many servers that are up together."""
    if assembly.slots is None:
        raise PreflightError("servers of this kind cannot be up together here")
    shared = (*experiment.shared_servers.values(), *assembly.room.of_one)
    return tuple(
        Slot(
            bench=Bench(
                experiment,
                replace(assembly, platforms=platforms, stack=None, site=None),
                doors.clock,
                doors.host,
            ),
            is_shared=any(set(names) & set(platforms) for names in shared),
        )
        for platforms in assembly.slots(number)
    )


def _generator_cpus(experiment: Experiment, doors: Doors) -> int:
    """Return how many CPUs a search for the capacity may use for its generator."""
    place = generator_place(experiment.configurations)
    if place is None:
        return max(1, math.floor(capacity(doors.host).cpus))
    return place.generators.cpus


def _require_room(record: CampaignRecord, doors: Doors) -> None:
    """Check port, place, stack and disk again: the last session may be days ago."""
    # Under its own name, so that what its last session left is not taken for somebody else's.
    looked = assemble(record.experiment, doors, campaign_id=record.campaign_id)
    with closing(looked) as assembly:
        _require_same_cluster(record, assembly)
        _require_ready(assembly)
        require_disk(forecast(record.experiment, assembly))


def _require_same_versions(record: CampaignRecord, engine: Engine) -> None:
    """Refuse to mix versions within a campaign."""
    for server in record.environment.servers if record.environment else ():
        now = engine.program(server.configuration).version
        if now != server.version:
            raise PreflightError(
                f"configuration `{server.configuration}` ran version {server.version};"
                f" installed now is {now}",
                hint="Install the old version again, or start a new campaign.",
            )


def _require_same_cluster(record: CampaignRecord, assembly: Assembly) -> None:
    """Refuse to go on in another cluster than the one that a campaign began in."""
    if assembly.site is None or record.environment is None:
        return
    here = {fact.value for fact in assembly.site.facts() if fact.name == SERVER}
    then = {fact.value for fact in record.environment.facts if fact.name == SERVER}
    if then and here != then:
        raise PreflightError(
            f"the campaign began at {', '.join(then)}, and the context"
            f" {assembly.site.api.context} means {', '.join(here)} now",
            hint="Name a kubeconfig in KUBECONFIG whose context means that cluster.",
        )


def facts_of(experiment: Experiment, assembly: Assembly, doors: Doors) -> tuple[Fact, ...]:
    """Return the facts of machine and tools, in the order to print them.

    What the places of servers in a cluster say is read when they are there.
    """
    site = () if assembly.site is None else assembly.site.facts()
    outside = [each.name for each in experiment.configurations if each.target.home is None]
    if not outside:
        return (*site, *_tools(assembly))
    roots = (assembly.platforms[name].root for name in (experiment.baseline, *outside))
    places = dict.fromkeys(assembly.platforms[name] for name in outside)
    return (
        *_machine(doors, next(filter(None, roots), None)),
        *recorded_wakeups(doors.host),
        *(fact for place in places for fact in place.facts()),
        *site,
        *_tools(assembly),
    )


def _tools(assembly: Assembly) -> tuple[Fact, ...]:
    tools = {
        "steelyard": steelyard.__version__,
        "python": sys.version.split()[0],
        **assembly.engine.tools(),
    }
    return tuple(Fact(name=name, value=value, subject="tools") for name, value in tools.items())


def _machine(doors: Doors, root: Path | None) -> tuple[Fact, ...]:
    """Return the facts of this machine; of its disks only where the data lie on them."""
    facts = machine_facts(doors.host, root or Path.cwd())
    return tuple(fact for fact in facts if root is not None or fact.name not in DATA_FACTS)


def default_directory(name: str, doors: Doors) -> Path:
    """Return a fresh directory name below ``campaigns/``: time first, so that they sort."""
    moment = datetime.fromtimestamp(doors.clock.now(), UTC).strftime("%Y%m%d-%H%M%S")
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    return Path("campaigns") / "-".join([moment, *words[:6]])


def command_line(
    source: str,
    seed: int,
    overrides: Sequence[str],
    flags: Sequence[str],
    *,
    switches: Sequence[str] = (),
) -> str:
    """Return the command that repeats a campaign in the same order."""
    words = ["steelyard", "run", source, "--seed", str(seed)]
    for override in overrides:
        words += ["--override", override]
    return shlex.join([*words, *switches, *(["--", *flags] if flags else [])])


def require_resumable(path: Path, given: Sequence[str]) -> None:
    """Refuse before anything is printed what cannot go on, and flags that it cannot take.

    Raises:
        InputError: It keeps its experiment, seed, budget and number of looks.
        PreflightError: This account did not begin it here.
    """
    if (path / COPY_NOTE).exists():
        raise InputError(
            f"{path} is a copy of a campaign that runs in a cluster",
            hint=f"Go on with it there: {copied(path, 'command') or 'steelyard attach'} --resume",
        )
    if given:
        raise InputError(
            f"{', '.join(given)} cannot be changed when a campaign is resumed",
            hint=f"Leave it out: the campaign in {path} keeps its experiment, seed and budget.",
        )
    record = read_campaign(path)
    if not record.status.is_finished:
        undoing.require_ours(record, path)


def check(loaded: LoadedExperiment, assembly: Assembly) -> tuple[Finding, ...]:
    """Check an experiment against its servers and this machine; return what is worth knowing.

    Raises:
        ExperimentFileError: Settings that do not exist or whose values the server refuses, all
            of them, with their lines.
        InputError: A generator flag that Steelyard sets itself.
        PreflightError: The machine cannot run it.
        PrivilegeError: Limits are asked for that this account cannot set.
    """
    assembly.engine.check_flags()
    problems = list(_problems(loaded, assembly))
    if problems:
        raise loaded.error(problems)
    places = _require_ready(assembly)
    found = (finding for platform in places for finding in platform.findings())
    site = () if assembly.site is None else assembly.site.findings()
    return (*assembly.engine.findings(), *found, *site)


def _require_ready(assembly: Assembly) -> Collection[Platform]:
    """Raise where a place or the stack cannot be used now; return the places, each once."""
    places = dict.fromkeys(assembly.platforms.values())
    for platform in places:
        platform.require_ready()
    if assembly.stack is not None:
        assembly.stack.require_ready()
    return places


def _problems(loaded: LoadedExperiment, assembly: Assembly) -> Iterator[Problem]:
    engine, experiment = assembly.engine, loaded.experiment
    asked = experiment.workloads if experiment.measure.executions is not None else ()
    for workload in asked:
        if not is_possible(experiment, engine, workload):
            message = f"the scripts of {workload.name} cannot run in a given order"
            hint = "Executions are counted of script files, by clients without a rate or a goal."
            yield loaded.problem(("measure", "executions"), message, hint)
    for configuration in experiment.configurations:
        known, server = engine.known_settings(configuration.name), engine.label(configuration.name)
        yield from unknown_settings(loaded, configuration.name, known, server)
        for complaint in engine.complaints(configuration.name):
            if complaint.setting is None:
                yield loaded.problem(("load", "clients"), complaint.message, complaint.hint)
            else:
                setting = (complaint.setting,) if complaint.setting else ()
                layer = configuration.server_layer.value
                place = ("configurations", configuration.name, layer, *setting)
                yield loaded.problem(place, complaint.message, complaint.hint)
        limits = configuration.asked(Layer.CGROUP)
        stack = () if assembly.stack is None else assembly.stack.unfit(configuration.name)
        unfits = {
            Layer.CGROUP: assembly.platforms[configuration.name].unfit(limits),
            Layer.LINUX: stack,
        }
        for layer, unfit in ((layer, one) for layer, found in unfits.items() for one in found):
            path = ("configurations", configuration.name, layer.value, unfit.key)
            yield loaded.problem(path, unfit.message, unfit.hint)
