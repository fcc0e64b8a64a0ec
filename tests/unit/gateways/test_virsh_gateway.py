"""What ``virsh`` says, and what it is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import PrivilegeError, SteelyardError, TargetError
from steelyard.gateways.virsh import Domains, parse_delays

# Recorded with libvirt 9.0.0.
_STATISTICS = """\
Domain: 'pg-node'
  vcpu.current=2
  vcpu.maximum=2
  vcpu.1.state=1
  vcpu.1.time=1150000000
  vcpu.1.wait=0
  vcpu.1.delay=318621931
  vcpu.0.state=1
  vcpu.0.time=2960000000
  vcpu.0.wait=0
  vcpu.0.delay=267842784
Domain: 'old'
  vcpu.current=1

"""


def _virsh(*words: str, **answer: object) -> tuple[Domains, FakeProcesses]:
    processes = FakeProcesses()
    processes.on("virsh", *words, answer=Answer(**answer))  # type: ignore[arg-type]
    return Domains(processes=processes), processes


def test_names_are_lines_without_the_empty_last_one() -> None:
    """``virsh list`` ends with an empty line, which is no domain; running ones are asked alone."""
    virsh, processes = _virsh("list", stdout="pg-node\nother one\n\n")
    assert virsh.names() == ("pg-node", "other one")
    assert "--all" in processes.ran[-1].argv
    virsh.names(running=True)
    assert "--all" not in processes.ran[-1].argv


def test_messages_are_asked_for_in_the_language_of_the_sources() -> None:
    """They are told apart by their words, so that no translation may come."""
    virsh, processes = _virsh("list")
    virsh.names()
    assert processes.ran[-1].environment["LC_ALL"] == "C"
    assert "--connect=qemu:///system" in processes.ran[-1].argv


def test_an_absent_domain_is_none_and_its_removal_no_error() -> None:
    """Absence is an answer: libvirt's words for it are no failure."""
    words = "error: failed to get domain 'nope'\n"
    virsh, processes = _virsh("--domain=nope", stderr=words, exit_status=1)
    assert virsh.xml("nope") is None
    assert not virsh.autostart("nope")
    virsh.undefine("nope")
    assert "--keep-nvram" in processes.ran[-1].argv


def test_a_name_is_never_taken_for_an_option() -> None:
    """A domain may be called like an option of virsh."""
    virsh, processes = _virsh("dumpxml", stdout="<domain/>")
    assert virsh.xml("--help", defined=True) == "<domain/>"
    assert processes.ran[-1].argv[-2:] == ("--domain=--help", "--inactive")


_UUID = "c7a5fdbd-edaf-9455-926a-d65c16db1809"


@pytest.mark.parametrize("name", ["2", "+2", _UUID, _UUID.upper()])
def test_a_name_is_never_taken_for_the_id_of_another_domain(name: str) -> None:
    """A number is an id for virsh, and a name of that form another domain's: the uuid is not."""
    other = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    virsh, processes = _virsh("dumpxml", stdout=f"<domain><name>{name}</name></domain>")
    processes.on("virsh", "undefine")
    processes.on("virsh", "list", answer=Answer(stdout=f"{_UUID} 22\n{other} {name}\n\n"))
    assert virsh.xml(name) is not None
    virsh.undefine(name)
    addressed = [run.argv[4] for run in processes.ran if "list" not in run.argv]
    assert addressed == [f"--domain={other}"] * 2
    processes.on("virsh", "list", answer=Answer(stdout=f"{_UUID} 22\n"))
    assert virsh.xml(name) is None


def test_a_definition_of_another_domain_is_never_taken_for_the_one_asked_for() -> None:
    """Whatever virsh makes of a name, what it tells has to have it; escapes are no other name."""
    virsh, processes = _virsh("dumpxml", stdout="<domain><name>other</name></domain>")
    with pytest.raises(TargetError, match="asked for the domain mine and told of other"):
        virsh.xml("mine")
    told = "<domain><name>a&amp;b&apos;s</name></domain>"
    processes.on("virsh", "dumpxml", answer=Answer(stdout=told))
    assert virsh.xml("a&b's") == told


def test_a_definition_is_validated_and_no_file_is_needed() -> None:
    """The schema is always asked: without it libvirt drops what it does not know."""
    virsh, processes = _virsh("define")
    virsh.define("<domain/>")
    assert "--validate" in processes.ran[-1].argv
    assert processes.stdin[-1] == "<domain/>"


@pytest.mark.parametrize(
    ("words", "error", "fact"),
    [
        ("error: Failed to connect socket to '/run/libvirt/libvirt-sock'", TargetError, "no lib"),
        ("error: authentication unavailable: no polkit agent", PrivilegeError, "admit"),
        ("error: Failed to connect socket: Permission denied", PrivilegeError, "admit"),
        ("error: XML document failed to validate against schema", TargetError, "define failed"),
    ],
)
def test_failures_say_what_is_so(words: str, error: type[SteelyardError], fact: str) -> None:
    """No libvirt, no permission and a refusal are different errors, each with libvirt's words."""
    virsh, _ = _virsh("define", stderr=words, exit_status=1)
    with pytest.raises(error, match=fact) as caught:
        virsh.define("<domain/>")
    assert words in caught.value.message


def test_a_password_is_seen_by_what_is_left_out() -> None:
    """A definition that differs with security information has a password."""
    virsh, processes = _virsh("dumpxml", stdout="<domain/>")
    assert not virsh.has_secrets("pg-node")
    processes.on("virsh", "--security-info", answer=Answer(stdout="<domain passwd='x'/>"))
    assert virsh.has_secrets("pg-node")


def test_delays_come_by_domain_in_the_order_of_virtual_cpus() -> None:
    """Nanoseconds become seconds; a domain of an old libvirt has none."""
    assert parse_delays(_STATISTICS) == {"pg-node": (0.267842784, 0.318621931), "old": ()}


@given(text=st.text(alphabet=st.sampled_from("Domain: 'vcpu.0123delay=\n x")))
def test_no_text_breaks_the_reading_of_delays(text: str) -> None:
    """Whatever virsh says, delays are numbers that are not negative."""
    assert all(delay >= 0 for delays in parse_delays(text).values() for delay in delays)
