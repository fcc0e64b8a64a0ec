"""What is known of a run when its rules judge it; what nobody measured is None."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.core.evidence import Evidence, Quantity
from steelyard.core.experiment import DEFAULT_NEIGHBOURS, POSTGRES_WORDS, WorkWords
from steelyard.core.measurement import Measurement
from steelyard.core.schedule import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run when it is judged.

    Attributes:
        measurement: None when the generator gave none; then ``failure`` says why.
        clock_jump_s: How far the wall clock moved against the monotonic one.
        log_trouble: Why its log of transactions cannot be used; empty where it can; None: there is
            none.
        server_died: It was not there any more after the run.
        last_words: Of the server that died, by its log; empty where it logged nothing.
        deviations: A sentence for each setting that is not in force as asked.
        asked: Settings of the treatment's server, by name.
        limits: Control group limits that the treatment asks for, by name.
        in_force: Settings as the running server reports them, by name.
        asked_s: Length of the measured part as it was asked for; None: as long as it took.
        skipped: Transactions that were never started, after the ramp; None: no result.
        words: What the work is called.
        takes_time: The generator was told how long to run, not how many requests to send.
        neighbours: Share of CPU and disk that others may use; None: whatever they like.
    """

    treatment: str = ""
    load: Load = field(default_factory=lambda: Load(clients=1, threads=1))
    measurement: Measurement | None = None
    evidence: Evidence | None = None
    clock_jump_s: float | None = None
    failure: str = ""
    log_trouble: str | None = None
    server_died: bool = False
    last_words: str = ""
    deviations: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    in_force: Mapping[str, str] = field(default_factory=dict)
    asked_s: float | None = None
    skipped: int | None = None
    neighbours: float | None = DEFAULT_NEIGHBOURS
    words: WorkWords = POSTGRES_WORDS
    takes_time: bool = True

    @property
    def offered(self) -> float | None:
        """Return how many transactions were due after the ramp, on average, or None."""
        rate_per_s = self.load.rate_per_s
        if rate_per_s is None or self.measurement is None:
            return None
        # What is still running at the end may take longer; nothing new is due then.
        took_s = self.measurement.seconds
        return rate_per_s * (took_s if self.asked_s is None else min(self.asked_s, took_s))

    @property
    def allowance(self) -> float:
        """Return the share from which on a neighbour is told of."""
        return DEFAULT_NEIGHBOURS if self.neighbours is None else self.neighbours

    def total(self, quantity: Quantity) -> float | None:
        """Return a difference over the run, or None."""
        return None if self.evidence is None else self.evidence.total(quantity)

    def level(self, quantity: Quantity) -> float | None:
        """Return a reading at its end, or None."""
        return None if self.evidence is None else self.evidence.level(quantity)

    @property
    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds that the machine had during the run, or None."""
        cpus = self.level(Quantity.CPUS)
        seconds = self.evidence.seconds if self.evidence is not None else 0.0
        return cpus * seconds if cpus and seconds > 0 else None
