"""What the ``crash-test`` verbs share: options, running the test, and showing what was found."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import click
from pydantic import TypeAdapter

from steelyard.answers.crashes import crash_document, crash_json, crash_summaries
from steelyard.cli.campaigns import as_json, print_answer
from steelyard.core.crash import CrashMode, CrashTest
from steelyard.core.redis import Death
from steelyard.core.wording import ExitCode, InputError, parse_duration_s
from steelyard.crash.testing import Asked, Subject, crash_test
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.files import cache_directory, holding_cache, make_directory, write_text
from steelyard.places.local.server import server_account
from steelyard.report.document import Json
from steelyard.report.html import render_html, render_markdown

_FORM: Final = TypeAdapter(CrashTest)
_SEED_BITS: Final = 31
_Named = TypeVar("_Named")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashOptions:
    """The command line, as given."""

    server: str
    modes: str
    deaths: str
    cuts: int
    clients: int
    longest: str
    settings: tuple[str, ...]
    seed: int | None
    directory: Path | None
    run_as: str | None
    out: Path | None
    form: str
    quiet: bool
    pipeline: int = 1


def run_crash_test(
    options: CrashOptions,
    known: Sequence[CrashMode],
    find: Callable[[str, str | None, Doors], Subject],
) -> ExitCode:
    """Run the test that the options ask for, and show it; say whether a promise was broken."""
    doors = system_doors()
    asked = _asked(options, known)
    total = asked.cuts * len(asked.pairs())

    def taken(test: CrashTest) -> None:
        if not options.quiet:
            _tell(test, total)
        if options.out is not None:
            _write(test, options.out)

    with holding_cache():  # the server's programs may be in it
        subject = find(options.server, asked.account, doors)
        if options.out is not None:
            make_directory(options.out)
        found = crash_test(subject, asked, doors, taken)
    if options.out is not None:
        _write(found, options.out)
    summaries = crash_summaries(found)
    print_answer(
        options.form, lambda: crash_document(found, summaries), lambda: crash_content(found)
    )
    broken = any(each.is_broken for each in summaries)
    return ExitCode.GATE if broken else ExitCode.DONE


def crash_content(test: CrashTest) -> dict[str, Json]:
    """Return ``crash.json``: the test as it is stored, and what is derived from it."""
    stored = _FORM.dump_python(test, mode="json")
    for of_pairs, things in (("replica", stored["modes"]), ("behind_bytes", stored["crashes"])):
        for each in things:
            if each[of_pairs] is None:  # as before there were pairs
                del each[of_pairs]
    return {**stored, **crash_json(crash_summaries(test))}


def _asked(options: CrashOptions, known: Sequence[CrashMode]) -> Asked:
    """Return how the server is tested.

    Raises:
        InputError: A name or value means nothing.
    """
    longest_s = parse_duration_s(options.longest)
    if longest_s <= 0:
        raise InputError("--longest is no time under load", hint="Write --longest 4s.")
    modes = _named("--modes", options.modes, {mode.name: mode for mode in known})
    return Asked(
        modes=tuple(_with(mode, options.settings) for mode in modes),
        deaths=_named("--deaths", options.deaths, {death.value: death for death in Death}),
        cuts=options.cuts,
        clients=options.clients,
        pipeline=options.pipeline,
        longest_s=longest_s,
        seed=secrets.randbits(_SEED_BITS) if options.seed is None else options.seed,
        root=(options.directory or cache_directory()).absolute(),
        account=server_account({options.run_as} if options.run_as else set()),
    )


def _named(option: str, text: str, known: dict[str, _Named]) -> tuple[_Named, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    strange = [name for name in names if name not in known]
    if strange or not names:
        raise InputError(
            f"{option} does not know {', '.join(strange) or 'an empty list'}",
            hint=f"Choose from {', '.join(known)}; commas between them.",
        )
    return tuple(known[name] for name in names)


def _with(mode: CrashMode, given: Iterable[str]) -> CrashMode:
    """Return a mode with further settings, which come before its own.

    Raises:
        InputError: One has no value, or is what the mode itself is about.
    """
    own, more = mode.asked, {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set {text} has no value", hint="Write --set NAME=VALUE.")
        if name in own:
            raise InputError(
                f"--set {name} would change what mode {mode.name} is",
                hint=f"It has {name} {own[name] or '(empty)'}; choose another mode.",
            )
        more[name] = value
    return replace(mode, settings=(*more.items(), *mode.settings))


def _tell(test: CrashTest, total: int) -> None:
    """Say on standard error what the last death cost; nobody has to read it."""
    last = test.crashes[-1]
    back = "" if last.oldest_lost_s is None else f", the oldest {last.oldest_lost_s:.2f} s before"
    unusable = "; the server did not come back" if last.unusable else ""
    with suppress(OSError):
        click.echo(
            f"  {len(test.crashes)} of {total}: {last.mode}, {last.death} after"
            f" {last.under_load_s:.1f} s: {last.counted:,} acknowledged,"
            f" {last.gone:,} lost{back}{unusable}",
            err=True,
        )


def _write(test: CrashTest, directory: Path) -> None:
    document = crash_document(test, crash_summaries(test))
    write_text(directory / "crash.json", as_json(crash_content(test)))
    write_text(directory / "report.md", render_markdown(document))
    write_text(directory / "report.html", render_html(document))
