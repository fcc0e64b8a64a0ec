"""What a change of the house's shape must leave as it is: resolved experiments, judged stacks.

Reports and summaries of the kept campaigns are held by ``docs/test_examples``, texts of several
campaigns by ``cli/test_article_verb``.

``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from fakes.facts import FakeStack
from fakes.host import FakeHost
from steelyard.answers.stack.inspection import Inspection, inspection_json
from steelyard.campaign.file.files import (
    Surroundings,
    load_text,
    preset_names,
    preset_text,
)
from steelyard.core.experiment import Experiment
from steelyard.core.stack import Place, StackFacts, StackRequest
from steelyard.core.wording import GIB, ExperimentFileError, SteelyardError
from steelyard.gateways.host import Host
from steelyard.tuning.facts.collecting import Asked, collect, collect_in_cluster
from steelyard.tuning.facts.file import plain
from steelyard.tuning.facts.kubernetes import AskedCluster
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.foreseen import make_plan
from steelyard.tuning.profiles import MachineFacts
from steelyard.tuning.rules.catalogue import judge
from support import doc_pages
from support.database_in_cluster import World
from support.examples import EXAMPLES
from support.machines import SMALL_VM, metal
from support.made_machines import bare, machine
from support.recorded_stacks import published, recommended
from support.snapshots import check_snapshots, differences, folded
from support.two_nodes import RECORDED

TESTS = Path(__file__).parents[1]
FACTS = MachineFacts(cpus=4.0, memory_bytes=16 * GIB, free_disk_bytes=200 * GIB)
_CONFIGURATIONS = "configurations:"
_SCRIPT = re.compile(r"\b[\w-]+\.sql\b")
_NAMED = re.compile(r"\A(?:# ([\w-]+)\.yaml\n)?version: 1\n(?:engine: redis\n)?name: (.*)\n")


def presets() -> Iterator[tuple[str, str]]:
    """Yield the names and texts of all presets."""
    for name in preset_names():
        yield name, preset_text(name)


def examples() -> Iterator[tuple[str, str]]:
    """Yield those of the kept campaigns."""
    for path in EXAMPLES.rglob("experiment.yaml"):
        yield str(path.parent.relative_to(EXAMPLES)), path.read_text("utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the experiment files that pages show, and those of the workflows."""
    for path in (doc_pages.ROOT / "docs" / "workflows").glob("*.yaml"):
        yield f"workflows/{path.stem}", path.read_text("utf-8")
    texts = {block.text for block in doc_pages.fenced() if block.language == "yaml"}
    for text in texts:
        if named := _NAMED.match(text):
            yield named[1] or named[2].replace(" ", "-"), text


def modules() -> Iterator[tuple[str, str]]:
    """Yield the experiment files that modules of tests have under a name."""
    for path in TESTS.rglob("*.py"):
        if _CONFIGURATIONS not in (module := path.read_text("utf-8")):
            continue
        for node in ast.parse(module).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                text = str(node.value.value)
                if _CONFIGURATIONS in text:
                    yield f"{path.stem}/{ast.unparse(node.targets[0]).strip('_').lower()}", text


def resolved(text: str, folder: Path) -> Experiment | None:
    """Return the experiment of a text with everything in it resolved; None where it has none.

    A script that is not in the folder is made up. A seed that is not in the text would be drawn.
    """
    for name in _SCRIPT.findall(text):
        if not (script := folder / name).exists():
            script.write_text(f"SELECT 1; -- {name}\n", encoding="utf-8")
    try:
        loaded = load_text(text, "", Surroundings(base=folder, facts=FACTS))
    except ExperimentFileError:
        return None
    written = loaded.document.at(("seed",)) is not None
    return loaded.experiment if written else replace(loaded.experiment, seed=0)


