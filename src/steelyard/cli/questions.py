"""``noise``, ``capacity`` and ``try`` each ask a question, by an experiment that they write.

What ``capacity`` writes has one server, under shares of its capacity; what ``try`` writes has one
server as it is and with other settings. Both are whole, so that ``experiment.yaml`` of the record
repeats the campaign without the verb.
"""

import json
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from steelyard.answers.statements.plans import (
    PlanSeries,
    plan_document,
    plan_keys,
    plan_lines,
)
from steelyard.campaign.file.files import PRESET, LoadedExperiment
from steelyard.campaign.file.overrides import target_at, target_of
from steelyard.campaign.file.trial import (
    NOW,
    UNCHANGED,
    Tried,
    may_be_several,
    tried_once,
    tried_values,
    values_of,
    wishes_of,
)
from steelyard.campaign.foresee.forecast import (
    LEAST_BUDGET_S,
    aa_twin,
    default_budget_s,
    forecast,
    known_turns,
    with_budget,
)
from steelyard.campaign.foresee.touched import endpoint_facts, touched
from steelyard.campaign.run import session
from steelyard.cli.attaching import JobOptions
from steelyard.cli.campaigns import Gate, print_answer
from steelyard.cli.launching import (
    RunOptions,
    command_of,
    foresee,
    load,
    load_written,
    real_doors,
    start,
)
from steelyard.cli.options import at_terminal
from steelyard.core.campaign import RoundsFor
from steelyard.core.experiment import Design, Experiment, OtherDesign, SwitchCost
from steelyard.core.schedule import CLOSED, Mode
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import (
    LONGEST_NAME,
    SEED_LIMIT,
    ExperimentFileError,
    InputError,
    PreflightError,
    RecordError,
    RefusedError,
    parse_budget_s,
    printable,
)
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import make_directory, write_text
from steelyard.report import document as doc
from steelyard.systems.postgres.existing.platform import keywords_of
from steelyard.systems.postgres.top import parameters_of, top_lines, top_statements
from steelyard.targets.assembly import Assembly, assemble
from steelyard.targets.differences import choose_design, switch_cost

if TYPE_CHECKING:
    from steelyard.campaign.file.document import Value

_CAPACITY: Final = "steelyard capacity"
_TRIAL: Final = "steelyard try"
_BUILTIN: Final = "select-only"
_SCALE: Final = 10
_PROTOCOL: Final = "prepared"
_BUDGET: Final = "10m"
_MINUTES: Final = 15  # of two configurations
_SESSIONS: Final = 16  # of the open loops of `capacity`
_SLICE: Final = "5s"
_RATES: Final = "50%,70%,90%"
_ROOMY: Final = 90  # clients that fit into the default max_connections = 100
_KEPT: Final = 10  # of these for us
_CLIENTS: Final = "8"  # of `try`
# Of scripts: both configurations may have each statement in succession, which disturbs no other.
_ALONE: Final = "1"
_MARGIN: Final = "5%"
_AFTER_SEED = 5  # steelyard, verb, source, --seed, N


def measure_noise(options: RunOptions, switch: str | None) -> None:
    """Run the A/A twin of an experiment and report it; or only show what would happen."""
    asked_s = None if options.budget is None else parse_budget_s(options.budget)
    options = replace(options, budget=None)  # it is the twin's, not the experiment's
    doors = real_doors()
    twin = _twin(load(options, doors), switch, asked_s, doors)
    if options.dry_run:
        foresee(twin, options, doors)
    else:
        start(twin, _command(twin, options), options, doors)


