"""PostgreSQL on a server that Steelyard did not start: only the complaints and findings differ."""

from collections.abc import Iterator, Mapping

from steelyard.engines.engine import Complaint
from steelyard.engines.postgres import checks
from steelyard.engines.postgres.engine import PostgresEngine
from steelyard.engines.postgres.factory import Surroundings
from steelyard.engines.postgres.installation import Installation, find_clients, version_numbers
from steelyard.engines.postgres.running import Bounds, RunningProgram, RunningServer
from steelyard.engines.postgres.settings import in_unit
from steelyard.model.experiment import Experiment, Layer, Setting, Treatment
from steelyard.model.findings import Finding, Severity
from steelyard.model.target import CloudNativePgTarget, is_restarted

# Contexts that any user may set for own sessions, when they begin.
SESSION_CONTEXTS = frozenset({"user", "backend"})
_NEEDS_RESTART = "postmaster"
_FIXED = "internal"


class EndpointEngine(PostgresEngine):
    """Running PostgreSQL servers under the newest pgbench of this machine."""

    def __init__(
        self,
        experiment: Experiment,
        servers: Mapping[str, RunningServer],
        clients: Installation,
        surroundings: Surroundings,
    ) -> None:
        super().__init__(
            experiment,
            {
                name: RunningProgram(
                    installation=clients,
                    initdb=(),
                    sql=surroundings.sql,
                    server_version=server.version,
                )
                for name, server in servers.items()
            },
            {name: server.catalogue for name, server in servers.items()},
            processes=surroundings.processes,
            sql=surroundings.sql,
            account=None,
        )
        self._servers = servers

    def complaints(self, treatment: str) -> tuple[Complaint, ...]:
        """Return what cannot be set on this server, or not by this user."""
        asked = self._experiment.treatment(treatment)
        return (
            *checks.fixed_settings(asked),
            *_out_of_reach(asked, self._servers[treatment]),
            *_out_of_range(asked, self._servers[treatment].bounds),
        )

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding for each server that is newer than the pgbench that drives it."""
        ours = self.generator
        newer = dict.fromkeys(
            server.version
            for server in self._servers.values()
            if version_numbers(server.version)[:1] > ours.version_key[:1]
        )
        return tuple(
            Finding(
                code="older-pgbench",
                severity=Severity.WARNING,
                message=f"pgbench {ours.version} drives a server of version {version}",
                remedy="Install the client programs of the server's version.",
                subject=f"PostgreSQL {version}",
            )
            for version in newer
        )


def endpoint_engine(
    experiment: Experiment, servers: Mapping[str, RunningServer], surroundings: Surroundings
) -> EndpointEngine:
    """Return the engine for running servers, by treatment.

    Raises:
        PreflightError: There is no pgbench on this machine, or none that speaks TLS to a server
            that was asked over it.
    """
    tls = any(server.tls for server in servers.values())
    clients = find_clients(surroundings.processes, tls=tls)
    return EndpointEngine(experiment, servers, clients, surroundings)


def _out_of_reach(treatment: Treatment, server: RunningServer) -> Iterator[Complaint]:
    target = treatment.target
    restarts = is_restarted(target)
    is_kept = isinstance(target, CloudNativePgTarget) and not target.allow_existing
    for setting in _postgres(treatment):
        entry = server.catalogue.get(setting.name.lower()) or server.catalogue.get(setting.name)
        if entry is None:
            if "." in setting.name:
                yield _complaint(setting, "is not known to the server", "Load its extension there.")
            continue
        if entry.context == _FIXED:
            yield _complaint(setting, "cannot be changed on a running server", "Remove it.")
        elif is_kept and entry.context not in SESSION_CONTEXTS:
            yield _complaint(
                setting,
                "is set for the whole Cluster, which Steelyard did not make",
                "Allow it with `allow_existing: true` in the target or --allow-existing: what the"
                " Cluster said goes back at the end.",
            )
        elif not server.superuser and entry.context not in SESSION_CONTEXTS:
            yield _complaint(
                setting,
                "can be changed by a superuser only, and Steelyard does not connect as one",
                "Connect as a superuser, or remove it: others can change settings of their own"
                " sessions.",
            )
        elif entry.context == _NEEDS_RESTART and not restarts:
            yield _complaint(
                setting,
                "needs a restart of the server, which Steelyard did not start",
                "Say how to restart it with `restart_command:` in the target, or remove it.",
            )


def _out_of_range(treatment: Treatment, bounds: Mapping[str, Bounds]) -> Iterator[Complaint]:
    for setting in _postgres(treatment):
        limits = bounds.get(setting.name.lower())
        if limits is None:
            continue
        number = in_unit(setting.value, limits.unit)
        if number is None:
            yield _complaint(setting, f"is no number: {setting.value!r}", "Correct it.")
        elif not limits.low - 0.5 <= number <= limits.high + 0.5:
            unit = f" (unit {limits.unit})" if limits.unit else ""
            yield _complaint(
                setting,
                f"is out of range: {setting.value!r}; the server takes"
                f" {limits.low:g} to {limits.high:g}{unit}",
                "Correct it.",
            )


def _postgres(treatment: Treatment) -> list[Setting]:
    return [s for s in treatment.settings if s.layer is Layer.POSTGRES]


def _complaint(setting: Setting, what: str, hint: str) -> Complaint:
    return Complaint(setting=setting.name, message=f"`{setting.name}` {what}", hint=hint)
