"""Amounts over time: what a server costs, and its transactions."""

import re

import pytest

from steelyard.core.aws import (
    CLASSES,
    GP3_GIB_USD,
    GP3_IOPS_USD,
    PRICED_ON,
    cpu_outlook,
    gp3_price,
    volume_of,
)
from steelyard.core.money import (
    IO,
    STORAGE,
    SURPLUS,
    Part,
    Rates,
    Use,
    campaign_cost,
    format_money,
    transaction_cost,
)
from steelyard.targets.prices import PricedServer, load_prices, rates_of

PRICES = load_prices()
OWN = Rates(parts=(Part(name="machine", per_hour=0.36),))


def _rds(**given: object) -> Rates:
    plain = {"region": "us-east-1", "instance_class": "db.t3.large", "is_burstable": True}
    return rates_of(PricedServer(**{**plain, "volume": volume_of("gp2", 300), **given}), PRICES)  # type: ignore[arg-type]


def _aurora(*, is_optimized: bool) -> PricedServer:
    return PricedServer(
        region="us-east-1", instance_class="db.r6g.large", gib=100, is_optimized=is_optimized
    )


def test_50_minutes_of_a_t3_large_with_300_gib() -> None:
    """0.1208 for the instance, 0.0394 for its storage; surplus credits come to 0.0875."""
    rates = _rds()
    hours = 50 / 60
    parts = {part.name: (part.per_hour or 0.0) * hours for part in rates.parts}
    assert parts == {
        "instance": pytest.approx(0.1208, abs=5e-5),
        "storage": pytest.approx(0.0394, abs=5e-5),
    }
    surplus = cpu_outlook(CLASSES["db.t3.large"], 1.0, seconds=50 * 60).surplus_vcpu_hours
    bill = surplus * (rates.surplus_per_vcpu_hour or 0.0)
    assert bill == pytest.approx(0.0875)
    assert (rates.cost(50 * 60) or 0.0) + bill == pytest.approx(0.2477, abs=5e-5)


def test_a_million_transactions_of_it_have_their_parts() -> None:
    """At 1,000 a second and full load, surplus is a third of what they cost."""
    cost = transaction_cost(_rds(), 1000, Use(surplus_vcpus=1.4))
    assert dict(cost.parts)[SURPLUS] == pytest.approx(0.0292, abs=5e-5)
    assert cost.total == pytest.approx(0.0826, abs=5e-5)
    assert transaction_cost(_rds(), 1000).total is None  # surplus was not measured


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
    told = gp3_price(iops, mib_s)
    volume = volume_of("gp3", gib, iops=given)
    paid = {part.name: part.per_hour or 0.0 for part in _rds(volume=volume).parts}
    hourly = sum(cost for name, cost in paid.items() if name in {STORAGE, "IOPS"})
    month = hourly * PRICES.hours_per_month
    assert f"{volume.base_iops:,.0f} IOPS takes {gib} GiB" in told
    (amount,) = re.findall(r"costs ([\d,.]+) USD", told)
    assert float(amount.replace(",", "")) == pytest.approx(month, abs=0.006)
    assert (PRICED_ON in told, "MiB/s cost more" in told) == (True, mib_s > 500)
    table = PRICES.of("us-east-1").rds
    assert (table.storage_gib_month["gp3"], table.iops_month["gp3"], PRICES.retrieved) == (
        GP3_GIB_USD,
        GP3_IOPS_USD,
        PRICED_ON,
    )


def test_what_no_volume_has_is_told() -> None:
    """More than 64,000 requests or 4,000 MiB a second."""
    for iops, mib_s in ((64001.0, 1.0), (1.0, 4001.0)):
        assert (
            gp3_price(iops, mib_s) == "gp3 storage of RDS has 64,000 IOPS and 4,000 MiB/s at most"
        )


def test_aurora_bills_io_by_the_million() -> None:
    """849.4 million cost 169.88; an I/O-Optimized cluster bills none and costs more an hour."""
    standard = rates_of(_aurora(is_optimized=False), PRICES)
    ios = 849.4e6
    bill = transaction_cost(standard, 1000, Use(ios_per_transaction=ios / 28.8e6))
    transactions_m = 28.8  # of 8 hours at 1,000 a second
    assert (dict(bill.parts)[IO] or 0.0) * transactions_m == pytest.approx(169.88)
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


def test_iops_are_paid_beyond_those_included() -> None:
    """4,000 of 16,000 IOPS of gp3: 80 USD a month."""
    rates = _rds(volume=volume_of("gp3", 400, iops=16000))
    assert {part.name: part.per_hour for part in rates.parts}["IOPS"] == pytest.approx(80 / 730)


def test_one_machine_is_paid_for_once() -> None:
    """Two configurations here, and one elsewhere."""
    cost = campaign_cost([("a", "here", OWN), ("b", "here", OWN), ("c", "there", OWN)], 3600)
    assert cost is not None
    assert cost.per_hour == cost.total == pytest.approx(0.72)


def test_without_all_prices_in_one_currency_there_is_no_sum() -> None:
    """What is missing is named; without any price there is nothing to tell."""
    lacking = campaign_cost([("a", "here", OWN), ("b", "there", None)], 3600)
    assert lacking is not None
    assert lacking.total is None
    assert lacking.missing == ("nothing says what b costs",)
    euros = Rates(parts=OWN.parts, currency="EUR")
    mixed = campaign_cost([("a", "here", OWN), ("b", "there", euros)], 3600)
    assert mixed is not None
    assert mixed.total is None
    assert mixed.missing == ("amounts are in EUR, USD",)
    assert campaign_cost([("a", "here", None)], 3600) is None


def test_amounts_have_the_digits_they_are_worth() -> None:
    """Cents of large amounts, more of small ones."""
    assert format_money(172.074, "USD") == "172.07 USD"
    assert format_money(0.08259, "USD") == "0.0826 USD"
    assert format_money(0.001234, "EUR") == "0.001234 EUR"
    assert format_money(None, "USD") == "not known"
