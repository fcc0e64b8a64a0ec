"""The place of a campaign in a Kubernetes cluster: namespace, belongings, permissions, facts."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from steelyard.experiment.doors import Doors
from steelyard.experiment.kubernetes_needs import Lack, findings_of, lacks, require_allowed
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.environment import Fact
from steelyard.model.errors import InputError, PreflightError, PrivilegeError
from steelyard.model.experiment import Experiment
from steelyard.model.findings import Finding, Severity
from steelyard.model.kubernetes import CAMPAIGN, JOB, NAMESPACE, ObjectRef, campaign_value
from steelyard.model.target import KubernetesPlace, place_of
from steelyard.platforms.job.plan import job_name
from steelyard.platforms.kubernetes.belongings import Belongings
from steelyard.platforms.kubernetes.generator_manifest import GeneratorPlan
from steelyard.platforms.kubernetes.naming import object_name
from steelyard.platforms.platform import Ledger

Told = Callable[[str], None]
_SUBJECT: Final = "Kubernetes"


@dataclass(slots=True, kw_only=True)
class KubernetesSite:
    """Where in which cluster a campaign works.

    Attributes:
        namespace: Of everything that it makes.
        is_there: The namespace was there before.
        is_own: This campaign made it, or makes it.
        is_opened: The namespace is there now.
        missing: Permissions that the account lacks.
        plan: Of the load generators, once it is known.
        further: Facts that came about on the way: operator, storage, generators.
    """

    experiment: Experiment
    api: KubernetesApi
    place: KubernetesPlace
    namespace: str
    is_there: bool
    is_own: bool
    belongings: Belongings
    ledger: Ledger
    clock: Clock
    is_opened: bool = False
    missing: tuple[Lack, ...] = ()
    plan: GeneratorPlan | None = None
    further: list[Fact] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)

    @property
    def makes_namespace(self) -> bool:
        """Return whether the namespace is made for the campaign."""
        return not self.is_there

    def open(self) -> None:
        """Make the namespace where there is none."""
        if self.makes_namespace and not self.is_opened:
            self.belongings.make_namespace()
        self.is_opened = True

    def elsewhere(self, namespace: str) -> Belongings:
        """Return what belongs to the campaign in another namespace that is there."""
        campaign_id = self.belongings.campaign_id
        return Belongings(self.api, self.ledger, campaign_id, namespace, clock=self.clock)

    def require_allowed(self) -> None:
        """Look whether the account may do what the campaign needs.

        Raises:
            PrivilegeError: With everything that it may not.
        """
        makes = self.makes_namespace
        self.missing = lacks(self.experiment, self.api, self.namespace, makes_namespace=makes)
        require_allowed(self.missing, self.api, self.namespace)

    def facts(self) -> tuple[Fact, ...]:
        """Return what a reader must know of the cluster."""
        own = "its own" if self.is_own else "there before"
        known = {
            "context": self.api.context,
            SERVER: self.api.server,
            "version": self.api.version(),
            "namespace": f"{self.namespace} ({own})",
        }
        facts = (Fact(name=name, value=value, subject=_SUBJECT) for name, value in known.items())
        return (*facts, *self.further)

    def findings(self) -> Iterator[Finding]:
        """Yield what is worth knowing before the start."""
        yield from findings_of(self.missing, self.namespace)
        if self.place.generators.same_node:
            yield Finding(
                code="generator-beside-database",
                severity=Severity.WARNING,
                message="load generators may run on the database's node (`same_node: true`), where"
                " they take their share of its CPUs",
                remedy="Leave `same_node` out, and give the cluster a node for them.",
                subject="campaign",
            )
        if not self.is_own:
            yield Finding(
                code="foreign-namespace",
                severity=Severity.WARNING,
                message=f"the namespace {self.namespace} of {self.api.context} was not made for"
                " this campaign: whatever else runs on its nodes shares them with the load",
                remedy="Leave `namespace` out: the campaign makes one of its own and removes it.",
                subject="campaign",
            )

    def close(self) -> None:
        """Remove what was made, in the order last made first; what is gone is no trouble.

        Raises:
            LeftBehindError: Something is still there, after everything was tried.
        """
        try:
            while self.closing:
                self.closing.pop()()
        finally:
            self.belongings.remove_all()


SERVER: Final = "API server"


def find_site(
    experiment: Experiment, doors: Doors, *, campaign_id: str, ledger: Ledger
) -> KubernetesSite:
    """Return the place of an experiment's pods; the cluster is asked, nothing is made.

    Raises:
        InputError: There is no such context.
        PreflightError: The extra is not installed, or the namespace is going away.
        TargetError: The API cannot be reached.
    """
    place = place_in(experiment)
    api = doors.kubernetes.connect(place.context)
    api.version()
    campaign_id = campaign_id or f"look-{secrets.token_hex(4)}"
    namespace = place.namespace or _default_namespace(experiment, api, campaign_id)
    found = api.read(ObjectRef(kind=NAMESPACE, name=namespace))
    if found is not None and (found.get("status") or {}).get("phase") == "Terminating":
        raise PreflightError(
            f"the namespace {namespace} is being removed", hint="Wait, or name another one."
        )
    if found is None and not experiment.makes_all_in_kubernetes:
        raise PreflightError(
            f"there is no namespace {namespace} in {api.context}",
            hint="Name that of the server with `namespace:`, or --namespace.",
        )
    belongings = Belongings(api, ledger, campaign_id, namespace, clock=doors.clock)
    if api.is_inside:
        _go_with_job(belongings)
    labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
    return KubernetesSite(
        experiment=experiment,
        api=api,
        place=place,
        namespace=namespace,
        is_there=found is not None,
        is_own=found is None or labels.get(CAMPAIGN) == campaign_value(campaign_id),
        belongings=belongings,
        ledger=ledger,
        clock=doors.clock,
    )


def _go_with_job(belongings: Belongings) -> None:
    """Let all that is made go with the Job that this process is, where it may be seen."""
    ref = ObjectRef(kind=JOB, name=job_name(belongings.campaign_id), namespace=belongings.namespace)
    with suppress(PrivilegeError):
        job = belongings.api.read(ref)
        if job is not None:
            belongings.go_with(job)


def place_in(experiment: Experiment) -> KubernetesPlace:
    """Return the place that all treatments share.

    Raises:
        InputError: They do not, or are in no cluster.
    """
    places = {place_of(treatment.target) for treatment in experiment.treatments}
    if len(places) != 1 or None in places:
        raise InputError(
            "the treatments are not all in one place of one Kubernetes cluster",
            hint="Write `context`, `namespace` and `generators` once, for all treatments.",
        )
    (place,) = places
    assert place is not None  # noqa: S101 - seen above
    return place


def _default_namespace(experiment: Experiment, api: KubernetesApi, campaign_id: str) -> str:
    """Return a namespace of the campaign's own; of a server that is there: the context's."""
    return object_name(campaign_id) if experiment.makes_all_in_kubernetes else api.namespace


def trial_namespace(site: KubernetesSite) -> str:
    """Return where an object can be tried: its own namespace may not be there yet."""
    return site.namespace if site.is_there or site.is_opened else site.api.namespace
