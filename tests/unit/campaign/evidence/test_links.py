"""How full the links of a machine were, by what it counts of each."""

import pytest

from fakes.host import FakeHost
from steelyard.campaign.evidence.neighbours import busiest_fraction, links

_FULL = 125_000_000.0  # bytes a second through 1000 Mbit/s


def _host(**names: tuple[str, float, float]) -> FakeHost:
    """Return a machine with links: speed in Mbit/s as it says it, bytes received and sent."""
    files = {}
    for name, (speed, received, sent) in names.items():
        place = f"/sys/class/net/{name}"
        files[f"{place}/speed"] = f"{speed}\n"
        files[f"{place}/statistics/rx_bytes"] = f"{received:.0f}\n"
        files[f"{place}/statistics/tx_bytes"] = f"{sent:.0f}\n"
    return FakeHost(files=files)


def test_the_busier_direction_of_the_busiest_link_counts() -> None:
    """Received at 40 % of its speed, sent at 10 %; another link stands by."""
    before = links(_host(eth0=("1000", 5.0, 5.0), eth1=("100", 0.0, 0.0)))
    after = links(_host(eth0=("1000", 5 + 2 * 0.4 * _FULL, 5 + 0.2 * _FULL), eth1=("100", 9, 9)))
    assert busiest_fraction(before, after, 2.0) == pytest.approx(0.4)


def test_a_link_without_a_speed_cannot_be_full() -> None:
    """Virtual ones say -1 or nothing, and the loopback has none."""
    host = _host(eth0=("-1", 0, 0), lo=("10000", 0, 0), veth=("", 0, 0))
    assert links(host) == {}
    assert busiest_fraction(links(host), links(host), 2.0) is None


def test_a_link_that_came_or_was_reset_counts_for_nothing() -> None:
    """Its counter begins anew: that is no traffic below nothing."""
    before = links(_host(eth0=("1000", 900.0, 900.0)))
    after = links(_host(eth0=("1000", 1.0, 1.0), eth1=("1000", 1e12, 1e12)))
    assert busiest_fraction(before, after, 2.0) == 0.0
    assert busiest_fraction(before, after, 0.0) is None
