"""Changing the settings of a Cluster by its manifest, and knowing when they are in force.

With every change a setting of our own, ``steelyard.change``, gets a value that it never had. It
stands in the same file as the others, so a new session that sees it sees what the server read with
it; no time stamp tells that as surely. PostgreSQL takes any name with a dot, and does not list it.

Where a restart is asked for, the Cluster is annotated as ``kubectl rollout restart`` annotates what
it restarts. The operator then makes every pod anew, replicas first, and copies the annotation into
it. Source: cloudnative-pg 1.27.0, internal/controller/cluster_upgrade.go.

What is stuck ends the waiting with the reason. The primary may be another pod from one moment to
the next, so the way to it is looked up anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.core import kubernetes as k8s
from steelyard.core import wording
from steelyard.core.outside import ServerAddress
from steelyard.gateways.host import Clock, looks
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.refusals import absent
from steelyard.places.kubernetes.made_server import MadeMeans
from steelyard.places.kubernetes.pods import listed
from steelyard.places.kubernetes.reaching import Reach
from steelyard.systems.postgres.cloudnative_pg import operator
from steelyard.systems.postgres.existing.server import STARTED_AT

MADE_WITHIN_S: Final = 1800.0  # a large volume, a large image, a base backup; a guess
ROLLED_WITHIN_S: Final = 900.0  # the operator gives a smart shutdown three minutes; a guess
_PAUSES_S: Final = (0.3, 0.5, 0.5, 1.0)  # the last one again and again
_ASKED_EVERY_S: Final = 5.0  # what is stuck takes several lists to see
_SLOW_JOIN_S: Final = 60.0
QUIET_S: Final = 20.0  # a restart of a small server takes less


@dataclass(slots=True)
class _Borne:
    since: float
    trouble: operator.Trouble | None = None
    asked_at: float | None = None


class ClusterWait:
    """Waits for Clusters.

    Args:
        told: Takes a sentence each time that something else is waited for.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, told: Callable[[str], None]) -> None:
        self._api = api
        self._clock = clock
        self._told = told
        self._last = ""

    def until(
        self,
        ref: k8s.ObjectRef,
        is_over: Callable[[operator.ClusterState], bool],
        *,
        most_s: float,
        quiet_s: float = 0.0,
    ) -> operator.ClusterState:
        """Return the Cluster as it is once something holds of it.

        Args:
            ref: The Cluster.
            is_over: Whether it does; may raise what ends the wait.
            most_s: After so long nobody waits any more.
            quiet_s: So long nothing is told: what happens at every start is no news.

        Raises:
            TargetError: It is gone, or something is stuck, or it took too long.
        """
        borne = _Borne(since=self._clock.monotonic())
        for waited_s in looks(self._clock, most_s, *_PAUSES_S):
            found = operator.look(self._api, ref)
            if found is None:
                raise absent(ref.label)
            state = found
            if is_over(state):
                return state
            if waited_s >= quiet_s:
                self._tell(state, waited_s)
            self._judge(state, borne)
        raise self._refusal(state, borne.trouble, waited_s)

    def _tell(self, state: operator.ClusterState, waited_s: float) -> None:
        if state.is_healthy:  # yet; the operator has not seen what is wanted
            return
        said = f"Cluster {state.ref.name}: {state.progress}"
        if "join" in state.reason and waited_s > _SLOW_JOIN_S:
            said += "; the base backup of a replica begins with a checkpoint of the primary"
        self._say(said)

    def _say(self, said: str) -> None:
        if said != self._last:
            self._told(said)
            self._last = said

    def _judge(self, state: operator.ClusterState, borne: _Borne) -> None:
        now = self._clock.monotonic()
        if borne.asked_at is not None and now - borne.asked_at < _ASKED_EVERY_S:
            return
        borne.asked_at = now
        found = operator.trouble_of(self._api, state)
        if found is None:
            borne.trouble = None
            return
        if borne.trouble is None:
            borne.since = now
        borne.trouble = found
        self._say(f"Cluster {state.ref.name}: {found.message}")
        if now - borne.since >= found.borne_s:
            raise self._refusal(state, found, None)

    def _refusal(
        self, state: operator.ClusterState, trouble: operator.Trouble | None, waited_s: float | None
    ) -> wording.TargetError:
        if trouble is not None:
            return wording.TargetError(
                f"{state.ref.label} does not become healthy: {trouble.message}", hint=trouble.hint
            )
        after = "" if waited_s is None else f" after {wording.format_duration(waited_s)}"
        return wording.TargetError(
            f"{state.ref.label} is not healthy{after}: {state.progress}{self._joining(state)}",
            hint=f"`kubectl -n {state.ref.namespace} describe cluster {state.ref.name}` and the log"
            " of the operator say more.",
        )

    def _joining(self, state: operator.ClusterState) -> str:
        labels = {k8s.OF_CLUSTER: state.ref.name}
        jobs = [
            str(job["metadata"]["name"])
            for job in listed(self._api, k8s.JOB, state.ref.namespace, labels)
            if (job.get("status") or {}).get("active")
        ]
        return f"; its job {', '.join(jobs)} goes on" if jobs else ""


