"""The parts of a latency, and how one thread that serves all sessions splits it.

A server whose sessions say what they wait for is sampled (``budget``). One that serves them all on
one thread is not: there the thread's own account says where the time goes. A request waits while
the thread is with others, so of the time between two answers, clients times, each part is the time
that the thread spends so.
"""

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from steelyard.core.evidence import Quantity, WaitClass
from steelyard.stats.student import FloatArray


class Part(StrEnum):
    """A part of a transaction's time.

    Attributes:
        ON_CPU: The server's processes used a CPU, background ones too; by the kernel's account.
        CPU_WAIT: In a run queue, or stopped by a quota; likewise. At least the rest of the class
            ``cpu``, and what is more was sampled as waiting for the client.
        CPU: The class of that name, where the kernel's account was not to be had.
        EXECUTING: The main thread executed commands, by the server's own account.
        SERVING: It used a CPU for everything else: reading and writing sockets, the protocol,
            handing the log to the kernel.
        FORKING: It stood still to fork.
        BLOCKED: It was in uninterruptible sleep, sampled: it waited for storage.
        OFF_CPU: It was off the CPU, and nobody could see whether for storage, for a CPU or for
            the next request.
        UNSEEN: What the samples do not cover; below 0 where they cover more than there was.
    """

    ON_CPU = "on_cpu"
    CPU_WAIT = "waiting_for_cpu"
    CPU = "cpu"
    EXECUTING = "executing"
    SERVING = "serving"
    FORKING = "forking"
    BLOCKED = "blocked"
    IO = "io"
    WAL = "wal"
    LWLOCK = "lwlock"
    LOCK = "lock"
    REPLICATION = "replication"
    OTHER = "other"
    OFF_CPU = "off_cpu"
    CLIENT = "client"
    UNSEEN = "unseen"


# Parts that are a class of sampled waits.
SAMPLED = {
    Part.IO: WaitClass.IO,
    Part.WAL: WaitClass.WAL,
    Part.LWLOCK: WaitClass.LWLOCK,
    Part.LOCK: WaitClass.LOCK,
    Part.REPLICATION: WaitClass.REPLICATION,
    Part.OTHER: WaitClass.OTHER,
    Part.CLIENT: WaitClass.CLIENT,
}
_OF_THE_CPU = (Part.ON_CPU, Part.CPU_WAIT, Part.CPU)
# What the main thread's account rests on.
THREAD_QUANTITIES = (
    Quantity.MAIN_THREAD_CPU_S,
    Quantity.COMMAND_S,
    Quantity.FORK_S,
    Quantity.MAIN_THREAD_BLOCKED_S,
    Quantity.MAIN_THREAD_RUN_QUEUE_S,
)


def class_of(part: Part) -> WaitClass | None:
    """Return the class of waits that a part is, or belongs to; None for what no sample saw."""
    return WaitClass.CPU if part in _OF_THE_CPU else SAMPLED.get(part)


def thread_parts(
    whole: FloatArray, spent: Callable[[Quantity], FloatArray]
) -> dict[Part, FloatArray] | None:
    """Return the parts of a latency by the main thread's account; None where there is none.

    Args:
        whole: The latency, s, of any shape; NaN where it is not known.
        spent: What the thread spent on all requests that were in flight together, s, same shape.

    Returns:
        Parts that sum to the latency: the last one is the rest.
    """
    on_cpu_s = spent(Quantity.MAIN_THREAD_CPU_S)
    known = np.isfinite(whole)
    if not known.any() or not np.isfinite(on_cpu_s[known]).all():
        return None
    executing_s = np.minimum(_or_none(spent(Quantity.COMMAND_S)), on_cpu_s)
    forking_s = np.minimum(_or_none(spent(Quantity.FORK_S)), on_cpu_s - executing_s)
    parts = {
        Part.EXECUTING: executing_s,
        Part.FORKING: forking_s,
        Part.SERVING: on_cpu_s - executing_s - forking_s,
    }
    blocked_s = spent(Quantity.MAIN_THREAD_BLOCKED_S)
    queued_s = spent(Quantity.MAIN_THREAD_RUN_QUEUE_S)
    seen = np.isfinite(blocked_s[known]).all() and np.isfinite(queued_s[known]).all()
    if seen:
        parts |= {Part.CPU_WAIT: queued_s, Part.BLOCKED: blocked_s}
    rest = whole - sum(parts.values(), np.zeros_like(whole))
    return {**parts, Part.CLIENT if seen else Part.OFF_CPU: rest}


def _or_none(values: FloatArray) -> FloatArray:
    """Return them with nothing where the server did not tell them apart."""
    return np.where(np.isfinite(values), values, 0.0)
