"""``steelyard import``: what other programs printed, as a table that ``claims`` examines."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from steelyard.core.published import PublishedRow

_FORMS = (
    *("pgbench", "pgbench-log", "redis-benchmark", "redis-benchmark-csv", "sysbench", "hammerdb"),
    *("iostat", "explain", "cloudwatch", "table"),
)
_ONE_GROUP = "log"


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option("--form", type=click.Choice(_FORMS), help="What the files are; else it is seen.")
@click.option("--workload", metavar="NAME", help="Of results that do not tell theirs.")
@click.option("--clients", type=click.IntRange(1, 1_000_000), help="Likewise.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the table as CSV."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    files: tuple[str, ...],
    *,
    form: str | None,
    workload: str | None,
    clients: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read results that other programs printed, show them, and write them as a table.

    FILES hold what pgbench, redis-benchmark, sysbench, HammerDB, iostat -x or EXPLAIN printed, a
    log of pgbench, a CSV file of CloudWatch, or a table with columns as `steelyard claims` takes
    them. NAME=FILE names the configuration that was measured; several files of one name are its
    runs: `base=base-*.txt tuned=tuned-*.txt`. Without a name it is that of the file.
    """
    from dataclasses import replace

    from steelyard.answers.claims.examination import (
        imported_document,
        imported_json,
        repeats_numbered,
    )
    from steelyard.answers.claims.tables import table_text
    from steelyard.cli import campaigns
    from steelyard.core.wording import RecordError
    from steelyard.gateways.files import write_text

    rows = repeats_numbered(
        [
            replace(row, workload=row.workload or workload or "", clients=row.clients or clients)
            for row in _read(files, form or "")
        ]
    )
    if out is not None:
        write_text(out, table_text(rows), error_type=RecordError)
    if as_json:
        campaigns.print_json(imported_json(rows))
        return
    campaigns.print_whole(imported_document(rows, "Results read in"))


def _read(words: tuple[str, ...], form: str) -> "list[PublishedRow]":
    """Return the rows of all files.

    Raises:
        InputError: With what is wrong in any of them.
    """
    from steelyard.core.wording import InputError, raise_together

    rows: list[PublishedRow] = []
    wrong = []
    is_named = any(word.startswith(f"{_ONE_GROUP}=") for word in words)
    for group, files in _groups_of(words).items():
        for path in files:
            unnamed = group == _ONE_GROUP and not is_named
            name = path.name.split(".")[0] if unnamed else group
            try:
                rows += _of_file(path, name, form)
            except InputError as error:
                wrong.append(error)
    raise_together(wrong)
    return rows


def _groups_of(words: tuple[str, ...]) -> dict[str, tuple[Path, ...]]:
    """Return the files of each group that words of a command line name.

    ``NAME=PATTERN`` begins a group or goes on with it, and files without a name belong to the
    group named last; without any name all files are one group.

    Raises:
        InputError: A file has no group while others have.
    """
    from steelyard.core.wording import InputError

    found: dict[str, list[Path]] = {}
    name = ""
    for word in words:
        given, equals, pattern = word.partition("=")
        if equals and given and not Path(word).exists():
            name, word = given, pattern  # noqa: PLW2901 - the rest of it is the file
        found.setdefault(name, []).extend(_matching(word))
    if len(found) > 1 and "" in found:
        first = found[""][0]
        raise InputError(
            f"{first} has no name, and other files have",
            hint=f"Name its run too: NAME={first}, before or after the others.",
        )
    return {key or _ONE_GROUP: tuple(dict.fromkeys(files)) for key, files in found.items()}


def _matching(pattern: str) -> list[Path]:
    """Return the files that a pattern names: a shell leaves those behind ``NAME=`` to us."""
    path = Path(pattern)
    if path.exists() or not any(sign in pattern for sign in "*?["):
        return [path]
    base = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(base.glob(str(path.relative_to(path.anchor)))) or [path]


def _of_file(path: Path, name: str, form: str) -> "list[PublishedRow]":
    from dataclasses import replace

    from steelyard.answers.claims.tables import read_table
    from steelyard.core.wording import InputError
    from steelyard.gateways.files import read_given
    from steelyard.systems.printed_results import FORMS, read_printed

    text = read_given(path)
    seen = any(each.seen.search(text) for each in FORMS)
    if form == "table" or (not form and not seen):
        return [*read_table(text, str(path)).rows]
    try:
        _, rows = read_printed(text, form)
    except InputError as error:
        hint = error.hint or "--form says what it is; docs/claims.md lists the forms."
        raise InputError(f"{path}: {error.message}", hint=hint) from error
    return [replace(row, configuration=name, source=str(path)) for row in rows]
