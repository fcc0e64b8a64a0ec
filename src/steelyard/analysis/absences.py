"""Why something was not measured, as the probes say it: by quantity, by source, by probe."""

from collections.abc import Iterable, Sequence

from steelyard.model.evidence import Evidence, Quantity

WAITS = ("wait events", "waits", "server")  # from the narrowest subject to the widest
_SQL = ("counters", "server")
_SERVER_PROCESSES = ("the server's processes", "the server's machine", "the machine")
_DEVICE = ("device of the data directory", "the server's machine", "the machine")
# Where it is not SQL: by the beginning of the quantity's name.
_SUBJECTS = {
    "main_thread_blocked": ("main thread", *_SQL),
    "main_thread_run_queue": ("main thread", *_SQL),
    "server_run_queue": ("run-queue time of the server", *_SERVER_PROCESSES),
    "server_": _SERVER_PROCESSES,
    "generator_run_queue": ("run-queue time of the generator", "the machine"),
    "generator_": ("the machine",),
    "context_switches": ("CPU of the machine", "the machine"),
    "throttled_": ("throttling", "the server's machine", "the machine"),
    "device_flushes": ("flushes of the data device", *_DEVICE),
    "device_": _DEVICE,
}


def reason_among(evidence: Iterable[Evidence], subjects: Sequence[str]) -> str:
    """Return the reason of the first of these subjects that is absent in a run, or nothing."""
    told = {gone.subject: gone.reason for seen in evidence for gone in seen.absent}
    found = next((told[subject] for subject in subjects if subject in told), "")
    return found.removesuffix(".")


def subjects_of(quantity: Quantity) -> tuple[str, ...]:
    """Return what an absence of a quantity may be called, from the narrowest to the widest."""
    name = quantity.value
    words = name.replace("_", " ").removesuffix(" s")
    for begin, subjects in _SUBJECTS.items():
        if name.startswith(begin):
            return (name, words, *subjects)
    return (name, words, *_SQL)
