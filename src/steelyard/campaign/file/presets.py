"""Presets: experiment files that come with Steelyard.

Script files of workloads, read once, so that the record needs no other file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from steelyard.campaign.file.document import Issue, KeyPath
from steelyard.campaign.file.form import WorkloadForm
from steelyard.campaign.file.form_values import SECRET, shown
from steelyard.campaign.file.target_checks import domain_issue
from steelyard.campaign.file.validation import Draft
from steelyard.core.errors import InputError
from steelyard.core.spelling import choice, did_you_mean

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
    for name, treatment in draft.treatments.items():
        if treatment.kvm.domain is not None:
            yield ("treatments", name, "kvm", "domain"), treatment.kvm.domain
    for path, level in draft.levels.items():
        if level.kvm.domain is not None:
            yield (*path, "kvm", "domain"), level.kvm.domain


def _read(base: Path, name: str) -> str | tuple[str, str]:
    """Return the text, or what is wrong and the way out."""
    file = base / name
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
