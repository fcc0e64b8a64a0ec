"""Wrong command lines: a sentence of fact, the way out, exit code 2, and nothing made."""

import os
import re
import shlex
from pathlib import Path

from command_line import EXPERIMENT, Shell

GOLDEN = Path(__file__).parent / "golden" / "refusals.txt"


def test_each_wrong_command_line_is_answered(shell: Shell) -> None:
    """Beside a sound ``x.yaml``, with nothing on standard output, and no password repeated.

    ``STEELYARD_UPDATE_GOLDEN=1`` writes the answers anew.
    """
    Path("x.yaml").write_text(EXPERIMENT)
    made = []
    for case in GOLDEN.read_text("utf-8").rstrip().split("\n\n$ "):
        command = case.splitlines()[0].removeprefix("$ ")
        code, out, err = shell.run(*shlex.split(command))
        assert (code, out) == (2, ""), command
        assert re.match(r"error: \S.*[^.]\n", err), command
        err = err.replace("python -m pytest.", "")  # what runs the tests is in the program's name
        made.append(f"$ {command}\n{err.rstrip()}")
    now = "\n\n".join(made) + "\n"
    assert [path.name for path in Path().iterdir()] == ["x.yaml"]
    answers = "".join(re.sub(r"^\$.*", "", now, flags=re.MULTILINE).split())
    assert "hunter2" not in answers
    assert ":secret@" not in answers
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(now, "utf-8")
    assert now == GOLDEN.read_text("utf-8")
