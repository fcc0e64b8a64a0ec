"""What /proc says of a running virtual machine."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.tuning.facts.domains import guest_process, huge_memory
from support.guest_files import Guest


def test_threads_memory_and_devices_are_read() -> None:
    """Virtual CPUs and I/O threads are told by their names, the emulator is the main thread."""
    process = guest_process(FakeHost(files=Guest().files()), "guest")
    assert process is not None
    assert process.vcpus == {0: (0,), 1: (1,)}
    assert process.emulator == (1,)
    assert (process.io_threads, process.io_thread_cpus) == ({1: (0,)}, (0,))
    assert process.memory is not None
    assert process.memory.bytes_by_node == {0: 256 * MIB}
    assert process.memory.bytes_by_size == {2 * MIB: 256 * MIB}
    assert process.memory.bound
    assert (process.locked_bytes, process.balloon) == (0, False)


def test_ordinary_pages_are_no_huge_memory() -> None:
    """A guest without huge pages has none, and that is seen; an unreadable one is not seen."""
    small = Guest(page_bytes=4096).files()
    small["/proc/4711/numa_maps"] = small["/proc/4711/numa_maps"].replace(" huge ", " ")
    process = guest_process(FakeHost(files=small), "guest")
    assert process is not None
    assert (process.memory, process.memory_seen) == (None, True)
    hidden = guest_process(FakeHost(files=Guest(maps=False).files()), "guest")
    assert hidden is not None
    assert (hidden.memory, hidden.memory_seen) == (None, False)


def test_pages_of_two_sizes_are_counted_apart() -> None:
    """Also those of a mapping that nobody has touched yet."""
    line = "7f00 bind:{0} file=/dev/hugepages/x huge{1} kernelpagesize_kB={2}\n"
    maps = line.format(0, " N0=3", 1024 * 1024) + line.format(1, " N1=5", 2048)
    memory = huge_memory(maps + line.format(1, "", 64))
    assert memory is not None
    assert memory.bytes_by_size == {GIB: 3 * GIB, 2 * MIB: 10 * MIB, 64 * KIB: 0}
    assert memory.bytes_by_node == {0: 3 * GIB, 1: 10 * MIB}


def test_a_preferred_node_is_not_bound() -> None:
    """Only ``bind`` keeps memory on its nodes."""
    process = guest_process(FakeHost(files=Guest(policy="prefer:0").files()), "guest")
    assert process is not None
    assert process.memory is not None
    assert not process.memory.bound


def test_nobody_there_is_none() -> None:
    """Without a pid, or with that of a process that has ended, there is no guest."""
    assert guest_process(FakeHost(files={}), "guest") is None
    gone = {"/run/libvirt/qemu/guest.pid": "4711"}
    assert guest_process(FakeHost(files=gone), "guest") is None


@given(text=st.text(alphabet=st.sampled_from("bind:0 huge N1=2kernelpagesize_kB=2048\n x")))
def test_no_text_breaks_the_reading_of_maps(text: str) -> None:
    """Whatever ``numa_maps`` says, amounts are not negative and the page size is a huge one."""
    memory = huge_memory(text)
    if memory is not None:
        assert min(memory.bytes_by_size) >= 64 * 1024
        assert all(count >= 0 for count in memory.bytes_by_node.values())