SEEN: Final = "SELECT current_setting('steelyard.change', true)"
PENDING: Final = "SELECT count(*) FROM pg_settings WHERE pending_restart"
REFUSED: Final = (
    "SELECT name, setting FROM pg_file_settings WHERE error IS NOT NULL AND lower(name) = ANY(%s)"
)
STREAMING: Final = (
    "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))"
    " FROM pg_stat_replication WHERE state = 'streaming'"
)
# What a standby says that has fewer connections, workers or locks than its primary has.
_TOO_FEW: Final = "because of insufficient parameter settings"
_WORDS_WITHIN_S: Final = 30.0  # a server that ends again says why each time; a guess


class _EndedError(Exception):
    def __init__(self, instance: operator.Instance, said: str) -> None:
        super().__init__(instance.name)
        told = f": {said}" if said else ", and does not say why (too little memory?)"
        self.why = f"it ends when it starts with them{told}"


class _RefusedError(Exception):
    """The server reads its settings and does not take one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """A Cluster before a change.

    Attributes:
        crashes: How often the container of each pod ended so far.
        started_at: When the primary's server started; None where it did not answer.
    """

    crashes: Mapping[str, int]
    started_at: object


class Rollout:
    """The settings of one Cluster.

    Args:
        ref: The Cluster.
        before: What it says of each setting of the campaign; None where nothing.
        token: Tells the changes of this campaign from others'.
        patch: Changes the Cluster by a merge patch.
        address: Where the primary of the Cluster in some state is reached.
        synchronous: How many standbys have to be so.
    """

    def __init__(
        self,
        ref: k8s.ObjectRef,
        before: Mapping[str, str | None],
        token: str,
        means: MadeMeans,
        *,
        patch: Callable[[k8s.Manifest], k8s.Manifest],
        address: Callable[[operator.ClusterState], ServerAddress],
        synchronous: int = 0,
    ) -> None:
        self._ref = ref
        self._before = dict(before)
        self._worked = dict(before)
        self._token = token
        self._means = means
        self._change = patch
        self._address = address
        self._synchronous = synchronous
        self._wait = ClusterWait(means.api, means.doors.clock, means.told)
        self._number = 0

    def apply(self, settings: Mapping[str, str], *, restarts: bool) -> operator.ClusterState:
        """Bring settings into force; those that are not asked for go back to what was.

        Returns the Cluster as it is then: all its instances ready, none waiting for a restart.

        Raises:
            TargetError: The operator or the server refuses them, and those before are in force
                again; or the Cluster does not become healthy.
        """
        asked = {name.lower(): value for name, value in settings.items()}
        wanted = {name: asked.get(name, value) for name, value in self._before.items()}
        before = self._before_now()
        change = self._patch(wanted, restarts=restarts)
        try:
            state = self._await_rollout(change, before, restarts=restarts)
            self._require_taken(state, wanted)
        except _EndedError as ended:
            raise self._bring_back(ended.why, wanted) from ended
        except _RefusedError as refused:
            raise self._bring_back(str(refused), wanted) from refused
        self._worked = wanted
        return state

    def _before_now(self) -> _Before:
        state = operator.look(self._means.api, self._ref)
        if state is None:
            return _Before(crashes={}, started_at=None)
        try:
            started_at = self._means.doors.sql.rows(self._address(state), STARTED_AT)[0][0]
        except wording.TargetError:  # it is away; then any that answers was started anew
            started_at = None
        return _Before(
            crashes={each.uid: each.crashes for each in state.instances}, started_at=started_at
        )

    def _patch(self, wanted: Mapping[str, str | None], *, restarts: bool) -> str:
        """Change the Cluster; return the value that tells this change from others."""
        self._number += 1
        change = f"{self._token}-{self._number}"
        patch: dict[str, Any] = {
            "spec": {"postgresql": operator.postgresql_spec({**wanted, operator.CHANGE: change})}
        }
        if restarts:
            patch["metadata"] = {"annotations": {operator.RESTARTED_AT: change}}
        try:
            self._change(patch)
        except (wording.InputError, wording.PreflightError) as error:
            raise wording.TargetError(
                f"{self._ref.label} does not take the settings: {error.message}",
                hint="Correct them; the Cluster is as it was.",
            ) from error
        return change

    def _await_rollout(
        self, change: str, before: _Before, *, restarts: bool
    ) -> operator.ClusterState:
        alive = _Alive(self._means, before)

        def is_over(state: operator.ClusterState) -> bool:
            alive.require(state)
            if restarts and any(each.restarted_at != change for each in state.instances):
                return False
            old = before.started_at if restarts else None
            return state.is_healthy and self._is_in_force(state, change, old)

        return self._wait.until(self._ref, is_over, most_s=ROLLED_WITHIN_S, quiet_s=QUIET_S)

    def _is_in_force(self, state: operator.ClusterState, change: str, old: object) -> bool:
        sql = self._means.doors.sql
        try:
            address = self._address(state)
            if sql.rows(address, SEEN)[0][0] != change or sql.rows(address, PENDING)[0][0]:
                return False
            if old is not None and sql.rows(address, STARTED_AT)[0][0] == old:
                return False
            streaming, synchronous = sql.rows(address, STREAMING)[0]
        except wording.TargetError:  # it is on its way down or up
            return False
        standbys, enough = int(str(streaming)), int(str(synchronous)) >= self._synchronous
        return standbys >= state.asked - 1 and enough

    def _require_taken(
        self, state: operator.ClusterState, wanted: Mapping[str, str | None]
    ) -> None:
        """Raise when the server read its file and left a setting as it was."""
        rows = self._means.doors.sql.rows(self._address(state), REFUSED, [list(wanted)])
        if rows:
            said = ", ".join(f"{name} = {value}" for name, value in rows)
            raise _RefusedError(f"it cannot apply {said}")

    def _bring_back(self, why: str, wanted: Mapping[str, str | None]) -> wording.TargetError:
        changed = {n: v for n, v in wanted.items() if v is not None and v != self._worked.get(n)}
        asked = ", ".join(f"{name} = {value}" for name, value in changed.items())
        self._means.told(f"Cluster {self._ref.name} does not run as asked; its settings go back")
        message = f"the server of {self._ref.label} does not take {asked or 'its settings'}: {why}"
        try:
            before = self._before_now()
            change = self._patch(self._worked, restarts=True)
            self._remove_ended()
            self._await_rollout(change, before, restarts=True)
        except (wording.SteelyardError, _EndedError) as error:
            return wording.TargetError(
                f"{message}; with the settings before it does not run either: {error}",
                hint="`kubectl describe` and `kubectl logs` say more of its pods.",
            )
        return wording.TargetError(
            message, hint="It runs with the settings before again; correct these."
        )

    def _remove_ended(self) -> None:
        """Delete pods that end again and again, so that nobody waits out the kubelet's pauses."""
        state = operator.look(self._means.api, self._ref)
        for each in () if state is None else state.instances:
            if not each.is_ready:
                pod = k8s.ObjectRef(kind=k8s.POD, name=each.name, namespace=each.where.namespace)
                self._means.api.delete(pod)


