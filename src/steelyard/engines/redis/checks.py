"""What a Redis server would refuse, asked of its own program before anything is started."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from steelyard.engines import complaints
from steelyard.engines.engine import Complaint
from steelyard.engines.redis.installation import VERSIONS_RUN, RedisInstallation
from steelyard.engines.redis.server import DEFAULT_DATABASES
from steelyard.engines.redis.settings import Catalogue, refused_names
from steelyard.engines.redis.trial import Refusal
from steelyard.model.experiment import Experiment, Treatment
from steelyard.model.findings import Finding, Severity
from steelyard.model.load import Load
from steelyard.model.target import RedisLocalTarget

_DEFAULT_CLIENTS = 10_000
_KEPT_FOR_US = 5  # the probes' session and our own checks


def fixed_settings(treatment: Treatment) -> Iterator[Complaint]:
    """Yield a complaint for each setting that Steelyard sets itself."""
    yield from complaints.fixed_settings(refused_names(list(treatment.asked())))


class Tries(Protocol):
    """Starts a server for a moment."""

    @property
    def installation(self) -> RedisInstallation:
        """Return whose server it is."""
        ...

    def refusals(self, settings: Mapping[str, str]) -> tuple[Refusal, ...]:
        """Return everything that it says against these settings."""
        ...


def refused_values(treatment: Treatment, trial: Tries, catalogue: Catalogue) -> Iterator[Complaint]:
    """Yield a complaint for each value that the server's own program refuses."""
    fixed = refused_names(list(treatment.asked()))
    known = {
        name: value
        for name, value in treatment.asked().items()
        if name.lower() in catalogue and name not in fixed
    }
    for refusal in trial.refusals(known):
        name = refusal.setting or next(iter(known))
        yield Complaint(
            setting=name,
            message=f"{trial.installation.label} refuses this value: {refusal.words}",
            hint=f"Correct `{name}`.",
        )


def refused_of_replica(
    treatment: Treatment, trial: Tries, catalogue: Catalogue
) -> Iterator[Complaint]:
    """Yield a complaint for each setting of a replica that the server's own program refuses."""
    target = treatment.target
    asked = dict(target.replica or ()) if isinstance(target, RedisLocalTarget) else {}
    fixed = refused_names(list(asked))
    for name, instead in fixed.items():
        message = f"`{name}` of the replica is set by Steelyard"
        yield Complaint(setting=None, message=message, hint=instead)
    for name in asked:
        if name not in fixed and name.lower() not in catalogue:
            message = f"{trial.installation.label} does not know `{name}` of the replica"
            yield Complaint(setting=None, message=message, hint="CONFIG GET * lists what it knows.")
    known = {n: value for n, value in asked.items() if n.lower() in catalogue and n not in fixed}
    for refusal in trial.refusals(known):
        name = refusal.setting or next(iter(known))
        yield Complaint(
            setting=None,
            message=f"{trial.installation.label} refuses `{name}` of the replica: {refusal.words}",
            hint=f"Correct `{name}`.",
        )


def replica_finding(experiment: Experiment) -> Finding | None:
    """Return what is to be known of replicas beside their primaries; None without one."""
    with_one = [
        name
        for name, target in experiment.redis_targets.items()
        if isinstance(target, RedisLocalTarget) and target.replica is not None
    ]
    if not with_one:
        return None
    return Finding(
        code="replica-beside",
        severity=Severity.INFO,
        message="the replica runs on the machine of its primary and takes of its CPUs and its disk:"
        " on a machine of its own it would cost the primary less, and a network would be between",
        remedy="Read the difference as an upper bound of what the replica costs.",
        subject=", ".join(with_one),
    )


def too_few_connections(treatment: Treatment, loads: tuple[Load, ...]) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into maxclients."""
    yield from complaints.too_few_connections(
        treatment, loads, limit="maxclients", default=_DEFAULT_CLIENTS, kept=_KEPT_FOR_US
    )


def too_few_databases(treatment: Treatment, datasets: int) -> Iterator[Complaint]:
    """Yield a complaint when each data set cannot have a database of its own."""
    text = treatment.asked_folded().get("databases", str(DEFAULT_DATABASES))
    if text.isdigit() and datasets > int(text):
        yield Complaint(
            setting=None,
            message=f"the workloads have {datasets} different key spaces, and a server of"
            f" `{treatment.name}` has {text} databases",
            hint=f"Set `databases` to at least {datasets}, or give workloads the same keys.",
        )


def version_finding(installation: RedisInstallation) -> Finding | None:
    """Return a finding when Steelyard's own tests do not run this version."""
    if (installation.flavour, installation.version_key[0]) in VERSIONS_RUN:
        return None
    return complaints.version_not_run(installation.label, installation.label)
