"""What every engine says in the same words of settings, loads and versions it does not take.

Writes that carry numbers, so that it can be told which of them are gone: what a crash test asks.

Each connection is a writer with a number of its own, and numbers its writes from 1 on.

A replica that takes the place of a dead server: what crash tests ask of an engine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from steelyard.core.command import ServerAddress, ServerProgram
from steelyard.core.experiment import Treatment
from steelyard.core.findings import Finding, Severity
from steelyard.core.schedule import Load
from steelyard.gateways.clock import Clock
from steelyard.systems.protocol import Complaint


def named_in(names: Sequence[str], fixed: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the names that are fixed, as they were given, with what to do instead.

    Args:
        names: Of settings; they do not differ by case.
        fixed: What to do instead, by name in lower case.
    """
    folded = {name: name.lower() for name in names}
    return {name: fixed[low] for name, low in folded.items() if low in fixed}


def fixed_settings(refused: Mapping[str, str]) -> Iterator[Complaint]:
    """Yield a complaint for each of these settings, given with what to do instead."""
    for name, instead in refused.items():
        yield Complaint(setting=name, message=f"`{name}` is set by Steelyard", hint=instead)


def too_few_connections(
    treatment: Treatment, loads: Sequence[Load], *, limit: str, default: int, kept: int
) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into what a server lets in.

    Args:
        treatment: Of the server.
        loads: Of the experiment.
        limit: The setting that limits its connections, in small letters.
        default: Of that setting.
        kept: Connections that are not for clients.
    """
    text = treatment.asked_folded().get(limit, str(default))
    clients = max(load.clients for load in loads)
    if text.isdigit() and clients > int(text) - kept:
        yield Complaint(
            setting=None,
            message=f"{clients} clients do not fit into {limit} = {text} of treatment"
            f" `{treatment.name}`",
            hint=f"Set `{limit}` to at least {clients + kept} in every treatment.",
        )


def version_not_run(label: str, subject: str) -> Finding:
    """Return the finding that Steelyard's own tests do not run a version."""
    return Finding(
        code="version-not-run",
        severity=Severity.INFO,
        message=f"{label} is supported by its documentation; Steelyard's own tests do not run it",
        remedy="Report what does not work.",
        subject=subject,
    )


class NumberedWriter(Protocol):
    """One connection that writes."""

    def write(self, first: int, count: int) -> None:
        """Write so many numbers from the first on; return when each of them is acknowledged.

        Raises:
            TargetError: The server is gone or refuses; some may be there without an answer.
        """
        ...

    def close(self) -> None:
        """End the connection; also from another thread, while a write hangs."""
        ...


class NumberedWrites(Protocol):
    """What an engine brings for that."""

    def prepare(self, address: ServerAddress) -> None:
        """Make what the writes go into, on a server that has time to make it last."""
        ...

    def writer(self, address: ServerAddress, writer: int) -> NumberedWriter:
        """Return a connection that writes."""
        ...

    def missing(self, address: ServerAddress, writer: int, last: int) -> Sequence[int]:
        """Return which of a writer's numbers up to the last are not there as written, in order.

        Raises:
            TargetError: The server cannot read its data.
        """
        ...


class ReplicaWatch(Protocol):
    """Looks at how far a replica is behind, on sessions that stay open."""

    def behind_bytes(self) -> int | None:
        """Return what the server has written that the replica has not applied; None: not told.

        Raises:
            TargetError: One of the two is gone.
        """
        ...

    def close(self) -> None:
        """End the sessions."""
        ...


class Succession(Protocol):
    """What an engine brings for that."""

    def program(self, replica: Sequence[tuple[str, str]]) -> ServerProgram:
        """Return a program whose servers have a replica with these settings beside them."""
        ...

    def watch(self, server: ServerAddress, replica: ServerAddress) -> ReplicaWatch:
        """Return what looks at the two."""
        ...

    def promote(self, replica: ServerAddress, clock: Clock) -> None:
        """Make a replica a server of its own, once it has taken all that the dead one had sent.

        Raises:
            MeasurementError: It does not notice the death, or refuses.
            TargetError: It is gone, too.
        """
        ...
