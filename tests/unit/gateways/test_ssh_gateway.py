"""A machine over SSH: the script brings what was asked for, and failures become sentences."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import InputError, TargetError
from steelyard.gateways.placed_files import FetchedHost, Wanted, parse_fetched, script
from steelyard.gateways.ssh import Destination, SshMachine, parse_destination

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
