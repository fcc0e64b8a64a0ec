"""What is said of any server that is there already, whatever database system it is."""

from collections.abc import Sequence
from typing import Final

from steelyard.model.errors import PreflightError
from steelyard.model.findings import Finding, Severity

UNSEEN: Final = "endpoint-unseen"


def unseen(where: str) -> Finding:
    """Return that the server's machine is out of sight."""
    return server_finding(
        UNSEEN,
        f"the machine, the disks and the log of the server at {where} are not visible from here",
        where,
    )


def require_no_campaign(marks: Sequence[str], where: str) -> None:
    """Raise when another campaign may be changing the settings.

    Args:
        marks: Of other campaigns, found on the server.
        where: What the server is called.

    Raises:
        PreflightError: There are such marks.
    """
    if marks:
        raise PreflightError(
            f"another campaign works on the server at {where}, or died there: {', '.join(marks)}",
            hint="Wait for it, or undo what it left by `steelyard clean`: its settings may be in"
            " force now.",
        )


def server_finding(
    code: str, message: str, where: str, remedy: str = "", severity: Severity = Severity.INFO
) -> Finding:
    """Return a finding whose subject is a server, by what it is called."""
    return Finding(code=code, severity=severity, message=message, remedy=remedy, subject=where)
