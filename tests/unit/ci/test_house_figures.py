"""The figures of the house: they are counted in the tree that the script stands in."""

import subprocess
import sys
from pathlib import Path
from shutil import copyfile

SCRIPT = Path(__file__).parents[3] / ".ci" / "house_figures.py"
FILES = {
    "src/steelyard/core/one.py": "A = 1\n",
    "src/steelyard/core/two.py": "from steelyard.core import one\n\nB = one.A\n",
    "tests/unit/test_one.py": "def test_one() -> None:\n    assert True\n",
}


def test_figures_are_counted(tmp_path: Path) -> None:
    """A figure that were written down would let every limit hold for ever."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / ".ci").mkdir()
    copy = copyfile(SCRIPT, tmp_path / ".ci" / SCRIPT.name)
    done = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=True)
    figures = [line.partition(";")[0] for line in done.stdout.splitlines()]
    assert figures == [
        "lines of src: 4",
        "lines of tests: 2",
        "files: 2",
        "longest file: 3",
        "import edges: 1",
        "modules with one importer: 1",
        "branches on kind or system: 0",
    ]
