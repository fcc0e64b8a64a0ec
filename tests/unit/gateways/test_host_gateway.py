"""The machine's own account and its clock: the same promises from the real ones and the fakes."""

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.clock import FakeClock
from fakes.host import FakeHost
from steelyard.core.wording import ExitCode, PreflightError, TargetError
from steelyard.gateways import host as machine

_FILES = {"/proc/loadavg": "0.5 0.4 0.3 1/200 77\n", "/sys/kernel/x": "a [b] c\n"}


@pytest.fixture(params=["tree", "fake"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> machine.Host:
    """Return each implementation in turn, with the same files."""
    if request.param == "fake":
        return FakeHost(files=_FILES)
    for name, text in _FILES.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return machine.LocalHost(root=tmp_path)


def test_a_file_is_read_whole(host: machine.Host) -> None:
    """The text comes back as it stands, with its newline; what is not there is None."""
    for name, text in _FILES.items():
        assert host.read(name) == text
    assert host.read("/proc/absent") is None


def test_a_device_file_holds_a_number(tmp_path: Path) -> None:
    """Four bytes in the machine's order; fewer are no number, and absent is None."""
    (tmp_path / "limit").write_bytes((2_000_000_000).to_bytes(4, sys.byteorder))
    (tmp_path / "short").write_bytes(b"\x01")
    tree = machine.LocalHost(root=tmp_path)
    fake = FakeHost(numbers={"/limit": 2_000_000_000})
    for host in (tree, fake):
        assert host.number("/limit") == 2_000_000_000
        assert host.number("/absent") is None
    assert tree.number("/short") is None


def test_names_are_those_of_one_directory(host: machine.Host) -> None:
    """Files and directories by name, not what lies deeper; nothing where there is nothing."""
    assert host.names("/proc") == ("loadavg",)
    assert set(host.names("/sys")) == {"kernel"}
    assert host.names("/proc/absent") == ()
    assert host.names("/proc/loadavg") == ()


def test_a_device_has_two_numbers(host: machine.Host) -> None:
    """Whatever exists lies on a device, files and directories of one place on the same."""
    numbers = host.device("/proc/loadavg")
    assert numbers is not None
    assert all(number >= 0 for number in numbers)
    assert host.device("/proc") == numbers
    assert host.device("/proc/absent") is None


def test_space_is_known_where_a_file_is(host: machine.Host) -> None:
    """Free bytes are some of all; there are none of a path that is not there."""
    space = host.space("/proc/loadavg")
    assert space is not None
    assert 0 <= space.free_bytes <= space.total_bytes
    assert space.total_bytes > 0
    assert host.space("/proc/absent") is None


def test_children_count_once_they_are_waited_for() -> None:
    """A child that worked and ended is in the sum of children and not in our own."""
    host = machine.LocalHost()
    children, own = host.children_cpu_s(), host.own_cpu_s()
    child = subprocess.run(
        [sys.executable, "-c", "import os, time\nwhile time.process_time() < 0.2: pass"], check=True
    )
    assert child.returncode == 0
    assert host.children_cpu_s() - children >= 0.2
    assert host.own_cpu_s() - own < host.children_cpu_s() - children


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    """Files longer than one read are put together; bytes that are no text do not stop it."""
    (tmp_path / "large").write_bytes(b"0123456789\xff" * 50_000)
    text = machine.LocalHost(root=tmp_path).read("/large")
    assert text is not None
    assert len(text) == 550_000
    assert machine.LocalHost(root=tmp_path).read("/") is None  # a directory counts as absent


@pytest.fixture(params=[machine.Clock, FakeClock])
def clock(request: pytest.FixtureRequest) -> machine.Clock:
    """Return each implementation in turn."""
    made: machine.Clock = request.param()
    return made


def test_sleep_lasts_at_least_as_long_as_asked(clock: machine.Clock) -> None:
    """The monotonic clock has moved by it; the wall clock counts seconds since the epoch."""
    monotonic = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() - monotonic >= 0.01 - 1e-9
    assert clock.now() > 1_700_000_000


def test_a_stepped_wall_leaves_monotonic_alone() -> None:
    """Setting the wall clock is visible against the monotonic one: that is how jumps are seen."""
    clock = FakeClock()
    wall, monotonic = clock.now(), clock.monotonic()
    clock.step_wall(-3600)
    clock.advance(5)
    assert clock.now() - wall == -3595
    assert clock.monotonic() - monotonic == 5


def test_looks_come_at_once_after_each_pause_and_once_too_late() -> None:
    """The pauses are used up in order, the last again and again, until a look began too late."""
    clock = FakeClock()
    assert list(machine.looks(clock, 3.0, 0.5, 1.0)) == pytest.approx([0.0, 0.5, 1.5, 2.5, 3.5])
    assert clock.slept == [0.5, 1.0, 1.0, 1.0]


def test_a_look_that_finds_it_ends_the_wait() -> None:
    """No pause is made before the first look, and none after one that found it."""
    clock, answers = FakeClock(), iter([False, False, True, False])
    assert machine.until(lambda: next(answers), clock, 10.0, 0.25)
    assert clock.slept == [0.25, 0.25]
    assert machine.until(lambda: True, clock, 0.0, 1.0)
    assert len(clock.slept) == 2


def test_what_never_holds_is_given_up() -> None:
    """Time that the looks themselves take counts, and the last one begins after the end."""
    clock = FakeClock()

    def slow() -> bool:
        clock.advance(4.0)
        return False

    begun = clock.monotonic()
    assert not machine.until(slow, clock, 10.0, 1.0)
    assert clock.monotonic() - begun == pytest.approx(19.0)  # looks at 0, 5, 10, 15


def test_a_limit_is_written_as_the_kernel_wants_it(tmp_path: Path) -> None:
    """A word of four bytes, while the file is held open; released, nothing is open any more."""
    device = tmp_path / "latency"
    device.write_bytes(struct.pack("=i", 2_000_000_000))
    latency = machine.CpuLatency(device)
    assert latency.obstacle() is None
    assert latency.in_force_us() == 2_000_000_000
    latency.hold(20)
    assert device.read_bytes()[:4] == struct.pack("=i", 20)
    assert latency.in_force_us() == 20
    latency.release()
    latency.release()
    assert latency._held is None


def test_without_the_device_there_is_no_limit(tmp_path: Path) -> None:
    """Nothing is visible, and nothing can be asked for."""
    latency = machine.CpuLatency(tmp_path / "absent")
    assert latency.in_force_us() is None
    assert "is not there" in str(latency.obstacle())
    with pytest.raises(TargetError, match="refused a wake-up of 5 us"):
        latency.hold(5)


def test_a_free_port_can_be_used() -> None:
    """What was found free passes the check."""
    port = machine.free_port()
    assert 1024 < port < 65536
    machine.require_free_port(port)


def test_a_taken_port_is_refused() -> None:
    """The sentence names the port; the hint says how to get a free one."""
    with closing(socket.socket()) as holder:
        holder.bind((machine.LOOPBACK, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PreflightError, match=f"port {port} on 127.0.0.1") as caught:
            machine.require_free_port(port)
    assert "port:" in caught.value.hint
    assert caught.value.exit_code is ExitCode.REFUSED


_TOKEN = "a-token"


class _Service(BaseHTTPRequestHandler):
    """Answers as Amazon's does, IMDSv2 only."""

    def do_PUT(self) -> None:
        """Hand out a token for a minute."""
        sound = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") == "60"
        self._answer(200 if sound and self.path == "/latest/api/token" else 400, _TOKEN)

    def do_GET(self) -> None:
        """Tell the type to who has the token."""
        sound = self.headers.get("X-aws-ec2-metadata-token") == _TOKEN
        self._answer(200 if sound else 401, "m6i.large\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


class _Refusing(_Service):
    """Answers, but not this question."""

    def do_PUT(self) -> None:
        """Refuse."""
        self._answer(403, "no")


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a service on the loopback network."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_type_is_asked_with_a_token() -> None:
    """Both requests are those that the service demands."""
    with served(_Service) as address:
        assert machine.instance_type(address) == "m6i.large"


def test_a_service_that_refuses_is_said() -> None:
    """Its status is in the sentence; its text is not taken for a type."""
    with served(_Refusing) as address, pytest.raises(TargetError, match="answered 403"):
        machine.instance_type(address)


def test_no_service_is_said() -> None:
    """Outside of a cloud nothing answers, which is no crash."""
    with pytest.raises(TargetError, match="no metadata service answers"):
        machine.instance_type(f"127.0.0.1:{machine.free_port()}")


_INFO = (
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "30 22 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=65536k\n"
    "31 22 8:1 / /srv/my\\040data rw - xfs /dev/sda1 rw\n"
    "32 31 8:2 / /srv/my\\040data rw - xfs /dev/sda2 rw\n"
)
_MOUNTS = (
    "/dev/vda / ext4 rw 0 0\nhugetlbfs /dev/huge\\040pages hugetlbfs rw,pagesize=1024M 0 0\ntorn\n"
)


def test_the_innermost_mount_holds_a_directory() -> None:
    """A later mount hides an earlier one at its place; a name that only begins so is outside."""
    host = FakeHost(files={"/proc/self/mountinfo": _INFO})
    found = machine.mount_of(host, "/srv/my data/pg")
    assert found is not None
    assert (found.source, found.number, found.file_system) == ("/dev/sda2", "8:2", "xfs")
    other = machine.mount_of(host, "/srv/my database")
    assert other is not None
    assert other.at == "/"
    shm = machine.mount_of(host, "/dev/shm")  # noqa: S108 - a mount table's
    assert shm is not None
    assert shm.options == ("rw", "size=65536k")
    assert machine.mount_of(FakeHost(files={}), "/srv") is None


def test_a_torn_line_of_mounts_is_left_out() -> None:
    """The others are there, with blanks in their names."""
    first, second = machine.parse_mounts(_MOUNTS)
    assert (first.at, first.source) == ("/", "/dev/vda")
    assert (second.at, second.options) == ("/dev/huge pages", ("rw", "pagesize=1024M"))
    assert list(machine.parse_mounts(None)) == []


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a b", r"a\040b"),
        ("a\tb", r"a\011b"),
        ("a\nb", r"a\012b"),
        (r"a\b", r"a\134b"),
        (r"a\040b", r"a\134040b"),
        ("a\u2003b\x0cc\x85d\xa0e", "a\u2003b\x0cc\x85d\xa0e"),
    ],
)
def test_a_mount_is_found_whatever_its_name(name: str, written: str) -> None:
    """The kernel writes four characters in octal, the backslash too, and no others."""
    mounts = f"proc /proc proc rw 0 0\n/dev/loop7 /srv/{written} xfs rw,nosuid 0 0\n"
    assert [each.at for each in machine.parse_mounts(mounts)] == ["/proc", f"/srv/{name}"]
    (found,) = machine.parse_mountinfo(f"32 31 8:2 / /srv/{written} rw - xfs /dev/loop7 rw\n")
    assert (found.at, found.source) == (f"/srv/{name}", "/dev/loop7")


def test_a_torn_mountinfo_is_an_error() -> None:
    """Half a line might be that of the mount that is looked for."""
    with pytest.raises((ValueError, LookupError), match=r"unpack|index"):
        list(machine.parse_mountinfo("22 1 254:0\n"))


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "max 100000", "cpu.cfs_quota_us": "5", "cpu.cfs_period_us": "5"}, None),
        ({"cpu.cfs_quota_us": "60000\n", "cpu.cfs_period_us": "100000\n"}, 0.6),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.cfs_quota_us": "60000\n"}, None),
        ({"cpu.max": "1 0"}, None),
        ({}, None),
    ],
)
def test_a_quota_is_worth_cpus_in_both_versions(files: dict[str, str], cpus: float | None) -> None:
    """No quota, a file that is absent and a period of 0 are worth nothing that could be said."""
    assert machine.group_quota(files.get) == cpus


