"""Prices of servers that somebody rents out: a file with a version, and what it makes of a server.

What a file does not have is not known: no price is guessed, and no region stands for another.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core.aws import Volume
from steelyard.core.money import INSTANCE, IOPS, STORAGE, SURPLUS, THROUGHPUT, Part, Rates
from steelyard.core.wording import InputError
from steelyard.gateways.files import read_text

_STANDARD, _OPTIMIZED = "standard", "optimized"


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RdsPrices(_Form):
    """Of RDS for PostgreSQL in one region, with one copy of the data."""

    instance_hour: dict[str, float] = {}
    multi_az_factor: float | None = None
    storage_gib_month: dict[str, float] = {}
    iops_month: dict[str, float] = {}
    mib_s_month: dict[str, float] = {}
    surplus_vcpu_hour: float | None = None


class AuroraPrices(_Form):
    """Of Aurora PostgreSQL in one region, for clusters of both kinds of storage."""

    instance_hour: dict[str, float] = {}
    optimized_factor: float | None = None
    acu_hour: dict[str, float] = {}
    storage_gib_month: dict[str, float] = {}
    io_per_million: dict[str, float] = {}
    surplus_vcpu_hour: dict[str, float] = {}


class RegionPrices(_Form):
    """Of one region."""

    rds: RdsPrices = RdsPrices()
    aurora: AuroraPrices = AuroraPrices()


class Prices(_Form):
    """A price file."""

    version: int = Field(ge=1, le=1)
    retrieved: str
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    hours_per_month: float = Field(gt=0)
    least_seconds: float = Field(ge=0)
    regions: dict[str, RegionPrices]

    def of(self, region: str) -> RegionPrices:
        """Return the prices of a region; none where the file does not have it."""
        return self.regions.get(region, RegionPrices())

    def source(self, region: str) -> str:
        """Return where amounts come from, for people."""
        return f"list prices of {region}, checked on {self.retrieved}"


def own_text() -> str:
    """Return the price file that comes with Steelyard."""
    return files("steelyard.targets").joinpath("prices.yaml").read_text("utf-8")


def load_prices(path: Path | None = None) -> Prices:
    """Return a price file: the one that comes with Steelyard, unless another is named.

    Raises:
        InputError: It is none; with everything that is wrong with it.
    """
    text = own_text() if path is None else read_text(path)
    name = "the price file" if path is None else str(path)
    if text is None:
        raise InputError(f"{name} is not there", hint="`steelyard prices` prints one.")
    try:
        return Prices.model_validate(_plain(YAML(typ="safe").load(text)))
    except YAMLError as error:
        raise InputError(
            f"{name} is no YAML: {error}", hint="`steelyard prices` prints one."
        ) from error
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise InputError(
            "\n  ".join([f"{name} is no price file:", *wrong]),
            hint="`steelyard prices` prints one.",
        ) from error


def _plain(content: Any) -> Any:  # noqa: ANN401 - whatever a file holds
    if isinstance(content, dict) and "retrieved" in content:
        return {**content, "retrieved": str(content["retrieved"])}
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedServer:
    """A server of Amazon as far as it has a price.

    Attributes:
        instance_class: None: Serverless v2, billed by its capacity units.
        volume: Of RDS; None: Aurora's storage, which grows by itself.
        gib: That are expected in Aurora's storage.
        units: Capacity units (ACU) of Serverless v2, at most.
        is_optimized: The cluster is I/O-Optimized.
        surplus_at_most: vCPUs beyond the CPU credits that are earned, at full load.
        ios_at_most: Requests a second to Aurora's storage; None: without a limit.
    """

    region: str
    instance_class: str | None
    volume: Volume | None = None
    is_multi_az: bool = False
    gib: float = 0.0
    units: float = 0.0
    is_optimized: bool = False
    surplus_at_most: float = 0.0
    ios_at_most: float | None = None


_AT_MOST: Final = ", of its most capacity"
_NOT_COUNTED: Final = ("data transfer", "requests to CloudWatch", "taxes")


def rates_of(server: PricedServer, prices: Prices) -> Rates:
    """Return what a server costs; what the file does not have is None, with the reason."""
    kind = _OPTIMIZED if server.is_optimized else _STANDARD
    tables, is_aurora = prices.of(server.region), server.volume is None
    io = tables.aurora.io_per_million.get(kind) if is_aurora else 0.0
    surplus = (
        tables.aurora.surplus_vcpu_hour.get(kind) if is_aurora else tables.rds.surplus_vcpu_hour
    )
    has_surplus = server.surplus_at_most > 0
    return Rates(
        parts=tuple((_of_aurora if is_aurora else _of_rds)(server, prices)),
        io_per_million=io or None,
        missing_io="" if io is not None else f"the price of Aurora's I/O in {server.region}",
        ios_at_most=server.ios_at_most,
        surplus_per_vcpu_hour=surplus if has_surplus else None,
        missing_surplus=f"the price of {SURPLUS} in {server.region}"
        if has_surplus and surplus is None
        else "",
        surplus_at_most=server.surplus_at_most * (1 + server.is_multi_az),  # a standby has its own
        not_counted=_NOT_COUNTED,
        currency=prices.currency,
        source=prices.source(server.region) + (_AT_MOST if server.instance_class is None else ""),
        least_s=prices.least_seconds,
        is_most=server.instance_class is None,
    )


def _part(name: str, product: float | None, missing: str, where: str) -> Part:
    told = "" if product is not None else f"the price of {missing} in {where}"
    return Part(name=name, per_hour=product, missing=told)


def _product(*factors: float | None) -> float | None:
    found = 1.0
    for factor in factors:
        if factor is None:
            return None
        found *= factor
    return found


def _of_rds(server: PricedServer, prices: Prices) -> Iterator[Part]:
    volume, table, month = server.volume, prices.of(server.region).rds, 1 / prices.hours_per_month
    assert volume is not None  # noqa: S101 - the caller saw it
    copies = table.multi_az_factor if server.is_multi_az else 1.0
    part, kind = partial(_part, where=server.region), volume.kind
    hour, gib = table.instance_hour.get(server.instance_class or ""), table.storage_gib_month
    yield part(INSTANCE, _product(copies, hour), f"a {server.instance_class} of RDS")
    yield part(STORAGE, _product(copies, volume.gib, gib.get(kind), month), f"{kind} storage")
    for name, number, by_kind in (
        (IOPS, volume.paid_iops, table.iops_month),
        (THROUGHPUT, volume.paid_mib_s, table.mib_s_month),
    ):
        if number:
            price = _product(copies, number, by_kind.get(kind), month)
            yield part(name, price, f"{name} of {kind}")


def _of_aurora(server: PricedServer, prices: Prices) -> Iterator[Part]:
    table, month = prices.of(server.region).aurora, 1 / prices.hours_per_month
    kind = _OPTIMIZED if server.is_optimized else _STANDARD
    gib = _product(server.gib, table.storage_gib_month.get(kind), month)
    if server.instance_class is None:
        hour, what = _product(server.units, table.acu_hour.get(kind)), "a capacity unit of Aurora"
    else:
        factor = table.optimized_factor if server.is_optimized else 1.0
        hour = _product(factor, table.instance_hour.get(server.instance_class))
        what = f"a {server.instance_class} of Aurora"
    yield _part(INSTANCE, hour, what, server.region)
    yield _part(STORAGE, gib, f"Aurora's {kind} storage", server.region)


# Endings of usage types, after the prefix of a region; the place of each price in the file.
_USAGE: Final[Mapping[str, tuple[str, ...]]] = {
    "RDS:GP2-Storage": ("rds", "storage_gib_month", "gp2"),
    "RDS:GP3-Storage": ("rds", "storage_gib_month", "gp3"),
    "Aurora:StorageUsage": ("aurora", "storage_gib_month", "standard"),
    "Aurora:IO-OptimizedStorageUsage": ("aurora", "storage_gib_month", "optimized"),
    "Aurora:StorageIOUsage": ("aurora", "io_per_million", "standard"),
}
_ENGINES: Final = {"PostgreSQL": "rds", "Aurora PostgreSQL": "aurora"}
_INSTANCE: Final = re.compile(r"(?:^|-)InstanceUsage:(db\.[a-z0-9.]+)$")


def updated(text: str, region: str, listed: Iterable[str], today: str) -> str:
    """Return a price file in which a region has what the Price List API lists of it.

    What is not listed stays as it is, with its own date gone: the file has one.

    Args:
        text: The price file before.
        region: Whose prices they are.
        listed: Products of AmazonRDS as the API gives them, JSON each.
        today: When that was asked.

    Raises:
        InputError: Nothing of it was understood.
    """
    yaml = YAML()
    content = yaml.load(text)
    place = content["regions"].setdefault(region, {})
    count = 0
    for product in map(json.loads, listed):
        path, amount = _path_of(product), _amount_of(product)
        if path is None or amount is None:
            continue
        table = place
        for step in path[:-1]:
            table = table.setdefault(step, {})
        table[path[-1]] = amount * (1e6 if "io_per_million" in path else 1.0)
        count += 1
    if not count:
        raise InputError(
            f"the Price List API lists no price of {region} that is understood here",
            hint="Check the region's name.",
        )
    content["retrieved"] = today
    out = StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def _path_of(product: Mapping[str, Any]) -> tuple[str, ...] | None:
    attributes = product["product"]["attributes"]
    usage = str(attributes.get("usagetype", ""))
    engine = _ENGINES.get(str(attributes.get("databaseEngine", "")))
    instance = _INSTANCE.search(usage)
    if instance is not None and engine is not None:
        return engine, "instance_hour", instance[1]
    return next((path for end, path in _USAGE.items() if usage.endswith(end)), None)


def _amount_of(product: Mapping[str, Any]) -> float | None:
    terms = product.get("terms", {}).get("OnDemand", {})
    prices = [
        float(each["pricePerUnit"]["USD"])
        for term in terms.values()
        for each in term["priceDimensions"].values()
        if "USD" in each.get("pricePerUnit", {})
    ]
    return prices[0] if len(prices) == 1 and prices[0] > 0 else None