def _twin(
    given: LoadedExperiment, switch: str | None, asked_s: float | None, doors: Doors
) -> LoadedExperiment:
    experiment, assembly = given.experiment, assemble(given.experiment, doors)
    cost = switch_cost(experiment, assembly.engine) if switch is None else SwitchCost(switch)
    # Who says how to switch wants to know what switching so brings: starts, or back to back.
    turns = known_turns(experiment, assembly.engine)
    choice = choose_design(experiment, assembly.engine, assembly.room, turns)
    rounds = forecast(experiment, assembly).rounds
    if rounds.chosen_for is RoundsFor.CYCLE:
        # The differences call for these rounds, and the twin has none: one were another noise.
        measure = replace(experiment.measure, runs_per_start=rounds.number)
        given = replace(given, experiment=replace(experiment, measure=measure))
    twin = aa_twin(
        given,
        switch=cost,
        budget_s=LEAST_BUDGET_S if asked_s is None else asked_s,
        alternates=choice.alternates and switch is None,
        other=_other_design(experiment, assembly, alternates=choice.alternates and switch is None),
    )
    if asked_s is not None:
        return twin
    expected = forecast(twin.experiment, assemble(twin.experiment, doors))
    return with_budget(twin, default_budget_s(expected, twin.experiment))


def _other_design(
    experiment: Experiment, assembly: Assembly, *, alternates: bool
) -> OtherDesign | None:
    """Return the design that an experiment could take, too, with the length of its blocks."""
    if experiment.is_single_pass:
        return None
    other = Design.ONE_BY_ONE if alternates else Design.AUTO
    expected = forecast(replace(experiment, design=other), assembly)
    if not alternates and expected.mode is not Mode.ALTERNATING:
        return None  # there is no other
    return OtherDesign(mode=expected.mode, block_s=expected.block_s)


def _command(twin: LoadedExperiment, options: RunOptions) -> str:
    """Return the command that repeats it in the same order, on the same budget."""
    experiment = twin.experiment
    words = shlex.split(
        session.command_line(
            twin.source,
            experiment.seed,
            options.all_overrides,
            options.flags,
            switches=options.switches,
        )
    )
    words[1] = "noise"
    in_turns = experiment.design is not Design.ONE_BY_ONE
    switch = None if in_turns else experiment.measure.switch
    words[_AFTER_SEED:_AFTER_SEED] = [
        *("--budget", f"{experiment.stop.budget_s:g}s"),
        *(("--switch", switch.value) if switch not in (None, SwitchCost.REPROVISION) else ()),
    ]
    return shlex.join(words)


