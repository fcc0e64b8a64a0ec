"""What a Redis server says of why it does not start, among the lines of its log."""

import re
from typing import Final

# Lines of the log begin with process, role, time and level: `1:C 22 Nov 2026 17:00:00.000 # ...`.
_LOGGED: Final = re.compile(r"^\d+:[XCSM] .{15,30}? (?P<level>[.\-*#]) (?P<text>.*)$")
_GRAVE: Final = "#"
_USUAL: Final = ("WARNING", "oO0OoO", "Warning:", "Redis version", "Configuration loaded")
_FATAL: Final = "FATAL CONFIG FILE ERROR"
_MOST_LINES: Final = 3


def complaint_in(log: str) -> str:
    """Return what a server complains of, in one line; empty where it does not."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if _FATAL in line:
            return " ".join(lines[place + 1 : place + 1 + _MOST_LINES])
    logged = (_LOGGED.match(line) for line in lines)
    grave = [m["text"] for m in logged if m is not None and m["level"] == _GRAVE]
    told = [text for text in grave if not any(word in text for word in _USUAL)]
    bare = [line for line in lines if _LOGGED.match(line) is None]
    return " ".join((told or bare)[-_MOST_LINES:])