def test_a_cpu_set_is_read_by_whichever_name_it_has() -> None:
    """What is in effect comes before what was asked for; a file that is odd says nothing."""
    assert machine.group_cpus({"cpuset.cpus.effective": "0-1\n", "cpuset.cpus": "0-3"}.get) == (
        0,
        1,
    )
    assert machine.group_cpus({"cpuset.effective_cpus": "", "cpuset.cpus": "2"}.get) == (2,)
    assert machine.group_cpus({"cpuset.cpus": "x"}.get) is None
    assert machine.group_cpus({}.get) is None


def test_groups_are_of_the_hierarchy_that_has_the_controller() -> None:
    """The nearest comes first, and the root of the mount last."""
    text = "5:memory:/m\n4:cpu,cpuacct:/a/b\n0::/c\n"
    host = FakeHost(files={"/proc/7/cgroup": text})
    root = "/sys/fs/cgroup"
    places = [f"{root}/{name}" for name in ("cpu,cpuacct", "cpu", "cpuacct")]
    assert list(machine.groups_around(host, 7, "cpu")) == [
        f"{place}{below}" for place in places for below in ("/a/b", "/a", "")
    ]
    of_version_2 = [f"{root}/c", root, f"{root}/unified/c", f"{root}/unified"]
    assert list(machine.groups_around(host, 7, "hugetlb")) == of_version_2


@given(text=st.text(), directory=st.text())
def test_whatever_a_file_holds_no_reader_fails(text: str, directory: str) -> None:
    """Only mountinfo, whose place matters, says that it is torn."""
    machine.innermost(machine.parse_mounts(text), directory)
    files = {"/proc/7/cgroup": text, "/proc/self/mountinfo": text, "/proc/7/status": text}
    host = FakeHost(files=files)
    machine.memory_limits(host, 7)
    machine.cpu_limits(host, 7)
    machine.group_quota(lambda _: text)
    cpus = machine.group_cpus(lambda _: text)
    assert cpus is None or all(cpu >= 0 for cpu in cpus)
