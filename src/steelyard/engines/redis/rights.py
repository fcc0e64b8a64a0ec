"""What a user must be allowed who sends the load of an experiment, and nothing beyond it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.engines.redis.words import COMMANDS, DATA, MIX, NUMBER, OTHER_NAMES
from steelyard.model.workload import Workload

_NO_KEY: Final = frozenset({"ping"})
_ANY_KEY: Final = frozenset({"sort", "sort_ro"})  # BY and GET take a right to all
# Source: the commands with subcommands of Redis 7.4; a right to one of them is one to all of its.
_CONTAINERS: Final = frozenset(
    (
        *("acl", "client", "cluster", "command", "config", "function", "latency", "memory"),
        *("module", "object", "pubsub", "script", "slowlog", "xgroup", "xinfo"),
    )
)


def rights_of(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Return the rules for ACL SETUSER: the commands of the workloads, on the names of their keys.

    Which words of a command of the user's own are keys is not known: it may use those that are
    called like any of its words. That of a command with commands below it is the one below alone.
    """
    rules = dict.fromkeys(rule for workload in workloads for rule in _rules(workload))
    return ("+select", *rules)


def _own(command: Sequence[str]) -> Iterator[str]:
    verb, *words = command
    below = verb.lower() in _CONTAINERS and words
    yield f"+{verb}|{words[0]}".lower() if below else f"+{verb}".lower()
    if verb.lower() in _ANY_KEY:
        yield "~*"
        return
    # A value is no name of a key, unless it comes first.
    keys = [word for number, word in enumerate(words) if number == 0 or DATA not in word]
    yield from (f"~{_named(word)}" for word in keys)


def _named(word: str) -> str:
    """Return the names of the keys that a word stands for, as a pattern."""
    if word == NUMBER:
        return "[0-9_]*"  # without a range of keys it is sent as it stands
    return re.sub(r"[\\*?\[\]]", r"\\\g<0>", word).replace(NUMBER, "*").replace(DATA, "*")


def _rules(workload: Workload) -> Iterator[str]:
    own = workload.redis.command if workload.redis is not None else ()
    if own:
        yield from _own(own)
        return
    asked = workload.builtin or ""
    named = OTHER_NAMES.get(asked, asked)
    for command in [COMMANDS[named]] if named in COMMANDS else [COMMANDS[name] for name in MIX]:
        verb = command[0].lower()
        yield f"+{verb}"
        if verb not in _NO_KEY:
            yield f"~{command[1].replace(NUMBER, '*')}"
