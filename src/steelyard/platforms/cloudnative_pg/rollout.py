"""Changing the settings of a Cluster by its manifest, and knowing when they are in force.

With every change a setting of our own, ``steelyard.change``, gets a value that it never had. It
stands in the same file as the others, so a new session that sees it sees what the server read with
it; no time stamp tells that as surely. PostgreSQL takes any name with a dot, and does not list it.

Where a restart is asked for, the Cluster is annotated as ``kubectl rollout restart`` annotates what
it restarts. The operator then makes every pod anew, replicas first, and copies the annotation into
it. Source: cloudnative-pg 1.27.0, internal/controller/cluster_upgrade.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.sql import Sql
from steelyard.model.command import ServerAddress
from steelyard.model.errors import InputError, PreflightError, SteelyardError, TargetError
from steelyard.model.kubernetes import POD, Manifest, ObjectRef
from steelyard.platforms.cloudnative_pg.diagnosis import words_of
from steelyard.platforms.cloudnative_pg.parameters import CHANGE, postgresql_spec
from steelyard.platforms.cloudnative_pg.state import (
    RESTARTED_AT,
    ClusterState,
    Instance,
    look,
)
from steelyard.platforms.cloudnative_pg.waiting import QUIET_S, ROLLED_WITHIN_S, ClusterWait

STARTED_AT: Final = "SELECT pg_postmaster_start_time()"
SEEN: Final = "SELECT current_setting('steelyard.change', true)"
PENDING: Final = "SELECT count(*) FROM pg_settings WHERE pending_restart"
REFUSED: Final = (
    "SELECT name, setting FROM pg_file_settings WHERE error IS NOT NULL AND lower(name) = ANY(%s)"
)
STREAMING: Final = (
    "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))"
    " FROM pg_stat_replication WHERE state = 'streaming'"
)
_WORDS_WITHIN_S: Final = 30.0  # a server that ends again says why each time; a guess


class _EndedError(Exception):
    """A server does not start with the settings."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance.name)
        self.instance = instance


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMeans:
    """What a change of settings needs.

    Attributes:
        patch: Changes the Cluster by a merge patch.
        address: Where the primary of a Cluster in some state is reached.
        synchronous: How many standbys have to be so.
    """

    api: KubernetesApi
    sql: Sql
    clock: Clock
    told: Callable[[str], None]
    patch: Callable[[Manifest], Manifest]
    address: Callable[[ClusterState], ServerAddress]
    synchronous: int = 0


