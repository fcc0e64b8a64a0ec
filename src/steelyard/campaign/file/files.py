"""Experiments from files and presets: the one door through which they are loaded.

text -> document (places of everything) -> overrides -> form -> checks -> experiment. Every stage
adds its problems to those of the stages before; they are raised together, in line order. Whether
the settings of an experiment exist comes later, because only the servers know.

The last stage, resolution, goes from a sound form to the experiment: everything concrete, nothing
left to look up. Script files of workloads are read once, so that the record needs no other file.
"""

import math
import secrets
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.campaign.file.checks import checked, implied_baseline
from steelyard.campaign.file.document import Document, Issue, KeyPath, parse_document
from steelyard.campaign.file.form import (
    ConfigurationForm,
    Draft,
    ExperimentForm,
    LevelForm,
    engine_of,
    validate,
)
from steelyard.campaign.file.inheritance import (
    combined,
    extends_issues,
    factor_issues,
    inherited,
    merged_issues,
    spelled_out,
)
from steelyard.campaign.file.kinds import located
from steelyard.campaign.file.overrides import apply_overrides
from steelyard.campaign.file.shortening import shortened
from steelyard.campaign.file.systems import SYSTEMS, System, load_command
from steelyard.core import experiment as model
from steelyard.core.quantities import shown
from steelyard.core.schedule import QUOTA_SETTLING_S, QUOTA_TURN_S, Load, LoadCommand, LoadsAsked
from steelyard.core.target import DatabaseSystem, EngineName
from steelyard.core.wording import (
    SEED_LIMIT,
    ExperimentFileError,
    InputError,
    Problem,
    choice,
    closest,
    did_you_mean,
    script_holds_secret,
)
from steelyard.tuning.profiles import MachineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an experiment is resolved with, besides its file.

    Attributes:
        base: Directory that names in the file are relative to.
        facts: Of the machine that the generator and the local servers run on.
        seed: In place of the file's; None keeps the file's, or draws one.
        generator_flags: Come after the file's.
    """

    base: Path
    facts: MachineFacts
    seed: int | None = None
    generator_flags: Sequence[str] = ()


def resolve(
    draft: Draft, form: ExperimentForm, texts: Mapping[str, str], surroundings: Surroundings
) -> model.Experiment:
    """Return the experiment of a form that all checks have passed."""
    merged = draft.configurations
    names = tuple(merged)
    configurations = tuple(
        _configuration(name, configuration, texts, surroundings.base)
        for name, configuration in merged.items()
    )
    engine = EngineName(form.engine)
    system = SYSTEMS[engine]
    workloads = tuple(
        _workload(each, form.generator.command, texts, surroundings.base, system)
        for each in form.workloads
    )
    about = workloads[0].command.seen_in(system.about) if workloads[0].command else system.about
    generator = model.GeneratorName(about.words.generator)
    by_pgbench = generator is model.GeneratorName.PGBENCH  # others prepare no statements
    processes = form.load.generators * (
        form.generator.workers.number if form.generator.workers else 1
    )
    asked = replace(form.load, generators=processes)
    cpus = _generator_cpus(configurations, asked, surroundings)
    loads = asked.loads(form.slo, partial(system.threads, cpus))
    return model.Experiment(
        name=form.name,
        description=form.description or "",
        baseline=form.baseline or implied_baseline(names) or names[0],
        configurations=configurations,
        workloads=workloads,
        loads=loads,
        protocol=form.load.protocol if by_pgbench else "simple",
        measure=_measure(draft, form.measure, about, configurations),
        stop=form.stop,
        seed=_seed(surroundings.seed, form.seed),
        engine=engine,
        gate=tuple(form.gate),
        design=model.Design(form.design),
        capacity=_capacity(form.capacity, loads),
        goal=form.slo,
        terms=None if form.terms is None else model.ServerTerms(form.terms),
        sustained_s=form.sustain,
        generator=generator,
        generator_flags=(*form.generator.flags, *surroundings.generator_flags),
        workers=form.generator.workers,
    )


def _seed(asked: int | None, written: int | None) -> int:
    given = written if asked is None else asked
    return secrets.randbelow(SEED_LIMIT) if given is None else given


def _configuration(
    name: str, merged: ConfigurationForm, texts: Mapping[str, str], base: Path
) -> model.Configuration:
    return model.Configuration(
        name=name,
        target=located(merged.target.model, base),
        settings=tuple(
            sorted(
                model.Setting(layer=model.Layer(layer), name=setting, value=value)
                for layer, asked in merged.settings.items()
                for setting, value in asked.items()
                if value is not None
            )
        ),
        protocol=merged.protocol,
        prepare=(
            *_read_scripts((model.Script(name=each) for each in merged.prepare), texts),
            *(model.Script(name=each, text=f"{each.rstrip(';')};\n") for each in merged.ddl),
        ),
        scripts=tuple(
            model.Script(name=name, text=texts[file], rewritten_in=file)
            for name, file in merged.scripts.items()
        ),
        profiles=tuple(merged.profile),
        manual=merged.manual,
    )


def _read_scripts(
    scripts: Iterable[model.Script], texts: Mapping[str, str]
) -> tuple[model.Script, ...]:
    return tuple(replace(each, text=texts[each.name]) for each in scripts)


def _workload(
    workload: model.Workload,
    command: LoadCommand,
    texts: Mapping[str, str],
    base: Path,
    system: System,
) -> model.Workload:
    return replace(
        workload,
        builtin=system.one_test(workload.builtin),
        prepare=_read_scripts(workload.prepare, texts),
        scripts=_read_scripts(workload.scripts, texts),
        redis=workload.redis or (None if system.work is None else system.work()),
        command=load_command(command, workload.name, base),
    )


def _generator_cpus(
    configurations: Sequence[model.Configuration], loads: LoadsAsked, surroundings: Surroundings
) -> int:
    """Return how many threads have a CPU of their own: here, or in the pod of the load."""
    place = model.generator_place(configurations)
    if place is not None:
        return max(place.generators.cpus, loads.generators)
    return max(1, math.floor(surroundings.facts.cpus), loads.generators)


def _capacity(
    asked: model.CapacityAsked | None, loads: Sequence[Load]
) -> model.CapacityAsked | None:
    """Return how the capacity is found; None where no load is a share of it."""
    if not any(load.share is not None for load in loads):
        return None
    asked = asked or model.CapacityAsked()
    most = max(load.clients for load in loads)
    clients = asked.clients or [*(2**power for power in range(most.bit_length())), most]
    return replace(asked, clients=tuple(sorted(set(clients))))


def _measure(
    draft: Draft,
    measure: model.Measure,
    about: DatabaseSystem,
    configurations: Sequence[model.Configuration],
) -> model.Measure:
    """Return how a run is taken, with equal turns for all: as written, else as the longest need is.

    Some generators cannot leave a ramp out; one that is asked for is refused.
    """
    held = any(
        each.target.has_cpu_quota or "cpus" in each.asked(model.Layer.CGROUP)
        for each in configurations
    )
    turns, given = measure.turns, draft.document.at(("measure",))
    if held and not (isinstance(given, dict) and given.keys() & {"turn", "turn_discard"}):
        turns = replace(turns, turn_s=QUOTA_TURN_S, turn_discard_s=QUOTA_SETTLING_S)
    return replace(
        measure, turns=turns, discard_start_s=measure.discard_start_s if about.has_ramp else 0.0
    )


PRESET: Final = "preset:"
_FOLDER: Final = "preset_files"
_SUFFIX: Final = ".yaml"


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return _names_of(_FOLDER, _SUFFIX)


def _names_of(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the names of the files of ours in a folder, sorted."""
    names = (entry.name for entry in files(__package__).joinpath(folder).iterdir())
    return tuple(sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix)))


