"""Experiments from files and presets: the one door through which they are loaded.

text -> document (places of everything) -> overrides -> form -> checks -> experiment. Every stage
adds its problems to those of the stages before; they are raised together, in line order. Whether
the settings of an experiment exist comes later, because only the servers know.

Script files of workloads are read once, so that the record needs no other file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from steelyard.campaign.file.checks import checked, domain_issue
from steelyard.campaign.file.document import Document, Issue, KeyPath, parse_document
from steelyard.campaign.file.factors import (
    Combined,
    combined,
    factor_issues,
    relocated,
    spelled_out,
)
from steelyard.campaign.file.form import Draft, WorkloadForm, validate
from steelyard.campaign.file.form_values import SECRET, shown
from steelyard.campaign.file.inheritance import (
    Merged,
    extends_issues,
    merged_configurations,
    merged_issues,
)
from steelyard.campaign.file.overrides import apply_overrides
from steelyard.campaign.file.resolution import Surroundings, resolve
from steelyard.campaign.file.systems import SYSTEMS
from steelyard.core.errors import (
    ExperimentFileError,
    InputError,
    Problem,
    choice,
    closest,
    did_you_mean,
)
from steelyard.core.experiment import Configuration, Experiment, Layer
from steelyard.tuning.profiles import MachineFacts

PRESET: Final = "preset:"
_FOLDER: Final = "preset_files"
_SUFFIX: Final = ".yaml"


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    names = (entry.name for entry in files(__package__).joinpath(_FOLDER).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


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


# A role's password in SQL; a column called password is none of our business.
_ROLE_PASSWORD: Final = re.compile(
    r"\b(CREATE|ALTER)\s+(ROLE|USER)\b[^;]*\bPASSWORD\s+'", re.IGNORECASE
)
# The record stores every script; larger data sets belong into the database by other means.
MAX_SCRIPT_BYTES: Final = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTexts:
    """Texts of script files by name as given, and what is wrong with those that are missing."""

    texts: Mapping[str, str]
    issues: tuple[Issue, ...]


def read_scripts(draft: Draft, base: Path) -> ScriptTexts:
    """Return the texts of all scripts and definitions of machines, relative to ``base``."""
    texts: dict[str, str] = {}
    issues: list[Issue] = []
    for path, name in (*_named(draft.workloads), *_domains(draft)):
        outcome = _read(base, name)
        if isinstance(outcome, str):
            texts[name] = outcome
            if path[-1] == "domain" and (wrong := domain_issue(name, outcome)):
                message, hint = wrong
                issues.append(Issue(path=path, message=message, hint=hint))
        else:
            message, hint = outcome
            issues.append(Issue(path=path, message=message, hint=hint))
    return ScriptTexts(texts=texts, issues=tuple(issues))


def _named(workloads: Mapping[int, WorkloadForm]) -> Iterator[tuple[KeyPath, str]]:
    for index, workload in workloads.items():
        for place, name in enumerate(workload.prepare):
            yield ("workloads", index, "prepare", place), name
        for place, script in enumerate(workload.scripts):
            yield ("workloads", index, "scripts", place, "file"), script.file


def _domains(draft: Draft) -> Iterator[tuple[KeyPath, str]]:
    for name, configuration in draft.configurations.items():
        if configuration.kvm.domain is not None:
            yield ("configurations", name, "kvm", "domain"), configuration.kvm.domain
    for path, level in draft.levels.items():
        if level.kvm.domain is not None:
            yield (*path, "kvm", "domain"), level.kvm.domain


def _read(base: Path, name: str) -> str | tuple[str, str]:
    """Return the text, or what is wrong and the way out."""
    file = _located(base, name)
    try:
        if not file.is_file():
            return f"there is no file {shown(name)}", _nearby(file)
        if file.stat().st_size > MAX_SCRIPT_BYTES:
            return f"{shown(name)} is larger than 16 MiB", "Generate the data in SQL."
        return _usable(name, file.read_text("utf-8"))
    except UnicodeDecodeError:
        return f"{shown(name)} is not UTF-8 text", "Convert it to UTF-8."
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not usable"
        return f"{shown(name)} cannot be read: {reason}", "Check its name and permissions."


def _located(base: Path, name: str) -> Path:
    """Return where a file is: relative to the experiment's, or one that comes with Steelyard."""
    if not name.startswith(PRESET):
        return base / name
    own = Path(str(files(__package__).joinpath(_FOLDER)))
    inside = name.removeprefix(PRESET).split("/")
    return own.joinpath(*(step for step in inside if step != ".."))


def _usable(name: str, text: str) -> str | tuple[str, str]:
    if SECRET.search(text) or _ROLE_PASSWORD.search(text):
        return f"{shown(name)} has a password in it", "Records carry no secrets: remove it."
    if not text.strip():
        return f"{shown(name)} is empty", "Write the statements into it."
    return text


def _nearby(file: Path) -> str:
    folder = file.parent
    names = [other.name for other in folder.iterdir()] if folder.is_dir() else []
    advice = "Names are relative to the experiment file."
    return did_you_mean(file.name, names) or advice


