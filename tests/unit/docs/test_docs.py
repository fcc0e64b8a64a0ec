"""The documentation says what the program does: commands, files, keys, codes, names, links."""

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import click
import pytest
from click.testing import CliRunner

from fakes.campaigns import Stage, an_experiment
from steelyard.campaign.file.files import load_experiment
from steelyard.cli.main import cli
from steelyard.core.wording import GIB, ExitCode, ExperimentFileError, PreflightError
from steelyard.record import journal as entries
from steelyard.tuning.profiles import MachineFacts, profiled_settings
from support import doc_pages, keys_page

FACTS = MachineFacts(cpus=4.0, memory_bytes=8 * GIB, free_disk_bytes=100 * GIB)
# In halves: no file of the project holds such a name, this one neither.
REGISTRIES = tuple(
    "".join(halves)
    for halves in (
        ("pypi", ".org"),
        ("python", "hosted"),
        ("npm", "js"),
        ("crates", ".io"),
        ("ruby", "gems"),
        ("proxy.", "golang"),
        ("conda.", "anaconda"),
    )
)
# Neither this machine's paths nor words about how the text came about.
FOREIGN = re.compile(r"/work/|/root/|/home/\w|issue \d|\.\./shared", re.IGNORECASE)
KEY_PAGE = "docs/experiment-file.md"


# Verbs that start no server and reach no other machine, whatever follows.
_STARTS_NOTHING = {
    *(("presets",), ("schema",), ("estimate",), ("list",), ("show",), ("report",), ("explain",)),
    *(("compare",), ("article",), ("claims",), ("import",), ("stack", "plan")),
    *(("kubernetes", "rbac"), ("kubernetes", "storage-classes")),
}


def is_cheap(argv: tuple[str, ...]) -> bool:
    """Return whether a command can run anywhere: it needs no server and no cluster."""
    if argv[0] == "try":
        return False  # it asks a server what would be touched; test_turns_of_endpoints runs it
    return bool({"--dry-run", "--help"} & set(argv) or {argv[:1], argv[:2]} & _STARTS_NOTHING)


@pytest.fixture
def shown_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, made the current one, with every file that the pages show."""
    doc_pages.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def buffers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of a campaign as the pages speak of it."""
    place = tmp_path_factory.mktemp("buffers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEELYARD_CACHE", str(place / "cache"))
        made = an_experiment(workloads=("reads", "writes"), loads=4)
        names = zip(made.configurations, ("default", "buffers"), strict=True)
        configurations = tuple(replace(configuration, name=name) for configuration, name in names)
        Stage.new(
            replace(made, baseline="default", configurations=configurations), place / "record"
        ).run()
    return place / "record"


@pytest.fixture
def shown_things(argv: tuple[str, ...], shown_files: Path, buffers: Path) -> None:
    """Make what a shown command works on, beside files: plan, logs, campaigns, examples."""
    if argv[:2] == ("stack", "apply"):
        shown = next(other for other in doc_pages.commands() if other[:2] == ("stack", "plan"))
        assert CliRunner().invoke(cli, shown).exit_code == 0
    examples = doc_pages.ROOT / "docs" / "examples"
    if any("protocol" in word for word in argv):
        copytree(examples / "protocol", shown_files / "docs" / "examples" / "protocol")
    named = {word for word in argv if word.startswith("campaigns/")}
    for name in named or {"campaigns/buffers"} if argv[0] == "report" else named:
        copytree(buffers, shown_files / name)


