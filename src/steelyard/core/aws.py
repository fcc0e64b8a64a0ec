"""What an instance class and a volume of Amazon RDS sustain: rates against buckets of credits.

Closed forms, no account is asked. A bucket fills at its baseline and is spent above it.

Sources: "Amazon EC2 User Guide", sections "Key concepts for burstable performance instances" and
"EBS-optimized instance types"; "Amazon EBS User Guide", "General Purpose SSD volumes"; "Amazon RDS
User Guide", "DB instance storage" and "DB instance classes". Nothing here was tried on an account.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from steelyard.core.wording import InputError, format_duration

_PER_HOUR: Final = 3600.0
_PER_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceClass:
    """A class of DB instances.

    Attributes:
        vcpus: CPUs as Amazon counts them.
        credits_per_hour: CPU credits earned; 0: its CPUs are there at all times. A credit is one
            vCPU at full load for a minute.
        ebs_base_iops: What its link to EBS sustains, in requests of 16 KiB; None: not known here.
        ebs_most_iops: What the link reaches for at least 30 minutes once a day; None likewise.
    """

    name: str
    vcpus: int
    credits_per_hour: float = 0.0
    ebs_base_iops: float | None = None
    ebs_most_iops: float | None = None

    @property
    def is_burstable(self) -> bool:
        """Return whether its CPUs live on credits."""
        return self.credits_per_hour > 0

    @property
    def cpu_baseline(self) -> float:
        """Return the share of each vCPU that lasts, 0 to 1."""
        return self.credits_per_hour / _PER_MINUTE / self.vcpus if self.is_burstable else 1.0

    @property
    def most_credits(self) -> float:
        """Return the largest balance: what is earned in a day."""
        return 24 * self.credits_per_hour


# vCPUs, credits an hour ("Amazon EC2 User Guide", table of burstable instance types).
_BURSTABLE: Final = {
    "micro": (2, 12.0),
    "small": (2, 24.0),
    "medium": (2, 24.0),
    "large": (2, 36.0),
    "xlarge": (4, 96.0),
    "2xlarge": (8, 192.0),
}
_VCPUS: Final = {"large": 2, "xlarge": 4}  # of all other classes
# Baseline and maximum IOPS of the link to EBS ("EBS-optimized instance types").
_EBS: Final = {
    "t3.medium": (2000.0, 11800.0),
    "t3.large": (4000.0, 15700.0),
    "t4g.large": (4000.0, 15700.0),
    "m5.large": (3600.0, 18750.0),
    "r5.large": (3600.0, 18750.0),
    "r5.xlarge": (6000.0, 18750.0),
    "m6g.large": (3600.0, 20000.0),
    "r6g.large": (3600.0, 20000.0),
}


def _classes() -> Iterator[InstanceClass]:
    burstable = {f"{f}.{size}": each for f in ("t3", "t4g") for size, each in _BURSTABLE.items()}
    for name in sorted(burstable.keys() | _EBS.keys()):
        other = (_VCPUS.get(name.partition(".")[2], 0), 0.0)
        vcpus, credits_per_hour = burstable.get(name, other)
        base, most = _EBS.get(name, (None, None))
        yield InstanceClass(
            name=f"db.{name}",
            vcpus=vcpus,
            credits_per_hour=credits_per_hour,
            ebs_base_iops=base,
            ebs_most_iops=most,
        )


CLASSES: Final = {each.name: each for each in _classes()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOutlook:
    """What becomes of CPU credits under a load.

    Attributes:
        lasts_s: Until the balance is empty; infinite at or below the baseline.
        surplus_vcpu_hours: Spent beyond the balance in the time that was asked for, and billed.
    """

    lasts_s: float
    surplus_vcpu_hours: float


def cpu_outlook(
    kind: InstanceClass, used: float, *, balance: float = 0.0, seconds: float = 0.0
) -> CpuOutlook:
    """Return what becomes of CPU credits where surplus is billed and nothing slows down.

    RDS runs T3 and T4g so, always.

    Args:
        kind: The class.
        used: Share of each vCPU, 0 to 1, as CPUUtilization says it.
        balance: Credits at the start. A new T3 or T4g instance has none.
        seconds: For which surplus is counted.
    """
    spent = kind.vcpus * used - kind.credits_per_hour / _PER_MINUTE
    if not kind.is_burstable or spent <= 0:
        return CpuOutlook(lasts_s=inf, surplus_vcpu_hours=0.0)
    lasts_s = balance / spent * _PER_MINUTE
    beyond_s = max(0.0, seconds - lasts_s)
    # Credits a minute are vCPUs.
    return CpuOutlook(lasts_s=lasts_s, surplus_vcpu_hours=spent * beyond_s / _PER_HOUR)


STRIPED_FROM_GIB: Final = 400  # RDS for PostgreSQL: four volumes from here on
_STRIPES: Final = 4
_GP2_PER_GIB: Final = 3.0
_GP2_LEAST, _GP2_BURST, _GP2_MOST = 100.0, 3000.0, 16000.0  # IOPS of one volume
_GP2_BUCKET: Final = 5.4e6  # I/O credits of one volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The storage of an instance: one volume, or several striped.

    Attributes:
        base_iops: That last.
        burst_iops: While there are credits.
        bucket: I/O credits when full; 0: there are none.
        paid_iops: Beyond those that its price includes.
        paid_mib_s: Throughput beyond that, likewise.
    """

    kind: str
    gib: int
    base_iops: float
    burst_iops: float
    bucket: float = 0.0
    paid_iops: float = 0.0
    paid_mib_s: float = 0.0

    def lasts_s(self, iops: float, filled: float = 1.0) -> float:
        """Return seconds until the bucket is empty at these IOPS; ``filled`` is BurstBalance."""
        spent = min(iops, self.burst_iops) - self.base_iops
        return self.bucket * filled / spent if self.bucket and spent > 0 else inf


