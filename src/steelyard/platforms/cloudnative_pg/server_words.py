"""What a server of a Cluster said last, out of the log of its pod.

The instance manager writes JSON, one object a line: what PostgreSQL logged once it runs in the key
``record``, what it wrote to standard error before that in ``msg``, and its own messages between.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SERVER: Final = "postgres"  # the logger that passes on what PostgreSQL says
_GRAVE: Final = frozenset({"FATAL", "PANIC"})
# The server is on its way up or down; somebody came with a wrong password.
_PASSING: Final = frozenset({"57P03", "57P01", "28P01"})
_PLAIN: Final = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?P<severity>[A-Z]+):\s+(?P<message>.*)$")
_BEFORE: Final = 2  # lines that a refusal of the configuration explains itself in
_SHOWN: Final = 300


def last_words(log: str) -> str:
    """Return why a server ended, as it said it; empty where it said nothing grave.

    That is the last grave message, and the lines of the server just before it, which name the
    setting where it was the configuration.
    """
    said = list(_said(log))
    grave = [n for n, (severity, _) in enumerate(said) if severity in _GRAVE]
    if not grave:
        return _own_errors(log)
    last = grave[-1]
    words = [text for _, text in said[max(0, last - _BEFORE) : last] if _explains(text)]
    return "; ".join([*words, said[last][1]])[:_SHOWN]


def plain_log(log: str) -> str:
    """Return what PostgreSQL itself said, a message a line."""
    return "".join(f"{severity}: {message}\n" for severity, message in _said(log))


def _explains(text: str) -> bool:
    return "parameter" in text or "configuration" in text or "invalid" in text


def _said(log: str) -> Iterator[tuple[str, str]]:
    """Yield severity and message of all that the server said."""
    for line in _lines(log):
        if line.get("logger") != _SERVER:
            continue
        record = line.get("record")
        if isinstance(record, Mapping):
            if str(record.get("sql_state_code")) not in _PASSING:
                detail = f" ({record['detail']})" if record.get("detail") else ""
                yield str(record.get("error_severity")), f"{record.get('message')}{detail}"
            continue
        found = _PLAIN.match(str(line.get("msg") or ""))
        if found:
            yield found["severity"], found["message"]


def _own_errors(log: str) -> str:
    """Return the last error of a program that ran before the server, or of the manager itself."""
    lines = list(_lines(log))
    printed = [str(line.get("msg") or "").strip() for line in lines if line.get("pipe") == "stderr"]
    told = [text for text in printed if "error" in text.lower()]
    own = [
        ": ".join(filter(None, (str(line.get("msg") or ""), str(line.get("error") or ""))))
        for line in lines
        if line.get("level") == "error"
    ]
    return (told or own or [""])[-1][:_SHOWN]


def _lines(log: str) -> Iterator[Mapping[str, Any]]:
    for line in log.splitlines():
        try:
            parsed = json.loads(line)
        except ValueError:  # cut off, or not from the instance manager
            continue
        if isinstance(parsed, Mapping):
            yield parsed
