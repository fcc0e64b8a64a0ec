"""Whether a run may be believed."""

import pytest

from steelyard.campaign.evidence.run_rules import (
    CLOCK_JUMP_S,
    RunFacts,
    generator_failed,
    judge,
    validity_of,
)
from steelyard.core.findings import Finding, Severity, Validity
from steelyard.core.measurement import Measurement


def _measured(failed: int = 0) -> Measurement:
    return Measurement(
        transactions=1.0,
        seconds=1.0,
        latency_mean_s=None,
        latency_stddev_s=None,
        failed=failed,
        connection_s=None,
        series=(),
    )


@pytest.mark.parametrize(
    ("severities", "validity"),
    [
        ([], Validity.VALID),
        ([Severity.INFO], Validity.VALID),
        ([Severity.WARNING, Severity.INFO], Validity.SUSPECT),
        ([Severity.WARNING, Severity.ERROR], Validity.INVALID),
    ],
)
def test_the_gravest_finding_decides(severities: list[Severity], validity: Validity) -> None:
    """Information leaves a run valid, a warning makes it suspect, an error invalid."""
    findings = [Finding(code="x", severity=severity, message="m") for severity in severities]
    assert validity_of(findings) is validity


@pytest.mark.parametrize("jump_s", [CLOCK_JUMP_S * 1.01, -CLOCK_JUMP_S * 1.01, 3600.0])
def test_a_clock_that_was_set_makes_a_run_invalid(jump_s: float) -> None:
    """In either direction; the measured value is in the sentence."""
    (finding,) = judge(RunFacts(measurement=_measured(), clock_jump_s=jump_s))
    assert finding.code == "clock-jump"
    assert f"{jump_s:+.1f} s" in finding.message
    assert finding.remedy
    assert validity_of([finding]) is Validity.INVALID


@pytest.mark.parametrize("jump_s", [0.0, CLOCK_JUMP_S, -CLOCK_JUMP_S])
def test_a_clock_that_was_slewed_does_not(jump_s: float) -> None:
    """NTP's gentle corrections stay below the limit."""
    assert judge(RunFacts(measurement=_measured(), clock_jump_s=jump_s)) == ()


def test_failed_transactions_are_a_warning() -> None:
    """With their number; the run stays in."""
    (finding,) = judge(RunFacts(measurement=_measured(failed=3), clock_jump_s=0.0))
    assert "3 transactions failed" in finding.message
    assert validity_of([finding]) is Validity.SUSPECT


def test_a_dead_server_is_told_from_a_failed_generator() -> None:
    """Both make the run invalid; the code and the sentence say which."""
    failed = generator_failed("pgbench exited with 2", server_died=False)
    died = generator_failed("pgbench exited with 2", server_died=True)
    assert (failed.code, died.code) == ("generator-failed", "server-died")
    assert "server died" in died.message
    assert "pgbench exited with 2" in died.message
    assert validity_of([failed]) is validity_of([died]) is Validity.INVALID
