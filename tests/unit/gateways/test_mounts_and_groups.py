"""Mount tables and files of control groups: what they say, wherever they were read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.host import FakeHost
from steelyard.gateways.host import (
    group_cpus,
    group_quota,
    groups_around,
    innermost,
    mount_of,
    parse_mountinfo,
    parse_mounts,
)

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
    found = mount_of(host, "/srv/my data/pg")
    assert found is not None
    assert (found.source, found.number, found.file_system) == ("/dev/sda2", "8:2", "xfs")
    other = mount_of(host, "/srv/my database")
    assert other is not None
    assert other.at == "/"
    shm = mount_of(host, "/dev/shm")  # noqa: S108 - a mount table's
    assert shm is not None
    assert shm.options == ("rw", "size=65536k")
    assert mount_of(FakeHost(files={}), "/srv") is None


def test_a_torn_line_of_mounts_is_left_out() -> None:
    """The others are there, with blanks in their names."""
    first, second = parse_mounts(_MOUNTS)
    assert (first.at, first.source) == ("/", "/dev/vda")
    assert (second.at, second.options) == ("/dev/huge pages", ("rw", "pagesize=1024M"))
    assert list(parse_mounts(None)) == []


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
    assert [each.at for each in parse_mounts(mounts)] == ["/proc", f"/srv/{name}"]
    (found,) = parse_mountinfo(f"32 31 8:2 / /srv/{written} rw - xfs /dev/loop7 rw\n")
    assert (found.at, found.source) == (f"/srv/{name}", "/dev/loop7")


def test_a_torn_mountinfo_is_an_error() -> None:
    """Half a line might be that of the mount that is looked for."""
    with pytest.raises((ValueError, LookupError), match=r"unpack|index"):
        list(parse_mountinfo("22 1 254:0\n"))


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
    assert group_quota(files.get) == cpus


def test_a_cpu_set_is_read_by_whichever_name_it_has() -> None:
    """What is in effect comes before what was asked for; a file that is odd says nothing."""
    assert group_cpus({"cpuset.cpus.effective": "0-1\n", "cpuset.cpus": "0-3"}.get) == (0, 1)
    assert group_cpus({"cpuset.effective_cpus": "", "cpuset.cpus": "2"}.get) == (2,)
    assert group_cpus({"cpuset.cpus": "x"}.get) is None
    assert group_cpus({}.get) is None


def test_groups_are_those_of_version_2_and_of_one_controller() -> None:
    """The nearest comes first, and the root of the mount last."""
    text = "5:memory:/m\n4:cpu,cpuacct:/a/b\n0::/c\n"
    found = list(groups_around(text, "cpu"))
    root = "/sys/fs/cgroup"
    assert found[:2] == [f"{root}/cpu,cpuacct/a/b", f"{root}/cpu/a/b"]
    assert found[4:6] == [f"{root}/cpu,cpuacct", f"{root}/cpu"]
    assert found[6:] == [f"{root}/c", f"{root}/unified/c", root, f"{root}/unified"]


@given(text=st.text(), directory=st.text())
def test_whatever_a_file_holds_no_reader_fails(text: str, directory: str) -> None:
    """Only mountinfo, whose place matters, says that it is torn."""
    innermost(parse_mounts(text), directory)
    list(groups_around(text, "cpu"))
    group_quota(lambda _: text)
    cpus = group_cpus(lambda _: text)
    assert cpus is None or all(cpu >= 0 for cpu in cpus)
