"""``steelyard article``: several campaigns as one text that can be published."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from steelyard.cli.completion import complete_campaign
from steelyard.cli.options import output_option
from steelyard.core.wording import InputError

if TYPE_CHECKING:
    from steelyard.answers.article import Article


@click.command("article")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
)
@click.option("--title", default="What was measured", show_default=True, help="Of the article.")
@click.option(
    "--dir",
    "out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write article.html, article.md with charts/, tables/ as CSV, and article.json.",
)
@output_option()
def command(directories: tuple[Path, ...], *, title: str, out: Path | None, form: str) -> None:
    """Write one article of the campaigns in DIRECTORIES; without --dir it is printed.

    A table of all results; what to choose for which use, by rules that stand there and with the
    evidence for each; a chapter for each campaign, called by the name of its directory; how it was
    measured, what it does not show, and the commands. Repeated, all files are the same to the byte.
    """
    from steelyard.answers.article import article_document, article_json
    from steelyard.cli import campaigns

    article = _article(directories, title=title)
    if out is None or form != "text":
        campaigns.print_answer(
            form, lambda: article_document(article), lambda: article_json(article)
        )
    if out is not None:
        click.echo(_written(article, out), err=True)


def _labels(directories: Sequence[Path]) -> list[str]:
    """Return what campaigns are called: by their directories.

    Raises:
        InputError: Two have the same name.
    """
    labels = [path.resolve().name for path in directories]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(
            f"more than one campaign is called {', '.join(twice)}",
            hint="Give each once; directories of one name have to be renamed.",
        )
    return labels


def write(
    directories: Sequence[Path],
    *,
    title: str,
    out: Path,
    notes: Mapping[str, str],
    missing: tuple[str, ...],
) -> str:
    """Write an article of campaigns, and return what was written.

    ``notes`` has what is to be known of a campaign, by its name, and ``missing`` what the article
    does not show, a sentence each.
    """
    return _written(_article(directories, title=title, notes=notes, missing=missing), out)


def _article(
    directories: Sequence[Path],
    *,
    title: str,
    notes: Mapping[str, str] = MappingProxyType({}),
    missing: tuple[str, ...] = (),
) -> "Article":
    from steelyard.answers.article import Article, Chapter
    from steelyard.answers.campaign import analyse
    from steelyard.record.directory import read_campaign

    labels = _labels(directories)
    chapters = (
        Chapter.of(label, analyse(read_campaign(path)), note=notes.get(label, ""))
        for label, path in zip(labels, directories, strict=True)
    )
    return Article(title=title, chapters=tuple(chapters), missing=missing)


def _written(article: "Article", out: Path) -> str:
    from steelyard.answers.article import article_document, article_json
    from steelyard.cli.campaigns import as_json
    from steelyard.core.wording import RecordError
    from steelyard.gateways.files import make_directory, write_text
    from steelyard.report.html import published_files

    files = published_files(article_document(article), "article")
    files["article.json"] = as_json(article_json(article))
    for name, text in files.items():
        make_directory((out / name).parent)
        write_text(out / name, text, error_type=RecordError)
    names = "article.html, article.md, article.json, charts, tables"
    return f"{len(files)} files are in {out}: {names}"
