"""What ``steelyard try`` does: write the experiment, say what it touches, ask, and run it."""

import re
import secrets
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from steelyard.campaign.file.files import LoadedExperiment
from steelyard.campaign.file.form_values import SEED_LIMIT
from steelyard.campaign.file.overrides import CHANGED, NOW, TrialQuestion, trial_text
from steelyard.cli.campaigns import Gate
from steelyard.cli.launching import (
    RunOptions,
    foresee,
    load_written,
    real_doors,
    said_of_options,
    spelled,
    start,
)
from steelyard.core.errors import (
    ExperimentFileError,
    InputError,
    PreflightError,
    RecordError,
)
from steelyard.core.experiment import Experiment
from steelyard.core.units import format_bytes, format_duration
from steelyard.gateways.files import write_text
from steelyard.targets.assembly import Assembly

SOURCE: Final = "steelyard try"
_BUILTIN, _SCALE, _CLIENTS, _PROTOCOL, _DECIDE, _BUDGET = (
    "select-only",
    10,
    "8",
    "prepared",
    "5%",
    "10m",
)
_OPTIONS: Final = {
    "loads.clients": "--client",
    "loads.protocol": "--protocol",
    "stop.budget": "--budget",
    "stop.decide": "--decide",
}
_WEIGHTED: Final = re.compile(r"(.+)@([1-9]\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """The command line of ``try``; None or empty where an option was not given."""

    flags: tuple[str, ...]
    dsn: str | None
    changes: tuple[str, ...]
    scripts: tuple[str, ...]
    builtin: str | None
    scale: int | None
    client: str | None
    protocol: str | None
    restart_command: str | None
    decide: str | None
    budget: str | None
    seed: int | None
    out: Path | None
    save: Path | None
    dry_run: bool
    as_json: bool
    quiet: bool
    yes: bool
    fail_if: tuple[str, ...]
    undecided: str
    junit: Path | None


def run_trial(options: TrialOptions) -> None:
    """Try settings on a server; or only say what would be done, or write the file.

    Raises:
        InputError: Nothing is to be tried, or options are wrong.
        PreflightError: Nobody agreed.
    """
    seed = secrets.randbelow(SEED_LIMIT) if options.seed is None else options.seed
    text = trial_text(_question(options, seed))
    run, doors = _run_options(options), real_doors()
    try:
        loaded = load_written(text, run, doors)
        if options.save is not None:
            _save(text, options.save)
        elif options.dry_run:
            foresee(loaded, run, doors, told=lambda assembly: _tell(loaded, assembly))
        else:
            command = _command(replace(options, seed=seed))
            start(loaded, command, run, doors, agreed=lambda it: _agree(loaded, it, options))
    except ExperimentFileError as error:
        raise said_of_options(error, _option_of) from error


def _question(options: TrialOptions, seed: int) -> TrialQuestion:
    if not options.changes:
        raise InputError(
            "nothing is to be tried", hint="Name a setting, such as --set random_page_cost=1.1."
        )
    if options.scripts and (options.builtin is not None or options.scale is not None):
        raise InputError(
            "--script, and --builtin or --scale: scripts run on the tables that are there",
            hint="Leave one of them out; a file of `steelyard run` can have both.",
        )
    return TrialQuestion(
        target=options.dsn or "",
        settings=dict(_change(text) for text in options.changes),
        scripts=[_script(text) for text in options.scripts],
        builtins=[name.strip() for name in (options.builtin or _BUILTIN).split(",")],
        scale=options.scale or _SCALE,
        clients=options.client or _CLIENTS,
        protocol=options.protocol or _PROTOCOL,
        restart_command=shlex.split(options.restart_command or ""),
        decide=options.decide or _DECIDE,
        budget=options.budget or _BUDGET,
        seed=seed,
    )


def _change(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(
            f"--set: {text!r} is no setting with its value",
            hint="Write it as random_page_cost=1.1.",
        )
    return name.strip(), value.strip()


def _script(text: str) -> tuple[str, int]:
    """Return a script with its weight, as pgbench takes them."""
    weighted = _WEIGHTED.fullmatch(text)
    return (weighted[1], int(weighted[2])) if weighted else (text, 1)


def _option_of(path: str) -> str:
    """Return the option that a key of the written file comes from, "" for what has none."""
    if path.startswith("workloads"):
        return "--builtin" if path.endswith(".builtin") else "--script" if ".file" in path else ""
    if path.startswith(f"configurations.{CHANGED}.postgres"):
        return "--set"
    if path.startswith(f"configurations.{NOW}.target"):
        return "--restart-command" if path.endswith("restart_command") else "--dsn"
    return next((option for key, option in _OPTIONS.items() if path.startswith(key)), "")


def _save(text: str, path: Path) -> None:
    if path.exists():
        raise InputError(f"{path} is there already", hint="Name another file.")
    write_text(path, text, error_type=RecordError)
    click.echo(f"steelyard run {shlex.quote(str(path))}")


def _agree(loaded: LoadedExperiment, assembly: Assembly, options: TrialOptions) -> None:
    """Tell what is touched, and ask whether that is meant.

    Raises:
        PreflightError: Nobody agreed.
    """
    if not options.quiet:
        _tell(loaded, assembly)
    if options.yes or not _is_there(assembly):
        return
    if not sys.stdin.isatty():
        raise PreflightError(
            "nobody is there to agree to what is touched",
            hint="Add --yes if it is meant; --dry-run tells what it is.",
        )
    if not click.confirm("Start?", err=True):
        raise PreflightError("nothing was started", hint="Nothing was made or changed.")


def _is_there(assembly: Assembly) -> bool:
    """Return whether the server is one that Steelyard does not start itself."""
    return bool(_facts(assembly))


def _facts(assembly: Assembly) -> dict[str, str]:
    facts = assembly.platforms[NOW].facts()
    return {fact.name: fact.value for fact in facts if fact.subject == "endpoint"}


def _tell(loaded: LoadedExperiment, assembly: Assembly) -> None:
    lines = touched(loaded.experiment, assembly)
    click.echo("\n".join(f"  {name:<10} {text}" for name, text in lines), err=True)


def touched(experiment: Experiment, assembly: Assembly) -> Iterator[tuple[str, str]]:
    """Yield what a trial touches: server, settings, data and for how long, each with its name."""
    facts = _facts(assembly)
    if facts:
        yield "server", f"{facts['address']}, as {facts['user']}"
        yield "settings", _settings(experiment, facts)
    else:
        yield "server", "one that Steelyard starts and removes"
    yield "data", _data(experiment, assembly, facts)
    clients = " or ".join(str(load.clients) for load in experiment.loads)
    yield "load", f"{clients} sessions, for {format_duration(experiment.stop.budget_s)} at most"


def _settings(experiment: Experiment, facts: dict[str, str]) -> str:
    asked = experiment.configuration(CHANGED).asked()
    named = ", ".join(f"{name} = {value}" for name, value in asked.items())
    if facts["settings"] == "of own sessions only":
        how = "in sessions of Steelyard's own; nothing of the server is changed"
    else:
        how = f"{facts['settings']}, for everyone on the server, and put back at the end"
    restarts = facts["restarted for a configuration"] == "yes"
    return f"{named}, {how}{'; the server is restarted before every run of either' * restarts}"


def _data(experiment: Experiment, assembly: Assembly, facts: dict[str, str]) -> str:
    if any(workload.scripts for workload in experiment.workloads) and facts:
        reads = all(map(assembly.engine.only_reads, experiment.workloads))
        what = "the scripts only read" if reads else "what the scripts change stays changed"
        return f"database {facts['database']}, which was there before: {what}"
    size = sum(each.expected_bytes for each in assembly.engine.datasets())
    return f"a database of Steelyard's own of about {format_bytes(size)}, dropped at the end"


def _run_options(options: TrialOptions) -> RunOptions:
    return RunOptions(
        source=SOURCE,
        is_named=False,
        flags=options.flags,
        seed=options.seed,
        out=options.out,
        dry_run=options.dry_run,
        as_json=options.as_json,
        quiet=options.quiet,
        yes=options.yes,
        gate=Gate(fail_if=options.fail_if, undecided=options.undecided, junit=options.junit),
    )


def _command(options: TrialOptions) -> str:
    """Return the command that repeats it in the same order."""
    given = {
        "--dsn": options.dsn,
        "--builtin": options.builtin,
        "--scale": options.scale,
        "--client": options.client,
        "--protocol": options.protocol,
        "--restart-command": options.restart_command,
        "--decide": options.decide,
        "--budget": options.budget,
        "--seed": options.seed,
    }
    words = SOURCE.split()
    for name, values in (("--set", options.changes), ("--script", options.scripts)):
        words += [word for value in values for word in (name, value)]
    switches = ["--yes"] if options.yes else []
    return spelled(words, given, switches=switches, flags=options.flags)
