"""What the load generator offers to a server."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load offered to the server.

    Attributes:
        clients: Server sessions open at once, always the total.
        threads: Worker threads of the generator, always the total.
        rate_per_s: Open-loop arrival rate of all generators together; None: see ``share``.
        share: Open-loop arrival rate as a share of the capacity that is measured before the first
            block; None means closed loop, unless ``rate_per_s`` is given.
        latency_limit_s: Open loop only: transactions that are later than this already are skipped
            (pgbench's ``--latency-limit``); None: none is.
        generators: Processes of the generator, started together, among which clients, threads and
            rate are divided.
        pipeline: Requests that a client sends before it waits for their answers (Redis).
    """

    clients: int
    threads: int
    rate_per_s: float | None = None
    share: float | None = None
    latency_limit_s: float | None = None
    generators: int = 1
    pipeline: int = 1

    def __lt__(self, other: "Load") -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[float, ...]:
        """Return what orders loads: closed loops before open ones."""
        rates = (self.rate_per_s or 0.0, self.share or 0.0, self.latency_limit_s or 0.0)
        return (self.clients, self.threads, *rates, self.generators, self.pipeline)

    @property
    def is_open(self) -> bool:
        """Return whether transactions are scheduled at a rate, whatever the server does."""
        return self.rate_per_s is not None or self.share is not None

    @property
    def size(self) -> tuple[float, ...]:
        """Return what makes a load the largest: a closed loop keeps all its clients busy.

        Of open loops the highest rate is; what a share becomes is unknown here, and taken as more
        than a fixed rate.
        """
        rates = (self.share or 0.0, self.rate_per_s or 0.0)
        return (float(not self.is_open), *rates, self.clients, self.threads)

    @property
    def as_closed(self) -> "Load":
        """Return the same clients without a rate: as much as the server gives."""
        return replace(self, rate_per_s=None, share=None, latency_limit_s=None)

    @property
    def rate_label(self) -> str:
        """Return the rate for tables: ``500/s``, ``70 %``; empty for a closed loop."""
        if self.rate_per_s is not None:
            return f"{self.rate_per_s:.10g}/s"
        return "" if self.share is None else f"{100.0 * self.share:g} %"

    @property
    def label(self) -> str:
        """Return the load as a short word for tables: ``8 clients at 500/s``."""
        rate = f" at {self.rate_label}" if self.is_open else ""
        piped = f", pipeline {self.pipeline}" if self.pipeline != 1 else ""
        return f"{self.clients} client{'s' if self.clients != 1 else ''}{piped}{rate}"
