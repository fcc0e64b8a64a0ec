"""Which keys each workload runs on, in which database, and how a server gets them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from steelyard.engines.engine import Dataset
from steelyard.engines.redis.keys import fill
from steelyard.gateways.redis import RedisDoor, RedisSession, opened
from steelyard.model.command import ServerAddress
from steelyard.model.errors import TargetError
from steelyard.model.workload import KeySpace, RedisWork, Workload

_BUILD_TIMEOUT_S: Final = 6 * 3600.0
_NAMED_TEST: Final = "steelyard_redis"
_POLL_S: Final = "0.1"
_REWRITE_POLLS: Final = 6 * 36_000  # hours
Filler = Callable[[RedisSession, KeySpace], int]


def space_of(workload: Workload) -> KeySpace:
    """Return the keys of a workload."""
    return (workload.redis or RedisWork()).space


def dataset_of(workload: Workload) -> Dataset:
    """Return the data a workload runs on; equal key spaces give equal names."""
    space = space_of(workload)
    begins = f"_from_{space.first}" if space.first else ""
    name = f"{_NAMED_TEST}_{space.loaded}_of_{space.keys}_x_{space.value_bytes}{begins}"
    return Dataset(name=name, space=space)


def datasets_of(workloads: Sequence[Workload]) -> tuple[Dataset, ...]:
    """Return the distinct data sets of workloads, in their order."""
    found = {dataset_of(workload).name: dataset_of(workload) for workload in workloads}
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """The data sets of an experiment, each in its own database.

    Attributes:
        persisted: A server is left with a dump and an append-only file of the same keys, so that
            it loads them whichever of the two its treatment reads.
        fill: Loads the keys of a space.
        beside: So many keys are in each database beside its data: the platform's marker.
    """

    datasets: tuple[Dataset, ...]
    redis: RedisDoor
    persisted: bool
    fill: Filler = fill
    beside: int = 0

    def at(self, address: ServerAddress, dataset: Dataset) -> ServerAddress:
        """Return the address of a data set's database: of the platform's choice, or its place."""
        names = [each.name for each in self.datasets]
        chosen = dict(address.databases).get(dataset.name)
        number = chosen if chosen is not None else str(names.index(dataset.name))
        return replace(address, database=number)

    def number(self, address: ServerAddress, workload: Workload) -> int:
        """Return the number of a workload's database."""
        return int(self.at(address, dataset_of(workload)).database)

    def build(self, dataset: Dataset, address: ServerAddress) -> None:
        """Load a data set; after the last one all are persisted, where they are.

        Raises:
            TargetError: The server refuses, or it is gone.
        """
        if dataset.space is not None:
            with self._session(self.at(address, dataset)) as session:
                self.fill(session, dataset.space)
        if self.persisted and dataset == self.datasets[-1]:
            with self._session(address) as session:
                _persist(session)

    def missing(self, address: ServerAddress) -> tuple[str, ...]:
        """Return a sentence for each data set that is not there as it was loaded."""
        sentences = []
        for dataset in self.datasets:
            loaded = 0 if dataset.space is None else dataset.space.loaded
            own = self.at(address, dataset)
            with self._session(own) as session:
                held = int(str(session.command("DBSIZE"))) - self.beside
            if held != loaded:
                sentences.append(f"database {own.database} holds {held} keys, not {loaded}")
        return tuple(sentences)

    def _session(self, address: ServerAddress) -> AbstractContextManager[RedisSession]:
        return opened(self.redis, address, timeout_s=_BUILD_TIMEOUT_S)


def _persist(session: RedisSession) -> None:
    """Write the dump, then the append-only file.

    Raises:
        TargetError: The disk is full, or the server cannot fork.
    """
    session.command("SAVE")
    session.command("CONFIG", "SET", "appendonly", "yes")
    for _ in range(_REWRITE_POLLS):
        told = session.info("persistence")
        if told["aof_rewrite_in_progress"] == told["aof_rewrite_scheduled"] == "0":
            break
        # A wait at the server's side: no list is called like this.
        session.command("BLPOP", "steelyard:no-such-list", _POLL_S)
    if told["aof_last_bgrewrite_status"] != "ok" or told["aof_last_write_status"] != "ok":
        raise TargetError(
            "the server could not write its append-only file",
            hint="Free some disk, or name another directory with `directory:` in the target.",
        )
