"""Published figures beside a campaign's own: other machines, one run each, never compared."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One workload under one number of clients, here and as published.

    Attributes:
        workload: Name in the experiment.
        builtin: The pgbench script behind it.
        own_tps: Measured here, by number of threads, 1/s.
        published_tps: By environment, in the order of ``PublishedFigures.environments``, 1/s;
            None where nothing was published.
    """

    workload: str
    builtin: str
    clients: int
    own_tps: tuple[tuple[int, float], ...]
    published_tps: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigures:
    """A campaign's cells beside the published ones of the same work."""

    environments: tuple[str, ...]
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFigures:
    """How one configuration answered one command, here or as published.

    Attributes:
        command: ``SET``, ``GET`` or ``PING``.
        configuration: Name of the treatment, or of the publication.
        published: It is not from here.
        held_keys: Keys of the server before it; None where it was not asked for.
        per_s: Requests per second; here the median of the runs.
        of_off: ``per_s`` over that of the configuration without an append-only file, on the same
            side; None where there is none.
        mean_s: Mean latency; None where it is not known, as the next.
        p99_s: Latency of the 99th percentile.
    """

    command: str
    configuration: str
    published: bool
    held_keys: int | None
    per_s: float
    of_off: float | None
    mean_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRequests:
    """Both sides, command by command: those of here in treatment order, then those published."""

    rows: tuple[RequestFigures, ...]
