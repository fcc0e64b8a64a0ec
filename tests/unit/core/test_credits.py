"""Credits of Amazon's instances and volumes, by worked numbers and by Amazon's own tables."""

from math import inf

import pytest

from steelyard.core.aws import (
    CLASSES,
    InstanceClass,
    burst_lasts_s,
    cpu_outlook,
    hidden_by_burst,
    link_lasts_s,
    volume_of,
)
from steelyard.core.wording import InputError

LARGE = CLASSES["db.t3.large"]
R6G = CLASSES["db.r6g.large"]


@pytest.mark.parametrize(
    ("balance", "minutes", "surplus"),
    [
        (0, 0.0, 1.167),
        (36, 25.7, 0.567),
        (70, 50.0, 0.0),
        (288, 205.7, 0.0),
        (864, 617.1, 0.0),
    ],
)
def test_a_t3_large_at_full_load_for_50_minutes(
    balance: float, minutes: float, surplus: float
) -> None:
    """It spends 2.0 credits a minute and earns 0.6; what it lacks is billed, as RDS runs it."""
    outlook = cpu_outlook(LARGE, 1.0, balance=balance, seconds=50 * 60)
    assert outlook.lasts_s / 60 == pytest.approx(minutes, abs=0.05)
    assert outlook.surplus_vcpu_hours == pytest.approx(surplus, abs=0.001)


def test_below_the_baseline_credits_grow_and_a_steady_class_has_none() -> None:
    """Nothing runs out and nothing is billed."""
    assert cpu_outlook(LARGE, 0.3, balance=5).lasts_s == inf
    assert cpu_outlook(LARGE, 0.2, seconds=3600).surplus_vcpu_hours == 0.0
    assert cpu_outlook(R6G, 1.0, seconds=3600).surplus_vcpu_hours == 0.0
    assert R6G.cpu_baseline == 1.0
    assert LARGE.most_credits == 864


def test_amazons_example_counts_both_cpus() -> None:
    """A t3.small at 25 % for a day: 5 % of two vCPUs, 2.4 vCPU-hours."""
    small = CLASSES["db.t3.small"]
    assert small.cpu_baseline == pytest.approx(0.20)
    outlook = cpu_outlook(small, 0.25, seconds=24 * 3600)
    assert outlook.surplus_vcpu_hours == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("gib", "base", "burst", "iops", "minutes"),
    [
        (20, 100, 3000, 3000, 31.0),
        (100, 300, 3000, 3000, 33.3),
        (300, 900, 3000, 3000, 42.9),
        (300, 900, 3000, 1500, 150.0),
        (399, 1197, 3000, 3000, 49.9),
        (400, 1200, 12000, 12000, 33.3),
        (400, 1200, 12000, 3000, 200.0),
        (1000, 3000, 12000, 12000, 40.0),
        (1000, 3000, 12000, 4000, 360.0),
        (1000, 3000, 12000, 3000, inf),
        (5334, 16002, 16002, 20000, inf),
    ],
)
def test_gp2_storage_is_striped_from_400_gib(
    gib: int, base: float, burst: float, iops: float, minutes: float
) -> None:
    """One volume below, four above: each has a bucket of its own and bursts to 3,000."""
    volume = volume_of("gp2", gib)
    assert (volume.base_iops, volume.burst_iops) == (base, burst)
    assert volume.lasts_s(iops) / 60 == pytest.approx(minutes, abs=0.05)


@pytest.mark.parametrize(("gib", "seconds"), [(100, 2000), (334, 2703)])
def test_gp2_buckets_last_as_long_as_amazon_says(gib: int, seconds: float) -> None:
    """The table of burst durations in its user guide."""
    assert volume_of("gp2", gib).lasts_s(3000) == pytest.approx(seconds, abs=1)


def test_a_half_full_bucket_lasts_half_as_long() -> None:
    """BurstBalance is a share of the bucket."""
    volume = volume_of("gp2", 300)
    assert volume.lasts_s(3000, 0.5) == pytest.approx(volume.lasts_s(3000) / 2)


def test_gp3_storage_takes_iops_from_400_gib() -> None:
    """3,000 below, 12,000 above and more for money; a smaller one is refused."""
    assert volume_of("gp3", 300).base_iops == 3000
    assert volume_of("gp3", 400).paid_iops == 0
    more = volume_of("gp3", 400, iops=16000, mib_s=700)
    assert (more.base_iops, more.paid_iops) == (16000, 4000)
    with pytest.raises(InputError, match="3,000 IOPS and 125 MiB/s, and takes no others"):
        volume_of("gp3", 399, iops=4000)


def test_provisioned_storage_needs_its_iops_and_gp2_takes_none() -> None:
    """Each says what it is."""
    assert volume_of("io1", 100, iops=3000).paid_iops == 3000
    with pytest.raises(InputError, match="none were"):
        volume_of("io2", 100)
    with pytest.raises(InputError, match="takes no throughput"):
        volume_of("io1", 100, iops=3000, mib_s=500)
    with pytest.raises(InputError, match="follow from its size"):
        volume_of("gp2", 100, iops=3000)


def test_the_link_of_an_instance_has_a_bucket_too() -> None:
    """Thirty minutes at the maximum; a class that is not known is not judged."""
    assert link_lasts_s(LARGE, 12000) / 60 == pytest.approx(43.9, abs=0.05)
    assert link_lasts_s(LARGE, 15700) / 60 == pytest.approx(30)
    assert link_lasts_s(LARGE, 4000) == inf
    assert link_lasts_s(InstanceClass(name="db.x", vcpus=2), 1e6) == inf


def test_a_campaign_is_told_before_it_what_it_will_not_show() -> None:
    """50 minutes are above the burst of 300 GiB; 39 minutes fit into that of 1000."""
    (fits, billed) = hidden_by_burst(LARGE, volume_of("gp2", 1000), 39 * 60)
    assert fits == (
        "39 min fit into the burst of 12,000 IOPS: they will not show the 3,000 that last"
    )
    assert "up to 0.91 vCPU-hours" in billed
    (outlasts,) = hidden_by_burst(R6G, volume_of("gp2", 300), 50 * 60)
    assert "lasts 43 min at full use; after that 900 last" in outlasts
    assert hidden_by_burst(R6G, volume_of("gp3", 300), 50 * 60) == ()
    assert hidden_by_burst(None, None, 50 * 60) == ()


def test_how_long_buckets_last_is_that_of_the_first_to_be_empty() -> None:
    """The volume's or the link's; without either there is nothing to tell."""
    assert burst_lasts_s(LARGE, volume_of("gp2", 300)) == pytest.approx(42.86 * 60, abs=1)
    assert burst_lasts_s(LARGE, volume_of("gp3", 400)) == pytest.approx(43.9 * 60, abs=5)
    assert burst_lasts_s(LARGE, volume_of("gp3", 100)) is None
    assert burst_lasts_s(R6G, None) is None