def _expanded(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield the words as a shell hands them on."""
    for word in argv:
        yield from (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]


@pytest.mark.slow
@pytest.mark.usefixtures("shown_things")
@pytest.mark.parametrize("argv", [*filter(is_cheap, doc_pages.commands())], ids=" ".join)
def test_cheap_commands_succeed(argv: tuple[str, ...]) -> None:
    """Every shown command that starts no server runs as it stands, on the files shown."""
    result = CliRunner().invoke(cli, [*_expanded(argv)])
    if isinstance(result.exception, PreflightError):
        lacking = str(result.exception)
        if "free; this campaign needs" in lacking or "is not installed" in lacking:
            pytest.skip(lacking)
    assert result.exit_code == 0, (result.exception, result.output)


@pytest.mark.parametrize(
    "argv", [*doc_pages.commands(), *doc_pages.inline_commands()], ids=" ".join
)
def test_every_command_can_be_parsed(argv: tuple[str, ...]) -> None:
    """Verbs and options of all commands exist, also of those in running text."""
    words = ("steelyard", *argv)
    command: click.Command = cli
    context: click.Context | None = None
    try:
        while isinstance(command, click.Group):
            context = command.make_context(words[0], list(words[1:]), parent=context)
            words = (*context._protected_args, *context.args)
            verb = command.get_command(context, words[0]) if words else None
            assert verb is not None, f"there is no verb {words[:1]}"
            command = verb
        command.make_context(words[0], list(words[1:]), parent=context)
    except click.MissingParameter:
        assert argv in doc_pages.inline_commands()  # a verb and what it is about, in running text
    except click.exceptions.Exit as end:
        assert end.exit_code == 0  # noqa: PT017 - --help ends the parsing


def test_commands_are_found() -> None:
    """The two tests above are not empty."""
    cheap = [*filter(is_cheap, doc_pages.commands())]
    assert len(cheap) >= 20
    assert {argv[0] for argv in cheap} >= {"run", "estimate", "stack", "kubernetes"}
    assert len(doc_pages.inline_commands()) >= 5


def test_a_shown_file_is_the_same_on_every_page() -> None:
    """Files of one name have one text."""
    assert {name: len(texts) for name, texts in doc_pages.files().items() if len(texts) > 1} == {}


@pytest.mark.usefixtures("shown_files")
@pytest.mark.parametrize(
    "name",
    [n for n in doc_pages.files() if n.endswith(".yaml") and n not in ("wrong.yaml", "otava.yaml")],
)
def test_shown_experiments_load(name: str) -> None:
    """Every experiment file of the pages is valid."""
    loaded = load_experiment(Path(name), facts=FACTS)
    assert loaded.experiment.contenders


WORKFLOWS = doc_pages.ROOT / "docs" / "workflows"
# Their servers are elsewhere; the two last are no experiments of ours, and with mistakes.
_NOT_PLANNED = {*("copy.yaml", "endpoint.yaml", "redis-endpoint.yaml", "otava.yaml", "wrong.yaml")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(
            each
            for each in doc_pages.files()
            if each.endswith(".yaml") and each not in _NOT_PLANNED
        ),
        *(path.name for path in WORKFLOWS.glob("*.yaml")),
    ],
)
def test_the_budget_of_every_shown_file_suffices(
    shown_files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``plan``, at the effect that the file wants decided, on a machine without huge pages."""
    monkeypatch.setattr("steelyard.targets.assembly.memory_bytes", lambda _: {})
    copytree(WORKFLOWS, shown_files, dirs_exist_ok=True)
    for script in ("before.sql", "after.sql", "shelf.sql"):
        (shown_files / script).write_text("SELECT 1;\n")
    result = CliRunner().invoke(cli, ["estimate", name, "--json"])
    if isinstance(result.exception, PreflightError) and "is not installed" in str(result.exception):
        pytest.skip(str(result.exception))
    assert result.exit_code == 0, (result.exception, result.output)
    plan = json.loads(result.stdout)
    assert plan["decides_results"] in (True, None), plan["designs"]


def test_no_page_installs_steelyard_from_an_index() -> None:
    """No index has it, and a stranger could take the name."""
    paths = [*doc_pages.PAGES, *WORKFLOWS.glob("*")]
    bare = re.compile(
        r"(?:pipx?|uv) [a-z ]*install [^\n`]*?['\"]?\bsteelyard(?:\[[a-z,]+\])?['\"]?\s*$",
        re.MULTILINE,
    )
    assert [path.name for path in paths if bare.search(path.read_text("utf-8"))] == []
    assert bare.search("      - run: pip install 'steelyard[embedded,charts]'\n")


@pytest.mark.usefixtures("shown_files")
def test_the_wrong_file_gets_the_shown_problems() -> None:
    """The page shows word for word what its wrong file is told."""
    with pytest.raises(ExperimentFileError) as caught:
        load_experiment(Path("wrong.yaml"), facts=FACTS)
    error = caught.value
    assert f"```text\nerror: {error.message}\nhint: {error.hint}\n```" in doc_pages.page(KEY_PAGE)


def test_the_tables_of_keys_are_made_from_the_schema() -> None:
    """A new key makes the page anew: ``support.keys_page`` says how."""
    assert keys_page.PAGE.read_text("utf-8") == keys_page.text()


def test_the_profile_table_names_every_setting() -> None:
    """The table of the profile `fitted` has its settings, in their order."""
    table = [doc_pages.code(row[0]) for row in doc_pages.rows(KEY_PAGE) if len(row) == 4]
    asked = [each.setting.name for each in profiled_settings("fitted", FACTS)]
    assert [name for name in table if name] == asked


def test_the_profile_table_says_what_is_a_guess() -> None:
    """A rule that the code calls a guess is called one on the page, and no other."""
    guessed = {
        each.setting.name
        for each in profiled_settings("fitted", FACTS)
        if "guess" in each.reason.lower()
    }
    rows = [row for row in doc_pages.rows(KEY_PAGE) if len(row) == 4 and doc_pages.code(row[0])]
    assert {doc_pages.code(row[0]) for row in rows if "guess" in row[2]} == guessed


@pytest.mark.parametrize("path", doc_pages.PAGES, ids=lambda path: path.name)
def test_relative_links_resolve(path: Path) -> None:
    """Every link to a file of the project points at one."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text("utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", doc_pages.PAGES, ids=lambda path: path.name)
def test_no_page_names_a_registry_or_a_foreign_place(path: Path) -> None:
    """No page names a package registry's host or a path that only one machine has."""
    text = path.read_text("utf-8")
    assert [host for host in REGISTRIES if host in text.lower()] == []
    assert FOREIGN.findall(text) == []


def test_exit_codes_are_those_of_the_program() -> None:
    """The page of the command line lists every exit code that can occur, and no other."""
    listed = {int(row[0]) for row in doc_pages.rows("docs/command-line.md") if row[0].isdigit()}
    assert listed == set(ExitCode)


def test_make_targets_exist() -> None:
    """CONTRIBUTING lists the Makefile's targets, all of them."""
    phony = re.search(r"^\.PHONY: (.*)$", doc_pages.page("Makefile"), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^\| `make ([\w-]+)` \|", doc_pages.page("CONTRIBUTING.md"), re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())


def test_the_quick_tests_have_live_ones_of_each_command() -> None:
    """Of each file that CONTRIBUTING.md names for `make test`, a test is not marked `slow`."""
    told = doc_pages.page("CONTRIBUTING.md").partition("Not `slow`, at")[2].partition("\n- ")[0]
    names = re.findall(r"`(test_\w+)`", told)
    assert len(names) > 5
    for name in names:
        path = Path(__file__).parents[2] / "live" / f"{name}.py"
        _, marks, tests = re.split(r"^pytestmark = (.*)$", path.read_text(), flags=re.MULTILINE)
        assert "slow" not in marks, name
        assert any(
            "def test_" in part and "mark.slow" not in part for part in tests.split("\n\n\n")
        ), name


def test_journal_kinds_are_listed() -> None:
    """The architecture page lists every kind of journal entry."""
    kinds = {entry.__dataclass_fields__["kind"].default for entry in entries.Entry.__args__}
    table = [row[0] for row in doc_pages.rows("docs/architecture.md") if len(row) == 2]
    listed = {kind for cell in table for kind in re.findall(r"`([a-z-]+)`", cell)}
    assert kinds <= listed


def test_packages_are_listed() -> None:
    """The architecture page has a row for every package of the house."""
    source = doc_pages.ROOT / "src" / "steelyard"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    listed = {doc_pages.code(row[0]) for row in doc_pages.rows("docs/architecture.md")}
    assert packages <= listed


def test_dependencies_are_explained() -> None:
    """Every direct dependency, extra and development tool is in the table of its page."""
    project = tomllib.loads(doc_pages.page("pyproject.toml"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = [
        *project["project"]["dependencies"],
        *(name for extra in extras for name in extra),
        *(name for group in project["dependency-groups"].values() for name in group),
    ]
    wanted = [name for name in wanted if isinstance(name, str)]  # the others include a group
    names = {re.split(r"[\[<>=;\s]", requirement)[0] for requirement in wanted}
    table = " ".join(cell for row in doc_pages.rows("docs/dependencies.md") for cell in row[:2])
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", table)} == set()


def test_method_sections_resolve() -> None:
    """Every "METHOD 3.4" in the code has a section of that number in docs/methods.md."""
    source = doc_pages.ROOT / "src" / "steelyard"
    texts = [path.read_text("utf-8") for path in source.rglob("*.py")]
    named = {
        number
        for text in texts
        for number in re.findall(r"METHOD(?:\.md)?,? (?:section )?(\d+(?:\.\d+)?)", text)
    }
    headings = re.findall(
        r"^#+ (\d+(?:\.\d+)?)\.? ", doc_pages.page("docs/methods.md"), re.MULTILINE
    )
    assert named
    assert named <= set(headings)


def test_the_readme_is_short() -> None:
    """The README has at most 100 lines."""
    assert len(doc_pages.page("README.md").splitlines()) <= 100


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = next(each["layers"] for each in PROJECT["contracts"] if each["type"] == "layers")
FLOOR = {name: floor for floor, row in enumerate(LAYERS) for name in row.split(" | ")}
NAMES = sorted(set(re.findall(rf"`((?:{'|'.join(FLOOR)})(?:\.\w+)+)`", PAGE)))
WALKS = re.findall(
    r"^\*\*(.+)\*\*\n\n((?:\d+\. .+\n)+)", PAGE.split("\n## ")[2].partition("\n")[2], re.MULTILINE
)
MOST_ROOMS = 8


def _exists(name: str) -> bool:
    """Return whether it is a module, or what a module has."""
    try:
        importlib.import_module(f"steelyard.{name}")
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return "." in name and hasattr(importlib.import_module(f"steelyard.{module}"), attribute)
    return True


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_is_there(name: str) -> None:
    """A module, or a class, function or table of one."""
    assert _exists(name)


def test_there_are_four_walks() -> None:
    """Of a load, a setting, a latency and a finding."""
    assert len(WALKS) == 4


@pytest.mark.parametrize(("title", "walk"), WALKS, ids=[title for title, _ in WALKS])
def test_a_walk_leads_downward_in_few_rooms(title: str, walk: str) -> None:
    """Each line lies on the floor of the one above it, or below; none names two floors."""
    rooms = walk.splitlines()
    assert len(rooms) <= MOST_ROOMS, title
    named = [set(re.findall(r"`(\w+)\.\w", room)) & set(FLOOR) for room in rooms]
    floors = [{FLOOR[package] for package in packages} for packages in named]
    assert all(len(floor) == 1 for floor in floors), title
    assert [f for floor in floors for f in floor] == sorted(f for floor in floors for f in floor)
