"""How CPUs run, idle and are waited for: frequency, idle states, polling, steal, pressure."""

import re
from typing import Final

from steelyard.gateways.host import Host
from steelyard.model.linux_facts import IdleState
from steelyard.model.units import US_PER_S
from steelyard.tuning.facts.found import Finds, Found, hidden, read_fact, seen, unknown
from steelyard.tuning.facts.topology import CPUS

_NS_PER_S: Final = 1e9
_IDLE: Final = f"{CPUS}/cpuidle"
_FIRST: Final = f"{CPUS}/cpu0/cpuidle"
_DMA_LATENCY: Final = "/dev/cpu_dma_latency"
_NO_LIMIT_US: Final = 2_000_000_000  # PM_QOS_CPU_LATENCY_DEFAULT_VALUE, include/linux/pm_qos.h
_HYPERVISORS: Final = "the hypervisor governs it, and a virtual machine does not see that"
_TIMES: Final = 8  # fields of /proc/stat up to steal; the guests' are in user and nice already
_STEAL: Final = 7


def cpu_facts(host: Host, *, virtual: bool | None) -> Finds:
    """Return the facts of CPUs; ``virtual`` says why some of them cannot be seen."""
    return {
        "scaling_driver": _frequency(host, "scaling_driver", virtual=virtual),
        "governor": _frequency(host, "scaling_governor", virtual=virtual),
        "energy_preference": _frequency(host, "energy_performance_preference", virtual=virtual),
        "idle_driver": read_fact(host, f"{_IDLE}/current_driver", str),
        "idle_governor": _idle_governor(host),
        "idle_states": _idle_states(host),
        "halt_poll_s": _halt_poll(host, virtual=virtual),
        "guest_halt_poll_s": _guest_halt_poll(host),
        "dma_latency_s": _dma_latency(host),
        "cpu_pressure_fraction": read_fact(
            host,
            "/proc/pressure/cpu",
            _pressure,
            absent="there is no /proc/pressure: this kernel does not account for pressure",
        ),
        "clocksource": read_fact(
            host, "/sys/devices/system/clocksource/clocksource0/current_clocksource", str
        ),
    }


def steal(before: str | None, after: str | None) -> Found:
    """Return the share of CPU time that a hypervisor gave to others between two looks.

    Args:
        before: Text of ``/proc/stat``.
        after: The same some time later.
    """
    first, last = _times(before), _times(after)
    if first is None or last is None:
        return hidden("/proc/stat does not say it")
    spent = [end - begin for begin, end in zip(first, last, strict=True)]
    if sum(spent) <= 0:
        return unknown("no time passed between two looks at /proc/stat")
    return seen(spent[_STEAL] / sum(spent), "/proc/stat, two looks a second apart")


def _times(stat: str | None) -> tuple[int, ...] | None:
    match = re.match(r"cpu((?:\s+\d+)+)", stat or "")
    fields = tuple(map(int, match[1].split()))[:_TIMES] if match else ()
    return fields if len(fields) == _TIMES else None


def _frequency(host: Host, name: str, *, virtual: bool | None) -> Found:
    """Return what all CPUs have, several different words joined by a comma."""
    words = set()
    for cpu in host.names(CPUS):
        text = host.read(f"{CPUS}/{cpu}/cpufreq/{name}") if re.fullmatch(r"cpu\d+", cpu) else None
        if text and text.strip():
            words.add(text.strip())
    if words:
        return seen(",".join(sorted(words)), f"{CPUS}/cpu*/cpufreq/{name}")
    if virtual:
        return hidden(_HYPERVISORS)
    return hidden(f"there is no {CPUS}/cpu*/cpufreq/{name}")


def _idle_governor(host: Host) -> Found:
    found = read_fact(host, f"{_IDLE}/current_governor", str)
    # Before Linux 5.17 the file that can be written is there on request only.
    return found if found.value else read_fact(host, f"{_IDLE}/current_governor_ro", str)


def _idle_states(host: Host) -> Found:
    matches = filter(None, (re.fullmatch(r"state(\d+)", name) for name in host.names(_FIRST)))
    states = [_state(host, f"{_FIRST}/state{n}") for n in sorted(int(m[1]) for m in matches)]
    found = tuple(state for state in states if state is not None)
    return seen(found, f"{_FIRST}/state*") if found else hidden(f"there is no {_FIRST}")


def _state(host: Host, place: str) -> IdleState | None:
    name, latency, disabled = (
        (host.read(f"{place}/{file}") or "").strip() for file in ("name", "latency", "disable")
    )
    if not name or not latency.isdecimal():
        return None
    return IdleState(
        name=name, exit_latency_s=int(latency) / US_PER_S, disabled=disabled not in ("", "0")
    )


def _halt_poll(host: Host, *, virtual: bool | None) -> Found:
    if virtual:
        return hidden(_HYPERVISORS)
    path = "/sys/module/kvm/parameters/halt_poll_ns"
    return read_fact(host, path, _seconds_of_ns, absent=f"there is no {path}: no KVM here")


def _guest_halt_poll(host: Host) -> Found:
    drivers = [host.read(f"{_IDLE}/{name}") for name in ("current_driver", "current_governor")]
    if not any("haltpoll" in (driver or "") for driver in drivers):
        return hidden("haltpoll is neither the idle driver nor its governor here")
    path = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
    return read_fact(host, path, _seconds_of_ns)


def _seconds_of_ns(text: str) -> float:
    return int(text) / _NS_PER_S


def _dma_latency(host: Host) -> Found:
    limit_us = host.number(_DMA_LATENCY)
    if limit_us is None:
        return unknown(f"{_DMA_LATENCY} is not there, or root alone may read it")
    if limit_us >= _NO_LIMIT_US:
        return seen(None, f"{_DMA_LATENCY}: nobody holds a limit")
    return seen(limit_us / US_PER_S, _DMA_LATENCY)


def _pressure(text: str) -> float:
    match = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    if match is None:
        raise ValueError
    return float(match[1]) / 100.0
