"""The layer ``cgroup``: what control groups of the kernel let server and generator use."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steelyard.model.errors import InputError
from steelyard.model.units import KIB, parse_bytes

PERIOD_US: Final = 100_000  # a quota is so much CPU time in each period
_LEAST_QUOTA_US: Final = 1_000  # the kernel refuses less: Documentation/scheduler/sched-bwc.rst
_MOST_CPUS: Final = 10_000
_MOST_PER_S: Final = 10**9
_CPU_RANGE: Final = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class Controller(StrEnum):
    """A part of the kernel that limits groups, or lets them stand still."""

    CPU = "cpu"
    CPUSET = "cpuset"
    IO = "io"
    FREEZER = "freezer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a treatment's server and load generator may use; None: no limit.

    Attributes:
        cpus: CPU time of the server per time, in CPUs.
        cpuset: CPUs that the server may run on.
        generator_cpuset: CPUs that the load generator may run on.
        read_iops: Reads per second from the device of the data.
        write_iops: Writes per second to it.
        read_bytes_per_s: Bytes per second from it.
        write_bytes_per_s: Bytes per second to it.
    """

    cpus: float | None = None
    cpuset: tuple[int, ...] | None = None
    generator_cpuset: tuple[int, ...] | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None


THROTTLES: Final = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
CPUSETS: Final = ("cpuset", "generator_cpuset")
KEYS: Final = ("cpus", *CPUSETS, *THROTTLES)


def controllers_of(keys: Iterable[str]) -> frozenset[Controller]:
    """Return the controllers that the server's group needs for these keys."""
    by_key = {
        "cpus": Controller.CPU,
        "cpuset": Controller.CPUSET,
        **dict.fromkeys(THROTTLES, Controller.IO),
    }
    return frozenset(by_key[key] for key in keys if key in by_key)


def parse_cpus(text: str) -> float:
    """Return a quota in CPUs, to the microsecond of a period that the kernel counts in.

    Raises:
        InputError: It is no number, or less than the kernel takes.
    """
    hint = "Write a number of CPUs, as in 0.6 or 2."
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text.strip()):
        raise InputError(f"`{text}` is not a number of CPUs", hint=hint)
    quota_us = round(float(text) * PERIOD_US)
    if not _LEAST_QUOTA_US <= quota_us <= _MOST_CPUS * PERIOD_US:
        least = _LEAST_QUOTA_US / PERIOD_US
        raise InputError(
            f"`{text}` CPUs is out of range", hint=f"Write a number from {least:g} to {_MOST_CPUS}."
        )
    return quota_us / PERIOD_US


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list as the kernel writes it, ``0-1,3``, in order and each once.

    Raises:
        InputError: It is no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _CPU_RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InputError(
                f"`{text}` is not a list of CPUs", hint="Write it as 0, as 0-1 or as 0,2-3."
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_iops(text: str) -> int:
    """Return a number of requests per second.

    Raises:
        InputError: It is no whole number, or out of range.
    """
    if not re.fullmatch(r"[0-9]{1,10}", text.strip()) or not 1 <= int(text) <= _MOST_PER_S:
        raise InputError(
            f"`{text}` is not a number of requests per second",
            hint=f"Write a whole number from 1 to {_MOST_PER_S}.",
        )
    return int(text)


def parse_rate(text: str) -> int:
    """Return bytes per second from a size such as ``20MB``.

    Raises:
        InputError: It is no size, or less than 1 byte.
    """
    count = parse_bytes(text)
    if count < 1:
        raise InputError(f"`{text}` is less than 1 byte", hint="Write it as 20MB or 512kB.")
    return count


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes them: ``0-1,3``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "cpus": parse_cpus,
    **dict.fromkeys(CPUSETS, parse_cpu_list),
    "read_iops": parse_iops,
    "write_iops": parse_iops,
    "read_bytes_per_s": parse_rate,
    "write_bytes_per_s": parse_rate,
}


def limits_of(asked: Mapping[str, str]) -> Limits:
    """Return the limits of a treatment's settings of this layer.

    Raises:
        InputError: A value is not what its key takes.
    """
    return Limits(**{name: PARSERS[name](text) for name, text in asked.items()})  # type: ignore[arg-type]


def shown_limit(key: str, limits: Limits) -> tuple[str, str | None]:
    """Return a limit's value and unit as tables of settings show them."""
    value = getattr(limits, key)
    if value is None:
        return "unlimited", None
    if key in CPUSETS:
        return cpu_list(value), None
    if not key.endswith("_bytes_per_s"):
        return f"{value:g}" if key == "cpus" else str(value), None
    return (str(value // KIB), "kB") if value % KIB == 0 else (str(value), "B")
