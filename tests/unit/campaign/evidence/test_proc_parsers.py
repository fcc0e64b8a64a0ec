"""Parsers of /proc: real files of a machine under load, and whatever else a file may hold."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.campaign.evidence.neighbours import bytes_by_node, huge_bytes
from steelyard.campaign.evidence.processes import (
    children,
    parse_device_use,
    parse_major_faults,
    parse_process,
    parse_scheduled,
    tree,
)
from steelyard.campaign.evidence.sources import parse_device, pressure_s
from steelyard.gateways.host import cpu_times, memory_bytes, named_numbers, parse_throttling
from support.recorded_host import (
    GENERATOR,
    SERVER,
    SESSIONS,
    process_line,
    recorded_files,
    recorded_host,
)

_FILES = recorded_files()
_PARSERS: dict[str, tuple[Callable[[str | None], Any], str]] = {
    "stat": (cpu_times, "/proc/stat"),
    "meminfo": (memory_bytes, "/proc/meminfo"),
    "vmstat": (named_numbers, "/proc/vmstat"),
    "pressure": (pressure_s, "/proc/pressure/cpu"),
    "process": (parse_process, f"/proc/{SERVER}/stat"),
    "schedstat": (parse_scheduled, f"/proc/{SERVER}/schedstat"),
    "io": (parse_device_use, f"/proc/{SERVER}/io"),
    "maps": (partial(huge_bytes, rollup=None), f"/proc/{SERVER}/maps"),
    "numa_maps": (bytes_by_node, f"/proc/{SERVER}/numa_maps"),
    "device": (parse_device, "/sys/dev/block/254:0/stat"),
    "throttling": (parse_throttling, "/sys/fs/cgroup/cpu/cpu.stat"),
}
_NAMES = st.sampled_from(sorted(_PARSERS))


def test_cpu_times_are_seconds_of_all_cpus() -> None:
    """Ticks become seconds; nice is user time, interrupts are the kernel's, both CPUs count."""
    text = (
        "cpu  100 20 30 4000 50 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
        "cpu1 1 2 3 4 5 6 7 8 9 0\nctxt 77\nbtime 1\n"
    )
    times = cpu_times(text)
    assert times is not None
    assert (times.user_s, times.system_s) == (1.2, pytest.approx(0.43))
    assert (times.idle_s, times.iowait_s, times.steal_s) == (40.0, 0.5, 0.08)
    assert (times.cpus, times.context_switches) == (2, 77)
    recorded = cpu_times(_FILES["/proc/stat"])
    assert recorded is not None
    assert recorded.cpus == 2
    assert recorded.user_s + recorded.system_s > recorded.steal_s > 0


def test_memory_is_bytes_and_pages_are_pages() -> None:
    """What has the unit kB is converted once, also of a node; the count of huge pages has none."""
    memory = memory_bytes(
        "MemTotal:  24 kB\nHugePages_Total:      12\nodd\nHugepagesize: 2048 kB\n"
    )
    assert memory == {"MemTotal": 24576, "HugePages_Total": 12, "Hugepagesize": 2097152}
    assert memory_bytes(_FILES["/proc/meminfo"])["MemTotal"] == 24731708 * 1024
    node = "Node 1 MemTotal:  24 kB\nNode 1 HugePages_Total:    3\n"
    assert memory_bytes(node) == {"MemTotal": 24576, "HugePages_Total": 3}


