"""The ceilings of words: patterns match bad sentences and no good ones, and ceilings only fall."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import copyfile
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "words.py"
TOLD = "told, asked, said, seen"
NOBODY = "nobody, nothing, none"
SENTENCES = [
    (
        "beside",
        "A try that is bearing neighbours goes on beside them.",
        "With `tolerate_neighbours`, foreign load makes a run suspect, not invalid.",
    ),
    (
        "comes about, is had",
        "In names and labels; for looking none, or one of a moment.",
        "Used in names and labels. Empty for a dry run.",
    ),
    (
        "private words",
        "at the assumed noise 6 min do not decide 3 % in the results",
        "6 min are too short to detect a 3 % difference.",
    ),
    (
        TOLD,
        "The law does not fit, so no N* is told.",
        "The model does not fit these data, so the report gives no peak load (N*).",
    ),
    (
        TOLD,
        "vm.swappiness was asked to be '1' and is '60'.",
        "vm.swappiness is 60, the plan sets 1.",
    ),
    (
        TOLD,
        "so each is asked for, and --yes leaves those that run",
        "you are asked about each; --yes skips running ones.",
    ),
    (
        "is no noun",
        "Steelyard is no superuser at H",
        "Not connected as superuser: there is no access to superuser-only settings.",
    ),
    ("is no noun", "--fail-if: `faster < 3%` is no condition", "--fail-if: invalid condition"),
    (
        NOBODY,
        "unknown: it takes a measurement, which nobody took",
        "not measured (--no-ping-pong)",
    ),
    (NOBODY, "Under get none is clearly faster.", "get: clear changes: none"),
    (NOBODY, "None of the runs counts.", "Return None when the file is absent."),
    (
        "what or who first",
        "What nobody saw is neither good nor bad.",
        "A missing measurement never counts.",
    ),
    (
        "what or who first",
        "Lost; who has the address\ncan read all campaigns.",
        "What is a block?",
    ),
    (
        "where for if",
        "Where sessions go through a pooler, no session has settings.",
        "Behind a pooler, sessions cannot keep their own settings.",
    ),
    ("of first", "Of results that do not tell theirs.", "Of course a query waits."),
    ("that is there", "a server that is already there", "an existing server"),
    ("stands for is written", "which stands below the table", "which follows the table"),
    (
        "double negation",
        "after which no write is taken without a sign",
        "A write needs a sign. No sign: writes stop.",
    ),
    (
        "anew, likewise, else",
        "What the files are; else it is seen.",
        "This may belong to someone else's campaign.",
    ),
    ("anew, likewise, else", "made anew", "recreated"),
]


@pytest.fixture(scope="module")
def words() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("words", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Project:
    """A small project with the script in it, whose ceilings fit what it holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ceilings = root / ".ci" / "words.toml"
        for folder in (".ci", "docs/targets", "src"):
            (root / folder).mkdir(parents=True)
        copyfile(SCRIPT, root / ".ci" / "words.py")
        copyfile(SCRIPT.with_suffix(".toml"), self.ceilings)
        (root / "README.md").write_text("# A project\n")
        self.run("--lower")

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Run the script and return its exit code and lines."""
        command = [sys.executable, str(self.root / ".ci" / "words.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    def ceiling(self, habit: str, column: str) -> int:
        """Return a ceiling as it is written."""
        ceiling = tomllib.loads(self.ceilings.read_text())[habit][column]
        assert isinstance(ceiling, int)
        return ceiling


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project without any habit."""
    return Project(tmp_path)


@pytest.mark.parametrize(("habit", "bad", "good"), SENTENCES)
def test_patterns_match_bad_sentences_only(
    words: ModuleType, habit: str, bad: str, good: str
) -> None:
    """Each habit is matched in a sentence that has it, and no habit in the better sentence."""

    def habits_of(sentence: str) -> set[str]:
        text = words.Text("docs", Path("page.md"), (1, 2), sentence)
        return {place.habit for place in words.places_in(text)}

    assert habit in habits_of(bad)
    assert habits_of(good) == set()


def test_every_habit_has_an_example(words: ModuleType) -> None:
    """The test above leaves no pattern out, and the kept ceilings have a row for every count."""
    assert {habit for habit, _, _ in SENTENCES} == set(words.HABITS)
    ceilings = tomllib.loads(SCRIPT.with_suffix(".toml").read_text())
    assert {row: tuple(ceiling) for row, ceiling in ceilings.items()} == words.COLUMNS


def test_a_count_above_its_ceiling_fails(project: Project) -> None:
    """One more place fails the check, and ``--lower`` does not raise the ceiling."""
    assert project.run()[0] == 0
    (project.root / "docs" / "page.md").write_text("The file is beside the page.\n")
    code, lines = project.run("--lower")
    assert code == 1
    assert "beside, docs: 1, more than the ceiling of 0" in lines
    assert project.ceiling("beside", "docs") == 0


def test_a_count_below_its_ceiling_passes_and_can_be_lowered(project: Project) -> None:
    """A ceiling above the count is reported with the new value, which ``--lower`` writes."""
    higher = project.ceilings.read_text().replace("fields = 0", "fields = 2", 1)
    project.ceilings.write_text(higher)
    code, lines = project.run()
    assert code == 0
    assert "each, fields: 0; lower the ceiling of 2 to 0" in lines
    assert project.run("--lower")[0] == 0
    assert project.ceiling("each", "fields") == 0
    assert not [line for line in project.run()[1] if "ceiling" in line]


def test_places_are_listed_with_their_lines(project: Project) -> None:
    """Each kind of text is read, with its file and line; code is not."""
    page = "# Title\n\n```text\nbeside a block\n```\n\nWord `beside` word\n\n- it is beside it\n"
    (project.root / "docs" / "targets" / "page.md").write_text(page)
    (project.root / "src" / "verb.py").write_text(
        '"""The module lies beside others.\n\nThis part is beside the point.\n"""\n\n\n'
        '@click.command("verb")\n@click.option("--dir", help="A file beside it.")\n'
        'def command():\n    """Write a file.\n\n    It is beside others.\n    """\n'
        '    print(f"{name} lies beside {other}", "beside")\n'
    )
    assert project.run("--show", "beside")[1] == [
        "docs/targets/page.md:9: docs: - it is beside it",
        "src/verb.py:1: docstrings: The module lies beside others.",
        "src/verb.py:8: help: A file beside it.",
        "src/verb.py:12: help: It is beside others.",
        "src/verb.py:14: messages: _ lies beside _",
    ]


def test_banned_names_count_as_parameters_and_fields(project: Project) -> None:
    """A parameter and an annotated field count; a local and a lambda's parameter are shown."""
    (project.root / "src" / "module.py").write_text(
        "class Row:\n    told: int\n\n\n"
        "def total(told, *, key=lambda told: told):\n    told = key(told)\n    return told\n"
    )
    _, lines = project.run()
    assert [line for line in lines if "ceiling" in line] == [
        "told, parameters: 1, more than the ceiling of 0",
        "told, fields: 1, more than the ceiling of 0",
    ]
    assert sorted(project.run("--show", "told")[1]) == [
        "src/module.py:2: fields: told",
        "src/module.py:5: locals: told",
        "src/module.py:5: parameters: told",
        "src/module.py:6: locals: told",
    ]
