r"""Scripts of pgbench in an order of ours: one file has all executions, and pgbench times each.

pgbench draws scripts at random. Of long statements a run holds few, so that the draw would decide
what was measured. So their commands are written one after another into one file, which pgbench runs
once; with ``-r`` it prints what each command took, in ms with three decimals.

Source: PostgreSQL 18, ``printResults`` and ``executeMetaCommand`` in pgbench.c; the output of 15
and 18 was recorded (``tests/recordings/pgbench``).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from steelyard.core.wording import MS_PER_S, MeasurementError, sql_literal
from steelyard.systems.postgres import scripts
from steelyard.systems.protocol import Execution

_LINE = re.compile(r"^ +(\d{1,12}\.\d{3})(?: +\d+)? {1,2}\S", re.MULTILINE)
_HEADING = "statement latencies in milliseconds"


def text_of(texts: Sequence[str], executions: Sequence[Execution]) -> str:
    """Return the file that has executions of scripts, whose texts are given, in this order."""
    return "".join(f"{line}\n" for each in executions for line in _lines(texts, each))


def _lines(texts: Sequence[str], execution: Execution) -> Iterator[str]:
    for name, value in execution.settings:
        own = scripts.script_literal(value)
        yield f"SELECT set_config({sql_literal(name)}, {own}, false);"
    for command in _commands(texts[execution.script], repeats=execution.repeats):
        # In a line of its own: the text may end in a comment.
        yield command.text if command.own else f"{command.text}\n{command.stores or ';'}"


@lru_cache(maxsize=512)
def _commands(text: str, *, repeats: bool) -> tuple[scripts.ScriptCommand, ...]:
    r"""Return a script's commands, of one that repeats without the ``\set`` of its parameters.

    What is set several times, such as a counter, is no parameter.
    """
    found = scripts.commands(text)
    times = Counter(name for each in found for name in each.sets({}))
    return tuple(
        each
        for each in found
        if not (repeats and each.own == "set" and all(times[name] == 1 for name in each.sets({})))
    )


def times_of(
    printed: str, texts: Sequence[str], executions: Sequence[Execution]
) -> tuple[float, ...]:
    """Return the seconds of each execution, by what pgbench printed.

    Raises:
        MeasurementError: It prints another number of commands than the file has.
    """
    printed_ms = _LINE.findall(printed.partition(_HEADING)[2])
    places, whole = [], 0
    for each in executions:
        first = whole + len(each.settings)
        whole = first + len(_commands(texts[each.script], repeats=each.repeats))
        places.append((first, whole))
    if len(printed_ms) != whole:
        raise MeasurementError(
            f"pgbench prints the times of {len(printed_ms)} commands, and the file has {whole}",
            hint="Its output is in the campaign's raw/ directory; please report it.",
        )
    return tuple(sum(map(float, printed_ms[first:last])) / MS_PER_S for first, last in places)
