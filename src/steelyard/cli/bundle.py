"""``run article:NNN``: the studies of a published article, in one text.

Each study is checked first: what says no is why a stand-in is taken, or why it is left out. Records
lie side by side, and the same command goes on where one was ended. A file next to them keeps the
options of the whole article, because studies that begin later need the same.
"""

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import click

from steelyard.campaign.file import files
from steelyard.campaign.file.document import Document, parse_document
from steelyard.campaign.file.overrides import has_path
from steelyard.campaign.file.shortening import NOTICE, TITLE
from steelyard.campaign.foresee.forecast import require_first_look
from steelyard.campaign.run import session
from steelyard.cli import article, campaigns, launching
from steelyard.core import quantities, wording
from steelyard.gateways.doors import Doors
from steelyard.gateways.files import make_directory, write_text
from steelyard.record.directory import has_begun, read_campaign
from steelyard.report import document as doc

_KEPT: Final = "article-options.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The options of a command line that change all studies of an article."""

    overrides: tuple[str, ...] = ()
    budget: str | None = None
    short: bool = False

    @property
    def words(self) -> str:
        """Return them as they are typed."""
        words = [word for override in self.overrides for word in ("--override", override)]
        words += ["--budget", self.budget] if self.budget is not None else []
        words += ["--short"] if self.short else []
        return f"`{shlex.join(words)}`" if words else "neither --override nor --budget nor --short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A study as it can be run here.

    Attributes:
        preset: What is run: its own, or that of its stand-in.
        why: What says no to its own; empty where nothing does.
        trouble: What says no to the stand-in as well, or that there is none; then nothing is run.
        overrides: Those of the command line that apply to it.
        needs_s: Seconds: its budget, or the length of its single pass or its fixed blocks.
        long_runs_s: The part of them that comes on top of any budget.
        most_s: Seconds that it takes at most.
        budget: Its part of the budget of the article, without long runs; None: its own.
        disk_bytes: That it needs at most, in all directories.
    """

    study: files.Study
    preset: str
    why: str = ""
    trouble: str = ""
    overrides: tuple[str, ...] = ()
    needs_s: float = 0.0
    long_runs_s: float = 0.0
    most_s: float = 0.0
    budget: str | None = None
    disk_bytes: int = 0

    @property
    def label(self) -> str:
        """Return what its directory is called."""
        return _stand_in(self.study) if self.why else self.study.name

    @property
    def stands_for(self) -> str:
        """Return what stands for what, and why; empty where nothing does."""
        if not self.why or self.trouble or self.study.stand_in is None:
            return ""
        return f"{self.study.stand_in.says} (preset:{self.study.preset}: {self.why})"


def run_article(options: launching.RunOptions) -> None:
    """Run what can be run of an article, and write one text of it.

    Raises:
        SteelyardError: There is none of that name, or nothing of it can be run here.
    """
    name = options.source.removeprefix(files.ARTICLE)
    bundle = files.load_bundle(name)
    _require_plain(options)
    options = _as_begun(options, bundle)
    _require_fitting(options, bundle)
    doors = launching.real_doors()
    looked = tuple(_look(study, options, doors) for study in bundle.studies)
    looked = tuple(_divided(looked, options, doors))
    campaigns.print_answer(
        options.form,
        lambda: _bundle_document(options, bundle, looked),
        lambda: _bundle_json(options, bundle, looked),
    )
    runnable = [each for each in looked if not each.trouble]
    if options.dry_run:
        return
    if not runnable:
        raise wording.InputError(
            f"nothing of {options.source} can be run here", hint=looked[0].trouble
        )
    out = options.out or session.default_directory(f"article {name}", doors)
    _keep(options, out)
    failed = dict(_run_each(runnable, out, options))
    there = [each for each in runnable if has_begun(out / each.label)]
    if not there:
        raise next(iter(failed.values()))
    told = [f"{label}: not finished: {error.message}" for label, error in failed.items()]
    missing = [*bundle.not_shown, *_left_out(looked), *told]
    campaigns.tell(
        article.write(
            [out / each.label for each in there],
            title=_title(options, bundle),
            out=out / "article",
            notes={each.label: note for each in there if (note := _note(each, options))},
            missing=(f"Cited: {bundle.cited}.", *missing),
        )
    )
    if failed:
        raise click.exceptions.Exit(next(iter(failed.values())).exit_code)


def _note(study: Looked, options: launching.RunOptions) -> str:
    stands = f"A stand-in: {study.stands_for}." if study.stands_for else ""
    changed = f"Changed: {', '.join(study.overrides)}." if study.overrides else ""
    return " ".join(filter(None, (stands, changed, NOTICE if options.short else "")))


def _changes(options: launching.RunOptions) -> Changes:
    return Changes(overrides=options.overrides, budget=options.budget, short=options.short)


def _keep(options: launching.RunOptions, out: Path) -> None:
    """Write the options of the whole article next to its records."""
    make_directory(out)
    text = campaigns.as_json({"format": 1, "kind": "article-options", **asdict(_changes(options))})
    write_text(out / _KEPT, text, error_type=wording.RecordError)


def _as_begun(options: launching.RunOptions, bundle: files.Bundle) -> launching.RunOptions:
    """Return the options of an article that goes on: those that it was begun with.

    Raises:
        InputError: The command line has others.
        RecordError: Its own cannot be read.
    """
    out = options.out
    labels = [label for study in bundle.studies for label in (study.name, _stand_in(study))]
    if out is None or not any(has_begun(out / label) for label in labels):
        return options
    kept, now = _kept(out), _changes(options)
    if now not in (kept, Changes()):
        raise wording.InputError(
            f"the article in {out} was begun with {kept.words}, which cannot be changed",
            hint="Repeat the command without these options, or name another directory with --dir.",
        )
    return replace(options, overrides=kept.overrides, budget=kept.budget, short=kept.short)


def _kept(out: Path) -> Changes:
    path = out / _KEPT
    if not path.exists():
        return Changes()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Changes(
            overrides=tuple(kept["overrides"]), budget=kept["budget"], short=bool(kept["short"])
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise wording.RecordError(
            f"{path} cannot be read: {error}", hint="Name another directory with --dir."
        ) from error


def _stand_in(study: files.Study) -> str:
    return f"{study.name}-stand-in"


@cache
def _file_of(preset: str) -> Document:
    return parse_document(files.preset_text(preset))


def _overrides(study: files.Study, preset: str, options: launching.RunOptions) -> tuple[str, ...]:
    """Return the overrides for a study: those that name it, and those whose path its file has."""
    document = _file_of(preset)
    prefix = f"{study.name}:"
    return tuple(
        override.removeprefix(prefix)
        for override in options.overrides
        if override.startswith(prefix) or has_path(document, override.partition("=")[0].strip())
    )


def _require_fitting(options: launching.RunOptions, bundle: files.Bundle) -> None:
    """Refuse an override unless a study or a stand-in has its path.

    Raises:
        InputError: It lists the studies.
    """
    pairs = [(study, study.preset) for study in bundle.studies]
    pairs += [(s, s.stand_in.preset) for s in bundle.studies if s.stand_in is not None]
    for override in options.overrides:
        one = replace(options, overrides=(override,))
        if any(_overrides(study, preset, one) for study, preset in pairs):
            continue
        studies = ", ".join(f"{study.name} ({preset})" for study, preset in pairs)
        raise wording.InputError(
            f"--override {override}: no study of {options.source} has this path."
            f" The studies are {studies}",
            hint="`steelyard presets NAME` prints a study's file. `--override STUDY:PATH=VALUE`"
            " changes one study, also where its file lacks the path.",
        )


def _require_plain(options: launching.RunOptions) -> None:
    """Refuse what would hold for one campaign only, and a budget that every campaign refuses.

    Raises:
        InputError: It names the options.
    """
    if options.budget is not None:  # it is divided before a study could refuse it
        try:
            quantities.budget().read(options.budget)
        except wording.InputError as error:
            raise wording.InputError(f"--budget: {error.message}", hint=error.hint) from None
    if options.resume is not None:
        raise wording.InputError(
            "--resume is for one campaign",
            hint="An article goes on where the command is repeated with its directory: --dir DIR.",
        )
    given = {
        "--width": options.width,
        "--gate": options.gate.conditions,
        "--junit": options.gate.junit,
        "--target": options.target,
        "pgbench flags": options.flags,
    }
    names = [name for name, value in given.items() if value]
    if names:
        raise wording.InputError(
            f"{', '.join(names)}: not for an article, whose campaigns differ in it",
            hint="Run one of its presets alone: `--dry-run` names them.",
        )
    if options.form != "text" and not options.dry_run:
        raise wording.InputError(
            f"-o {options.form}: of an article only with --dry-run",
            hint="The article and its records are written as pages, CSV and JSON.",
        )


def _look(study: files.Study, options: launching.RunOptions, doors: Doors) -> Looked:
    try:
        return _checked(study, study.preset, options, doors)
    except wording.SteelyardError as error:
        why = _reason(error, _overrides(study, study.preset, options))
    if study.stand_in is None:
        return Looked(study=study, preset=study.preset, why=why, trouble=why)
    preset = study.stand_in.preset
    try:
        return replace(_checked(study, preset, options, doors), why=why)
    except wording.SteelyardError as error:
        reason = _reason(error, _overrides(study, preset, options))
        trouble = f"{why}; nor can preset:{preset} stand in: {reason}"
        return Looked(study=study, preset=preset, why=why, trouble=trouble)


def _reason(error: wording.SteelyardError, overrides: tuple[str, ...]) -> str:
    """Return why a study cannot be run here.

    Raises:
        ExperimentFileError: Overrides made the file wrong, which is no reason for a stand-in.
    """
    if overrides and isinstance(error, wording.ExperimentFileError):
        raise error
    return error.message


def _checked(
    study: files.Study,
    preset: str,
    options: launching.RunOptions,
    doors: Doors,
    budget: str | None = None,
) -> Looked:
    own = _options(preset, options, _overrides(study, preset, options), budget)
    quiet = replace(own, quiet=True, dry_run=True)
    checked = launching.check(launching.load(quiet, doors), "", quiet, doors)
    expected, experiment = checked.expected, checked.request.experiment
    require_first_look(expected, experiment)
    least_s = expected.pass_s if experiment.is_single_pass else expected.first_look_s
    ends_early = experiment.is_single_pass or experiment.stop.blocks is not None
    return Looked(
        study=study,
        preset=preset,
        overrides=own.overrides,
        needs_s=(least_s if ends_early else experiment.stop.budget_s) + expected.long_runs_s,
        long_runs_s=expected.long_runs_s,
        most_s=expected.most_s(experiment),
        budget=budget,
        disk_bytes=sum(bytes_ for bytes_, _ in expected.disk_bytes.values()),
    )


def _options(
    preset: str, options: launching.RunOptions, overrides: tuple[str, ...], budget: str | None
) -> launching.RunOptions:
    """Return the command line of one campaign."""
    source = f"{files.PRESET}{preset}"
    return replace(options, source=source, overrides=overrides, budget=budget, out=None)


def _divided(
    looked: Sequence[Looked], options: launching.RunOptions, doors: Doors
) -> Iterator[Looked]:
    """Yield the studies with their parts of the budget, in proportion to the times they need.

    A study whose part is too short is not run, and the plan says so.
    """
    if options.budget is None:
        yield from looked
        return
    whole_s = wording.parse_duration_s(options.budget)
    all_s = sum(each.needs_s for each in looked if not each.trouble)
    for each in looked:
        if each.trouble:
            yield each
            continue
        part_s = whole_s * each.needs_s / all_s
        budget = f"{math.ceil(max(1.0, part_s - each.long_runs_s))}s"
        try:
            again = _checked(each.study, each.preset, options, doors, budget)
        except wording.SteelyardError as error:
            trouble = f"its part of {options.budget} is {wording.format_duration(part_s)}: "
            way_out = "; --no-verdict starts it all the same"
            yield replace(each, trouble=f"{trouble}{error.message}{way_out}")
        else:
            yield replace(again, why=each.why)


def _run_each(
    looked: Sequence[Looked], out: Path, options: launching.RunOptions
) -> Iterator[tuple[str, wording.SteelyardError]]:
    """Run what is not finished yet; yield what failed, and why."""
    for number, each in enumerate(looked, start=1):
        path = out / each.label
        campaigns.tell(f"\n{number} of {len(looked)}, {each.label}: {each.study.asks}")
        try:
            own = _options(each.preset, options, each.overrides, each.budget)
            if not has_begun(path):
                launching.run(replace(own, out=path))
            elif read_campaign(path).status.is_finished:
                campaigns.tell(f"It is finished: {path}.")
            else:
                launching.resume(replace(own, resume=path), given=())
        except wording.SteelyardError as error:
            campaigns.tell(f"error: {each.label}: {error.message}")
            yield each.label, error


def _left_out(looked: Sequence[Looked]) -> Iterator[str]:
    for each in looked:
        if each.trouble:
            yield f"{each.study.asks} (preset:{each.study.preset}) Not run: {each.trouble}."
        elif each.why:
            yield f"preset:{each.study.preset} was not run here: {each.why}."


def _bundle_document(
    options: launching.RunOptions, bundle: files.Bundle, looked: Sequence[Looked]
) -> doc.Document:
    """Return what would be run, for how long, what stands in, and what is not shown."""
    names = ("study", "preset", *(("about",) if options.short else ()), "at most", "disk", "here")
    total = wording.format_duration(sum(each.most_s for each in looked if not each.trouble))
    about = wording.format_duration(sum(each.needs_s for each in looked if not each.trouble))
    questions = tuple((each.study.name, each.study.asks) for each in looked)
    blocks: list[doc.Block] = [doc.Paragraph(text=NOTICE)] if options.short else []
    blocks += [
        doc.Table(
            title="",
            columns=tuple(doc.Column(name=name) for name in names),
            rows=tuple(doc.Row(cells=tuple(_cells(each, options))) for each in looked),
            note=f"About {about}, at most {total}." if options.short else f"At most {total}.",
        ),
        doc.KeyValues(title="Questions", pairs=questions),
    ]
    if options.overrides:
        blocks.append(doc.KeyValues(title="Changed", pairs=tuple(_changed(options, looked))))
    missing = (*bundle.not_shown, *_left_out(looked))
    told = doc.BulletList(lead="Whatever is measured here does not show:", items=missing)
    sections = [doc.Section(anchor="studies", title="Studies", blocks=tuple(blocks))]
    if stand_ins := tuple(each.stands_for for each in looked if each.stands_for):
        listed = doc.BulletList(lead="In the place of what cannot be run here:", items=stand_ins)
        sections.append(doc.Section(anchor="stand-ins", title="Stand-ins", blocks=(listed,)))
    sections.append(doc.Section(anchor="not-shown", title="Not shown", blocks=(told,)))
    return doc.Document(
        title=f"{options.source}: {_title(options, bundle)}",
        subtitle=f"after {bundle.cited}",
        sections=tuple(sections),
    )


def _title(options: launching.RunOptions, bundle: files.Bundle) -> str:
    return f"{bundle.title} {TITLE}" if options.short else bundle.title


def _cells(looked: Looked, options: launching.RunOptions) -> Iterator[str]:
    yield from (looked.study.name, looked.preset)
    if looked.trouble:
        yield from (doc.MISSING, doc.MISSING, *((doc.MISSING,) if options.short else ()))
        yield "not run"
        return
    if options.short:
        yield wording.format_duration(looked.needs_s)
    yield from (wording.format_duration(looked.most_s), wording.format_bytes(looked.disk_bytes))
    yield "stands in" if looked.stands_for else "runs here"


def _changed(options: launching.RunOptions, looked: Sequence[Looked]) -> Iterator[tuple[str, str]]:
    """Yield where each override is applied, of the studies that are run."""
    for override in options.overrides:
        one = replace(options, overrides=(override,))
        run = [each for each in looked if not each.trouble]
        taken = [e.study.name for e in run if _overrides(e.study, e.preset, one)]
        left = [e.study.name for e in run if e.study.name not in taken]
        where = f"in {', '.join(taken)}" if taken else "in no study that is run here"
        yield override, where + (f"; not in {', '.join(left)}" if taken and left else "")


def _bundle_json(
    options: launching.RunOptions, bundle: files.Bundle, looked: Sequence[Looked]
) -> dict[str, doc.Json]:
    """Return the same for programs; seconds and bytes."""
    return {
        "format": 1,
        "kind": "article-outlook",
        "article": options.source,
        "title": bundle.title,
        "cited": bundle.cited,
        "short": options.short,
        "studies": [
            {
                "name": each.study.name,
                "asks": each.study.asks,
                "preset": each.preset,
                "stands_in_for": each.study.preset if each.stands_for else None,
                "why": each.why or None,
                "trouble": each.trouble or None,
                "overrides": list(each.overrides),
                "about_s": None if each.trouble else each.needs_s,
                "most_s": None if each.trouble else each.most_s,
                "disk_bytes": None if each.trouble else each.disk_bytes,
            }
            for each in looked
        ],
        "not_shown": list(bundle.not_shown),
    }
