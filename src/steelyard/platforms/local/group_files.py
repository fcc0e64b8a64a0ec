"""What limits are in the files of a control group, in both versions, and back.

Sources: Linux, Documentation/scheduler/sched-bwc.rst, admin-guide/cgroup-v1/cpusets.rst and
blkio-controller.rst, admin-guide/cgroup-v2.rst.
"""

from collections.abc import Callable, Mapping
from typing import Final

from steelyard.model.cgroup import PERIOD_US, THROTTLES, Limits, cpu_list, parse_cpu_list

Read = Callable[[str], str]  # from the name of a file to its text, empty where it is absent

_THROTTLE_FILES: Final = {
    "read_iops": "blkio.throttle.read_iops_device",
    "write_iops": "blkio.throttle.write_iops_device",
    "read_bytes_per_s": "blkio.throttle.read_bps_device",
    "write_bytes_per_s": "blkio.throttle.write_bps_device",
}
_THROTTLE_WORDS: Final = {
    "read_iops": "riops",
    "write_iops": "wiops",
    "read_bytes_per_s": "rbps",
    "write_bytes_per_s": "wbps",
}


def quota_files(version: int, cpus: float | None) -> Mapping[str, str]:
    """Return the text of each file that sets a CPU quota, or takes it away."""
    quota = None if cpus is None else round(cpus * PERIOD_US)
    if version == 2:
        return {"cpu.max": f"{'max' if quota is None else quota} {PERIOD_US}"}
    return {
        "cpu.cfs_period_us": str(PERIOD_US),
        "cpu.cfs_quota_us": "-1" if quota is None else str(quota),
    }


def quota_in(read: Read) -> float | None:
    """Return the quota in force, in CPUs; None where there is none."""
    quota, period = read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")
    if fields := read("cpu.max").split():
        quota, period = fields
    if not quota.isdigit() or not period.isdigit():
        return None
    return int(quota) / int(period)


def cpuset_files(version: int, cpus: tuple[int, ...] | None, parent: Read) -> Mapping[str, str]:
    """Return the text of each file that binds a group to CPUs; None: to all of its parent's.

    In version 1 a group has no CPUs and no memory nodes before they are written.
    """
    if version == 2:
        return {"cpuset.cpus": "" if cpus is None else cpu_list(cpus)}
    return {
        "cpuset.mems": parent("cpuset.mems"),
        "cpuset.cpus": parent("cpuset.cpus") if cpus is None else cpu_list(cpus),
    }


def cpuset_in(read: Read) -> tuple[int, ...] | None:
    """Return the CPUs in force; None where the group's files do not say."""
    names = ("cpuset.effective_cpus", "cpuset.cpus.effective", "cpuset.cpus")
    text = next((text for name in names if (text := read(name))), "")
    return parse_cpu_list(text) if text else None


def throttle_files(version: int, device: str, limits: Limits) -> tuple[tuple[str, str], ...]:
    """Return the files that throttle a device, each with its text; no limit takes one away."""
    asked = {key: getattr(limits, key) for key in THROTTLES}
    if version == 2:
        words = [f"{_THROTTLE_WORDS[key]}={value or 'max'}" for key, value in asked.items()]
        return (("io.max", " ".join([device, *words])),)
    return tuple((_THROTTLE_FILES[key], f"{device} {value or 0}") for key, value in asked.items())


def throttle_in(read: Read, device: str, key: str) -> int | None:
    """Return one throttle of a device in force; None where there is none."""
    for line in read("io.max").splitlines():
        name, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields)
        if name == device and (value := values.get(_THROTTLE_WORDS[key], "max")) != "max":
            return int(value)
    for line in read(_THROTTLE_FILES[key]).splitlines():
        name, _, value = line.partition(" ")
        if name == device and int(value):
            return int(value)
    return None
