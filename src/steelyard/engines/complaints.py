"""What every engine says in the same words of settings, loads and versions it does not take."""

from collections.abc import Iterator, Mapping, Sequence

from steelyard.engines.engine import Complaint
from steelyard.model.experiment import Treatment
from steelyard.model.findings import Finding, Severity
from steelyard.model.load import Load


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
