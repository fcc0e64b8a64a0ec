"""Everything that can be known to fail before it is started, said at once."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.engines.postgres.installation import VERSIONS_RUN, Installation
from steelyard.engines.postgres.pgbench import refuse_own_flags
from steelyard.engines.postgres.settings import (
    SettingEntry,
    check_values,
    read_catalogue,
    refused_names,
)
from steelyard.experiment.assembly import data_root, find_installations
from steelyard.experiment.differences import settings_of
from steelyard.experiment.doors import Doors
from steelyard.experiment.files import LoadedExperiment
from steelyard.experiment.setting_names import SettingCatalogue, check_settings
from steelyard.gateways.files import existing_parent
from steelyard.gateways.network import require_free_port
from steelyard.model.errors import PreflightError, Problem
from steelyard.model.experiment import Experiment, Layer, Treatment
from steelyard.model.findings import Finding, Severity

_DEFAULT_MAX_CONNECTIONS = 100
_KEPT_FOR_US = 5  # superuser_reserved_connections, reserved ones, and our own checks


def check(loaded: LoadedExperiment, doors: Doors) -> tuple[Finding, ...]:
    """Check an experiment against this machine; return what is worth knowing all the same.

    Raises:
        ExperimentFileError: Settings that do not exist or whose values the server refuses, all
            of them, with their lines.
        PreflightError: The machine cannot run it.
    """
    experiment = loaded.experiment
    refuse_own_flags(experiment.generator_flags)
    installations = find_installations(experiment, doors)
    catalogues = {
        name: read_catalogue(one.program("postgres"), doors.processes)
        for name, one in installations.items()
    }
    problems = list(dict.fromkeys(_problems(loaded, installations, catalogues, doors)))
    if problems:
        raise loaded.error(problems)
    _require_places(experiment)
    return tuple(_findings(installations))


def _problems(
    loaded: LoadedExperiment,
    installations: Mapping[str, Installation],
    catalogues: Mapping[str, Mapping[str, SettingEntry]],
    doors: Doors,
) -> Iterator[Problem]:
    named = {
        name: SettingCatalogue(
            names=frozenset(catalogue), server=f"PostgreSQL {installations[name].version}"
        )
        for name, catalogue in catalogues.items()
    }
    yield from check_settings(loaded, named)
    for treatment in loaded.experiment.treatments:
        yield from _fixed_settings(loaded, treatment)
        yield from _refused_values(
            loaded, treatment, installations[treatment.name], catalogues[treatment.name], doors
        )
        yield from _too_few_connections(loaded, treatment)


def _fixed_settings(loaded: LoadedExperiment, treatment: Treatment) -> Iterator[Problem]:
    for name, instead in refused_names(list(settings_of(treatment))).items():
        yield loaded.problem(
            _place(treatment, name), f"`{name}` is set by Steelyard", instead, at_key=True
        )


def _refused_values(
    loaded: LoadedExperiment,
    treatment: Treatment,
    installation: Installation,
    catalogue: Mapping[str, SettingEntry],
    doors: Doors,
) -> Iterator[Problem]:
    """Ask the server's own program about every value; it starts nothing."""
    fixed = refused_names(list(settings_of(treatment)))
    settings = [
        setting
        for setting in treatment.settings
        if setting.layer is Layer.POSTGRES
        and setting.name in catalogue
        and setting.name not in fixed
    ]
    with TemporaryDirectory(prefix="steelyard-check-") as empty:
        (Path(empty) / "postgresql.conf").touch()
        postgres = installation.program("postgres")
        refused = check_values(postgres, settings, Path(empty), doors.processes)
    for name, complaint in refused.items():
        yield loaded.problem(
            _place(treatment, name),
            f"PostgreSQL {installation.version} refuses this value: {complaint}",
            f"Correct `{name}`.",
        )


def _too_few_connections(loaded: LoadedExperiment, treatment: Treatment) -> Iterator[Problem]:
    text = settings_of(treatment).get("max_connections", str(_DEFAULT_MAX_CONNECTIONS))
    clients = max(load.clients for load in loaded.experiment.loads)
    if text.isdigit() and clients > int(text) - _KEPT_FOR_US:
        yield loaded.problem(
            ("loads", "clients"),
            f"{clients} clients do not fit into max_connections = {text} of treatment"
            f" `{treatment.name}`",
            f"Set `max_connections` to at least {clients + _KEPT_FOR_US} in every treatment.",
        )


def _place(treatment: Treatment, name: str) -> tuple[str, ...]:
    return ("treatments", treatment.name, Layer.POSTGRES.value, name)


def _require_places(experiment: Experiment) -> None:
    for treatment in experiment.treatments:
        if treatment.target.port is not None:
            require_free_port(treatment.target.port)
        root = existing_parent(data_root(treatment.target))
        if not root.is_dir() or not os.access(root, os.W_OK | os.X_OK):
            raise PreflightError(
                f"{root} may not be written by this account",
                hint="Set STEELYARD_CACHE or `directory:` in the target to another place.",
            )


def _findings(installations: Mapping[str, Installation]) -> Iterator[Finding]:
    for installation in dict.fromkeys(installations.values()):
        if installation.major not in VERSIONS_RUN:
            yield Finding(
                code="version-not-run",
                severity=Severity.INFO,
                message=f"PostgreSQL {installation.version} is supported by its documentation;"
                " Steelyard's own tests do not run it",
                remedy="Report what does not work.",
                subject=f"PostgreSQL {installation.major}",
            )
