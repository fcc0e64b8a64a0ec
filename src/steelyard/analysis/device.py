"""How the device of the data stood in a run, by the figures that iostat makes of its counters.

None where a counter is missing, and of a mean over nothing. Source: iostat(1) of sysstat 12,
columns of ``-x``.
"""

from steelyard.model.evidence import Evidence, Quantity


def busy_fraction(seen: Evidence) -> float | None:
    """Return %util; of a device that serves many requests at once it says little."""
    return _per(seen.total(Quantity.DEVICE_BUSY_S), seen.seconds)


def queue_length(seen: Evidence) -> float | None:
    """Return aqu-sz, the mean requests in flight."""
    return _per(seen.total(Quantity.DEVICE_QUEUE_S), seen.seconds)


def reads_per_s(seen: Evidence) -> float | None:
    """Return r/s."""
    return _per(seen.total(Quantity.DEVICE_READS), seen.seconds)


def requests_per_s(seen: Evidence) -> float | None:
    """Return r/s and w/s together."""
    return _per(_requests(seen), seen.seconds)


def read_size_bytes(seen: Evidence) -> float | None:
    """Return rareq-sz, the mean size of a read."""
    return _per(seen.total(Quantity.DEVICE_READ_BYTES), seen.total(Quantity.DEVICE_READS))


def wait_s(seen: Evidence) -> float | None:
    """Return r_await and w_await together: the mean time of a request, queue included."""
    return _per(_sum(seen, Quantity.DEVICE_READ_S, Quantity.DEVICE_WRITE_S), _requests(seen))


def _requests(seen: Evidence) -> float | None:
    return _sum(seen, Quantity.DEVICE_READS, Quantity.DEVICE_WRITES)


def _sum(seen: Evidence, one: Quantity, other: Quantity) -> float | None:
    first, second = seen.total(one), seen.total(other)
    return None if first is None or second is None else first + second


def _per(dividend: float | None, divisor: float | None) -> float | None:
    return None if dividend is None or divisor is None or divisor <= 0 else dividend / divisor
