"""Whether a run may be believed: only causes from outside the treatments make it invalid."""

from collections.abc import Sequence

from steelyard.model.findings import Finding, Severity, Validity
from steelyard.model.measurement import Measurement

CLOCK_JUMP_S = 0.5  # wall against monotonic clock over one run; NTP slews by far less


def validity_of(findings: Sequence[Finding]) -> Validity:
    """Return what the findings of a run make of it."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Validity.INVALID
    return Validity.SUSPECT if Severity.WARNING in severities else Validity.VALID


def generator_failed(message: str, *, server_died: bool) -> Finding:
    """Return the finding that a run has no result."""
    return Finding(
        code="server-died" if server_died else "generator-failed",
        severity=Severity.ERROR,
        message=f"the server died or was out of reach during the run ({message})"
        if server_died
        else message,
        remedy="The block is redone in all arms; look into the server's log in raw/.",
    )


def judge_measurement(taken: Measurement, *, clock_jump_s: float) -> tuple[Finding, ...]:
    """Return what is wrong with a run that has a result."""
    findings = []
    if abs(clock_jump_s) > CLOCK_JUMP_S:
        findings.append(
            Finding(
                code="clock-jump",
                severity=Severity.ERROR,
                message=f"the clock was set by {clock_jump_s:+.1f} s during the run"
                f" (more than {CLOCK_JUMP_S} s)",
                remedy="The block is redone; let the clock be slewed, not stepped.",
            )
        )
    if taken.transactions < 1:
        findings.append(
            Finding(
                code="no-transactions",
                severity=Severity.WARNING,
                message=f"no transaction ended in {taken.seconds:.1f} s; it counts as a stall",
                remedy="If both arms do it, the slice is too short for this workload.",
                source="METHOD 3.6",
            )
        )
    if taken.failed:
        findings.append(
            Finding(
                code="failed-transactions",
                severity=Severity.WARNING,
                message=f"{taken.failed} transactions failed; they are not counted",
                remedy="See pgbench's --max-tries, or lower the isolation of the script.",
            )
        )
    return tuple(findings)
