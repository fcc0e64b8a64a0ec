"""What a report of Redis says of its requests and of how their latency was taken."""

from steelyard.model.experiment import Experiment, GeneratorName
from steelyard.model.units import format_bytes
from steelyard.model.workload import RedisWork, Workload
from steelyard.report.formats import count, enumeration

# redis-benchmark.c, showLatencyReport: powers of two of the share that is left, and every 0.1 ms
# up to 2 ms, every 1 ms after it; its histogram tells 8 us apart, and 0.1 %.
_TABLES = (
    "Latencies are those of redis-benchmark's tables: how many requests took no longer than each of"
    " its steps. Counts are exact, and p50, p95 and p99 are within 8 µs or 0.4 %; any other"
    " percentile (p90, p99.9) is rounded up to the next step. It counts a latency above 3 s as 3 s,"
    " also in means."
)
_HISTOGRAM = (
    "Latencies are counts of memtier_benchmark's own histogram, within 8 µs or 0.4 %. It counts a"
    " latency above 60 s as 60 s."
)
_BATCH = (
    " In a pipeline redis-benchmark takes the first answer of a batch for all of it: what the later"
    " ones waited is in no latency."
)


def latency_label(experiment: Experiment) -> str:
    """Return how exact the latencies of the generator are; empty where a log tells each of them."""
    if experiment.generator is GeneratorName.MEMTIER:
        return _HISTOGRAM
    if experiment.generator is not GeneratorName.REDIS_BENCHMARK:
        return ""
    piped = any(load.pipeline > 1 for load in experiment.loads)
    return f"{_TABLES}{_BATCH if piped else ''}"


def is_clipped(experiment: Experiment, latency_s: float) -> bool:
    """Return whether the generator counts so long a latency as its longest, however long it was."""
    most_s = experiment.generator.longest_latency_s
    return most_s is not None and latency_s >= most_s


def one_key_label(experiment: Experiment) -> str:
    """Return which workloads ask for a single key, in a sentence; empty where none does."""
    names = tuple(
        workload.name
        for workload in experiment.workloads
        if workload.redis is not None and workload.redis.space.keys == 1
    )
    if not names:
        return ""
    verb = "uses" if len(names) == 1 else "use"
    return (
        f"{enumeration(names)} {verb} one key: all requests go to the same value, which the caches"
        " of the CPU hold; that says nothing of a key space."
    )


def asked(workload: Workload, work: RedisWork, generator: GeneratorName) -> str:
    """Return what a workload asks for: test or command, keys, what is loaded, size of values."""
    space = work.space
    what = " ".join(work.command) or workload.builtin or _mix(work)
    keys = "one key" if space.keys == 1 else f"{space.keys:,} keys at random"
    loaded = f"{count(space.loaded, 'key')} loaded" if space.loaded else "none loaded"
    size = format_bytes(space.value_bytes)
    return f"{workload.name} is {what} of {generator.value}, {keys} ({loaded}), values of {size}"


def _mix(work: RedisWork) -> str:
    return "an unknown test" if work.read_share is None else f"{work.read_share:.0%} GET, else SET"


def later(experiment: Experiment) -> str:
    """Return what slices of a Redis server do not show."""
    return (
        f"The sustained rate: every run is a slice of about {experiment.measure.slice_s:g} s. What"
        " comes later or falls into some slices only, as a rewrite of the AOF, a snapshot with its"
        " fork, memory that fills up or a burst credit that runs out, may do something else."
    )
