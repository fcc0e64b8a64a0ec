"""Amounts over time: what a server and its transactions cost, and how long credits last."""

import re
from math import inf

import pytest

from steelyard.core import aws, money
from steelyard.core.wording import InputError
from steelyard.targets.prices import PricedServer, RegionPrices, load_prices, rates_of

PRICES = load_prices()
OWN = money.Rates(parts=(money.Part(name="machine", per_hour=0.36),))


def _rds(**given: object) -> money.Rates:
    plain = {"region": "us-east-1", "instance_class": "db.t3.large", "surplus_at_most": 1.4}
    return rates_of(PricedServer(**{**plain, "volume": aws.volume_of("gp2", 300), **given}), PRICES)  # type: ignore[arg-type]


def _aurora(*, is_optimized: bool, **given: float) -> PricedServer:
    return PricedServer(
        region="us-east-1",
        instance_class="db.r6g.large",
        gib=100,
        is_optimized=is_optimized,
        **given,  # type: ignore[arg-type]
    )


def _ceiling(rates: money.Rates, hours: float) -> money.CampaignCost:
    found = money.campaign_cost([("a", "there", rates)], 3600 * hours)
    assert found is not None
    return found


def test_a_ceiling_has_the_io_of_aurora() -> None:
    """30,000 I/Os a second for 96 hours are 10,368 million: 2,073.60 beside 26.28 for the rest."""
    rates = rates_of(_aurora(is_optimized=False, ios_at_most=30000), PRICES)
    cost = _ceiling(rates, 96)
    assert cost.by_use == {money.IO: pytest.approx(2073.60)}
    assert cost.standing == pytest.approx(26.275, abs=5e-4)  # 96 x (0.26 + 100 x 0.10 / 730)
    assert cost.at_most == pytest.approx(2099.875, abs=5e-4)
    assert cost.missing == ()


def test_io_that_nothing_limits_leaves_no_ceiling() -> None:
    """It is named with its price; an I/O-Optimized cluster bills none, and RDS has none."""
    unlimited = _ceiling(rates_of(_aurora(is_optimized=False), PRICES), 96)
    assert (unlimited.at_most, unlimited.by_use) == (None, {money.IO: None})
    assert unlimited.standing == pytest.approx(26.275, abs=5e-4)
    assert unlimited.missing == ("I/O at 0.2000 USD a million, which no `io_at_most` limits",)
    optimized = _ceiling(rates_of(_aurora(is_optimized=True, ios_at_most=30000), PRICES), 96)
    assert optimized.at_most == pytest.approx(35.407, abs=5e-4)  # 96 x (0.338 + 100 x 0.225 / 730)
    assert _ceiling(_rds(volume=aws.volume_of("gp3", 400), surplus_at_most=0.0), 1).by_use == {}


def test_a_ceiling_has_surplus_credits_at_full_load() -> None:
    """Of a T3 large 1.4 vCPU-hours for each hour; a price that no file has is no price of 0."""
    hour = _ceiling(_rds(), 1)
    assert hour.by_use == {money.SURPLUS: pytest.approx(0.105)}
    assert hour.at_most == pytest.approx(0.1923 + 0.105, abs=5e-5)
    assert hour.not_counted == ("data transfer", "requests to CloudWatch", "taxes")
    assert _ceiling(_rds(is_multi_az=True), 1).by_use == {money.SURPLUS: pytest.approx(0.21)}
    bare = PRICES.model_copy(update={"regions": {"x": RegionPrices()}})
    cheap = PricedServer(region="x", instance_class="db.t3.large", surplus_at_most=1.4)
    assert "the price of surplus CPU credits in x" in rates_of(cheap, bare).missing
    assert money.transaction_cost(rates_of(cheap, bare), 1000).parts[-1] == (money.SURPLUS, None)


def test_throughput_beyond_the_included_is_part_of_the_price() -> None:
    """700 MiB/s of striped gp3 are 200 more than it includes; the own price file has no price."""
    rates = _rds(volume=aws.volume_of("gp3", 400, iops=12000, mib_s=700))
    assert [part.name for part in rates.parts] == ["instance", "storage", "throughput"]
    assert rates.missing == ("the price of throughput of gp3 in us-east-1",)
    assert _ceiling(rates, 1).at_most is None