def preset_text(name: str) -> str:
    """Return the text of a preset.

    Raises:
        InputError: There is none of that name.
    """
    if name not in preset_names():
        raise InputError(f"there is no preset {shown(name)}", hint=choice(name, preset_names()))
    return files(__package__).joinpath(_FOLDER, name + _SUFFIX).read_text("utf-8")


def preset_summary(name: str) -> str:
    """Return the first sentence of a preset's header comment.

    Raises:
        InputError: There is none of that name.
    """
    return preset_text(name).split("\n", maxsplit=1)[0].removeprefix("#").strip()


ARTICLE: Final = "article:"
_ARTICLES: Final = "article_files"
_TOML: Final = ".toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What is run where a study cannot be.

    Attributes:
        says: What stands for what.
    """

    preset: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One campaign of a bundle.

    Attributes:
        name: Of its directory.
        asks: Its question.
    """

    name: str
    preset: str
    asks: str
    stand_in: StandIn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The studies of a published article.

    Attributes:
        cited: The article.
        not_shown: What of it no study shows, wherever it is run.
    """

    title: str
    cited: str
    studies: tuple[Study, ...]
    not_shown: tuple[str, ...] = ()


def bundle_names() -> tuple[str, ...]:
    """Return the names of all bundles, sorted."""
    return _names_of(_ARTICLES, _TOML)


def load_bundle(name: str) -> Bundle:
    """Return a bundle.

    Raises:
        InputError: There is none of that name.
    """
    if name not in bundle_names():
        raise InputError(f"there is no article {shown(name)}", hint=choice(name, bundle_names()))
    text = files(__package__).joinpath(_ARTICLES, name + _TOML).read_text("utf-8")
    return TypeAdapter(Bundle).validate_python(tomllib.loads(text))


# The record stores every script; larger data sets belong into the database by other means.
MAX_SCRIPT_BYTES: Final = 16 * 1024**2


def read_scripts(draft: Draft, base: Path) -> tuple[Mapping[str, str], Sequence[Issue]]:
    """Return the texts of all scripts, by name as given below ``base``.

    And what is wrong with those that are missing.
    """
    texts: dict[str, str] = {}
    issues: list[Issue] = []
    for path, name in (*_named(draft.workloads), *_prepared(draft)):
        outcome = _read(base, name)
        if isinstance(outcome, str):
            texts[name] = outcome
        else:
            message, hint = outcome
            issues.append(Issue(path=path, message=message, hint=hint))
    return texts, issues


def _named(workloads: Mapping[int, model.Workload]) -> Iterator[tuple[KeyPath, str]]:
    for index, workload in workloads.items():
        for place, script in enumerate(workload.prepare):
            yield ("workloads", index, "prepare", place), script.name
        for place, script in enumerate(workload.scripts):
            yield ("workloads", index, "scripts", place, "file"), script.name


def _levels(draft: Draft) -> Iterator[tuple[KeyPath, LevelForm]]:
    """Yield configurations and levels of factors, with where they stand."""
    for name, configuration in draft.configurations.items():
        yield ("configurations", name), configuration
    yield from draft.levels.items()


def _prepared(draft: Draft) -> Iterator[tuple[KeyPath, str]]:
    for path, level in _levels(draft):
        for place, name in enumerate(level.prepare):
            yield (*path, "prepare", place), name
        for replaced, name in level.scripts.items():
            yield (*path, "scripts", replaced), name


def _read(base: Path, name: str) -> str | tuple[str, str]:
    """Return the text, or what is wrong and the way out."""
    file = _located(base, name)
    try:
        if not file.is_file():
            return f"there is no file {shown(name)}", _nearby(file)
        if file.stat().st_size > MAX_SCRIPT_BYTES:
            return f"{shown(name)} is larger than 16 MiB", "Generate the data in SQL."
        return _usable(name, _text_of(file))
    except UnicodeDecodeError:
        return f"{shown(name)} is not UTF-8 text", "Convert it to UTF-8."
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not usable"
        return f"{shown(name)} cannot be read: {reason}", "Check its name and permissions."


def _text_of(file: Path) -> str:
    """Return the text of a file that somebody wrote, in any editor: without a byte-order mark."""
    return file.read_text("utf-8-sig")


def _located(base: Path, name: str) -> Path:
    """Return where a file is: relative to the experiment's, or one that comes with Steelyard."""
    if not name.startswith(PRESET):
        return base / name
    own = Path(str(files(__package__).joinpath(_FOLDER)))
    inside = name.removeprefix(PRESET).split("/")
    return own.joinpath(*(step for step in inside if step != ".."))


