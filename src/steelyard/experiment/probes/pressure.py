"""Pressure stall information: how long somebody waited for CPU, storage or memory."""

import re

from steelyard.experiment.probes.procfs import whole_number

_SOME = re.compile(r"^some .*\btotal=([0-9]+)\s*$", re.MULTILINE)


def pressure_s(text: str | None) -> float | None:
    """Return the seconds in which some task waited, since the start; None where it is odd."""
    match = _SOME.search(text or "")
    total_us = whole_number(match[1]) if match else None
    return None if total_us is None else total_us / 1e6
