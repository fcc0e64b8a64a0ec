"""From an experiment to the PostgreSQL engine that runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.engines.postgres.engine import PostgresEngine
from steelyard.engines.postgres.installation import Installation, find_installation, wheel_parts
from steelyard.engines.postgres.server import PostgresProgram
from steelyard.engines.postgres.settings import (
    SettingEntry,
    empty_configuration,
    read_catalogue,
    undescribed,
)
from steelyard.gateways.process import Processes
from steelyard.gateways.sql import Sql
from steelyard.model.experiment import Experiment, Treatment


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine stands on.

    Attributes:
        account: Account for programs that Steelyard starts as root.
        reach: Given a directory of programs, the directories that must stay side by side with
            it, and a label; returns where that account can reach the programs.
    """

    processes: Processes
    sql: Sql
    account: str | None
    reach: Callable[[Path, tuple[Path, ...], str], Path]


def postgres_engine(experiment: Experiment, surroundings: Surroundings) -> PostgresEngine:
    """Return the engine; nothing is started yet.

    Raises:
        PreflightError: Programs are absent or do not run.
    """
    installations = _installations(experiment, surroundings)
    return PostgresEngine(
        experiment,
        {
            name: PostgresProgram(
                installation=installations[name], initdb=target.initdb, sql=surroundings.sql
            )
            for name, target in experiment.local_targets.items()
        },
        {
            name: _catalogue(one.program("postgres"), experiment.treatment(name), surroundings)
            for name, one in installations.items()
        },
        processes=surroundings.processes,
        sql=surroundings.sql,
        account=surroundings.account,
    )


def _catalogue(
    postgres: str, treatment: Treatment, surroundings: Surroundings
) -> Mapping[str, SettingEntry]:
    """Return the settings that a server describes, and of the others those that are asked for."""
    described = read_catalogue(postgres, surroundings.processes)
    others = [name for name in treatment.asked() if "." not in name and name not in described]
    if not others:
        return described
    with empty_configuration() as empty:
        known = undescribed(postgres, others, empty, surroundings.processes)
    return {**described, **known}


def _installations(
    experiment: Experiment, surroundings: Surroundings
) -> Mapping[str, Installation]:
    """Return the programs of each treatment, where the account can reach them."""
    targets = experiment.local_targets
    by_bin = {
        bin_: _reachable(find_installation(bin_, surroundings.processes), surroundings)
        for bin_ in dict.fromkeys(target.bin for target in targets.values())
    }
    return {name: by_bin[target.bin] for name, target in targets.items()}


def _reachable(found: Installation, surroundings: Surroundings) -> Installation:
    label = f"{found.root.name}-{'.'.join(map(str, found.version_key))}"
    programs = surroundings.reach(found.programs, wheel_parts(found), label)
    return replace(found, programs=programs)