class _Alive:
    """Looks whether servers end by themselves since a change.

    A standby ends, too, where its primary still has more connections or the like; the kubelet
    starts it again, and it runs once the primary has the new settings.
    """

    def __init__(self, means: MadeMeans, before: _Before) -> None:
        self._means = means
        self._before = before
        self._ended_at: dict[str, float] = {}
        self._ahead = set[str]()

    def require(self, state: operator.ClusterState) -> None:
        """Raise where one ended that does not wait for its primary."""
        for each in state.instances:
            crashed = each.has_ended or each.crashes > self._before.crashes.get(each.uid, 0)
            if crashed and not each.is_ready and not each.is_ending and each.uid not in self._ahead:
                self._look_at(each, is_standby=each.name != state.primary)

    def _look_at(self, instance: operator.Instance, *, is_standby: bool) -> None:
        """Read why it ended; it ends again and again, and says it each time."""
        now = self._means.doors.clock.monotonic()
        since = self._ended_at.setdefault(instance.uid, now)
        said = operator.words_of(self._means.api, instance.where)
        if is_standby and _TOO_FEW in said:
            self._ahead.add(instance.uid)
        elif said or now - since >= _WORDS_WITHIN_S:
            raise _EndedError(instance, said)


ENTRANCE: Final = "postgres"  # the database that is always there


