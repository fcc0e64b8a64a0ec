"""``steelyard capacity``: the most that a server sustains, and its latency below that.

It writes the experiment, or changes a file, and runs it like any other.
"""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path

import click

from steelyard.campaign.file.files import PRESET, LoadedExperiment
from steelyard.campaign.file.form_parts import CLOSED
from steelyard.campaign.file.form_values import SEED_LIMIT
from steelyard.campaign.file.overrides import RATES, CapacityQuestion, capacity_text
from steelyard.cli.launching import (
    RunOptions,
    command_of,
    foresee,
    load,
    load_written,
    said_of_options,
    spelled,
    start,
)
from steelyard.core.errors import ExperimentFileError, InputError
from steelyard.gateways.doors import Doors, system_doors

SOURCE = "steelyard capacity"
CLIENTS, SCALE, BUILTIN, PROTOCOL, SLICE, BUDGET = 16, 10, "select-only", "prepared", "5s", "10m"

_OPTIONS = {
    "loads.clients": "--client",
    "loads.rate": "--rate",
    "loads.protocol": "--protocol",
    "slo": "--slo",
    "measure.slice": "--slice",
    "stop.budget": "--budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions:
    """The command line of ``capacity``; None or empty where an option was not given.

    Attributes:
        place: A target, an experiment file or a preset.
    """

    place: str
    flags: tuple[str, ...]
    client: int | None
    scale: int | None
    builtin: str | None
    protocol: str | None
    rate: str | None
    slo: str | None
    slice_: str | None
    budget: str | None
    seed: int | None
    out: Path | None
    dry_run: bool
    as_json: bool
    quiet: bool
    yes: bool
    allow_existing: bool


def measure_capacity(options: CapacityOptions) -> None:
    """Find the capacity and measure below it; or only show what would happen."""
    doors = system_doors()
    loaded, command, run = _of_file(options, doors) if _is_file(options) else _of(options, doors)
    if not any(load.share for load in loaded.experiment.loads):
        raise InputError(
            f"`--rate {options.rate}` has no share of the capacity, so none would be measured",
            hint=f"Add a share: `--rate {options.rate},70%`; fixed rates alone are for"
            " `steelyard run`.",
        )
    if options.dry_run:
        foresee(loaded, run, doors)
    else:
        start(loaded, command, run, doors)


def _is_file(options: CapacityOptions) -> bool:
    return options.place.startswith(PRESET) or Path(options.place).is_file()


def _of(options: CapacityOptions, doors: Doors) -> tuple[LoadedExperiment, str, RunOptions]:
    """Return the experiment of one server, and the command that repeats it."""
    seed = secrets.randbelow(SEED_LIMIT) if options.seed is None else options.seed
    text = capacity_text(
        CapacityQuestion(
            target=options.place,
            clients=options.client or CLIENTS,
            scale=options.scale or SCALE,
            builtins=[name.strip() for name in (options.builtin or BUILTIN).split(",")],
            protocol=options.protocol or PROTOCOL,
            rates=options.rate or "",
            goal=options.slo or "",
            run_s=options.slice_ or SLICE,
            budget=options.budget or BUDGET,
            seed=seed,
        )
    )
    run = _run_options(options, source=SOURCE)
    try:
        loaded = load_written(text, run, doors)
    except ExperimentFileError as error:
        raise said_of_options(error, _option_of) from error
    return loaded, _command(replace(options, seed=seed)), run


def _option_of(path: str) -> str:
    """Return the option that a key of the written file comes from, "" for what has none."""
    if path.endswith(".builtin"):
        return "--builtin"
    if path.startswith("configurations.") and ".target" in path:
        return "TARGET"
    return _OPTIONS.get(path, "")


def _of_file(options: CapacityOptions, doors: Doors) -> tuple[LoadedExperiment, str, RunOptions]:
    """Return the experiment of a file with what was asked put into it.

    Raises:
        InputError: Options that describe a server, which the file does.
    """
    described = {"--scale": options.scale, "--builtin": options.builtin}
    if given := [name for name, value in described.items() if value is not None]:
        raise InputError(
            f"{', '.join(given)} is for a target, and {options.place} describes its workloads",
            hint="Leave it out, or change the file.",
        )
    changes = {
        "loads.clients": options.client,
        "loads.rate": _rates(options, doors),
        "loads.protocol": options.protocol,
        "slo": f'"{options.slo}"' if options.slo else None,
        "measure.slice": options.slice_,
    }
    overrides = tuple(f"{path}={value}" for path, value in changes.items() if value is not None)
    run = replace(
        _run_options(options, source=options.place), overrides=overrides, budget=options.budget
    )
    loaded = load(run, doors)
    return loaded, command_of(loaded, run), run


def _rates(options: CapacityOptions, doors: Doors) -> str | None:
    """Return the rates that are put into a file; None where its own, or those of its goal, stay.

    Raises:
        InputError: Its own have no share of the capacity.
    """
    given = load(_run_options(options, source=options.place), doors)
    loads = given.experiment.loads
    own = ", ".join(dict.fromkeys(each.rate_label or CLOSED for each in loads))
    if given.document.at(("loads", "rate")) is None:
        return options.rate or (None if options.slo or given.experiment.goal else RATES)
    if options.rate is not None:
        if not options.quiet:
            message = f"--rate {options.rate} replaces the rates of {options.place}: {own}"
            click.echo(message, err=True)
        return options.rate
    if not any(each.share for each in loads):
        raise InputError(
            f"{options.place} has rates of its own, {own}, and none is a share of the capacity",
            hint=f"Replace them: `--rate {RATES}`; or measure at them with `steelyard run`.",
        )
    return None


def _run_options(options: CapacityOptions, *, source: str) -> RunOptions:
    return RunOptions(
        source=source,
        flags=options.flags,
        seed=options.seed,
        out=options.out,
        dry_run=options.dry_run,
        as_json=options.as_json,
        quiet=options.quiet,
        yes=options.yes,
        allow_existing=options.allow_existing,
    )


def _command(options: CapacityOptions) -> str:
    """Return the command that repeats it in the same order."""
    given = {
        "--seed": options.seed,
        "--client": options.client,
        "--scale": options.scale,
        "--builtin": options.builtin,
        "--protocol": options.protocol,
        "--rate": options.rate,
        "--slo": options.slo,
        "--slice": options.slice_,
        "--budget": options.budget,
    }
    words = [*SOURCE.split(), options.place]
    asked = {"--yes": options.yes, "--allow-existing": options.allow_existing}
    switches = [name for name, is_given in asked.items() if is_given]
    return spelled(words, given, switches=switches, flags=options.flags)