def _gp2(gib: int, iops: int | None, mib_s: int | None) -> Volume:
    if iops is not None or mib_s is not None:
        raise InputError(
            "gp2 storage takes no IOPS and no throughput: they follow from its size",
            hint="Leave them out, or use `storage_type: gp3`.",
        )
    number = _STRIPES if gib >= STRIPED_FROM_GIB else 1
    each = min(_GP2_MOST, max(_GP2_LEAST, _GP2_PER_GIB * gib / number))
    bursts = each < _GP2_BURST
    return Volume(
        kind="gp2",
        gib=gib,
        base_iops=each * number,
        burst_iops=(_GP2_BURST if bursts else each) * number,
        bucket=_GP2_BUCKET * number if bursts else 0.0,
    )


_GP3_SMALL, _GP3_STRIPED = 3000, 12000  # IOPS that are included
_GP3_MIB_S = {_GP3_SMALL: 125, _GP3_STRIPED: 500}  # and the throughput with them
_GP3_LEAST_GIB: Final = 20
_GP3_MIB_PER_IO: Final = 0.25  # of throughput for each of its IOPS, at most
_GP3_MOST: Final = (64000, 4000)
# USD a month of us-east-1, as the price file that comes with Steelyard has them; it has none of
# MiB/s beyond those included.
GP3_GIB_USD, GP3_IOPS_USD, PRICED_ON = 0.115, 0.02, "2026-11-21"


def _gp3(gib: int, iops: int | None, mib_s: int | None) -> Volume:
    is_striped = gib >= STRIPED_FROM_GIB
    if not is_striped and (iops is not None or mib_s is not None):
        raise InputError(
            f"gp3 storage of {gib} GiB has 3,000 IOPS and 125 MiB/s, and takes no others",
            hint=f"Leave them out, or ask for {STRIPED_FROM_GIB} GiB or more.",
        )
    included = _GP3_STRIPED if is_striped else _GP3_SMALL
    number = float(iops or included)
    return Volume(
        kind="gp3",
        gib=gib,
        base_iops=number,
        burst_iops=number,
        paid_iops=max(0.0, number - included),
        paid_mib_s=max(0.0, float(mib_s or 0) - _GP3_MIB_S[included]),
    )


