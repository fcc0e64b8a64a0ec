"""How full the network links of this machine were during a run."""

from dataclasses import dataclass, field

from steelyard.experiment.probes.procfs import whole_number
from steelyard.gateways.host import Host

_LINKS = "/sys/class/net"
_LOOPBACK = "lo"
_DIRECTIONS = ("rx_bytes", "tx_bytes")
_BYTES_PER_MBIT = 125_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What went through one link since the machine's start, and what fits through it."""

    received: int
    sent: int
    bytes_per_s: float


def links(host: Host) -> dict[str, Moved]:
    """Return every link that says how fast it is; virtual ones often say nothing, or -1."""
    found = {}
    for name in host.names(_LINKS):
        speed = whole_number((host.read(f"{_LINKS}/{name}/speed") or "").strip())
        counts = [host.read(f"{_LINKS}/{name}/statistics/{each}") for each in _DIRECTIONS]
        received, sent = (whole_number((text or "").strip()) for text in counts)
        if name != _LOOPBACK and speed and received is not None and sent is not None:
            found[name] = Moved(received=received, sent=sent, bytes_per_s=speed * _BYTES_PER_MBIT)
    return found


def busiest_fraction(
    before: dict[str, Moved], after: dict[str, Moved], seconds: float
) -> float | None:
    """Return the most of a link that was used, in its busier direction; None without a link."""
    if seconds <= 0:
        return None
    shares = [
        max(now.received - then.received, now.sent - then.sent) / (now.bytes_per_s * seconds)
        for name, now in after.items()
        if (then := before.get(name)) is not None
    ]
    return max(0.0, *shares) if shares else None


@dataclass(slots=True, kw_only=True)
class LinkSums:
    """What went through the links in the parts of a run that is paused in between."""

    host: Host
    _before: dict[str, Moved] = field(default_factory=dict)
    _first: dict[str, Moved] = field(default_factory=dict)
    _sums: dict[str, Moved] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a part."""
        self._before = links(self.host)
        self._first = self._first or {
            name: Moved(received=0, sent=0, bytes_per_s=link.bytes_per_s)
            for name, link in self._before.items()
        }
        self._sums = self._sums or dict(self._first)

    def end(self) -> None:
        """End it; a link that came meanwhile counts for nothing."""
        after = links(self.host)
        for name, sum_ in self._sums.items():
            if name in after and name in self._before:
                then, now = self._before[name], after[name]
                self._sums[name] = Moved(
                    received=sum_.received + max(now.received - then.received, 0),
                    sent=sum_.sent + max(now.sent - then.sent, 0),
                    bytes_per_s=sum_.bytes_per_s,
                )

    def busiest_fraction(self, seconds: float) -> float | None:
        """Return the most of a link that was used in so many seconds of all parts together."""
        return busiest_fraction(self._first, self._sums, seconds)
