"""Remarks in rendered files: why a setting has its value, and who says so."""

from textwrap import wrap
from typing import Final

from steelyard.model.stack import PlannedSetting

HEAD: Final = "Made by `steelyard stack plan`."
_WIDTH: Final = 98


def remark(setting: PlannedSetting) -> str:
    """Return why a setting has its value, what it is expected to bring and where that is from."""
    parts = [
        setting.reason.rstrip(" ."),
        f"Expected: {setting.effect.rstrip(' .')}" if setting.effect else "",
        f"Source: {setting.source.rstrip(' .')}" if setting.source else "",
    ]
    return " ".join(f"{part}." for part in parts if part)


def hashed(*paragraphs: str) -> str:
    """Return paragraphs as lines of comment, each line begun by ``#``."""
    lines = [line for each in paragraphs for line in wrap(each, _WIDTH)]
    return "".join(f"# {line}\n" for line in lines)
