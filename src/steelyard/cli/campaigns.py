"""Reading campaigns for ``list``, ``show`` and ``compare``, and writing their reports."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steelyard.answers.campaign import analyse
from steelyard.answers.gate import Broken, Judged, judge, junit, under_conditions
from steelyard.answers.results import CampaignAnalysis, uncompared
from steelyard.campaign.design.noise_profiles import keep_profile
from steelyard.core import wording
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Condition, Outcome, parse_condition, worst
from steelyard.gateways.files import may_write, tree_bytes, write_text
from steelyard.record.directory import (
    find_campaigns,
    is_held,
    left_behind,
    read_beginning,
    read_with_standing,
)
from steelyard.record.tables import INSTALL, can_make_tables, write_tables
from steelyard.report.document import Document, harmless
from steelyard.report.terminal import render_terminal

if TYPE_CHECKING:
    from steelyard.answers.report import Listed

HOME = Path("campaigns")
_WIDTH_UNKNOWN = 100
_WIDEST = 120
_NARROWEST = 40


def listed_campaigns(places: Sequence[Path]) -> "tuple[Listed, ...]":
    """Return every campaign below the places, oldest first, damaged ones last.

    Raises:
        InputError: A place that was named is not there.
    """
    for place in places:
        if not place.is_dir():
            raise wording.InputError(
                f"{place} is not a directory", hint="Name a directory of campaigns."
            )
    roots = places or ([HOME] if HOME.is_dir() else [])
    paths = dict.fromkeys(path for root in roots for path in find_campaigns(root))
    found = [listed_campaign(path, curves=False) for path in paths]
    return tuple(sorted(found, key=_oldest_first))


def _oldest_first(listed: "Listed") -> tuple[bool, float, str]:
    moment = listed.analysis.started_at if listed.analysis is not None else 0.0
    return listed.analysis is None, moment, listed.directory


def listed_campaign(path: Path, *, curves: bool = True) -> "Listed":
    """Return one campaign, its scalability and noise floor too; a damaged record is only said."""
    from steelyard.answers.report import Listed

    size = tree_bytes(path)
    try:
        record, standing = read_with_standing(path)
        analysis = analyse(record, curves=curves)
    except wording.RecordError as error:
        return Listed(directory=str(path), size_bytes=size, problem=error.message)
    return Listed(
        directory=str(path),
        size_bytes=size,
        held=campaign_is_held(path),
        analysis=analysis,
        left=left_behind(standing.left),
    )


def readable(listed: "Listed") -> CampaignAnalysis:
    """Return the analysis of a campaign.

    Raises:
        RecordError: Its record is damaged.
    """
    if listed.analysis is None:
        raise wording.RecordError(listed.problem, hint="Restore it from a copy.")
    return listed.analysis


def named_or_newest(directory: Path | None) -> Path:
    """Return the named directory, or that of the newest campaign.

    Raises:
        InputError: No directory was named, and campaigns/ holds no campaign.
    """
    if directory is not None:
        return directory
    begun: dict[Path, float] = {}
    for path in find_campaigns(HOME):
        with suppress(wording.RecordError):  # a damaged one is not what is looked for
            begun[path] = read_beginning(path)[1]
    if not begun:
        raise wording.InputError(
            f"there is no campaign below {HOME}/",
            hint="Name its directory, or make one: `steelyard run`.",
        )
    newest = max(begun, key=begun.__getitem__)
    tell(f"the newest campaign: {newest}")
    return newest


def campaign_is_held(path: Path) -> bool:
    """Return whether somebody writes it."""
    try:
        return is_held(path)
    except wording.RecordError:
        return False  # another account's: it cannot be asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What the command line says of a gate.

    Attributes:
        conditions: Conditions; without any, those of the experiment count.
        undecided: ``fail`` or ``pass``.
        junit: Where the outcomes are written.
    """

    conditions: tuple[str, ...] = ()
    undecided: str = "fail"
    junit: Path | None = None

    def conditions_of(
        self, experiment: Experiment, *, made: Path | None = None
    ) -> tuple[Condition, ...]:
        """Return those of the command line, or those of the experiment.

        Args:
            experiment: Of the campaign.
            made: A directory that will be there when the file is written.

        Raises:
            InputError: Outcomes are to be written, and there is none, or no place for the file.
        """
        given = tuple(parse_condition(text) for text in self.conditions)
        conditions = given or experiment.gate
        if not conditions and self.junit is not None:
            message = "--junit: no condition says what is reported"
            raise wording.InputError(message, hint="Add one, such as --gate 'slower > 3%'.")
        self._require_place(made)
        return conditions

    def _require_place(self, made: Path | None) -> None:
        if self.junit is None:
            return
        if not self.junit.name:
            raise wording.InputError("--junit: names no file", hint="Write --junit gate.xml.")
        place = self.junit.parent
        is_made = made is not None and made.absolute().is_relative_to(place.absolute())
        if not is_made and not place.is_dir():
            raise wording.InputError(
                f"--junit: there is no directory {place}", hint="Make it first, or name another."
            )

    def code(self, analysis: CampaignAnalysis) -> int:
        """Tell the outcomes on standard error, and return the exit code.

        Raises:
            InputError: The campaign compares nothing.
        """
        conditions = self.conditions_of(analysis.experiment)
        if not conditions:
            return wording.ExitCode.DONE
        if not analysis.experiment.compares_throughput:
            why = uncompared(analysis.experiment) or "A single pass has no interval."
            raise wording.InputError(
                f"there is nothing for a gate to judge. {why}",
                hint="A gate takes campaigns that compare the throughput of configurations.",
            )
        judged = judge(analysis, conditions)
        lines = [each.line for each in judged] or ["undecided: no block is complete"]
        fails = self.undecided == "fail"
        self._write_junit(analysis.experiment.name, analysis)
        tell("\n".join(f"gate {line}" for line in lines))
        outcome = worst(tuple(each.outcome for each in judged) or (Outcome.UNDECIDED,))
        passes = outcome is Outcome.PASSED or (outcome is Outcome.UNDECIDED and not fails)
        return wording.ExitCode.DONE if passes else wording.ExitCode.GATE

    def shown(self, analysis: CampaignAnalysis) -> CampaignAnalysis:
        """Return a campaign as it is printed: under the conditions of the command line, if any."""
        return under_conditions(analysis, self.conditions_of(analysis.experiment))

    @contextmanager
    def covering(self, name: str) -> Iterator[None]:
        """Write what breaks off within as the outcome: a pipeline finds its file at every end."""
        try:
            yield
        except (wording.SteelyardError, wording.Interrupted) as error:
            self.break_off(error, name)
            raise

    def break_off(
        self,
        error: wording.SteelyardError | wording.Interrupted,
        name: str,
        analysis: CampaignAnalysis | None = None,
    ) -> None:
        """Write why a campaign did not come to its end; the error itself is told by its exit code.

        ``analysis`` is what there is of it all the same.
        """
        kind = "interrupted" if isinstance(error, wording.Interrupted) else "error"
        with suppress(wording.SteelyardError):  # the error that ended it weighs more
            self._write_junit(name, analysis, Broken(kind=kind, message=error.message))

    def _write_junit(
        self, name: str, analysis: CampaignAnalysis | None, broken: Broken | None = None
    ) -> None:
        if self.junit is None or not self.junit.name:
            return
        judged: tuple[Judged, ...] = ()
        if analysis is not None:
            judged = judge(analysis, self.conditions_of(analysis.experiment))
            if broken is None and not analysis.status.is_finished:
                status = str(analysis.status)
                message = f"the campaign did not come to its end ({status})"
                broken = Broken(kind=status, message=message)
        text = junit(
            name, judged, undecided_fails=self.undecided == "fail", analysis=analysis, broken=broken
        )
        write_text(self.junit, text, error_type=wording.RecordError)