MAX_FILE_BYTES = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedExperiment:
    """An experiment with the text it came from, so that later problems find their line too.

    Attributes:
        source: Name of the file, or ``preset:NAME``.
        text: As given, for the record.
        parents: What each configuration extends.
        written_in: For combinations of factors, where the keys of each may be written.
    """

    experiment: Experiment
    source: str
    text: str
    document: Document
    parents: Mapping[str, str | None]
    written_in: Mapping[str, tuple[KeyPath, ...]] = field(default_factory=dict)

    def problem(
        self, path: Sequence[str | int], message: str, hint: str = "", *, at_key: bool = False
    ) -> Problem:
        """Return a problem at a place such as ``("configurations", "a", "postgres", "work_mem")``.

        A value that a configuration inherits is found where it was written. ``at_key`` points at
        the key, not at its value.
        """
        written = self._written(tuple(path))
        issue = Issue(path=written, message=message, hint=hint, at_key=at_key)
        return self.document.problem(issue)

    def only_extends(self, configuration: str) -> bool:
        """Return whether the file has nothing of a configuration but what it extends."""
        written = self.document.at(("configurations", configuration))
        return isinstance(written, dict) and list(written) == ["extends"]

    def error(self, problems: Sequence[Problem]) -> ExperimentFileError:
        """Return the error that says these problems, in line order."""
        return ExperimentFileError(self.source, in_line_order(problems))

    def _written(self, path: KeyPath) -> KeyPath:
        if len(path) < 3 or path[0] != "configurations":
            return path
        for source in self.written_in.get(str(path[1]), ()):
            if (*source, *path[2:]) in self.document.places:
                return (*source, *path[2:])
        owner: str | None = str(path[1])
        while owner is not None:
            candidate = ("configurations", owner, *path[2:])
            if candidate in self.document.places:
                return candidate
            owner = self.parents.get(owner)
        return path


def load_experiment(
    source: str | Path,
    *,
    facts: MachineFacts,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    generator_flags: Sequence[str] = (),
) -> LoadedExperiment:
    """Return the experiment of a file or of ``preset:NAME``.

    Names in a file are relative to it, those in overrides of a preset to the current directory.

    Raises:
        InputError: There is no such preset.
        ExperimentFileError: With all problems at once, in line order.
    """
    preset = _preset(source)
    text = _file_text(Path(source)) if preset is None else preset_text(preset)
    base = Path(source).absolute().parent if preset is None else Path.cwd()
    surroundings = Surroundings(base=base, facts=facts, seed=seed, generator_flags=generator_flags)
    return load_text(text, str(source), surroundings, overrides)


def _preset(source: str | Path) -> str | None:
    """Return the name of a preset, None for a file."""
    named = isinstance(source, str) and source.startswith(PRESET)
    return str(source).removeprefix(PRESET) if named else None


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
    draft, issues = validate(document)
    scripts = read_scripts(draft, surroundings.base)
    unsound = (*issues, *factor_issues(draft, surroundings.facts))
    plan = None if unsound or document.problems else combined(draft, surroundings.facts)
    own = merged_configurations(draft, surroundings.facts)
    between = (
        *_between_sections(draft, own, plan),
        *SYSTEMS[draft.engine].memory_issues(draft, surroundings.facts),
    )
    found = (*unsound, *between, *scripts.issues)
    problems = [*document.problems, *map(document.problem, found)]
    if problems or draft.form is None:
        raise ExperimentFileError(source, in_line_order(problems))
    merged = plan.merged if plan else own
    experiment = resolve(draft.form, merged, scripts.texts, surroundings)
    if plan is not None:
        experiment = replace(experiment, baseline=plan.baseline, attribution=plan.attribution)
    return LoadedExperiment(
        experiment=experiment,
        source=source,
        text=text,
        document=document,
        parents={name: form.extends for name, form in draft.configurations.items()},
        written_in=plan.written_in if plan else {},
    )


def _between_sections(
    draft: Draft, merged: Mapping[str, Merged], plan: Combined | None
) -> tuple[Issue, ...]:
    found = [*merged_issues(draft, merged)]
    if plan is not None:
        found = relocated([*found, *merged_issues(draft, plan.merged)], plan, draft)
    return (*checked(draft), *extends_issues(draft), *found)


def in_line_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems by line and column, those without a line (``--set``) last, each once.

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
        return path.read_bytes().decode("utf-8-sig")
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
    configurations = tuple(
        replace(configuration, target=configuration.target.opened())
        for configuration in experiment.configurations
    )
    return replace(loaded, experiment=replace(experiment, configurations=configurations))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingCatalogue:
    """The settings that one server knows.

    Attributes:
        names: As the server spells them.
        server: What to call it: ``PostgreSQL 15.18``.
    """

    names: frozenset[str]
    server: str = "this server"


def check_settings(
    loaded: LoadedExperiment, catalogues: Mapping[str, SettingCatalogue]
) -> tuple[Problem, ...]:
    """Return a problem for every setting that its configuration's server does not know.

    PostgreSQL's names with a dot belong to extensions, which are not loaded yet: they pass.
    Configurations without a catalogue are not checked.
    """
    problems = dict.fromkeys(
        problem
        for configuration in loaded.experiment.configurations
        if configuration.name in catalogues
        for problem in _unknown(loaded, configuration, catalogues[configuration.name])
    )
    return tuple(problems)


def _unknown(
    loaded: LoadedExperiment, configuration: Configuration, catalogue: SettingCatalogue
) -> Iterator[Problem]:
    known = {name.lower() for name in catalogue.names}
    for setting in configuration.settings:
        if setting.layer is configuration.server_layer:
            of_extension = setting.layer is Layer.POSTGRES and "." in setting.name
            if of_extension or setting.name.lower() in known:
                continue
            path = ("configurations", configuration.name, setting.layer.value, setting.name)
            hint = did_you_mean(setting.name, sorted(catalogue.names))
            message = f"`{setting.name}` is not a setting of {catalogue.server}"
            yield loaded.problem(path, message, hint or "Remove it.", at_key=True)
