"""Other processes: who used the CPU between two moments, by name."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.campaign.evidence.neighbours import census, others_between
from steelyard.core.measurement import OtherProcess
from support.recorded_host import process_line

_KERNEL = 0x00200000


def _machine(*lines: str, **files: str) -> FakeHost:
    made = {f"/proc/{line.split()[0]}/stat": line for line in lines}
    io = {
        f"/proc/{name[2:]}/io": f"read_bytes: {text}\nwrite_bytes: 1000\n"
        for name, text in files.items()
    }
    return FakeHost(files={**made, **io, "/proc/loadavg": "1\n"})


def _between(before: FakeHost, after: FakeHost, *ours: int) -> tuple[OtherProcess, ...]:
    return others_between(census(before), census(after), ours=ours).heaviest


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
    contained = others_between(census(_machine()), census(_machine(*lines)), ours=(3,))
    assert contained.cpu_s is None
    whole = others_between(census(_machine()), census(_machine(*lines, thread)), ours=(3,))
    assert whole.cpu_s == 9.0
    assert whole.heaviest[0].cpu_s == 4.0


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
