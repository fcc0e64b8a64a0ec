"""The Clusters that a campaign makes of one target, one at a time, each under a name of its own."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.kubernetes import CLUSTER, Manifest, ObjectRef
from steelyard.platforms.cloudnative_pg.manifest import cluster_manifest
from steelyard.platforms.cloudnative_pg.options import ClusterMeans, ClusterOptions
from steelyard.platforms.cloudnative_pg.place_facts import facts_of
from steelyard.platforms.cloudnative_pg.primary import PrimaryWay
from steelyard.platforms.cloudnative_pg.removal import ClusterRemoval
from steelyard.platforms.cloudnative_pg.rollout import STARTED_AT, Rollout, RolloutMeans
from steelyard.platforms.cloudnative_pg.server_words import plain_log
from steelyard.platforms.cloudnative_pg.state import ClusterState
from steelyard.platforms.cloudnative_pg.waiting import MADE_WITHIN_S, ClusterWait
from steelyard.platforms.kubernetes.made_server import MadeServer, Standing
from steelyard.platforms.kubernetes.removal import Held


@dataclass(slots=True, kw_only=True)
class _There(Standing):
    """A Cluster that is there."""

    ref: ObjectRef
    way: PrimaryWay
    rollout: Rollout
    state: ClusterState


class OwnCluster(MadeServer[_There, ObjectRef]):
    """The Cluster of a campaign, while there is one."""

    noun = "Cluster"
    part = "primary"

    def __init__(self, options: ClusterOptions, means: ClusterMeans) -> None:
        super().__init__(options.campaign_id, options.target)
        self._options = options
        self._means = means
        self._wait = ClusterWait(means.api, means.clock, means.told)
        self._removal = ClusterRemoval(means.api, means.belongings, means.clock, means.told)

    @property
    def state(self) -> ClusterState | None:
        """Return how it was when it was last looked at; None where there is none."""
        return None if self._current is None else self._current.state

    @property
    def way(self) -> PrimaryWay:
        """Return the way to its primary.

        Raises:
            TargetError: There is none.
        """
        return self._there.way

    def _entrance(self) -> ServerAddress:
        return self._there.way.address()

    def _started_at(self) -> object:
        return self._means.sql.rows(self._entrance(), STARTED_AT)[0][0]

    def manifest(self, number: int) -> Manifest:
        """Return the Cluster of a number, as it is made."""
        options = self._options
        return cluster_manifest(
            options.target,
            name=self._name(number),
            namespace=options.namespace,
            secret=options.secret,
            settings={},
            campaign_id=options.campaign_id,
        )

    def make(self) -> ServerAddress:
        """Make a Cluster; return where its primary is reached once it is healthy.

        Raises:
            TargetError: It does not become healthy, for a reason that is told.
        """
        self._number += 1
        manifest = self.manifest(self._number)
        name = str(manifest["metadata"]["name"])
        ref = ObjectRef(kind=CLUSTER, name=name, namespace=self._options.namespace)
        self._means.told(f"Cluster {name} is made: {self._options.target.label}")
        self._announced = ref
        self._means.belongings.make(manifest)
        way = PrimaryWay(ref, self._means.reach, self._options.secret)
        state = self._wait.until(
            ref, lambda state: state.is_healthy and self._answers(way, state), most_s=MADE_WITHIN_S
        )
        self._current = _There(ref=ref, way=way, rollout=self._rollout(ref, way), state=state)
        self._look_around(self._current)
        return way.address()

    def _rollout(self, ref: ObjectRef, way: PrimaryWay) -> Rollout:
        means, synchronous = self._means, self._options.target.synchronous
        return Rollout(
            ref,
            dict.fromkeys((name.lower() for name in self._options.settings), None),
            f"{self._token}-{self._number}",
            RolloutMeans(
                api=means.api,
                sql=means.sql,
                clock=means.clock,
                told=means.told,
                patch=lambda patch: means.api.patch(ref, patch),
                address=way.follow,
                synchronous=0 if synchronous is None else synchronous.number,
            ),
        )

    def _answers(self, way: PrimaryWay, state: ClusterState) -> bool:
        """Return whether the primary lets us in: the operator sets the password by itself."""
        try:
            self._means.sql.rows(way.follow(state), STARTED_AT)
        except TargetError:
            return False
        return True

    def _look_around(self, there: _There) -> None:
        primary = there.state.primary_instance
        if primary is not None:
            self._seen_on(primary.node)
        self._facts = facts_of(self._means.api, self._means.sql, there.state, there.way.address())

    def bring(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Bring settings into force, and note since when the server runs.

        Raises:
            TargetError: Operator or server refuse them; those before are in force then.
        """
        there = self._there
        there.since = None
        if restarts:
            self._keep_log()
        if restarts or self._options.settings:
            there.state = there.rollout.apply(settings, restarts=restarts)
            self._look_around(there)
        there.since = self._started_at()

    def _close_way(self) -> None:
        self._there.way.forget()

    def _remove(self, announced: ObjectRef) -> tuple[Held, ...]:
        return self._removal.remove(announced)

    def _read_log(self, lines: int) -> str:
        return plain_log(self._means.api.logs(self._there.way.pod, lines=lines))