_CAPACITY_KEYS = {
    "load.clients": "--clients",
    "load.rate": "--rate",
    "load.protocol": "--protocol",
    "slo": "--slo",
    "measure.run_time": "--run-time",
    "stop.budget": "--budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOptions:
    """What is said of an experiment that a verb writes; None or empty: it was not given."""

    flags: tuple[str, ...]
    builtin: str | None
    scale: int | None
    protocol: str | None
    budget: str | None
    seed: int | None
    out: Path | None
    dry_run: bool
    form: str
    quiet: bool
    verbose: bool
    yes: bool
    no_verdict: bool

    @property
    def consents(self) -> tuple[str, ...]:
        """Return the switches by which somebody agreed beforehand."""
        given = {"--yes": self.yes, "--no-verdict": self.no_verdict}
        return tuple(name for name, is_given in given.items() if is_given)

    @property
    def words_of_flags(self) -> tuple[str, ...]:
        """Return what stands at the end of the command line for the generator."""
        return ("--", *self.flags) if self.flags else ()

    def words_of(self, names: str) -> Iterator[str]:
        """Yield the words of those of its options that were given; a blank parts their names."""
        for name in names.split():
            value = getattr(self, name)
            if value is not None:
                yield from (f"--{name.strip('_').replace('_', '-')}", str(value))

    def run(self, source: str) -> RunOptions:
        """Return the command line of ``run`` for an experiment that is called so in messages."""
        return RunOptions(
            source=source,
            flags=self.flags,
            seed=self.seed,
            out=self.out,
            dry_run=self.dry_run,
            form=self.form,
            quiet=self.quiet,
            verbose=self.verbose,
            yes=self.yes,
            no_verdict=self.no_verdict,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions(WrittenOptions):
    """The command line of ``capacity``.

    Attributes:
        place: A target, an experiment file or a preset.
    """

    place: str
    clients: int | None
    rate: str | None
    slo: str | None
    run_time: str | None
    allow_existing: bool
    job: JobOptions = field(default_factory=JobOptions)

    def run(self, source: str) -> RunOptions:
        """Return the command line of ``run`` for an experiment that is called so in messages."""
        return replace(
            WrittenOptions.run(self, source), allow_existing=self.allow_existing, job=self.job
        )


def measure_capacity(options: CapacityOptions) -> None:
    """Find the capacity and measure below it; or only show what would happen."""
    doors = real_doors()
    loaded, command, run = (
        _of_file(options, doors)
        if options.place.startswith(PRESET) or Path(options.place).is_file()
        else _of_server(options, doors)
    )
    if not any(load.share for load in loaded.experiment.loads):
        raise InputError(
            f"`--rate {options.rate}` has no share of the capacity, so none would be measured",
            hint=f"Add a share: `--rate {options.rate},70%`; fixed rates alone are for"
            " `steelyard run`.",
        )
    try:
        if options.dry_run:
            foresee(loaded, run, doors)
        else:
            start(loaded, command, run, doors)
    except PreflightError as error:
        error.hint = _in_options(error.hint, _CAPACITY_KEYS)
        raise


def _of_server(options: CapacityOptions, doors: Doors) -> tuple[LoadedExperiment, str, RunOptions]:
    """Return the experiment of one server, and the command that repeats it."""
    seed = secrets.randbelow(SEED_LIMIT) if options.seed is None else options.seed
    text = capacity_text(options, seed)
    run = options.run(_CAPACITY)
    try:
        loaded = load_written(text, run, doors)
    except ExperimentFileError as error:
        raise _said_of_options(error, _capacity_option) from error
    return loaded, _capacity_command(replace(options, seed=seed)), run


def capacity_text(options: CapacityOptions, seed: int) -> str:
    """Return the experiment file for the capacity of one server.

    Raises:
        InputError: The target is none, or of Redis.
    """
    target, system = target_of(options.place)
    if system is not None and not system.offers_rate:
        raise InputError(
            "the capacity is what loads at a rate are shares of, and no generator of"
            f" {system.words.server} offers a rate",
            hint="Find the most that it sustains with several numbers of clients in a file:"
            " `load: {clients: [1, 10, 50, 100]}`.",
        )
    clients = options.clients or _SESSIONS
    rates = options.rate or ("" if options.slo else _RATES)
    offered = f"\n  rate: {_yaml(rates)}" if rates else ""
    goal = f"slo: {_yaml(options.slo)}\n" if options.slo else ""
    room = ""
    if target.get("kind") == "local" and clients > _ROOMY:
        room = f"\n    postgres: {{max_connections: {clients + _KEPT}}}"
    return f"""\
# Written by `steelyard capacity`: the most that one server sustains, and the latency below that.
version: 1
name: capacity
description: How much does this server sustain, and how long do transactions take below that?
workloads:
{_builtin_workloads(options)}
load:
  clients: {clients}
  threads: auto{offered}
  protocol: {_yaml(options.protocol or _PROTOCOL)}
{goal}measure:
  run_time: {_yaml(options.run_time or _SLICE)}
  discard_start: 1s
  prewarm: true
  warm_up: 5s
stop: {{budget: {_yaml(options.budget or _BUDGET)}}}
seed: {seed}
configurations:
  server:
    target: {_yaml(target)}{room}
"""


def _builtin_workloads(options: WrittenOptions) -> str:
    scale = options.scale or _SCALE
    words = [_yaml(word.strip()) for word in (options.builtin or _BUILTIN).split(",")]
    names = dict.fromkeys(words)  # one that is named twice is one workload
    return "\n".join(f"  - {{name: {name}, builtin: {name}, scale: {scale}}}" for name in names)


def _yaml(value: object) -> str:
    """Return a value in YAML: its JSON, which is YAML whatever a shell let through."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _capacity_option(path: str) -> str:
    """Return the option that a key of the written file comes from, "" for what has none."""
    if path.endswith(".builtin"):
        return "--builtin"
    if path.startswith("configurations.") and ".target" in path:
        return "TARGET"
    return _CAPACITY_KEYS.get(path, "")


def _of_file(options: CapacityOptions, doors: Doors) -> tuple[LoadedExperiment, str, RunOptions]:
    """Return the experiment of a file with what was asked put into it.

    Raises:
        InputError: Options that describe a server, which the file does.
    """
    described = {"--scale": options.scale, "--builtin": options.builtin}
    if given := [name for name, value in described.items() if value is not None]:
        raise InputError(
            f"{', '.join(given)} is for a target, and {options.place} describes its workloads",
            hint="Leave it out, or change the file.",
        )
    changes = {
        "load.clients": options.clients,
        "load.rate": _rates(options, doors),
        "load.protocol": options.protocol,
        "slo": f'"{options.slo}"' if options.slo else None,
        "measure.run_time": options.run_time,
    }
    overrides = tuple(f"{path}={value}" for path, value in changes.items() if value is not None)
    run = replace(options.run(options.place), overrides=overrides, budget=options.budget)
    loaded = load(run, doors)
    return loaded, command_of(loaded, run), run


def _rates(options: CapacityOptions, doors: Doors) -> str | None:
    """Return the rates that are put into a file; None where its own, or those of its goal, stay.

    Raises:
        InputError: Its own have no share of the capacity.
    """
    given = load(options.run(options.place), doors)
    loads = given.experiment.loads
    own = ", ".join(dict.fromkeys(each.rate_label or CLOSED for each in loads))
    if given.document.at(("load", "rate")) is None:
        return options.rate or (None if options.slo or given.experiment.goal else _RATES)
    if options.rate is not None:
        if not options.quiet:
            message = f"--rate {options.rate} replaces the rates of {options.place}: {own}"
            click.echo(message, err=True)
        return options.rate
    if not any(each.share for each in loads):
        raise InputError(
            f"{options.place} has rates of its own, {own}, and none is a share of the capacity",
            hint=f"Replace them: `--rate {_RATES}`; or measure at them with `steelyard run`.",
        )
    return None


def _capacity_command(options: CapacityOptions) -> str:
    words = [*_CAPACITY.split(), options.place]
    words += options.words_of("seed clients scale builtin protocol rate slo run_time budget")
    words += [*options.consents, *(["--allow-existing"] if options.allow_existing else [])]
    return shlex.join([*words, *options.job.switches, *options.words_of_flags])


_TRIAL_KEYS: Final = {
    "load.clients": "--clients",
    "load.protocol": "--protocol",
    "measure.run_time": "--run-time",
    "measure.executions": "--executions",
    "stop.budget": "--budget",
    "stop.detect": "--margin",
}
_WEIGHTED: Final = re.compile(r"(.+)@([^@]*)")
_WEIGHT: Final = re.compile(r"0*[1-9]\d*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions(WrittenOptions):
    """The command line of ``try``."""

    dsn: str | None
    changes: tuple[str, ...]
    profile: str | None
    server_memory: str | None
    server_cpus: str | None
    scripts: tuple[str, ...]
    top: int | None
    parameters: Path | None
    rewrites: tuple[str, ...]
    ddl: tuple[str, ...]
    clients: str | None
    restart_command: str | None
    reset_command: str | None
    margin: str | None
    run_time: str | None
    executions: int | None
    plans: bool
    anyway: bool
    save: Path | None
    conditions: tuple[str, ...]
    undecided: str
    junit: Path | None

    def run(self, source: str) -> RunOptions:
        """Return the command line of ``run`` for an experiment that is called so in messages."""
        gate = Gate(conditions=self.conditions, undecided=self.undecided, junit=self.junit)
        return replace(WrittenOptions.run(self, source), is_named=False, gate=gate)

    @property
    def rewritten(self) -> dict[str, str]:
        """Return the script that is tried in place of each that is rewritten."""
        pairs = (text.partition("=") for text in self.rewrites)
        return {old.strip(): new.strip() for old, _, new in pairs}

    @property
    def weighted_scripts(self) -> list[tuple[str, int]]:
        """Return all scripts with their weights; a rewritten one need not be named twice."""
        named = [_script_of(text) for text in self.scripts]
        known = {name for name, _ in named}
        return [*named, *((old, 1) for old in self.rewritten if old not in known)]


def run_trial(options: TrialOptions) -> None:
    """Try settings on a server; or only say what would be done, or write the file.

    Raises:
        InputError: Nothing is to be tried, or options are wrong.
        PreflightError: Nobody agreed.
    """
    seed = secrets.randbelow(SEED_LIMIT) if options.seed is None else options.seed
    run, doors = options.run(_TRIAL), real_doors()
    options = _with_top(options, doors)
    _require_trial(options)
    try:
        tried = _tried(options, seed, doors)
        loaded = load_written(trial_text(options, seed, tried), run, doors)

        def tell(assembly: Assembly) -> None:
            lines = (f"  {name:<10} {it}" for name, it in touched(loaded.experiment, assembly))
            click.echo("\n".join(["What is touched:", *lines, ""]), err=True)

        if options.save is not None:
            if options.save.exists():
                raise InputError(f"{options.save} is there already", hint="Name another file.")
            text = trial_text(options, seed, tried, home=options.save.parent)
            write_text(options.save, text, error_type=RecordError)
            click.echo(f"steelyard run {shlex.quote(str(options.save))}")
        elif options.dry_run and not options.plans:
            foresee(loaded, run, doors, told=tell)
        else:
            command = _trial_command(replace(options, seed=seed))
            quiet = options.quiet
            start(
                loaded,
                command,
                run,
                doors,
                told=(lambda _: None) if quiet else tell,
                answered=lambda it: answer_by_plans(loaded.experiment, it, options),
                agreed=lambda it: _agree_to_trial(it, options),
            )
    except ExperimentFileError as error:
        said = _said_of_options(error, _trial_option)
        run.gate.break_off(said, _TRIAL)
        raise said from error
    except PreflightError as error:
        error.hint = _in_options(error.hint, _TRIAL_KEYS)
        raise


def trial_text(options: TrialOptions, seed: int, tried: Tried, *, home: Path | None = None) -> str:
    """Return the experiment file of one server as it is, and with other settings.

    With ``home``, the directory where it is saved, it has all that `run` needs: names of scripts
    from there, gate and flags.

    Raises:
        InputError: The target is none, or of Redis.
    """
    target, system = target_at(options.dsn or "existing")
    if system is not None and not system.has_sessions:
        raise InputError(
            "`try` changes settings of its own sessions, and those of"
            f" {system.words.server} hold for all sessions",
            hint="Compare them on that server one after another: `steelyard run FILE --target"
            " redis://HOST`. docs/targets/redis-endpoint.md has such a file.",
        )
    if options.weighted_scripts and not options.ddl and target.get("kind") == "existing":
        target = {**target, "allow_existing": True}
    told: dict[str, Value] = {
        "restart_command": options.restart_command,
        "reset_command": options.reset_command,
        "memory": options.server_memory,
        "cpus": options.server_cpus,
    }
    target = {**target, **{key: value for key, value in told.items() if value}}
    alone = _ALONE if options.weighted_scripts else _CLIENTS
    numbers = (options.clients or alone).split(",")
    clients = [int(each) if each.isdecimal() else each for each in numbers]
    share = _yaml(options.margin or _MARGIN)
    lengths = {"run_time": options.run_time, "executions": options.executions}
    given = {name: value for name, value in lengths.items() if value}
    length = f"\nmeasure: {_yaml(given)}" if given else ""
    if home is not None:
        length += f"\ngate: {_yaml(options.conditions)}" if options.conditions else ""
        length += f"\ngenerator: {_yaml({'flags': options.flags})}" if options.flags else ""
    return f"""\
# Written by `steelyard try`: the server as it is, and with other settings.
version: 1
name: {_yaml(_trial_name(options, tried))}
baseline: {NOW}
workloads:
{_tried_workloads(options, home)}
load:
  clients: {_yaml(clients)}
  threads: auto
  protocol: {_yaml(options.protocol or _PROTOCOL)}{length}
# A difference below the effect that matters is none: the campaign ends there, too.
stop: {{budget: {_yaml(options.budget or _trial_budget(tried))}, detect: {share}, margin: {share}}}
seed: {seed}
configurations:
  {NOW}:
    target: {_yaml(target)}
{"".join(_configuration(name, options, tried, home) for name in tried.configurations)}"""


def _configuration(name: str, options: TrialOptions, tried: Tried, home: Path | None) -> str:
    rewritten = {_from(old, home): _from(new, home) for old, new in options.rewritten.items()}
    own = {"scripts": rewritten, "ddl": [*options.ddl]}
    further = "".join(f"    {key}: {_yaml(value)}\n" for key, value in own.items() if value)
    return f"""\
  {_yaml(name)}:
    extends: {NOW}
    {f"profile: {_yaml(options.profile)}" if options.profile else "# and with:"}
    postgres: {_yaml(tried.configurations[name])}
{further}"""


def _trial_name(options: TrialOptions, tried: Tried) -> str:
    """Return the name of a trial: the settings, each with all values that it has."""
    parts = [f"profile {options.profile}"] if options.profile else []
    parts += [f"{name} = {value}" for name, value in values_of(tried.configurations).items()]
    parts += [f"{new} for {old}" for old, new in options.rewritten.items()]
    parts += options.ddl
    return ", ".join(parts) or "as it is"


def _trial_budget(tried: Tried) -> str:
    """Return the default budget: 15 min for two configurations, in proportion for more."""
    return f"{_MINUTES * (len(tried.configurations) + 1) // 2}m"


def _require_trial(options: TrialOptions) -> None:
    """Refuse options of which one makes the others pointless."""
    if not (options.changes or options.profile or options.rewrites or options.ddl):
        raise InputError(
            "nothing is to be tried", hint="Name a setting, such as --set random_page_cost=1.1."
        )
    if options.ddl and (options.reset_command or not options.weighted_scripts):
        raise InputError(
            "--ddl is tried on copies of the tables that scripts name",
            hint="Name a script: --script FILE; and leave out --reset-command.",
        )
    _require_rewrites(options)
    if options.weighted_scripts and (options.builtin is not None or options.scale is not None):
        raise InputError(
            "--script, and --builtin or --scale: scripts run on the tables that are there",
            hint="Leave one of them out; a file of `steelyard run` can have both.",
        )
    if options.reset_command and not options.weighted_scripts:
        raise InputError(
            "--reset-command brings back data of your own, and without --script Steelyard makes the"
            " database",
            hint="Name a script, or leave it out: what Steelyard makes it copies anew each time.",
        )


def _require_rewrites(options: TrialOptions) -> None:
    for text in options.rewrites:
        if not all(part.strip() for part in text.partition("=")):
            raise InputError(
                f"--rewrite: {text!r} names no two scripts", hint="Write it as old.sql=new.sql."
            )
    if options.rewrites and options.plans:
        raise InputError(
            "--plans compares the plans of one statement, and --rewrite tries another statement",
            hint="Leave out --plans: the report shows the plans of both.",
        )


def _from(script: str, home: Path | None) -> str:
    """Return the name of a script from the directory of the experiment file."""
    if home is None or script.startswith(PRESET) or Path(script).is_absolute():
        return script
    return os.path.relpath(script, home)


def _tried_workloads(options: TrialOptions, home: Path | None) -> str:
    scripts = options.weighted_scripts
    if not scripts:
        return _builtin_workloads(options)
    name = _name_of(scripts[0][0]) if len(scripts) == 1 else "scripts"
    named = [{"file": _from(file, home), "weight": weight} for file, weight in scripts]
    copied = ", copy_tables: auto" if options.ddl else ""
    return f"  - {{name: {_yaml(name)}, scripts: {_yaml(named)}{copied}}}"


def _name_of(script: str) -> str:
    """Return a workload's name for a script, whose file may be called by any other characters."""
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(script).stem)
    return words.lstrip("-_")[:LONGEST_NAME] or "script"


_TOP: Final = Path("top-statements")  # where the statements of --top are written


def _with_top(options: TrialOptions, doors: Doors) -> TrialOptions:
    """Return the options with the dearest statements of the server as scripts, and print them.

    Raises:
        InputError: None of them can run, or the file of parameters is not one.
    """
    if options.top is None:
        if options.parameters is not None:
            raise InputError("--parameters has values for --top", hint="Add --top 10.")
        return options
    target, _ = target_at(options.dsn or "existing")
    uri = target.get("uri")
    found = top_statements(
        doors.sql.reach(
            keywords_of(EndpointTarget(uri=str(uri)) if uri else EndpointTarget()),
            any_database=False,
        ),
        doors.sql,
        options.top,
        parameters_of(options.parameters),
    )
    if not options.quiet:
        click.echo(printable("\n".join(top_lines(found, _TOP))), err=True)
    files = []
    make_directory(_TOP)
    for statement in (each for each in found if each.script):
        files.append(str(_TOP / f"q{statement.name}.sql"))
        write_text(Path(files[-1]), statement.script, error_type=RecordError)
    if not files:
        raise InputError(
            "pg_stat_statements has no statement that can run here",
            hint="Give the values of parameters: --parameters FILE.",
        )
    return replace(options, scripts=(*options.scripts, *files), top=None, parameters=None)


def _tried(options: TrialOptions, seed: int, doors: Doors) -> Tried:
    """Return the configurations of a trial; the server says which texts are lists.

    Raises:
        InputError: A setting is none, or several have several values.
    """
    wishes = wishes_of(options.changes)
    if not may_be_several(wishes):
        return tried_once(wishes)
    twins = trial_text(options, seed, UNCHANGED)
    loaded = load_written(twins, options.run(_TRIAL), doors)
    assembly = assemble(loaded.experiment, doors)
    try:
        tried = tried_values(wishes, assembly.engine)
    finally:
        assembly.close()
    for name, value in tried.left_out if not options.quiet else ():
        message = f"{name} = {value} is the value of the server: it is the baseline, {NOW}."
        click.echo(printable(message), err=True)
    return tried


def _script_of(text: str) -> tuple[str, int]:
    """Return a script with its weight, as pgbench takes them.

    Raises:
        InputError: The weight is not a whole number from 1 on.
    """
    weighted = _WEIGHTED.fullmatch(text)
    if weighted is None or Path(text).is_file():  # a name of a file may have an @
        return text, 1
    name, weight = weighted.groups()
    if not _WEIGHT.fullmatch(weight):
        raise InputError(
            f"--script {text}: the weight {weight!r} of {name} is not a whole number from 1 on",
            hint=f"Write {name}@1, or leave the script out: a weight of 0 would never run it.",
        )
    return name, int(weight)


def _trial_option(path: str) -> str:
    """Return the option that a key of the written file comes from, "" for what has none."""
    if path.startswith("workloads"):
        return "--builtin" if path.endswith(".builtin") else "--script" if ".file" in path else ""
    if path.startswith(f"configurations.{NOW}.target"):
        key = path.rpartition(".")[2]
        if key in ("memory", "cpus"):
            return f"--server-{key}"
        return f"--{key.replace('_', '-')}" if key.endswith("_command") else "--dsn"
    if path.startswith("configurations."):
        parts = {".postgres": "--set", ".scripts": "--rewrite", ".ddl": "--ddl"}
        return next((option for key, option in parts.items() if key in path), "--profile")
    return next((option for key, option in _TRIAL_KEYS.items() if path.startswith(key)), "")


def _agree_to_trial(assembly: Assembly, options: TrialOptions) -> None:
    """Ask whether what is touched is meant."""
    if options.yes or not endpoint_facts(assembly):  # a server that Steelyard starts itself
        return
    if not at_terminal():
        raise PreflightError(
            "nobody is there to agree to what is touched",
            hint="Add --yes if it is meant; --dry-run tells what it is.",
        )
    if not click.confirm("Start?", err=True):
        raise PreflightError("nothing was started", hint="Nothing was made or changed.")


def answer_by_plans(experiment: Experiment, assembly: Assembly, options: TrialOptions) -> bool:
    """Show which statements get another plan, if it is known; return whether that is the answer.

    It is where it was asked for, and where settings that act through plans alone change none.

    Raises:
        InputError: Plans are asked for where no statement is there before a run.
    """
    asked = {name: experiment.configuration(name).asked() for name in experiment.contenders}
    # A gate judges measurements, and a rewritten statement has another plan.
    measured = options.anyway or bool(options.conditions or options.rewrites or options.ddl)
    by_plan = all(assembly.engine.acts_by_plan(tuple(settings)) for settings in asked.values())
    if options.rewrites:
        return False
    try:
        series = [
            PlanSeries(
                settings,
                assembly.engine.plan_changes(NOW, name),
                by_plan and not measured,
                options.ddl,
            )
            for name, settings in asked.items()
        ]
    except (InputError, RefusedError):
        if options.plans:
            raise
        return False  # a measurement shows them
    if not all(each.changes for each in series):
        if not options.plans:
            return False
        raise InputError(
            "a plan can be compared only of statements of scripts, on existing tables",
            hint="Name a script: --script FILE.",
        )
    is_answer = options.plans or all(each.kept for each in series)
    if is_answer and options.form != "text":
        print_answer(
            options.form,
            lambda: plan_document(series),
            lambda: {"format": doc.FORMAT, **plan_keys(series)},
        )
    elif is_answer or not options.quiet:
        lines = (line for each in series for line in plan_lines(each, is_answer=is_answer))
        click.echo(printable("\n".join(lines)), err=not is_answer)
    return is_answer


def _trial_command(options: TrialOptions) -> str:
    words = _TRIAL.split()
    for name, values in (
        ("--set", options.changes),
        ("--script", options.scripts),
        ("--rewrite", options.rewrites),
        ("--ddl", options.ddl),
    ):
        words += [word for value in values for word in (name, value)]
    words += options.words_of(
        "dsn profile server_memory server_cpus builtin scale clients protocol restart_command"
        " reset_command margin run_time executions budget seed"
    )
    return shlex.join([*words, *options.consents, *options.words_of_flags])


def _said_of_options(error: ExperimentFileError, option_of: Callable[[str], str]) -> InputError:
    """Return the error in the words of the command line: nobody wrote that file.

    What follows from an option that could not be read is no problem of its own.

    ``option_of`` returns the option that a place in the file comes from, "" for what has none.
    """
    named = ((option_of(problem.path), problem) for problem in error.problems)
    found = [(option, problem) for option, problem in named if option]
    if not found:
        return error
    (option, first), *others = found
    if not others:
        return InputError(f"{option}: {first.message}", hint=_of_command_line(first.hint))
    # A way out behind each: one at the end would be that of one of them.
    lines = (f"{name}: {each.message} ({_of_command_line(each.hint)})" for name, each in found)
    return InputError("\n".join(lines))


def _in_options(hint: str, options: Mapping[str, str]) -> str:
    """Return a way out that names options in place of keys of the written file."""
    for key, option in options.items():
        hint = hint.replace(f"`{key}`", option)
    return hint


_ELSEWHERE: Final = {
    "Close it, or write a list of words.": "Close it.",
    "Write a list of words.": "Write a command, or leave it out.",
    "by `restart_command:` in the target or --restart-command": "by --restart-command",
    "Use `target: {connection: tcp}`.": "Remove it: a server that is there is reached as it is.",
    "Use `target: {connection: socket}`.": "Remove it: a server that is there is reached as it is.",
    "Use `target: {port: ...}`.": "Remove it, or name the port in --dsn.",
    "Use `target: {directory: ...}`.": "Remove it: a server that is there keeps its data.",
}


def _of_command_line(hint: str) -> str:
    """Return a way out without keys of a file that nobody wrote."""
    for ours, theirs in _ELSEWHERE.items():
        hint = hint.replace(ours, theirs)
    return hint
