"""What others rely on: a change of it is a change of its file here, in the same commit.

Beside it are held, each by its own tests: verdicts and figures of the kept examples
(``docs/test_examples``), manifests with their labels (``tests/golden/kubernetes``), configuration
files (``tests/golden/stack``), reports (``tests/golden/report``), rules (``docs/validity.md``),
resolved experiments and judged stacks (``tests/golden/snapshots``).

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from steelyard.campaign.file.form import experiment_schema
from steelyard.cli.grouping import LongCommand
from steelyard.cli.main import cli
from steelyard.core.outside import POSTGRES_MARK, REDIS_MARK
from steelyard.core.wording import ExitCode
from steelyard.record import tables
from steelyard.systems.postgres.existing import server as statements
from support.examples import EXAMPLES
from support.snapshots import check_text

PROMISES = Path(__file__).parents[1] / "golden" / "promises"
REPORTS = PROMISES.parent / "report"


def _schema() -> str:
    return json.dumps(experiment_schema(), indent=1) + "\n"


def _help() -> str:
    settings = {"info_name": "steelyard", "terminal_width": 80, **cli.context_settings}
    return "\n".join(_helps(cli, click.Context(cli, **settings)))


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the help of a command and of all that it has."""
    yield f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    if isinstance(command, LongCommand):
        yield f"$ {context.command_path} --help-all\n{command.get_help_of_all(context)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            yield from _helps(part, click.Context(part, parent=context, info_name=name))


def _exit_codes() -> str:
    return "".join(f"{code.value} {code.name}\n" for code in ExitCode)


def _summary_keys() -> str:
    """Return each path of keys that a kept summary has, with the types found there."""
    found: dict[str, set[str]] = {}
    for path in (*EXAMPLES.rglob("summary.json"), *REPORTS.glob("*.json")):
        for key, kind in _paths("", json.loads(path.read_text())):
            found.setdefault(key, set()).add(kind)
    assert found
    return "".join(f"{key}: {', '.join(sorted(found[key]))}\n" for key in sorted(found))


_NAMED_BY_THE_USER = ("settings", "limits", "layers", "asked", "facts", "combinations", "values")


def _paths(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and not path.endswith(_NAMED_BY_THE_USER):
        for key, each in value.items():
            yield from _paths(f"{path}.{key}" if path else key, each)
    elif isinstance(value, list) and value:
        for each in value:
            yield from _paths(f"{path}[]", each)
    else:
        yield path, "number" if isinstance(value, int | float) else type(value).__name__


def _columns() -> str:
    kept = {
        "runs": tables._RUN_COLUMNS,
        "intervals": tables._INTERVAL_COLUMNS,
        "waits": tables._WAIT_COLUMNS,
        "counters": tables._COUNTER_COLUMNS,
        "host": tables._HOST_COLUMNS,
        "latency": tables._LATENCY_COLUMNS,
    }
    return "".join(
        f"{table}.{name}: {kind}\n"
        for table, columns in kept.items()
        for name, kind in columns.items()
    )


def _marks() -> str:
    mark = f"{POSTGRES_MARK}0a1b2c"
    lines = (
        statements.mark_database("bench", mark),
        *statements.mark_tables(["pgbench_accounts"], mark),
        f"Redis: {REDIS_MARK}",
    )
    return "".join(f"{line}\n" for line in lines)


KEPT: dict[str, Callable[[], str]] = {
    "schema.json": _schema,
    "help.txt": _help,
    "exit-codes.txt": _exit_codes,
    "summary-keys.txt": _summary_keys,
    "columns.txt": _columns,
    "marks.txt": _marks,
}


@pytest.mark.parametrize("name", [*KEPT])
def test_it_is_as_it_was(name: str) -> None:
    """Editors, scripts, notebooks and servers that are already marked rely on it."""
    check_text(PROMISES / name, KEPT[name]())
