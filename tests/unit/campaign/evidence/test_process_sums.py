"""Processes that come and go: what passes to a parent, and who used the CPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.campaign.evidence.neighbours import Bystanders
from steelyard.campaign.evidence.processes import GeneratorProcesses, ServerProcesses, TaskSet
from steelyard.core.measurement import OtherProcess, Quantity
from support.recorded_host import (
    GENERATOR,
    SERVER,
    process_line,
    recorded_files,
    recorded_host,
)

_S = 1_000_000_000


def _server(*sessions: tuple[int, int, int], reaped: int, **more: str) -> dict[str, str]:
    """Return a server 10 with sessions (pid, ticks, nanoseconds waited)."""
    pids = " ".join(str(pid) for pid, _, _ in sessions)
    files = {
        "/proc/10/stat": process_line(10, "postgres", 1, ticks=50, reaped=reaped),
        "/proc/10/schedstat": f"{_S // 2} 0 1\n",
        "/proc/10/task/10/children": pids,
        "/proc/self/schedstat": "0 0 0\n",
    }
    for pid, ticks, waited in sessions:
        files |= {
            f"/proc/{pid}/stat": process_line(pid, "postgres", 10, ticks=ticks),
            f"/proc/{pid}/schedstat": f"{ticks * _S // 100} {waited} 7\n",
            f"/proc/{pid}/task/{pid}/children": "",
        }
    return {**files, **more}


def test_ended_tasks_keep_their_last_reading() -> None:
    """A task that is gone stays in the sums, one that comes back is not counted twice."""
    host = FakeHost(files={"/a": f"{3 * _S} {_S} 5\n", "/b": f"{_S} {_S} 2\n"})
    tasks = TaskSet(host=host)
    both = tasks.read(["/a", "/b"])
    assert (tasks.living_run_s, both.run_s, both.delay_s, both.times) == (4, 4, 2, 7)
    one = tasks.read(["/a"])
    assert (tasks.living_run_s, one.run_s, one.delay_s, one.times) == (3, 4, 2, 7)
    assert tasks.read(["/a", "/b"]) == both


def test_an_id_given_again_adds_to_what_the_first_one_had() -> None:
    """A task that has run less than before is another one."""
    host = FakeHost(files={"/a": f"{3 * _S} {_S} 5\n"})
    tasks = TaskSet(host=host)
    tasks.read(["/a"])
    host.files = {"/a": f"{_S} {2 * _S} 1\n"}
    again = tasks.read(["/a"])
    assert (tasks.living_run_s, again.run_s, again.delay_s, again.times) == (1, 4, 3, 6)


def test_cpu_of_an_ended_session_is_the_postmasters() -> None:
    """Nothing is lost when sessions end between two readings, and nothing counts twice."""
    host = FakeHost(files=_server((11, 100, _S), (12, 200, _S), reaped=1000))
    server = ServerProcesses(host=host, pid=10)
    first, seen = server.used(), server.sampled()
    host.files = _server((12, 250, 3 * _S), reaped=1000 + 130)
    last, later = server.used(), server.sampled()
    assert first[Quantity.SERVER_CPU_S] == pytest.approx(0.5 + 1 + 2 + 10)
    assert last[Quantity.SERVER_CPU_S] - first[Quantity.SERVER_CPU_S] == pytest.approx(0.8)
    assert later[Quantity.SERVER_CPU_S] - seen[Quantity.SERVER_CPU_S] == pytest.approx(0.8)
    waited_s = last[Quantity.SERVER_RUN_QUEUE_S] - first[Quantity.SERVER_RUN_QUEUE_S]
    assert waited_s == pytest.approx(2.0), "the ended one's last second stays, no more is known"


def test_a_reading_in_which_a_session_ends_is_taken_again() -> None:
    """A session that is read and then passes its time on would count twice."""
    host = FakeHost(files=_server((11, 100, 0), reaped=0))

    class Ending(FakeHost):
        def read(self, path: str) -> str | None:
            text = self.files.get(path)
            if path == "/proc/11/stat":
                self.files = _server(reaped=100)
            return text

    ending = Ending(files=host.files)
    server = ServerProcesses(host=ending, pid=10)
    assert server.used()[Quantity.SERVER_CPU_S] == pytest.approx(0.5 + 1.0)


def test_a_server_that_is_gone_is_an_absence() -> None:
    """No figure without its first process, and the reason says so."""
    host = FakeHost(files=_server(reaped=0))
    server = ServerProcesses(host=host, pid=10)
    host.files = {}
    assert server.used() == server.sampled() == {}
    assert "has ended" in server.absent({})[0].reason


def test_closed_files_are_absences() -> None:
    """Another account's server shows CPU; bytes and the scheduler's counts have a reason each."""
    files = _server((11, 100, 0), reaped=0)
    host = FakeHost(files={n: text for n, text in files.items() if "schedstat" not in n})
    server = ServerProcesses(host=host, pid=10)
    used = server.used()
    assert used == {Quantity.SERVER_CPU_S: pytest.approx(1.5)}
    assert {absence.subject for absence in server.absent(used)} == {
        "device use of the server's processes",
        "run-queue time of the server",
    }


def test_device_bytes_of_the_recorded_server() -> None:
    """The sum over its processes, each with what its ended children had."""
    used = ServerProcesses(host=recorded_host(), pid=SERVER).used()
    files = recorded_files()
    written = sum(
        int(line.split()[1])
        for name, text in files.items()
        if name.endswith("/io")
        for line in text.splitlines()
        if line.startswith("write_bytes")
    )
    assert used[Quantity.SERVER_WRITTEN_BYTES] == written > 100_000_000
    assert used[Quantity.SERVER_SWITCHES] > 2150


def test_settling_waits_for_sessions_and_not_for_ever() -> None:
    """Sessions that end are waited for; one that stays ends the wait."""
    waits: list[float] = []

    class Ending(FakeClock):
        def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 4:
                host.files = _server((11, 1, 0), reaped=0)

    host = FakeHost(files=_server((11, 1, 0), reaped=0))
    server = ServerProcesses(host=host, pid=10)
    host.files = _server((11, 1, 0), (12, 1, 0), reaped=0)
    server.settle(Ending())
    assert len(waits) == 2, "an unchanged set is good enough"
    server.settle(Ending())
    assert len(waits) == 4, "nobody to wait for"
    server.settle(Ending())
    assert len(waits) == 4


def test_the_generator_is_what_was_not_there_before() -> None:
    """All threads of new children count; their whole CPU is known once they were waited for."""
    host = recorded_host()
    with_generator = dict(host.files)
    host.files = {
        name: "" if name.endswith("6539/children") else text
        for name, text in with_generator.items()
    }
    generator = GeneratorProcesses(host=host)
    assert generator.sampled()[Quantity.GENERATOR_CPU_S] == 0
    host.files = with_generator
    seen = generator.sampled()
    threads = [
        [int(field) / _S for field in text.split()]
        for name, text in with_generator.items()
        if name.startswith(f"/proc/{GENERATOR}/task/")
    ]
    assert len(threads) == 2
    assert seen[Quantity.GENERATOR_CPU_S] == pytest.approx(sum(run for run, _, _ in threads))
    assert seen[Quantity.GENERATOR_RUN_QUEUE_S] == pytest.approx(sum(d for _, d, _ in threads))
    host.children_s = 3.25
    assert generator.ended()[Quantity.GENERATOR_CPU_S] == 3.25


def test_several_generators_count_together() -> None:
    """A second process that was not there before adds its threads to those of the first."""
    host = recorded_host()
    children = next(name for name in host.files if name.endswith("6539/children"))
    second = GENERATOR + 1_000_000
    doubled = {
        **host.files,
        children: f"{host.files[children]} {second}",
        **{
            name.replace(f"/proc/{GENERATOR}/", f"/proc/{second}/"): text
            for name, text in host.files.items()
            if name.startswith(f"/proc/{GENERATOR}/")
        },
    }
    one = dict(host.files)
    host.files = {**one, children: ""}
    alone, both = GeneratorProcesses(host=host), GeneratorProcesses(host=host)
    host.files = one
    of_one = alone.sampled()[Quantity.GENERATOR_CPU_S]
    host.files = doubled
    assert of_one > 0
    assert both.sampled()[Quantity.GENERATOR_CPU_S] == pytest.approx(2 * of_one)


def test_children_from_before_are_no_generator() -> None:
    """A server that Steelyard started earlier is its child as well."""
    host = recorded_host()
    generator = GeneratorProcesses(host=host)
    assert generator.sampled()[Quantity.GENERATOR_CPU_S] == 0
    assert generator.absent() == ()
    host.files = {name: t for name, t in host.files.items() if name != "/proc/self/schedstat"}
    assert [each.subject for each in generator.absent()] == ["run-queue time of the generator"]
    assert (set(generator.ended()), generator.queued()) == ({Quantity.GENERATOR_CPU_S}, {})


_KERNEL = 0x00200000


def _machine(*lines: str, **files: str) -> FakeHost:
    made = {f"/proc/{line.split()[0]}/stat": line for line in lines}
    io = {
        f"/proc/{name[2:]}/io": f"read_bytes: {text}\nwrite_bytes: 1000\n"
        for name, text in files.items()
    }
    return FakeHost(files={**made, **io, "/proc/loadavg": "1\n"})


def _others(before: FakeHost, after: FakeHost, *ours: int) -> Bystanders:
    seen = Bystanders(host=(host := FakeHost(files=before.files)), ours=frozenset(ours), crowd=None)
    seen.begin()
    host.files = after.files
    seen.end(most_s=0.0)
    return seen


def _between(before: FakeHost, after: FakeHost, *ours: int) -> tuple[OtherProcess, ...]:
    return _others(before, after, *ours).heaviest()


def test_the_busiest_come_first_and_the_idle_do_not_come() -> None:
    """CPU is what was used in between, whatever was used before; five are enough."""
    before = _machine(*(process_line(n, f"p{n}", 1, ticks=1000 * n) for n in range(2, 10)))
    after = _machine(
        *(process_line(n, f"p{n}", 1, ticks=1000 * n + 100 * (n - 2)) for n in range(2, 10))
    )
    found = _between(before, after)
    assert [(other.name, other.cpu_s) for other in found] == [
        ("p9", 7.0),
        ("p8", 6.0),
        ("p7", 5.0),
        ("p6", 4.0),
        ("p5", 3.0),
    ]


def test_the_own_and_all_that_descend_from_them_are_left_out() -> None:
    """Server and Steelyard with children and grandchildren are no neighbours."""
    lines = [
        process_line(10, "postgres", 1, ticks=900),
        process_line(11, "backend", 10, ticks=900),
        process_line(12, "archiver", 11, ticks=900),
        process_line(20, "steelyard", 1, ticks=900),
        process_line(21, "pgbench", 20, ticks=900),
        process_line(30, "cron", 1, ticks=5),
    ]
    found = _between(_machine(), _machine(*lines), 10, 20)
    assert [other.name for other in found] == ["cron"]


def test_short_lived_children_count_for_who_waited_for_them() -> None:
    """A compiler's runs are the build's; what an old child had used before is not."""
    before = _machine(process_line(5, "make", 1, reaped=100), process_line(6, "cc", 5, ticks=3000))
    after = _machine(process_line(5, "make", 1, reaped=100 + 3000 + 250))
    assert [(other.name, other.cpu_s) for other in _between(before, after)] == [("make", 2.5)]


def test_all_together_are_known_where_all_can_be_seen() -> None:
    """Threads of the kernel show that this is no container, and are not in the sum themselves."""
    lines = [process_line(n, f"p{n}", 1, ticks=100) for n in range(3, 13)]
    thread = process_line(2, "kworker/0:1", 0, ticks=400, flags=_KERNEL)
    contained = _others(_machine(), _machine(*lines), 3)
    assert contained.cpu_s() is None
    whole = _others(_machine(), _machine(*lines, thread), 3)
    assert whole.cpu_s() == 9.0
    assert whole.heaviest()[0].cpu_s == 4.0


def test_an_id_that_was_given_again_is_another_process() -> None:
    """The new one counts from 0, not from what the old one had used."""
    before = _machine(process_line(5, "old", 1, ticks=100))
    after = _machine(process_line(5, "new", 1, ticks=300).replace(" 77 ", " 99 "))
    assert [(other.name, other.cpu_s) for other in _between(before, after)] == [("new", 3.0)]


def test_device_bytes_are_a_difference_or_unknown() -> None:
    """Bytes of in between, or None where the file is closed; kernel threads have brackets."""
    before = _machine(process_line(5, "reader", 1), io5="500")
    after = _machine(
        process_line(5, "reader", 1, ticks=100),
        process_line(6, "closed", 1, ticks=90),
        process_line(7, "kworker/0:1", 2, ticks=80, flags=_KERNEL),
        io5="4500",
    )
    assert [(other.name, other.io_bytes) for other in _between(before, after)] == [
        ("reader", 4000.0),
        ("closed", None),
        ("[kworker/0:1]", None),
    ]


_TABLES = st.dictionaries(
    st.integers(1, 9),
    st.tuples(st.integers(0, 9), st.integers(0, 500), st.integers(0, 500), st.booleans()),
)


@given(_TABLES, _TABLES)
def test_whatever_is_a_parent_of_whom_it_ends(
    before: dict[int, tuple[int, int, int, bool]], after: dict[int, tuple[int, int, int, bool]]
) -> None:
    """Ids that change hands may make circles: no endless walk, nobody uses less than nothing."""

    def machine(table: dict[int, tuple[int, int, int, bool]]) -> FakeHost:
        return _machine(
            *(
                process_line(pid, "x", parent, ticks=ticks, reaped=reaped).replace(
                    " 77 ", " 99 " if again else " 77 "
                )
                for pid, (parent, ticks, reaped, again) in table.items()
            )
        )

    found = _between(machine(before), machine(after), 1)
    assert all(other.cpu_s > 0 and other.pid != 1 for other in found)
