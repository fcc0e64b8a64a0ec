"""``steelyard claims``: published results examined, those of the article series or anybody's."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from steelyard.answers.claims.statements import Publication
    from steelyard.answers.claims.tables import PublishedTable


@click.command("claims")
@click.argument("tables", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--claims",
    "statements",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Claims about TABLES as TOML; docs/claims.md shows how they are written.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--strict", is_flag=True, help="Exit with 10 if anything is objected to.")
def command(
    tables: tuple[Path, ...],
    *,
    statements: Path | None,
    as_json: bool,
    html: Path | None,
    strict: bool,
) -> int:
    """Examine published results: what their own figures support, and what they cannot.

    TABLES are CSV files of somebody's results, with columns such as configuration, workload,
    clients, repeat, tps and latency_mean_ms; `steelyard import` makes them of what other programs
    print. Without any, the articles are examined that this project's presets follow, with all
    that they claim.
    """
    from steelyard.answers.claims.examination import examination_document, examination_json, examine
    from steelyard.cli import campaigns
    from steelyard.core.wording import ExitCode, RecordError
    from steelyard.gateways.files import write_text
    from steelyard.report.html import render_html

    examination = examine(_publication(tables, statements))
    title = f"{', '.join(path.name for path in tables)} examined" if tables else _SERIES
    document = examination_document(examination, title)
    if html is not None:
        write_text(html, render_html(document), error_type=RecordError)
    if as_json:
        campaigns.print_json(examination_json(examination))
    else:
        campaigns.print_whole(document)
    return ExitCode.GATE if strict and examination.accusations else ExitCode.DONE


_SERIES = "The article series examined"


def _publication(tables: tuple[Path, ...], statements: Path | None) -> "Publication":
    from steelyard.answers.claims.examination import published_tables
    from steelyard.answers.claims.statements import Publication, read_claims
    from steelyard.answers.claims.tables import article_series
    from steelyard.core.wording import InputError
    from steelyard.gateways.files import read_given

    if not tables and statements is None:
        return article_series()
    if not tables:
        raise InputError("--claims: no table holds what is claimed", hint="Name the tables, too.")
    further = None
    if statements is not None:
        articles, claims = read_claims(read_given(statements), str(statements))
        further = Publication(rows=(), articles=articles, claims=claims)
    return published_tables([*_read(tables)], further)


def _read(tables: tuple[Path, ...]) -> "list[PublishedTable]":
    """Return the tables.

    Raises:
        InputError: With what is wrong in all of them.
    """
    from steelyard.answers.claims.tables import read_table
    from steelyard.core.wording import InputError, raise_together
    from steelyard.gateways.files import read_given

    found, wrong = [], []
    for path in tables:
        try:
            found.append(read_table(read_given(path), str(path)))
        except InputError as error:
            wrong.append(error)
    raise_together(wrong)
    return found