def gp3_price(iops: float, mib_s: float = 0.0) -> str:
    """Return the smallest gp3 storage of RDS for PostgreSQL with such a limit, and its price."""
    if iops > _GP3_MOST[0] or mib_s > _GP3_MOST[1]:
        return f"gp3 storage of RDS has {_GP3_MOST[0]:,} IOPS and {_GP3_MOST[1]:,} MiB/s at most"
    included = _GP3_SMALL
    if iops > included or mib_s > _GP3_MIB_S[included]:
        included = _GP3_STRIPED
    gib = _GP3_LEAST_GIB if included == _GP3_SMALL else STRIPED_FROM_GIB
    number = max(included, ceil(iops), ceil(mib_s / _GP3_MIB_PER_IO))
    cost = gib * GP3_GIB_USD + (number - included) * GP3_IOPS_USD
    beyond = mib_s > _GP3_MIB_S[included]
    return (
        f"gp3 storage of RDS with {number:,.0f} IOPS takes {gib} GiB or more, and costs"
        f" {cost:,.2f} USD a month or more (list prices of us-east-1, checked on {PRICED_ON}"
        + (f"; {mib_s:,.0f} MiB/s cost more)" if beyond else ")")
    )


def _provisioned(kind: str, gib: int, iops: int | None, mib_s: int | None) -> Volume:
    if iops is None:
        raise InputError(
            f"{kind} storage has as many IOPS as are asked for, and none were",
            hint="Add `iops: 3000`.",
        )
    if mib_s is not None:
        raise InputError(
            f"{kind} storage takes no throughput", hint="Leave `storage_throughput` out."
        )
    return Volume(
        kind=kind, gib=gib, base_iops=float(iops), burst_iops=float(iops), paid_iops=float(iops)
    )


STORAGE_TYPES: Final = ("gp2", "gp3", "io1", "io2")


def volume_of(kind: str, gib: int, *, iops: int | None = None, mib_s: int | None = None) -> Volume:
    """Return the storage of an instance of RDS for PostgreSQL.

    Raises:
        InputError: RDS has no such storage.
    """
    if kind == "gp2":
        return _gp2(gib, iops, mib_s)
    if kind == "gp3":
        return _gp3(gib, iops, mib_s)
    return _provisioned(kind, gib, iops, mib_s)


_EBS_BURST_S: Final = 30 * 60.0  # Amazon promises no less, once a day


def link_lasts_s(kind: InstanceClass, iops: float, filled: float = 1.0) -> float:
    """Return seconds until EBSIOBalance% is empty: a bucket of 30 minutes at the maximum."""
    if kind.ebs_base_iops is None or kind.ebs_most_iops is None:
        return inf
    spent = min(iops, kind.ebs_most_iops) - kind.ebs_base_iops
    bucket = (kind.ebs_most_iops - kind.ebs_base_iops) * _EBS_BURST_S * filled
    return bucket / spent if spent > 0 else inf


def burst_lasts_s(kind: InstanceClass, volume: Volume | None) -> float | None:
    """Return how long full buckets last at full load; None where none slows anything down.

    CPU credits of RDS slow nothing down: what is spent beyond them is billed.
    """
    if volume is None:
        return None
    most = min(volume.burst_iops, kind.ebs_most_iops or inf)
    shortest = min(volume.lasts_s(most), link_lasts_s(kind, most))
    return shortest if shortest < inf else None


def hidden_by_burst(
    kind: InstanceClass | None, volume: Volume | None, seconds: float
) -> tuple[str, ...]:
    """Return what a campaign of this length will not show, a sentence each.

    Args:
        kind: The class; None: one whose credits are not known here.
        volume: The storage; None: Aurora's.
        seconds: For how long there is load.
    """
    found = []
    if volume is not None and seconds <= volume.lasts_s(volume.burst_iops):
        if volume.bucket:
            found.append(
                f"{format_duration(seconds)} fit into the burst of {volume.burst_iops:,.0f} IOPS:"
                f" they will not show the {volume.base_iops:,.0f} that last"
            )
    elif volume is not None and volume.bucket:
        left = format_duration(volume.lasts_s(volume.burst_iops))
        found.append(
            f"the burst of {volume.burst_iops:,.0f} IOPS lasts {left} at full use; after that"
            f" {volume.base_iops:,.0f} last, so early and late runs may differ"
        )
    if kind is not None and kind.is_burstable:
        surplus = cpu_outlook(kind, 1.0, seconds=seconds).surplus_vcpu_hours
        found.append(
            f"{kind.name} has {kind.cpu_baseline:.0%} of each vCPU for good; RDS slows nothing"
            f" down and bills up to {surplus:.2f} vCPU-hours of surplus credits for"
            f" {format_duration(seconds)} at full load"
        )
    return tuple(found)
