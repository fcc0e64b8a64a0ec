"""What a user must be allowed who sends the load of an experiment, and nothing beyond it."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.engines.redis.words import COMMANDS, NUMBER, OTHER_NAMES
from steelyard.model.workload import Workload

_MIX: Final = ("get", "set")  # of memtier_benchmark
_NO_KEY: Final = frozenset({"ping"})


def rights_of(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Return the rules for ACL SETUSER: the commands of the workloads, on the names of their keys.

    A command of the user's own may name keys anywhere, so it may use all.
    """
    rules = dict.fromkeys(rule for workload in workloads for rule in _rules(workload))
    return ("+select", *rules)


def _rules(workload: Workload) -> Iterator[str]:
    own = workload.redis.command if workload.redis is not None else ()
    if own:
        yield from (f"+{own[0].lower()}", "~*")
        return
    asked = workload.builtin or ""
    named = OTHER_NAMES.get(asked, asked)
    for command in [COMMANDS[named]] if named in COMMANDS else [COMMANDS[name] for name in _MIX]:
        verb = command[0].lower()
        yield f"+{verb}"
        if verb not in _NO_KEY:
            yield f"~{command[1].replace(NUMBER, '*')}"