def _usable(name: str, text: str) -> str | tuple[str, str]:
    if script_holds_secret(text):
        return f"{shown(name)} has a password in it", "Records carry no secrets: remove it."
    if not text.strip():
        return f"{shown(name)} is empty", "Write the statements into it."
    return text


def _nearby(file: Path) -> str:
    folder = file.parent
    names = [other.name for other in folder.iterdir()] if folder.is_dir() else []
    advice = "Names are relative to the experiment file, for `steelyard try` to this directory."
    return did_you_mean(file.name, names) or advice


MAX_FILE_BYTES = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedExperiment:
    """An experiment with the text it came from, so that later problems find their line too.

    Attributes:
        source: Name of the file, or ``preset:NAME``.
        text: As given, for the record.
    """

    experiment: model.Experiment
    source: str
    text: str
    document: Document

    def problem(
        self, path: Sequence[str | int], message: str, hint: str = "", *, at_key: bool = False
    ) -> Problem:
        """Return a problem at a place such as ``("configurations", "a", "postgres", "work_mem")``.

        A value that a configuration inherits is found where it was written. ``at_key`` points at
        the key, not at its value.
        """
        issue = Issue(path=tuple(path), message=message, hint=hint, at_key=at_key)
        return self.document.problem(issue)

    def only_extends(self, configuration: str) -> bool:
        """Return whether the file has nothing of a configuration but what it extends."""
        own = ("configurations", configuration)
        written = {path[2] for path in self.document.places if path[:2] == own and len(path) > 2}
        return written == {"extends"}

    def error(self, problems: Sequence[Problem]) -> ExperimentFileError:
        """Return the error that says these problems, in line order."""
        return ExperimentFileError(self.source, in_line_order(problems))


