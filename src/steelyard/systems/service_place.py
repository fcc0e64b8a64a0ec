"""A server behind a Service of a Kubernetes cluster, whoever runs it there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from steelyard.core.errors import LeftBehindError, PreflightError, TargetError
from steelyard.core.findings import Finding
from steelyard.core.measurement import Fact
from steelyard.core.outside import ServerAddress, ServerInCluster
from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.places.kubernetes.outcomes import LoadPods, PodSight
from steelyard.places.kubernetes.reaching import Knock, PodBehind, Reach, pod_behind
from steelyard.systems.postgres.existing.settings import SettingStore

_LOOKED_EVERY_S: Final = 5.0  # so long the pod behind a Service is taken to be the same; a guess
ENTRANCE: Final = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMeans:
    """What reaching a Service needs.

    Attributes:
        load: The pods that put the load on it.
    """

    api: KubernetesApi
    reach: Reach
    clock: Clock
    load: LoadPods = field(default_factory=LoadPods)


class ServicePlace:
    """The place of a server behind a Service; the pod there may be another from time to time.

    Args:
        found: The Service, as it is found again after a death.
        means: To reach it.
        database: To connect to.
    """

    def __init__(
        self, found: ServerInCluster, means: ServiceMeans, database: str = ENTRANCE
    ) -> None:
        self._found = found
        self._means = means
        self._database = database
        self._pod: PodBehind | None = None
        self._looked_at = 0.0

    @property
    def label(self) -> str:
        """Return the Service and its namespace."""
        return f"{self._found.service}.{self._found.namespace}:{self._found.port}"

    @property
    def inside(self) -> ServerInCluster | None:
        """Return how it is found again."""
        return self._found

    @property
    def pod(self) -> PodBehind:
        """Return the pod that the Service leads to.

        Raises:
            PreflightError: There is no such Service, or not one pod behind it.
        """
        now = self._means.clock.monotonic()
        if self._pod is None or now - self._looked_at > _LOOKED_EVERY_S:
            found = self._found
            self._pod = pod_behind(self._means.api, found.service, found.namespace, found.port)
            self._looked_at = now
        return self._pod

    def entrance(self) -> ServerAddress:
        """Return where it is reached now.

        Raises:
            TargetError: There is no such Service, no pod behind it, or the way there is closed.
        """
        try:
            found, pod = self._found, self.pod
        except PreflightError as error:  # it was there when the campaign began
            raise TargetError(error.message, hint=error.hint) from error
        return self._means.reach.address(
            pod.where,
            found.service,
            found.namespace,
            found.secret,
            self._database,
            port=found.port,
            pod_port=pod.port,
        )

    def store(self, own_file: SettingStore) -> SettingStore | None:
        """Return the server's own file."""
        return own_file

    def require_ready(self) -> None:
        """Look for the pod.

        Raises:
            PreflightError: There is none.
        """
        self._pod = None
        _ = self.pod

    def sight(self) -> PodSight | None:
        """Return what of its pod can be watched."""
        return self._means.load.sight(self._means.api, self.pod.where, self.pod.node)

    def facts(self) -> tuple[Fact, ...]:
        """Return where it is."""
        facts = {"service": self.label, "pod": self.pod.where.pod, "node": self.pod.node}
        return tuple(Fact(name=n, value=v, subject="endpoint") for n, v in facts.items() if v)

    def findings(self) -> tuple[Finding, ...]:
        """Return nothing: the run's evidence says what is worth knowing of the pod."""
        return ()

    def leave(self) -> None:
        """Put back nothing: what was changed is in the server's own file."""


@contextmanager
def reached(
    found: ServerInCluster,
    api: KubernetesApi,
    knock: Knock,
    clock: Clock,
    *,
    database: str = ENTRANCE,
) -> Iterator[ServerAddress]:
    """Give the way to a server that a campaign left something on.

    Raises:
        LeftBehindError: Its context means another cluster now.
        TargetError: It is not there any more, or the way there is closed.
    """
    if found.context and found.server != api.server:
        raise LeftBehindError(
            f"{found.service}.{found.namespace} is at {found.server}, and the context"
            f" {found.context} means {api.server} now",
            hint="Name a kubeconfig in KUBECONFIG whose context means that cluster.",
        )
    reach = Reach(api, knock, clock)
    try:
        means = ServiceMeans(api=api, reach=reach, clock=clock)
        yield ServicePlace(found, means, database).entrance()
    finally:
        reach.close()
