"""A recorded report of iostat, with the device's counters before and after it."""

from steelyard.campaign.evidence.sources import Counted, parse_device
from support.recorded_host import RECORDINGS

RECORDED = RECORDINGS / "iostat"
SECONDS = 6.0  # iostat -x loop0 6 2: the second report is about these


def printed_by_iostat() -> dict[str, float]:
    """Return the last line of the recorded output by its column."""
    lines = (RECORDED / "iostat-x.txt").read_text().split("\n")
    heads = [line for line in lines if line.startswith("Device")]
    values = [line for line in lines if line.startswith("loop0")]
    return dict(zip(heads[-1].split()[1:], map(float, values[-1].split()[1:]), strict=True))


def used_as_recorded() -> Counted:
    """Return what was counted meanwhile."""
    before, after = (
        parse_device((RECORDED / f"{name}.stat").read_text()) for name in ("before", "after")
    )
    return {quantity: end - before[quantity] for quantity, end in after.items()}