def load_experiment(
    source: str | Path,
    *,
    facts: MachineFacts,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    generator_flags: Sequence[str] = (),
    short: bool = False,
) -> LoadedExperiment:
    """Return the experiment of a file or of ``preset:NAME``.

    Names in a file are relative to it, those in overrides of a preset to the current directory.
    With ``short`` the file is made short first.

    Raises:
        InputError: There is no such preset.
        ExperimentFileError: With all problems at once, in line order.
    """
    named = isinstance(source, str) and source.startswith(PRESET)
    preset = str(source).removeprefix(PRESET) if named else None
    text = _file_text(Path(source)) if preset is None else preset_text(preset)
    base = Path(source).absolute().parent if preset is None else Path.cwd()
    surroundings = Surroundings(base=base, facts=facts, seed=seed, generator_flags=generator_flags)
    if short:
        overrides = (*shortened(parse_document(text)), *overrides)
    return load_text(text, str(source), surroundings, overrides)


def load_text(
    text: str, source: str, surroundings: Surroundings, overrides: Sequence[str] = ()
) -> LoadedExperiment:
    """Return the experiment of a text.

    Raises:
        ExperimentFileError: With all problems at once, in line order.
    """
    document = spelled_out(apply_overrides(parse_document(text), overrides))
    if document.value is None and document.problems:
        raise ExperimentFileError(source, document.problems)
    facts = surroundings.facts
    on_machine = facts if SYSTEMS[engine_of(document)].takes_profiles else None
    draft, issues = validate(inherited(document, on_machine))
    texts, of_scripts = read_scripts(draft, surroundings.base)
    unsound = (*issues, *factor_issues(draft, document, facts))
    plan = None if unsound or document.problems else combined(draft, document, on_machine)
    found = (
        *unsound,
        *checked(draft),
        *extends_issues(draft),
        *merged_issues(draft),
        *SYSTEMS[draft.engine].memory_issues(draft, facts),
        *of_scripts,
    )
    told = [draft.document.problem(each) for each in found]
    if plan is not None:
        draft, wrong = validate(plan.document)
        told += map(plan.document.problem, (*wrong, *merged_issues(draft)))
    # What could not be read is missing; its place has one problem.
    unread = {(problem.line, problem.column) for problem in document.problems}
    seen = [one for one in told if one.line is None or (one.line, one.column) not in unread]
    problems = [*document.problems, *seen]
    if problems or draft.form is None:
        raise ExperimentFileError(source, in_line_order(problems))
    experiment = resolve(draft, draft.form, texts, surroundings)
    if plan is not None:
        experiment = replace(experiment, baseline=plan.baseline, attribution=plan.attribution)
    return LoadedExperiment(
        experiment=experiment, source=source, text=text, document=draft.document
    )


