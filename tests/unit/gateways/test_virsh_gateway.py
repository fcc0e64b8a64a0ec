"""What is asked of ``virsh`` and of a machine over SSH, and what they answer."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import InputError, PrivilegeError, SteelyardError, TargetError
from steelyard.gateways.placed_files import FetchedHost, Wanted, parse_fetched, script
from steelyard.gateways.ssh import Destination, SshMachine, parse_destination
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


MARK = "mark-of-a-test"


def fetched(wanted: Wanted, shell: str = "sh") -> FetchedHost:
    """Return what the script brings when a shell of this machine runs it."""
    ended = subprocess.run(
        [shell, "-s"], input=script(wanted, MARK), capture_output=True, text=True, check=True
    )
    host = parse_fetched("a login shell said something\n" + ended.stdout, MARK)
    assert host is not None
    return host


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_script_brings_files_as_they_are(tmp_path: Path, shell: str) -> None:
    """With and without a last newline, empty, through wildcards; the absent stay absent."""
    texts = {"a b": "one\ntwo\n", "bare": "no newline", "empty": "", "it's": "$HOME `id` \\n\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "directory").mkdir()
    host = fetched(Wanted(files=(f"{tmp_path}/*", f"{tmp_path}/absent/*")), shell)
    assert host.files == {f"{tmp_path}/{name}": text for name, text in texts.items()}
    assert host.read(f"{tmp_path}/absent") is None
    assert set(host.names(str(tmp_path))) == set(texts)
    assert len(host.release().split()) == 2


def test_only_files_that_match_are_brought(tmp_path: Path) -> None:
    """A pattern of grep chooses among the files of a wildcard."""
    (tmp_path / "1").write_text("HugetlbPages:\t  0 kB\n")
    (tmp_path / "2").write_text("HugetlbPages:\t  53248 kB\n")
    wanted = Wanted(matching=((f"{tmp_path}/[0-9]*", "HugetlbPages:[[:space:]]*[1-9]"),))
    assert set(fetched(wanted).files) == {f"{tmp_path}/2"}


def test_numbers_and_directories_are_brought(tmp_path: Path) -> None:
    """A device file's 32 bits as a number; a link to a directory as the directory."""
    (tmp_path / "limit").write_bytes(b"\x0a\x00\x00\x00")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    wanted = Wanted(
        numbers=(f"{tmp_path}/limit", f"{tmp_path}/none"),
        directories=(f"{tmp_path}/link", f"{tmp_path}/none"),
    )
    host = fetched(wanted)
    assert host.held == {f"{tmp_path}/limit": 10}
    assert host.resolved == {f"{tmp_path}/link": str((tmp_path / "real").resolve())}


def test_a_fetched_machine_is_a_host() -> None:
    """It keeps the promises of the gateway to files; what a shell cannot say is None."""
    host = FetchedHost(files={"/proc/stat": "cpu  1\ncpu0 1\ncpu1 1\n"}, kernel="6.1 x86_64")
    assert host.names("/proc") == ("stat",)
    assert (host.cpus(), host.release()) == (2, "6.1 x86_64")
    assert host.device("/proc/stat") is None
    assert host.space("/proc/stat") is None


def test_a_second_look_replaces_the_first() -> None:
    """What both brought is the later one's, what one brought stays."""
    first = FetchedHost(files={"/a": "1", "/b": "1"}, kernel="6.1 x86_64")
    both = first.with_more(FetchedHost(files={"/b": "2"}))
    assert both == FetchedHost(files={"/a": "1", "/b": "2"}, kernel="6.1 x86_64")


@given(text=st.text(max_size=60))
def test_no_output_is_taken_for_a_machine_without_its_end(text: str) -> None:
    """Fuzz: an answer that was cut off is None, never half a machine."""
    assert parse_fetched(f"{text}\n{MARK} file /proc/stat\n{text}", MARK) is None
    whole = parse_fetched(f"{text}\n{MARK} file /proc/stat\n{text}\n{MARK} end\n", MARK)
    assert whole == FetchedHost(files={"/proc/stat": text})


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("ssh://db1", Destination(host="db1")),
        ("ssh://DB1/", Destination(host="DB1")),
        ("ssh://admin@db1:2222", Destination(host="db1", user="admin", port=2222)),
        ("ssh://[fe80::1]:22", Destination(host="fe80::1", port=22)),
    ],
)
def test_addresses_of_machines(uri: str, expected: Destination) -> None:
    """User and port may be there; names keep their case, since ~/.ssh/config knows them so."""
    assert parse_destination(uri) == expected


@pytest.mark.parametrize(
    "uri", ["db1", "http://db1", "ssh://", "ssh://db1/tmp", "ssh://db1:x", "ssh://a:secret@db1"]
)
def test_what_is_no_address_is_refused(uri: str) -> None:
    """The hint says the form; a password is refused and not repeated."""
    with pytest.raises(InputError) as caught:
        parse_destination(uri)
    assert caught.value.hint
    assert "secret" not in caught.value.message


def machine(answer: Answer, processes: FakeProcesses) -> SshMachine:
    """Return a machine behind an ssh that answers so."""
    processes.on("ssh", answer=answer)
    return SshMachine(destination=Destination(host="-db1", port=22), processes=processes)


def test_the_users_own_ssh_is_asked_once_and_never_for_a_password() -> None:
    """One call: no prompt, the script on standard input, no host that could be an option."""
    processes = FakeProcesses()
    with pytest.raises(TargetError):
        machine(Answer(stdout="hello\n"), processes).fetch(Wanted(files=("/proc/stat",)))
    (command,) = processes.ran
    assert command.argv[0] == "ssh"
    assert "BatchMode=yes" in command.argv
    assert command.argv[-3:] == ("--", "-db1", "sh -s")
    assert "/proc/stat" in processes.stdin[0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            Answer(exit_status=255, stderr="ssh: connect to host db1: Connection refused"),
            "cannot be reached over ssh: ssh: connect to host db1: Connection refused",
        ),
        (Answer(exit_status=127, stderr="sh: not found"), "did not run a shell script"),
        (Answer(stdout="\nmark file /proc/stat\ncpu"), "did not run a shell script"),
    ],
)
def test_failures_of_ssh_become_sentences(answer: Answer, told: str) -> None:
    """Unreachable, without a shell, cut off in the middle: each with a way out."""
    with pytest.raises(TargetError, match=told) as caught:
        machine(answer, FakeProcesses()).fetch(Wanted())
    assert caught.value.hint