def tell(text: str) -> None:
    """Print on standard error what the exit code or a file says, too, if anybody is there."""
    with suppress(OSError):
        click.echo(text, err=True)


def unprinted(show: Callable[[], object]) -> OSError | None:
    """Print; return why that failed, or None: files and a gate's exit code come all the same."""
    try:
        show()
    except OSError as error:
        return error
    return None


def ended(code: int, failed: OSError | None) -> int:
    """Return the exit code of what was to be printed, and then done all the same.

    Raises:
        OSError: It could not be printed, and nothing else is wrong; a reader may go away.
    """
    if failed is not None and not code and not isinstance(failed, BrokenPipeError):
        raise failed
    return code


def keep_noise(analysis: CampaignAnalysis) -> None:
    """Keep what an A/A campaign measured for later plans; of any other there is nothing."""
    try:
        kept = keep_profile(analysis)
    except wording.SteelyardError as error:
        tell(f"The noise profile was not kept: {error.message}")
        return
    if kept is not None:
        tell(f"The noise profile is kept in {kept}; later plans use it.")


def print_answer(
    form: str, document: Callable[[], Document], content: Callable[[], object]
) -> None:
    """Print an answer in a form: its document, or as JSON what programs read."""
    if form == "json":
        print_json(content())
    else:
        print_document(form, document())


def print_document(form: str, document: Document) -> None:
    """Print every section of a document in a form; as text for this terminal."""
    is_text = form == "text"
    text = for_this_terminal(document) if is_text else in_form(document, form)
    click.echo(text, nl=False)