def test_pressure_is_that_of_some() -> None:
    """The total of the first line, microseconds made seconds; ``full`` is another thing."""
    text = (
        "some avg10=2.70 avg60=1.20 avg300=6.45 total=13059259\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    )
    assert pressure_s(text) == 13.059259
    assert pressure_s("full avg10=0.00 total=5\n") is None
    assert (pressure_s(_FILES["/proc/pressure/io"]) or 0) > 0


def test_a_process_is_read_by_its_last_bracket() -> None:
    """A name with blanks, brackets and digits moves no field; a kernel thread is told apart."""
    odd = parse_process(process_line(7, "a) S 1 (b", 3, ticks=250, reaped=50))
    assert odd is not None
    assert (odd.pid, odd.name, odd.parent) == (7, "a) S 1 (b", 3)
    assert (odd.cpu_s, odd.reaped_cpu_s, odd.is_of_kernel) == (2.5, 0.5, False)
    kernel = parse_process(process_line(8, "kworker/0:1", 2, flags=0x04208060))
    assert kernel is not None
    assert (kernel.name, kernel.is_of_kernel) == ("[kworker/0:1]", True)


def test_a_recorded_server_has_its_sessions() -> None:
    """The postmaster's children, their schedstat and what passed to it of ended ones."""
    host = recorded_host()
    assert set(SESSIONS) < set(children(host, SERVER))
    assert tree(host, SERVER)[0] == SERVER
    first = parse_process(_FILES[f"/proc/{SERVER}/stat"])
    assert first is not None
    assert (first.cpu_s, first.reaped_cpu_s) == (0.07, 2.28)
    session = parse_scheduled(_FILES[f"/proc/{SESSIONS[0]}/schedstat"])
    assert session is not None
    assert session.run_s == pytest.approx(0.188500180)
    assert (session.delay_s, session.times) == (pytest.approx(0.768407514), 2150)


def test_children_are_found_without_the_file_of_children() -> None:
    """A kernel without CONFIG_PROC_CHILDREN names each process's parent all the same."""
    files = {name: text for name, text in _FILES.items() if not name.endswith("/children")}
    files |= {f"/proc/{pid}/task/{pid}/schedstat": "" for pid in (SERVER, GENERATOR)}
    host = recorded_host()
    expected = set(children(host, SERVER))
    host.files = files
    assert set(children(host, SERVER)) == expected


@pytest.mark.parametrize("name", sorted(_PARSERS))
def test_an_absent_file_is_nothing(name: str) -> None:
    """None or empty, as for an empty file, never an error; the recorded one is something."""
    parse, recorded = _PARSERS[name]
    assert not parse(None)
    assert not parse("")
    assert parse(_FILES[recorded]) is not None


@given(_NAMES, st.text(max_size=300))
def test_odd_text_raises_nothing(name: str, text: str) -> None:
    """Whatever a file holds, the parser returns."""
    _PARSERS[name][0](text)


@given(
    _NAMES, st.integers(0, 3000), st.integers(0, 3000), st.text("0123456789- \n:)(x", max_size=9)
)
def test_torn_text_raises_nothing(name: str, begin: int, length: int, patch: str) -> None:
    """A real file of which a part is missing or overwritten does not stop a parser."""
    parse, recorded = _PARSERS[name]
    text = _FILES[recorded]
    parse(text[:begin])
    parse(text[:begin] + patch + text[begin + length :])


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_schedstat_comes_back_as_it_was_written(run: int, delay: int, times: int) -> None:
    """Every number of the kernel's range is read; a negative or fourth one makes it odd."""
    read = parse_scheduled(f"{run} {delay} {times}\n")
    assert read is not None
    assert (read.run_s, read.delay_s, read.times) == (run / 1e9, delay / 1e9, times)
    assert parse_scheduled(f"-{run} {delay} {times}") is None
    assert parse_scheduled(f"{run} {delay} {times} 1") is None


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("12 (a (b) c) S 1 1 1 0 -1 0 5 6 7 8 0 0 0 0 20 0 1 0 77", 15),
        ("12 (a) S 1 1 1 0 -1 0 5 6 7", None),
        ("12 (a) S 1 1 1 0 -1 0 5 6 x 8 0 0", None),
        ("", None),
        (None, None),
    ],
)
def test_major_faults_are_the_tenth_and_eleventh_field_after_the_name(
    text: str | None, faults: int | None
) -> None:
    """Of the process and of its ended children; a torn line has none. Source: proc_pid_stat(5)."""
    assert parse_major_faults(text) == faults