class PrimaryWay:
    """Follows the primary of one Cluster.

    Args:
        secret: With the user and password of whoever comes.
        database: To connect to.
    """

    def __init__(
        self, ref: k8s.ObjectRef, reach: Reach, secret: k8s.SecretRef, database: str = ENTRANCE
    ) -> None:
        self._ref = ref
        self._reach = reach
        self._secret = secret
        self._database = database
        self._known: operator.Instance | None = None

    @property
    def service(self) -> str:
        """Return the Service that leads to the primary, whichever pod that is."""
        return f"{self._ref.name}-rw"

    @property
    def instance(self) -> operator.Instance | None:
        """Return the primary as it was last seen."""
        return self._known

    @property
    def pod(self) -> k8s.ContainerRef:
        """Return the primary's container as it was last seen.

        Raises:
            TargetError: None was seen yet.
        """
        if self._known is None:
            raise wording.TargetError(f"{self._ref.label} has no primary that is known")
        return self._known.where

    def follow(self, state: operator.ClusterState) -> ServerAddress:
        """Return where the primary of a Cluster in some state is reached.

        Raises:
            TargetError: It has none, or the way there is closed.
        """
        primary = state.primary_instance
        if primary is None:
            raise wording.TargetError(f"{self._ref.label} has no primary: {state.progress}")
        if self._known is not None and self._known.uid != primary.uid:
            self._reach.forget(self._known.where)
        self._known = primary
        return self.address()

    def address(self) -> ServerAddress:
        """Return where the primary is reached that was last seen.

        Raises:
            TargetError: None was seen yet, or the way there is closed.
        """
        return self._reach.address(
            self.pod, self.service, self._ref.namespace, self._secret, self._database
        )

    def forget(self) -> None:
        """Close the way: the primary is about to go."""
        if self._known is not None:
            self._reach.forget(self._known.where)
        self._known = None