def for_this_terminal(document: Document, *, files: tuple[str, ...] = (), more: str = "") -> str:
    """Return a document as wide as the terminal, in colour where it is one and wants it.

    Args:
        document: To be shown.
        files: Where it lies.
        more: The command that shows the rest; where it is given, only the first screen is shown,
            as wide as what is read as text.
    """
    terminal = sys.stdout.isatty()
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() else 0
    if not width and terminal:
        width = os.get_terminal_size().columns
    # A fresh pseudo terminal may claim to have no columns.
    width = width or (_WIDTH_UNKNOWN if more else _WIDEST)
    return render_terminal(
        document,
        max(_NARROWEST, min(width, _WIDEST) if more else width),
        colour=terminal and "NO_COLOR" not in os.environ,
        files=files,
        more=more,
    )


def as_json(content: object) -> str:
    """Return JSON that never holds NaN or steers a terminal, in stable order."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return wording.printable_json(text) + "\n"


def print_json(content: object) -> None:
    """Print what programs read."""
    click.echo(as_json(content), nl=False)


def write_reports(record: CampaignRecord, analysis: CampaignAnalysis, path: Path) -> None:
    """Write every derived file of a campaign; each is whole or not there.

    Raises:
        RecordError: The disk is full or read-only.
    """
    from steelyard.answers.report import build_document, summary
    from steelyard.report.html import render_html, render_markdown

    document = build_document(analysis)
    write_text(path / "summary.json", as_json(summary(analysis)), error_type=wording.RecordError)
    write_text(
        path / "report.md", render_markdown(document, short=True), error_type=wording.RecordError
    )
    write_text(path / "report.html", render_html(document), error_type=wording.RecordError)
    if can_make_tables():
        write_tables(record, path)
        return
    again = f"then: steelyard report --write {wording.quoted(str(path))}"
    tell(f"no Parquet tables: pyarrow is not installed ({INSTALL}, {again})")


def write_again(
    record: CampaignRecord, analysis: CampaignAnalysis, path: Path
) -> wording.SteelyardError | None:
    """Write them beside a record that was read; return why they were not, or None.

    A record that may only be read is not damaged.
    """
    try:
        write_reports(record, analysis, path)
    except wording.RecordError as error:
        if may_write(path):
            return error
        return wording.PrivilegeError(
            f"the files beside the record were not written anew: {error.message}",
            hint=f"To read it: steelyard report {wording.quoted(path)}",
        )
    return None


def rendered(analysis: CampaignAnalysis, form: str, *, full: bool = False) -> str:
    """Return the report in a form other than text, ``full`` with its details."""
    from steelyard.answers.report import build_document, summary

    if form == "json":
        return as_json(summary(analysis))
    return in_form(build_document(analysis), form, short=not full)


def in_form(document: Document, form: str, *, short: bool = False) -> str:
    """Return a document in a form, ``short`` without its details: ``csv``, ``markdown``, ...

    Raises:
        InputError: It has no table, and CSV is made of tables.
    """
    from steelyard.report import html

    renderers: dict[str, Callable[[Document], str]] = {
        "csv": html.render_csv,
        "markdown": partial(html.render_markdown, short=short),
        "summary": html.render_summary,
        "html": partial(html.render_html, opened=not short),
    }
    text = renderers[form](harmless(document))
    if not text:
        raise wording.InputError(
            f"-o {form}: this answer has no table", hint="Use -o text or -o json."
        )
    return text


def show(
    analysis: CampaignAnalysis,
    path: Path,
    form: str = "text",
    *,
    full: bool = False,
    is_written: bool = True,
) -> None:
    """Print the first screen of the report for this terminal, or the report in another form.

    Args:
        analysis: The campaign.
        path: Its directory.
        form: As the command line names it.
        full: Every section, with its details.
        is_written: The files beside the record are written, or about to be; else only those are
            named that are there.
    """
    from steelyard.answers.report import build_document

    if form != "text":
        click.echo(rendered(analysis, form, full=full), nl=False)
        return
    document = build_document(analysis)
    names = [path / name for name in ("report.html", "report.md", "summary.json")]
    files = tuple(str(each) for each in names if is_written or each.exists())
    if full:
        click.echo(for_this_terminal(document, files=files), nl=False)
        return
    page = [each for each in files if each.endswith(".html")]
    place = wording.quoted(path)
    reasons = [f"steelyard explain {place} (reasons)"] if analysis.results else []
    more = ", ".join([*reasons, f"steelyard report --full {place} (everything)", *page])
    click.echo(for_this_terminal(document, more=more), nl=False)