@pytest.mark.parametrize("source", [presets, examples, pages, modules], ids=lambda s: s.__name__)
def test_experiments_are_resolved_as_before(
    source: Callable[[], Iterator[tuple[str, str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inherited, computed, read from scripts or left to a default is the same.

    A record gives every experiment back as it was. One that is a preset's has the snapshot of it.

    A text that does not load has no snapshot, so one that no longer loads is missed here.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    doc_pages.write_files(tmp_path)
    experiments: dict[str, Experiment] = {}
    record = TypeAdapter(Experiment)
    kept = [] if source is presets else [resolved(text, tmp_path) for _, text in presets()]
    for name, text in source():
        assert name not in experiments
        if (experiment := resolved(text, tmp_path)) is not None and experiment not in kept:
            experiments[name] = experiment
            assert record.validate_json(record.dump_json(experiment)) == experiment
    check_snapshots(f"experiments/{source.__name__}", experiments, folder=tmp_path)


def seen_on(host: Host) -> StackFacts:
    """Return the facts of a machine with a server on it."""
    asked = Asked(ping_pong=False, data_directory="/var/lib")  # it is on every machine
    return collect(asked, replace(FakeStack().doors(), host=host))


def seen_in(tree: Path) -> StackFacts:
    """Return those of recorded files, without anything of the machine that the test runs on."""
    files = [path for path in tree.rglob("*") if path.is_file()]
    texts = {f"/{path.relative_to(tree)}": path.read_text("utf-8", "replace") for path in files}
    return seen_on(FakeHost(files=texts))


def in_cluster() -> StackFacts:
    """Return the facts of a database in a cluster."""
    return collect_in_cluster(AskedCluster(cluster="pg"), World().doors())


# With CPUs and memory to ask for on each.
STACKS: Mapping[str, tuple[Callable[[], StackFacts], int, int]] = {
    "published": (published, 2, 8 * GIB),
    "recommended": (recommended, 2, 8 * GIB),
    "cluster": (in_cluster, 2, 8 * GIB),
    "metal": (lambda: seen_on(metal()), 2, 8 * GIB),
    "two-sockets": (lambda: bare(machine(nodes=2)), 12, 48 * GIB),
    "small-vm": (lambda: seen_in(SMALL_VM), 1, 2 * GIB),
    "two-nodes": (lambda: seen_in(RECORDED), 2, GIB),
}


def planned(request: StackRequest, facts: StackFacts) -> object:
    """Return a plan with its files, or why there is none."""
    try:
        return make_plan(request, facts, formula_counter(request.postgres_version))
    except SteelyardError as error:
        return {"refused": error.message, "hint": error.hint}


def test_stacks_are_judged_and_planned_as_before() -> None:
    """Facts, what comes of each rule, and a plan for each place with every file of it."""
    stacks: dict[str, object] = {}
    for name, (facts_of, cpus, memory_bytes) in STACKS.items():
        facts = facts_of()
        inspection = Inspection(place=name, facts=facts, judged=judge(facts))
        stacks[f"{name}/facts"] = plain(facts)
        stacks[f"{name}/findings"] = inspection_json(inspection)
        for place in Place:
            request = StackRequest(cpus=cpus, memory_bytes=memory_bytes, place=place)
            stacks[f"{name}/plan-{place.value}"] = planned(request, facts)
    check_snapshots("stacks", stacks)


def test_a_difference_is_a_line() -> None:
    """Its path, what was there and what is there now; also where there is nothing."""
    old, new = {"a": [1, {"b": "x"}], "c": None}, {"a": [1, {"b": "y"}, 2]}
    assert differences(old, new) == [
        '/a/1/b: "x" -> "y"',
        "/c: null -> (nothing)",
        "/a/2: (nothing) -> 2",
    ]
    assert differences(old, old) == []


def test_a_difference_that_many_have_is_one_line() -> None:
    """With how often it is there and the first place of it."""
    changes = {
        "aa": ["/a/1/b: 1 -> 2", "/a/2/b: 1 -> 2", "/c: 1 -> 2"],
        "quick": ["/a/1/b: 1 -> 2"],
    }
    assert folded(changes) == ["/a/*/b: 1 -> 2 (3 times, first in aa/a/1/b)", "aa/c: 1 -> 2"]
