"""Split persistence: a Redis primary that writes no disk, and a replica that keeps the data."""

from dataclasses import dataclass, field
from typing import Final, Literal

from steelyard.model.stack import ArithmeticLine, PlannedSetting, RenderedFile

Role = Literal["primary", "replica"]
DEFAULT_PORT: Final = 6379
MOST_LAG_S: Final = 10  # a guess; also the default of Redis where the limit is on


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitServer:
    """Where one server of the pair runs: as the other reaches it, and where its files are."""

    host: str
    port: int = DEFAULT_PORT
    directory: str = "/var/lib/redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInCluster:
    """The same pair in Kubernetes.

    Attributes:
        namespace: None: that of ``kubectl``.
        cpus: Of each server, as Kubernetes writes it.
        secret: Name of the Secret that holds the password below ``password``.
        storage_class: Of the replica's volume; None: the cluster's default.
        storage_bytes: Of that volume; None: what the arithmetic asks for.
        account: Number of the image's user, which is the group of the volume, too.
    """

    namespace: str | None = None
    image: str = "redis:7"
    cpus: str = "1"
    secret: str = "redis-auth"  # noqa: S105 - the name of an object
    storage_class: str | None = None
    storage_bytes: int | None = None
    account: int = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What is asked for.

    Attributes:
        name: Of the objects in a cluster, and of their labels.
        memory_bytes: For each of the two servers: limit of its container, or of its machine.
        policy: What the primary does at ``maxmemory``.
        fsync: How the replica flushes its append-only file.
        most_lag_s: A primary whose replica is silent for longer takes no writes; 0: it always does.
            It bounds silence, not distance: a replica that answers may still be behind.
    """

    memory_bytes: int
    name: str = "redis"
    policy: str = "noeviction"
    fsync: Literal["everysec", "always"] = "everysec"
    most_lag_s: int = MOST_LAG_S
    primary: SplitServer = field(default_factory=lambda: SplitServer(host="redis-primary"))
    replica: SplitServer = field(default_factory=lambda: SplitServer(host="redis-replica"))
    cluster: SplitInCluster = SplitInCluster()

    def server(self, role: Role) -> SplitServer:
        """Return the place of one of the two."""
        return self.primary if role == "primary" else self.replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One way to lose something: what happens, what is gone, and what is to be done.

    Attributes:
        source: Who says so, or how it was seen.
    """

    event: str
    loss: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDesign:
    """Both servers with every setting and its reason, and what the pair may lose.

    Attributes:
        storage_bytes: What the replica's disk must hold.
    """

    request: SplitRequest
    arithmetic: tuple[ArithmeticLine, ...]
    primary: tuple[PlannedSetting, ...]
    replica: tuple[PlannedSetting, ...]
    storage_bytes: int
    risks: tuple[Risk, ...]

    def settings(self, role: Role) -> tuple[PlannedSetting, ...]:
        """Return the settings of one of the two."""
        return self.primary if role == "primary" else self.replica


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """A design with its ready files.

    Attributes:
        left: Rules that the plan does not serve, in sentences.
    """

    design: SplitDesign
    files: tuple[RenderedFile, ...]
    left: tuple[str, ...] = ()
    format: int = 1
