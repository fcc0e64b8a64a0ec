"""What /proc says of the whole machine: pure parsers, None where a text is torn or odd."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# USER_HZ: what the kernel shows times of processes and CPUs in, 100 on every machine that
# PostgreSQL supports (include/asm-generic/param.h).
TICKS_PER_S = 100
_MOST_DIGITS = 20  # of an unsigned 64-bit number
_CPU_FIELDS = 8  # user nice system idle iowait irq softirq steal; guest is part of user


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds of all CPUs together since the start of the machine, and what else /proc/stat has.

    Attributes:
        user_s: Of programs, at whatever priority; guests of this machine included.
        system_s: Of the kernel, interrupts included.
        cpus: CPUs that are there.
    """

    user_s: float
    system_s: float
    idle_s: float
    iowait_s: float
    steal_s: float
    cpus: int
    context_switches: int | None


def whole_number(text: str) -> int | None:
    """Return a number without sign, or None."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None


def whole_numbers(text: str | None) -> list[int] | None:
    """Return the numbers of a line, or None when it is absent or holds anything else."""
    return fields_as_numbers((text or "").split())


def fields_as_numbers(fields: Sequence[str]) -> list[int] | None:
    """Return fields without blanks as numbers, or None when there is none or one is no number."""
    joined = "".join(fields)  # hundreds of lines are read at a time: one look at all digits
    if not (joined.isascii() and joined.isdigit()):
        return None
    return None if max(map(len, fields)) > _MOST_DIGITS else list(map(int, fields))


def named_number(text: str | None, name: str) -> int | None:
    """Return the number of the line ``name value`` or ``name: value``, or None without it."""
    match = re.search(rf"^{name}:?[ \t]+([0-9]+)[ \t]*$", text or "", re.MULTILINE)
    return whole_number(match[1]) if match else None


def named_numbers(text: str | None) -> dict[str, int]:
    """Return the lines ``name value`` or ``name: value unit`` of a file; others are left out."""
    found = {}
    for line in (text or "").splitlines():
        name, _, rest = line.replace(":", " ", 1).partition(" ")
        fields = rest.split()
        number = whole_number(fields[0]) if fields else None
        if number is not None:
            found[name] = number
    return found


def memory_bytes(text: str | None) -> dict[str, int]:
    """Return the fields of /proc/meminfo: bytes, or pages where it has no unit."""
    kilobytes = {
        line.partition(":")[0] for line in (text or "").splitlines() if line.endswith(" kB")
    }
    return {
        name: number * 1024 if name in kilobytes else number
        for name, number in named_numbers(text).items()
    }


def cpu_times(text: str | None) -> CpuTimes | None:
    """Return the sums of /proc/stat."""
    lines = (text or "").splitlines()
    if not lines or not lines[0].startswith("cpu "):
        return None
    ticks = whole_numbers(lines[0][4:])
    cpus = sum(line.startswith("cpu") for line in lines) - 1
    if ticks is None or len(ticks) < _CPU_FIELDS or cpus < 1:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (
        each / TICKS_PER_S for each in ticks[:_CPU_FIELDS]
    )
    switches = next((line[5:] for line in lines if line.startswith("ctxt ")), "")
    return CpuTimes(
        user_s=user + nice,
        system_s=system + irq + softirq,
        idle_s=idle,
        iowait_s=iowait,
        steal_s=steal,
        cpus=cpus,
        context_switches=whole_number(switches),
    )
