"""Commands that are printed to be pasted, by root, do what is meant with any path."""

import shlex
import subprocess
from pathlib import Path

import pytest

from steelyard.core.stack import KnobKind
from steelyard.core.wording import InputError, quoted
from steelyard.gateways.placed_files import PlacedFiles
from steelyard.tuning.apply.doors import read_plan
from steelyard.tuning.apply.kernel import FileDoor
from support.database_in_cluster import Operator, cluster_knob
from support.stack import knob

STRANGE = 'a b/it\'s $(touch hit) "so"'


@pytest.mark.parametrize("is_rendered", [False, True])
def test_files_are_written_where_they_belong(tmp_path: Path, *, is_rendered: bool) -> None:
    """By a real shell, below directories whose names have blanks, quotes and a command."""
    place, content = tmp_path / STRANGE / "the file", "it's = 'so'\n"
    rendered = tmp_path / "plan's files" / "ready"
    rendered.parent.mkdir()
    rendered.write_text(content)
    known = {str(place): rendered} if is_rendered else {}
    door = FileDoor(files=PlacedFiles(), rendered=known)
    script = "\n".join(door.commands(knob(KnobKind.FILE, str(place), content)))
    subprocess.run(["/bin/sh", "-euc", script], cwd=tmp_path, check=True)
    assert place.read_text() == content
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {place, rendered}


def test_a_context_and_a_directory_are_one_word_each() -> None:
    """A context may be called as anybody likes; a plan may lie anywhere."""
    world = Operator()
    world.api.context = "my lab; rm -rf /"
    (command,) = world.door().commands(cluster_knob())
    assert shlex.split(command)[2] == world.api.context
    with pytest.raises(InputError) as caught:
        read_plan(Path(STRANGE))
    assert shlex.split(caught.value.hint)[-1] == STRANGE


def test_a_plain_path_is_shown_as_it_is() -> None:
    """Quotes are for those that need them."""
    assert quoted(Path("/var/lib/campaigns/one")) == "/var/lib/campaigns/one"