def test_50_minutes_of_a_t3_large_with_300_gib() -> None:
    """0.1208 for the instance, 0.0394 for its storage; surplus credits come to 0.0875."""
    rates = _rds()
    hours = 50 / 60
    parts = {part.name: (part.per_hour or 0.0) * hours for part in rates.parts}
    assert parts == {
        "instance": pytest.approx(0.1208, abs=5e-5),
        "storage": pytest.approx(0.0394, abs=5e-5),
    }
    surplus = aws.cpu_outlook(aws.CLASSES["db.t3.large"], 1.0, seconds=50 * 60).surplus_vcpu_hours
    bill = surplus * (rates.surplus_per_vcpu_hour or 0.0)
    assert bill == pytest.approx(0.0875)
    assert (rates.cost(50 * 60) or 0.0) + bill == pytest.approx(0.2477, abs=5e-5)


def test_a_million_transactions_of_it_have_their_parts() -> None:
    """At 1,000 a second and full load, surplus is a third of what they cost."""
    cost = money.transaction_cost(_rds(), 1000, money.Use(surplus_vcpus=1.4))
    assert dict(cost.parts)[money.SURPLUS] == pytest.approx(0.0292, abs=5e-5)
    assert cost.total == pytest.approx(0.0826, abs=5e-5)
    assert money.transaction_cost(_rds(), 1000).total is None  # surplus was not measured


@pytest.mark.parametrize(
    ("iops", "mib_s", "gib", "given"),
    [
        (900.0, 10.0, 20, None),
        (3000.0, 125.0, 20, None),
        (3000.1, 10.0, 400, None),
        (900.0, 126.0, 400, None),
        (13163.2, 10.0, 400, 13164),
        (900.0, 4000.0, 400, 16000),  # at most 0.25 MiB/s for each of its IOPS
        (64000.0, 4000.0, 400, 64000),
    ],
)
def test_a_raised_limit_costs_what_the_price_file_says(
    iops: float, mib_s: float, gib: int, given: int | None
) -> None:
    """The smallest volume that has it, at the prices of the file, on the day of the file."""
    told = aws.gp3_price(iops, mib_s)
    volume = aws.volume_of("gp3", gib, iops=given)
    paid = {part.name: part.per_hour or 0.0 for part in _rds(volume=volume).parts}
    hourly = sum(cost for name, cost in paid.items() if name in {money.STORAGE, "IOPS"})
    month = hourly * PRICES.hours_per_month
    assert f"{volume.base_iops:,.0f} IOPS takes {gib} GiB" in told
    (amount,) = re.findall(r"costs ([\d,.]+) USD", told)
    assert float(amount.replace(",", "")) == pytest.approx(month, abs=0.006)
    assert (aws.PRICED_ON in told, "MiB/s cost more" in told) == (True, mib_s > 500)
    table = PRICES.of("us-east-1").rds
    assert (table.storage_gib_month["gp3"], table.iops_month["gp3"], PRICES.retrieved) == (
        aws.GP3_GIB_USD,
        aws.GP3_IOPS_USD,
        aws.PRICED_ON,
    )


def test_what_no_volume_has_is_told() -> None:
    """More than 64,000 requests or 4,000 MiB a second."""
    for iops, mib_s in ((64001.0, 1.0), (1.0, 4001.0)):
        assert (
            aws.gp3_price(iops, mib_s)
            == "gp3 storage of RDS has 64,000 IOPS and 4,000 MiB/s at most"
        )


def test_aurora_bills_io_by_the_million() -> None:
    """849.4 million cost 169.88; an I/O-Optimized cluster bills none and costs more an hour."""
    standard = rates_of(_aurora(is_optimized=False), PRICES)
    ios = 849.4e6
    bill = money.transaction_cost(standard, 1000, money.Use(ios_per_transaction=ios / 28.8e6))
    transactions_m = 28.8  # of 8 hours at 1,000 a second
    assert (dict(bill.parts)[money.IO] or 0.0) * transactions_m == pytest.approx(169.88)
    assert (bill.total or 0.0) * transactions_m == pytest.approx(172.07, abs=0.005)
    optimized = rates_of(_aurora(is_optimized=True), PRICES)
    assert optimized.io_per_million is None
    assert (optimized.cost(8 * 3600) or 0.0) == pytest.approx(2.951, abs=5e-4)


