"""What a PostgreSQL server would refuse, asked of its own programs before anything is started."""

from collections.abc import Iterator, Mapping

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
from steelyard.model.findings import Finding, Severity
from steelyard.model.load import Load

_DEFAULT_MAX_CONNECTIONS = 100
_KEPT_FOR_US = 5  # superuser_reserved_connections, reserved ones, and our own checks


def fixed_settings(treatment: Treatment) -> Iterator[Complaint]:
    """Yield a complaint for each setting that Steelyard sets itself."""
    for name, instead in refused_names(list(treatment.asked())).items():
        yield Complaint(setting=name, message=f"`{name}` is set by Steelyard", hint=instead)


def refused_values(
    treatment: Treatment,
    installation: Installation,
    catalogue: Mapping[str, SettingEntry],
    processes: Processes,
) -> Iterator[Complaint]:
    """Yield a complaint for each value that the server's own program refuses."""
    fixed = refused_names(list(treatment.asked()))
    settings = [
        setting
        for setting in treatment.settings
        if setting.layer is Layer.POSTGRES
        and setting.name in catalogue
        and setting.name not in fixed
    ]
    with empty_configuration() as empty:
        refused = check_values(installation.program("postgres"), settings, empty, processes)
    for name, complaint in refused.items():
        yield Complaint(
            setting=name,
            message=f"PostgreSQL {installation.version} refuses this value: {complaint}",
            hint=f"Correct `{name}`.",
        )


def too_few_connections(treatment: Treatment, loads: tuple[Load, ...]) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into max_connections."""
    text = treatment.asked().get("max_connections", str(_DEFAULT_MAX_CONNECTIONS))
    clients = max(load.clients for load in loads)
    if text.isdigit() and clients > int(text) - _KEPT_FOR_US:
        yield Complaint(
            setting=None,
            message=f"{clients} clients do not fit into max_connections = {text} of treatment"
            f" `{treatment.name}`",
            hint=f"Set `max_connections` to at least {clients + _KEPT_FOR_US} in every treatment.",
        )


def version_finding(installation: Installation) -> Finding | None:
    """Return a finding when Steelyard's own tests do not run this version."""
    if installation.major in VERSIONS_RUN:
        return None
    return Finding(
        code="version-not-run",
        severity=Severity.INFO,
        message=f"PostgreSQL {installation.version} is supported by its documentation;"
        " Steelyard's own tests do not run it",
        remedy="Report what does not work.",
        subject=f"PostgreSQL {installation.major}",
    )
