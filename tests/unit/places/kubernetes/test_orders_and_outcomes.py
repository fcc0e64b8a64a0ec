"""Commands as orders, and what an agent says of them."""

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.outside import Command
from steelyard.places.agent.agent import AgentHome, compose
from steelyard.places.agent.outcomes import read_outcome

_HOME = AgentHome(script="/steelyard/agent.sh", work="/steelyard/work", logs="/steelyard/logs")
_SHA = hashlib.sha256(b"out\n").hexdigest()
_INLINE = base64.b64encode(b"out\n").decode()
_WHOLE = f"""beat
state ended
status 0
began 1795358092.711892
ended 1795358093.711892
program 1m0.250s 0m0.500s
file stdout 4 {_SHA}
inline stdout {_INLINE}
file stderr 70000 {_SHA}
log 12 log-0.77
log 9 a name with spaces
complete
clock 1795358094.0
"""


def test_an_outcome_is_read_whole() -> None:
    """Times, output and logs; what is too much for an answer is None."""
    outcome = read_outcome(_WHOLE)
    assert (outcome.exit_status, outcome.ended_at - outcome.began_at) == (0, 1.0)
    assert outcome.program_s == 60.75
    assert [each.content for each in outcome.printed] == [b"out\n", None]
    assert outcome.logs == (("log-0.77", 12), ("a name with spaces", 9))


@pytest.mark.parametrize(
    ("status", "exit_status"), [(0, 0), (3, 3), (127, 127), (143, -15), (137, -9), (255, 255)]
)
def test_a_signal_is_a_negative_status(status: int, exit_status: int) -> None:
    """As a process of this machine has it."""
    text = _WHOLE.replace("status 0", f"status {status}")
    assert read_outcome(text).exit_status == exit_status


@given(cut=st.integers(0, len(_WHOLE) - len("complete\nclock 1795358094.0\n")))
def test_half_an_outcome_is_never_taken_for_a_whole_one(cut: int) -> None:
    """Wherever the text ends, it is refused."""
    with pytest.raises(ValueError, match=r"\S"):
        read_outcome(_WHOLE[:cut])


@given(place=st.integers(0, len(_INLINE) - 1), letter=st.sampled_from("ABCxyz019+/"))
def test_damaged_output_is_never_taken(place: int, letter: str) -> None:
    """Another letter is another checksum, unless it says the same bytes."""
    damaged = _INLINE[:place] + letter + _INLINE[place + 1 :]
    text = _WHOLE.replace(f"inline stdout {_INLINE}", f"inline stdout {damaged}")
    try:
        outcome = read_outcome(text)
    except ValueError:
        return
    assert outcome.printed[0].content == b"out\n"


def test_only_paths_below_a_root_are_changed(tmp_path: Path) -> None:
    """A path of the image stays what it is, also where this machine has such a file."""
    (tmp_path / "a.sql").write_text("x")
    argv = (
        "pgbench",
        "/usr/bin/env",
        f"--file={tmp_path}/a.sql@3",
        f"--log-prefix={tmp_path}/log",
        f"-x={tmp_path}/no/such/directory/log",
        "--plain=1",
    )
    order = compose(Command(argv=argv), "id", [tmp_path], _HOME)
    script = order.command.decode()
    (enclosed,) = order.enclosed
    assert f"--file={enclosed.place}@3" in script
    assert "--log-prefix=/steelyard/logs/id/log" in script
    assert "/usr/bin/env" in script
    assert f"-x={tmp_path}/no/such/directory/log" in script
    assert order.logs == tmp_path
    assert order.argv == argv


def test_a_root_that_is_only_a_beginning_of_a_name_is_none(tmp_path: Path) -> None:
    """What begins like a root, and is another directory, is not below it."""
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "f").write_text("x")
    order = compose(Command(argv=("cat", f"{tmp_path}/ab/f")), "id", [tmp_path / "a"], _HOME)
    assert not order.enclosed


def test_what_a_program_says_of_its_files_names_them_as_they_are_here(tmp_path: Path) -> None:
    """Messages of psql lead to the user's own script."""
    (tmp_path / "a.sql").write_text("x")
    order = compose(Command(argv=("psql", f"--file={tmp_path}/a.sql")), "id", [tmp_path], _HOME)
    said = f"psql:{order.enclosed[0].place}:1: ERROR"
    assert order.as_here(said) == f"psql:{tmp_path}/a.sql:1: ERROR"


def test_no_repr_shows_what_is_sent(tmp_path: Path) -> None:
    """Environment and scripts stay out of logs."""
    (tmp_path / "a.sql").write_text("hidden-text")
    command = Command(argv=("psql", f"{tmp_path}/a.sql"), environment={"PGOPTIONS": "hidden-too"})
    assert "hidden" not in repr(compose(command, "id", [tmp_path], _HOME))
