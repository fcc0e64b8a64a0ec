"""What a PostgreSQL server would refuse, asked of its own programs before anything is started."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard.engines import complaints
from steelyard.engines.engine import Complaint
from steelyard.engines.postgres.installation import VERSIONS_RUN, Installation
from steelyard.engines.postgres.settings import (
    SettingEntry,
    check_values,
    empty_configuration,
    refused_names,
)
from steelyard.gateways.process import Processes
from steelyard.model.experiment import Layer, Treatment
from steelyard.model.findings import Finding
from steelyard.model.load import Load

_DEFAULT_MAX_CONNECTIONS = 100
_KEPT_FOR_US = 5  # superuser_reserved_connections, reserved ones, and our own checks


def fixed_settings(treatment: Treatment) -> Iterator[Complaint]:
    """Yield a complaint for each setting that Steelyard sets itself."""
    yield from complaints.fixed_settings(refused_names(list(treatment.asked())))


def refused_values(
    treatment: Treatment,
    installation: Installation,
    catalogue: Mapping[str, SettingEntry],
    processes: Processes,
) -> Iterator[Complaint]:
    """Yield a complaint for each value that the server's own program refuses."""
    with empty_configuration() as empty:
        yield from refused_in(treatment, installation, catalogue, empty, processes)


def refused_in(
    treatment: Treatment,
    installation: Installation,
    catalogue: Mapping[str, SettingEntry],
    empty: Path,
    processes: Processes,
) -> Iterator[Complaint]:
    """Yield the same with an empty configuration that is there, where the programs are."""
    fixed = refused_names(list(treatment.asked()))
    known = {name.lower() for name in catalogue}
    settings = [
        setting
        for setting in treatment.settings
        if setting.layer is Layer.POSTGRES
        and setting.name.lower() in known
        and setting.name not in fixed
    ]
    refused = check_values(installation.program("postgres"), settings, empty, processes)
    for name, complaint in refused.items():
        yield Complaint(
            setting=name,
            message=f"PostgreSQL {installation.version} refuses this value: {complaint}",
            hint=f"Correct `{name}`.",
        )


def too_few_connections(treatment: Treatment, loads: tuple[Load, ...]) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into max_connections."""
    yield from complaints.too_few_connections(
        treatment,
        loads,
        limit="max_connections",
        default=_DEFAULT_MAX_CONNECTIONS,
        kept=_KEPT_FOR_US,
    )


def version_finding(installation: Installation) -> Finding | None:
    """Return a finding when Steelyard's own tests do not run this version."""
    if installation.major in VERSIONS_RUN:
        return None
    return complaints.version_not_run(
        f"PostgreSQL {installation.version}", f"PostgreSQL {installation.major}"
    )
