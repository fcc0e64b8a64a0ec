"""Findings: something the user should know, as data, with evidence and remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Validity(StrEnum):
    """Whether a run may be believed."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know.

    Attributes:
        code: Stable kebab-case name of the rule.
        message: The fact, with the measured value and its unit.
        remedy: The way out, or why none is needed.
        source: Where the rule comes from.
        subject: What it is about (a treatment, a cell, the campaign), for grouping.
    """

    code: str
    severity: Severity
    message: str
    remedy: str = ""
    source: str = ""
    subject: str = ""