def test_what_no_file_has_is_not_known() -> None:
    """A class, a region and every sum with them; no price stands for another."""
    unknown = _rds(instance_class="db.r6g.large")
    assert unknown.per_hour is None
    assert unknown.cost(3600) is None
    assert unknown.missing == ("the price of a db.r6g.large of RDS in us-east-1",)
    elsewhere = _rds(region="eu-central-1")
    assert [part.per_hour for part in elsewhere.parts] == [None, None]


def test_ten_minutes_are_billed_at_least() -> None:
    """By the price list; a machine of one's own has no such minimum."""
    assert _rds().cost(60) == _rds().cost(600)
    assert OWN.cost(60) == pytest.approx(0.006)


def test_one_machine_is_paid_for_once() -> None:
    """Two configurations here, and one elsewhere."""
    cost = money.campaign_cost([("a", "here", OWN), ("b", "here", OWN), ("c", "there", OWN)], 3600)
    assert cost is not None
    assert cost.per_hour == cost.at_most == pytest.approx(0.72)


def test_without_all_prices_in_one_currency_there_is_no_sum() -> None:
    """What is missing is named; without any price there is nothing to tell."""
    lacking = money.campaign_cost([("a", "here", OWN), ("b", "there", None)], 3600)
    assert lacking is not None
    assert lacking.at_most is None
    assert lacking.missing == ("nothing says what b costs",)
    euros = money.Rates(parts=OWN.parts, currency="EUR")
    mixed = money.campaign_cost([("a", "here", OWN), ("b", "there", euros)], 3600)
    assert mixed is not None
    assert mixed.at_most is None
    assert mixed.missing == ("amounts are in EUR, USD",)
    assert money.campaign_cost([("a", "here", None)], 3600) is None


def test_amounts_have_the_digits_they_are_worth() -> None:
    """Cents of large amounts, more of small ones."""
    assert money.format_money(172.074, "USD") == "172.07 USD"
    assert money.format_money(0.08259, "USD") == "0.0826 USD"
    assert money.format_money(0.001234, "EUR") == "0.001234 EUR"
    assert money.format_money(None, "USD") == "not known"


LARGE = aws.CLASSES["db.t3.large"]
R6G = aws.CLASSES["db.r6g.large"]


@pytest.mark.parametrize(
    ("balance", "minutes", "surplus"),
    [(0, 0.0, 1.167), (36, 25.7, 0.567), (70, 50.0, 0.0), (288, 205.7, 0.0), (864, 617.1, 0.0)],
)
def test_a_t3_large_at_full_load_for_50_minutes(
    balance: float, minutes: float, surplus: float
) -> None:
    """It spends 2.0 credits a minute and earns 0.6; what it lacks is billed, as RDS runs it."""
    outlook = aws.cpu_outlook(LARGE, 1.0, balance=balance, seconds=50 * 60)
    assert outlook.lasts_s / 60 == pytest.approx(minutes, abs=0.05)
    assert outlook.surplus_vcpu_hours == pytest.approx(surplus, abs=0.001)


def test_below_the_baseline_credits_grow_and_a_steady_class_has_none() -> None:
    """Nothing runs out and nothing is billed."""
    assert aws.cpu_outlook(LARGE, 0.3, balance=5).lasts_s == inf
    assert aws.cpu_outlook(LARGE, 0.2, seconds=3600).surplus_vcpu_hours == 0.0
    assert aws.cpu_outlook(R6G, 1.0, seconds=3600).surplus_vcpu_hours == 0.0
    assert R6G.cpu_baseline == 1.0
    assert LARGE.most_credits == 864