class Rollout:
    """The settings of one Cluster.

    Args:
        ref: The Cluster.
        before: What it says of each setting of the campaign; None where nothing.
        token: Tells the changes of this campaign from others'.
    """

    def __init__(
        self, ref: ObjectRef, before: Mapping[str, str | None], token: str, means: RolloutMeans
    ) -> None:
        self._ref = ref
        self._before = dict(before)
        self._worked = dict(before)
        self._token = token
        self._means = means
        self._wait = ClusterWait(means.api, means.clock, means.told)
        self._number = 0

    def apply(self, settings: Mapping[str, str], *, restarts: bool) -> ClusterState:
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
            state = self._settle(change, before, restarts=restarts)
            self._require_taken(state, wanted)
        except _EndedError as ended:
            raise self._bring_back(self._why(ended.instance), wanted) from ended
        except _RefusedError as refused:
            raise self._bring_back(str(refused), wanted) from refused
        self._worked = wanted
        return state

    def _before_now(self) -> _Before:
        """Return how the Cluster is before a change."""
        state = look(self._means.api, self._ref)
        if state is None:
            return _Before(crashes={}, started_at=None)
        try:
            started_at = self._means.sql.rows(self._means.address(state), STARTED_AT)[0][0]
        except TargetError:  # it is away; then any that answers was started anew
            started_at = None
        return _Before(
            crashes={each.uid: each.crashes for each in state.instances}, started_at=started_at
        )

    def _patch(self, wanted: Mapping[str, str | None], *, restarts: bool) -> str:
        """Change the Cluster; return the value that tells this change from others."""
        self._number += 1
        change = f"{self._token}-{self._number}"
        patch: dict[str, Any] = {
            "spec": {"postgresql": postgresql_spec({**wanted, CHANGE: change})}
        }
        if restarts:
            patch["metadata"] = {"annotations": {RESTARTED_AT: change}}
        try:
            self._means.patch(patch)
        except (InputError, PreflightError) as error:
            raise TargetError(
                f"{self._ref.label} does not take the settings: {error.message}",
                hint="Correct them; the Cluster is as it was.",
            ) from error
        return change

    def _settle(self, change: str, before: _Before, *, restarts: bool) -> ClusterState:
        def is_over(state: ClusterState) -> bool:
            _require_alive(state, before)
            if restarts and any(each.restarted_at != change for each in state.instances):
                return False
            old = before.started_at if restarts else None
            return state.is_healthy and self._is_in_force(state, change, old)

        return self._wait.until(self._ref, is_over, most_s=ROLLED_WITHIN_S, quiet_s=QUIET_S)

    def _is_in_force(self, state: ClusterState, change: str, old: object) -> bool:
        """Return whether new sessions see a change, nothing waits, and the standbys stream."""
        sql, means = self._means.sql, self._means
        try:
            address = means.address(state)
            if sql.rows(address, SEEN)[0][0] != change or sql.rows(address, PENDING)[0][0]:
                return False
            if old is not None and sql.rows(address, STARTED_AT)[0][0] == old:
                return False
            streaming, synchronous = sql.rows(address, STREAMING)[0]
        except TargetError:  # it is on its way down or up
            return False
        standbys, enough = int(str(streaming)), int(str(synchronous)) >= means.synchronous
        return standbys >= state.asked - 1 and enough

    def _require_taken(self, state: ClusterState, wanted: Mapping[str, str | None]) -> None:
        """Raise when the server read its file and left a setting as it was."""
        rows = self._means.sql.rows(self._means.address(state), REFUSED, [list(wanted)])
        if rows:
            said = ", ".join(f"{name} = {value}" for name, value in rows)
            raise _RefusedError(f"it cannot apply {said}")

    def _why(self, instance: Instance) -> str:
        """Return why a server ended; it ends again and again, and says it each time."""
        deadline = self._means.clock.monotonic() + _WORDS_WITHIN_S
        while self._means.clock.monotonic() < deadline:
            said = words_of(self._means.api, instance.where)
            if said:
                return f"it ends when it starts with them: {said}"
            self._means.clock.sleep(1.0)
        return "it ends when it starts with them, and does not say why (too little memory?)"

    def _bring_back(self, why: str, wanted: Mapping[str, str | None]) -> TargetError:
        """Put the last settings that worked back into force; return what is to be raised."""
        changed = {n: v for n, v in wanted.items() if v is not None and v != self._worked.get(n)}
        asked = ", ".join(f"{name} = {value}" for name, value in changed.items())
        self._means.told(f"Cluster {self._ref.name} does not run as asked; its settings go back")
        message = f"the server of {self._ref.label} does not take {asked or 'its settings'}: {why}"
        try:
            change = self._patch(self._worked, restarts=True)
            self._remove_ended()
            self._settle(change, self._before_now(), restarts=True)
        except (SteelyardError, _EndedError) as error:
            return TargetError(
                f"{message}; with the settings before it does not run either: {error}",
                hint="`kubectl describe` and `kubectl logs` say more of its pods.",
            )
        return TargetError(message, hint="It runs with the settings before again; correct these.")

    def _remove_ended(self) -> None:
        """Delete pods that end again and again, so that nobody waits out the kubelet's pauses."""
        state = look(self._means.api, self._ref)
        for each in () if state is None else state.instances:
            if not each.is_ready:
                pod = ObjectRef(kind=POD, name=each.name, namespace=each.where.namespace)
                self._means.api.delete(pod)


def _require_alive(state: ClusterState, before: _Before) -> None:
    """Raise when the container of a pod ended by itself since a change."""
    for each in state.instances:
        crashed = each.has_ended or each.crashes > before.crashes.get(each.uid, 0)
        if crashed and not each.is_ready and not each.is_ending:
            raise _EndedError(each)