def in_line_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems by line and column, those without a line (``--override``) last, each once.

    What an option says of every target is one problem, however many there are.
    """
    return sorted(
        dict.fromkeys(problems),
        key=lambda problem: (problem.line is None, problem.line or 0, problem.column or 0),
    )


def _file_text(path: Path) -> str:
    source = str(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            message = "it is larger than 1 MiB, which no experiment is"
            raise ExperimentFileError(source, [Problem(message=message, hint="Name another file.")])
        return _text_of(path)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - (error.object.rfind(b"\n", 0, error.start) + 1) + 1
        problem = Problem(
            message="it is not UTF-8 text", hint="Convert it.", line=line, column=column
        )
        raise ExperimentFileError(source, [problem]) from error
    except FileNotFoundError as error:
        near = closest(path.stem, preset_names())
        hint = f"did you mean `{PRESET}{near}`?" if near else f"A preset is `{PRESET}NAME`."
        raise InputError(
            f"there is no file {source}", hint=f"{hint} `steelyard presets` lists all presets."
        ) from error
    except OSError as error:
        raise InputError(
            f"{source} cannot be read: {error.strerror}",
            hint="Name a file that this account may read, or a preset: `steelyard presets`.",
        ) from error


def allow_existing(loaded: LoadedExperiment) -> LoadedExperiment:
    """Return the experiment with what it names on servers that are there allowed: their use.

    That is a database of an endpoint, or the settings of a Cluster.

    Raises:
        InputError: It has neither.
    """
    experiment = loaded.experiment
    there = [t.name for t in experiment.configurations if not t.target.is_made]
    if not there:
        raise InputError(
            "--allow-existing is for servers that are there, and the experiment has none",
            hint="Leave it out.",
        )
    return replace(loaded, experiment=experiment.with_targets(lambda target: target.opened()))


def unknown_settings(
    loaded: LoadedExperiment, name: str, known: Collection[str], server: str
) -> Iterator[Problem]:
    """Yield a problem for every setting of a configuration that its server does not know.

    PostgreSQL's names with a dot belong to extensions, which are not loaded yet: they pass.

    Args:
        loaded: The experiment.
        name: Of the configuration.
        known: Names, as the server spells them.
        server: What to call it: ``PostgreSQL 15.18``.
    """
    configuration = loaded.experiment.configuration(name)
    folded = {each.lower() for each in known}
    for setting in configuration.settings:
        if setting.layer is configuration.server_layer:
            of_extension = setting.layer is model.Layer.POSTGRES and "." in setting.name
            if of_extension or setting.name.lower() in folded:
                continue
            path = ("configurations", name, setting.layer.value, setting.name)
            hint = did_you_mean(setting.name, sorted(known))
            message = f"`{setting.name}` is not a setting of {server}"
            if not configuration.target.is_made:  # who runs it may let only some be seen
                message = f"`{setting.name}` is not among the settings that {server} shows"
            yield loaded.problem(path, message, hint or "Remove it.", at_key=True)