def test_amazons_example_counts_both_cpus() -> None:
    """A t3.small at 25 % for a day: 5 % of two vCPUs, 2.4 vCPU-hours."""
    small = aws.CLASSES["db.t3.small"]
    assert small.cpu_baseline == pytest.approx(0.20)
    outlook = aws.cpu_outlook(small, 0.25, seconds=24 * 3600)
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
    volume = aws.volume_of("gp2", gib)
    assert (volume.base_iops, volume.burst_iops) == (base, burst)
    assert volume.lasts_s(iops) / 60 == pytest.approx(minutes, abs=0.05)


@pytest.mark.parametrize(("gib", "seconds"), [(100, 2000), (334, 2703)])
def test_gp2_buckets_last_as_long_as_amazon_says(gib: int, seconds: float) -> None:
    """The table of burst durations in its user guide."""
    assert aws.volume_of("gp2", gib).lasts_s(3000) == pytest.approx(seconds, abs=1)
    assert aws.volume_of("gp2", gib).lasts_s(3000, 0.5) == pytest.approx(seconds / 2, abs=1)


def test_gp3_storage_takes_iops_from_400_gib() -> None:
    """3,000 below, 12,000 above and more for money; a smaller one is refused."""
    assert aws.volume_of("gp3", 300).base_iops == 3000
    assert aws.volume_of("gp3", 400).paid_iops == 0
    more = aws.volume_of("gp3", 400, iops=16000, mib_s=700)
    assert (more.base_iops, more.paid_iops) == (16000, 4000)
    with pytest.raises(InputError, match="3,000 IOPS and 125 MiB/s, and takes no others"):
        aws.volume_of("gp3", 399, iops=4000)


def test_provisioned_storage_needs_its_iops_and_gp2_takes_none() -> None:
    """Each says what it is."""
    assert aws.volume_of("io1", 100, iops=3000).paid_iops == 3000
    with pytest.raises(InputError, match="none were"):
        aws.volume_of("io2", 100)
    with pytest.raises(InputError, match="takes no throughput"):
        aws.volume_of("io1", 100, iops=3000, mib_s=500)
    with pytest.raises(InputError, match="follow from its size"):
        aws.volume_of("gp2", 100, iops=3000)


def test_the_link_of_an_instance_has_a_bucket_too() -> None:
    """Thirty minutes at the maximum; a class that is not known is not judged."""
    assert aws.link_lasts_s(LARGE, 12000) / 60 == pytest.approx(43.9, abs=0.05)
    assert aws.link_lasts_s(LARGE, 15700) / 60 == pytest.approx(30)
    assert aws.link_lasts_s(LARGE, 4000) == inf
    assert aws.link_lasts_s(aws.InstanceClass(name="db.x", vcpus=2), 1e6) == inf


def test_a_campaign_is_told_before_it_what_it_will_not_show() -> None:
    """50 minutes are above the burst of 300 GiB; 39 minutes fit into that of 1000."""
    (fits, billed) = aws.hidden_by_burst(LARGE, aws.volume_of("gp2", 1000), 39 * 60)
    assert fits == (
        "39 min fit into the burst of 12,000 IOPS: they will not show the 3,000 that last"
    )
    assert "up to 0.91 vCPU-hours" in billed
    (outlasts,) = aws.hidden_by_burst(R6G, aws.volume_of("gp2", 300), 50 * 60)
    assert "lasts 43 min at full use; after that 900 last" in outlasts
    assert aws.hidden_by_burst(R6G, aws.volume_of("gp3", 300), 50 * 60) == ()
    assert aws.hidden_by_burst(None, None, 50 * 60) == ()


def test_how_long_buckets_last_is_that_of_the_first_to_be_empty() -> None:
    """The volume's or the link's; without either there is nothing to tell."""
    assert aws.burst_lasts_s(LARGE, aws.volume_of("gp2", 300)) == pytest.approx(42.86 * 60, abs=1)
    assert aws.burst_lasts_s(LARGE, aws.volume_of("gp3", 400)) == pytest.approx(43.9 * 60, abs=5)
    assert aws.burst_lasts_s(LARGE, aws.volume_of("gp3", 100)) is None
    assert aws.burst_lasts_s(R6G, None) is None
