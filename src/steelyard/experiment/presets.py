"""Presets: experiment files that come with Steelyard."""

from importlib.resources import files
from typing import Final

from steelyard.experiment.suggestions import choice, shown
from steelyard.model.errors import InputError

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
