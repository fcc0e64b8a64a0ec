"""What a server costs while it is there, and what its transactions cost: amounts over time.

An amount that nobody knows is None, and so is every sum with it. Rates are per hour throughout: a
price per month counts by the hours of a month, and is never set against an hour.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar, Final

from steelyard.core.quantities import (
    AMOUNT,
    Computed,
    Named,
    Quantity,
    as_amount,
    key,
    refusal,
    required,
    shown,
)

PER_MILLION: Final = 1e6
_PER_HOUR: Final = 3600.0
MACHINE, INSTANCE, STORAGE, IOPS = "machine", "instance", "storage", "IOPS"
THROUGHPUT = "throughput"
IO, SURPLUS = "I/O", "surplus CPU credits"
UNLIMITED: Final = "which no `io_at_most` limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of what a server costs.

    Attributes:
        per_hour: While it is there; None: not known.
        missing: Why it is not known; empty where it is.
    """

    name: str
    per_hour: float | None
    missing: str = ""


def _currency(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(r"[A-Z]{3}", value) is None:
        raise refusal(f"{shown(value)} is no currency", "Write three capitals, such as EUR.")
    return value


_CURRENCY: Final = Quantity(read=_currency, schema={"type": "string", "pattern": "^[A-Z]{3}$"})
_OWN_MACHINE: Final = Quantity(
    read=lambda value: (Part(name=MACHINE, per_hour=as_amount(value)),), schema=AMOUNT.schema
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a server costs; a file says it of a machine of one's own.

    Attributes:
        io_per_million: For a million I/Os, where they are billed; None: they are not, or nobody
            knows, which ``missing_io`` tells apart.
        surplus_per_vcpu_hour: For a vCPU-hour beyond CPU credits; None where there are none, or
            where it is not known, which ``missing_surplus`` tells apart.
        missing_io: Why the price of I/O is not known.
        missing_surplus: Why that of a vCPU-hour is not known.
        ios_at_most: A second, for the ceiling of what a campaign costs; None: without a limit.
        surplus_at_most: vCPUs beyond the credits that its class earns, at full load.
        not_counted: Names of further bills, outside of all amounts.
        currency: In which all amounts are.
        source: Where they come from.
        least_s: It is billed for at least so long.
        is_most: It costs so much at its most capacity, and less where it used less.
    """

    parts: tuple[Part, ...] = required(
        _OWN_MACHINE,
        "What it costs for an hour, all in all: power, place, price by its years.",
        0.42,
        name="per_hour",
        unwritten=(Part(name=MACHINE, per_hour=None, missing="`cost` has no `per_hour`"),),
    )
    io_per_million: float | None = None
    surplus_per_vcpu_hour: float | None = None
    missing_io: str = ""
    missing_surplus: str = ""
    ios_at_most: float | None = None
    surplus_at_most: float = 0.0
    not_counted: tuple[str, ...] = ()
    currency: Annotated[str, "Currency of the amounts."] = key(
        "USD", _CURRENCY, "Three letters.", "EUR"
    )
    source: Annotated[str, Named("prices"), "Source of the prices."] = "the experiment file"
    hourly: ClassVar = Computed(
        lambda rates: rates.per_hour,
        Annotated[
            float | None,
            Named("per_hour"),
            "Cost of the server for an hour, without what is billed by use; null: not known.",
        ],
    )
    least_s: float = 0.0
    is_most: bool = False

    @property
    def per_hour(self) -> float | None:
        """Return what an hour costs, without what is billed by use; None: not known."""
        return total(part.per_hour for part in self.parts)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return why amounts are not known, a clause each."""
        told = (*(part.missing for part in self.parts), self.missing_io, self.missing_surplus)
        return tuple(dict.fromkeys(each for each in told if each))

    @property
    def by_use(self) -> tuple[Part, ...]:
        """Return I/O and surplus if they are billed, each with the most that an hour costs."""
        io, surplus = self.io_per_million, self.surplus_per_vcpu_hour
        found = []
        if io is not None or self.missing_io:
            most = _times(_times(self.ios_at_most, io), _PER_HOUR / PER_MILLION)
            price = f"{IO} at {format_money(io, self.currency)} a million"
            missing = self.missing_io or ("" if most is not None else f"{price}, {UNLIMITED}")
            found.append(Part(name=IO, per_hour=most, missing=missing))
        if surplus is not None or self.missing_surplus:
            most = _times(self.surplus_at_most, surplus)
            found.append(Part(name=SURPLUS, per_hour=most, missing=self.missing_surplus))
        return tuple(found)

    def cost(self, seconds: float) -> float | None:
        """Return what a server costs that is there for so long, without what is billed by use."""
        hourly = self.per_hour
        return None if hourly is None else hourly * max(seconds, self.least_s) / _PER_HOUR


def total(amounts: Iterable[float | None]) -> float | None:
    """Return a sum; None where a part of it is not known."""
    known: list[float] = []
    for amount in amounts:
        if amount is None:
            return None
        known.append(amount)
    return sum(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCost:
    """What a million transactions cost at a rate that lasts, by part; None: not known."""

    parts: tuple[tuple[str, float | None], ...]

    @property
    def total(self) -> float | None:
        """Return the sum."""
        return total(amount for _, amount in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is billed by use, as it was measured.

    Attributes:
        ios_per_transaction: That Aurora bills; None: not measured.
        surplus_vcpus: CPU credits spent beyond what is earned, in vCPUs; None: not measured.
    """

    ios_per_transaction: float | None = None
    surplus_vcpus: float | None = None


def transaction_cost(rates: Rates, tps: float, use: Use | None = None) -> TransactionCost:
    """Return what a million transactions cost, at ``tps`` transactions a second (above 0)."""
    hours = PER_MILLION / tps / _PER_HOUR
    used = use or Use()
    parts = [(each.name, _times(each.per_hour, hours)) for each in rates.parts]
    if rates.io_per_million is not None or rates.missing_io:
        per_transaction = _times(used.ios_per_transaction, rates.io_per_million)
        parts.append((IO, per_transaction))  # a million of each
    if rates.surplus_per_vcpu_hour is not None or rates.missing_surplus:
        parts.append(
            (SURPLUS, _times(_times(used.surplus_vcpus, hours), rates.surplus_per_vcpu_hour))
        )
    return TransactionCost(parts=tuple(parts))


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCost:
    """What a campaign costs.

    Attributes:
        per_hour: Of all its servers while they are there; None: not known.
        standing: The same for its time; None likewise.
        by_use: The most for I/O and surplus in that time, by name; None: not known.
        currency: Empty where amounts are in several.
        missing: Why an amount is not known; empty where all are.
        not_counted: Names of further bills, outside of all amounts.
    """

    per_hour: float | None
    standing: float | None
    by_use: Mapping[str, float | None]
    currency: str
    missing: tuple[str, ...]
    not_counted: tuple[str, ...]

    @property
    def at_most(self) -> float | None:
        """Return the most that it costs; None: a part is not known."""
        return total((self.standing, *self.by_use.values()))


HERE: Final = "this machine"  # whatever directories its servers have


def campaign_cost(
    servers: Iterable[tuple[str, Hashable, Rates | None]], seconds: float
) -> CampaignCost | None:
    """Return what servers cost that are there for so long; None where none has a price.

    Args:
        servers: Of each configuration its name, what tells its machine from others, and its rates.
            Configurations on one machine pay for it once, the dearest of what they say.
        seconds: For which they are there.
    """
    by_place: dict[Hashable, list[Rates]] = {}
    unpriced = []
    for name, place, rates in servers:
        if rates is None:
            unpriced.append(name)
        else:
            by_place.setdefault(place, []).append(rates)
    if not by_place:
        return None

    def most_an_hour(rates: Rates) -> float:
        hourly = total(part.per_hour for part in (*rates.parts, *rates.by_use))
        return inf if hourly is None else hourly  # what is not known may be more than anything

    dearest = [max(found, key=most_an_hour) for found in by_place.values()]
    currencies = {each.currency for each in dearest}
    is_sum = len(currencies) == 1 and not unpriced
    by_use = [part for each in dearest for part in each.by_use]
    missing = [part.missing for each in dearest for part in (*each.parts, *each.by_use)]
    if len(currencies) > 1:
        missing.append(f"amounts are in {', '.join(sorted(currencies))}")
    if unpriced:
        missing.append(f"nothing says what {', '.join(unpriced)} costs")
    return CampaignCost(
        per_hour=total(each.per_hour for each in dearest) if is_sum else None,
        standing=total(each.cost(seconds) for each in dearest) if is_sum else None,
        by_use={
            name: _times(
                total(part.per_hour for part in by_use if part.name == name), seconds / _PER_HOUR
            )
            for name in dict.fromkeys(part.name for part in by_use)
        },
        currency=currencies.pop() if len(currencies) == 1 else "",
        missing=tuple(dict.fromkeys(filter(None, missing))),
        not_counted=tuple(dict.fromkeys(told for each in dearest for told in each.not_counted)),
    )


def format_money(amount: float | None, currency: str) -> str:
    """Return an amount with the digits that its size is worth: ``0.0826 USD``, ``172.07 USD``."""
    if amount is None:
        return "not known"
    size = abs(amount)
    digits = 2 if size >= 1 or size == 0 else 4 if size >= 0.01 else 6
    return f"{amount:,.{digits}f} {currency}".strip()
