"""CPU quotas of control groups, versions 1 and 2, and how often they held somebody back."""

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.experiment.probes.procfs import named_numbers, whole_number
from steelyard.gateways.host import Host
from steelyard.model.vantage import Vantage

_ROOT = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """Since the group was made.

    Attributes:
        periods: In which somebody of the group wanted a CPU.
        throttled: Those in which the quota was used up.
        throttled_s: Summed over CPUs, so it may be longer than the time that went by.
    """

    periods: int
    throttled: int
    throttled_s: float


def parse_throttling(text: str | None) -> Throttling | None:
    """Return what ``cpu.stat`` of a group says: nanoseconds in version 1, microseconds in 2."""
    counted = named_numbers(text)
    periods, throttled = counted.get("nr_periods"), counted.get("nr_throttled")
    if periods is None or throttled is None:
        return None
    if "throttled_usec" in counted:
        seconds = counted["throttled_usec"] / 1e6
    elif "throttled_time" in counted:
        seconds = counted["throttled_time"] / 1e9
    else:
        return None
    return Throttling(periods=periods, throttled=throttled, throttled_s=seconds)


def group_with_quota(host: Host, vantage: Vantage) -> str | None:
    """Return the directory of the nearest group around the server that has a CPU quota.

    Its own group comes first, then those above it, also those of a container around everything.
    """
    own = [str(path) for path in vantage.groups]
    places = [*own, *_groups_of(host.read(f"/proc/{vantage.pid}/cgroup"))]
    return next((place for place in places if _has_quota(host, place)), None)


def throttling(host: Host, group: str) -> Throttling | None:
    """Return how often a group was held back so far."""
    return parse_throttling(host.read(f"{group}/cpu.stat"))


def _has_quota(host: Host, group: str) -> bool:
    quota = (host.read(f"{group}/cpu.max") or "").partition(" ")[0]  # version 2
    quota = quota or (host.read(f"{group}/cpu.cfs_quota_us") or "").strip()
    return bool(whole_number(quota))


def _groups_of(text: str | None) -> Iterator[str]:
    """Yield the directories of a process's groups from its ``cgroup``, the nearest first.

    Inside a container the path often names a group outside the mount; then only the root of the
    mount can be read, which is the container's own group.
    """
    for line in (text or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            roots = (_ROOT, f"{_ROOT}/unified")
        elif "cpu" in controllers.split(","):
            roots = (f"{_ROOT}/{controllers}", f"{_ROOT}/cpu")
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield from ("/".join([root, *parts[:depth]]) for root in roots)
