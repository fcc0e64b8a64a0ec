"""A toy database system, and a kind of target, are added by a folder, a module and their lines."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import steelyard
from fakes import toy as fakes_of_toy
from fakes.toy import TOY
from fakes.toy_target import ToyInMemory, ToyTarget
from steelyard.campaign.file.files import ExperimentFileError, load_experiment
from steelyard.campaign.file.systems import SYSTEMS, System
from steelyard.cli.main import cli
from steelyard.core.campaign import Status
from steelyard.core.experiment import Configuration
from steelyard.core.findings import Verdict
from steelyard.core.target import TARGETS
from steelyard.record.directory import read_campaign
from steelyard.tuning.profiles import MachineFacts

pytestmark = pytest.mark.live
_SHELF = "steelyard-toy-test"
_FOREIGN = re.compile(r"\b(tps|pgbench|redis|transactions?|checkpoint|WAL)\b", re.IGNORECASE)

_FILE = """\
version: 1
engine: toy
name: a delay of the toy
workloads: [{name: reads, builtin: get}]
load: {clients: [2]}
design: one-by-one
measure: {run_time: 1s, discard_start: 0, warm_up: 0s, max_other_load: ignore}
stop: {budget: 10m, detect: 30%}
seed: 7
configurations:
  default: {target: {kind: KIND}, toy: {delay_ms: 1}}
  slower: {extends: default, toy: {delay_ms: 2}}
"""


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> Iterator[Path]:
    """Give the toy its lines in the registries, and take them out again."""
    monkeypatch.setitem(SYSTEMS, TOY.name, System(about=TOY))
    monkeypatch.setitem(TARGETS, TOY.name, {"local": ToyTarget, "memory": ToyInMemory})
    monkeypatch.setenv("STEELYARD_CACHE", str(cache))
    yield tmp_path
    shutil.rmtree(f"/dev/shm/{_SHELF}", ignore_errors=True)  # noqa: S108 - as the toy has it


@pytest.mark.slow
def test_a_toy_is_weighed_as_any_database(
    registered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`steelyard run` starts it in a place of its own, finds the delay and tells it."""
    (registered / "toy.yaml").write_text(_FILE.replace("KIND", f"memory, shelf: {_SHELF}"))
    words = ["run", str(registered / "toy.yaml"), "--dir", str(registered / "campaign")]
    code = cli.main(words, standalone_mode=False)
    printed = capsys.readouterr()
    assert code in (0, None), printed.err
    record = read_campaign(registered / "campaign")
    target = record.experiment.configurations[0].target
    assert record.status is Status.DECIDED
    assert type(target) is ToyInMemory
    summary = json.loads((registered / "campaign" / "summary.json").read_text())
    (verdict, *_) = summary["comparisons"]
    assert verdict["verdict"] == Verdict.SLOWER.value
    assert -70 < verdict["effect_percent"] < -20
    (delay,) = (each for each in summary["settings"] if each["name"] == "delay_ms")
    assert delay["values"] == {"default": "1 ms", "slower": "2 ms"}
    report = (registered / "campaign" / "report.md").read_text()
    for text in (printed.out, _without_neighbours(report)):
        assert "requests/s" in text
        assert not _FOREIGN.search(text)


def _without_neighbours(report: str) -> str:
    """Return a report without lines that name other processes, or where advice comes from."""
    return "\n".join(
        line for line in report.splitlines() if "neighbour" not in line and "*Source:" not in line
    )


def test_nothing_else_of_the_project_knows_the_toy() -> None:
    """All of it is its folder, its module of targets, this test, and a line in each registry."""
    source = Path(steelyard.__file__).parent
    named = re.compile(r"\btoy\b", re.IGNORECASE)
    assert not [file for file in source.rglob("*.py") if named.search(file.read_text())]
    fakes = Path(fakes_of_toy.__file__).parents[1]
    users = {file for file in fakes.rglob("*.py") if named.search(file.read_text())}
    assert users == {*(fakes / "toy").glob("*.py"), fakes / "toy_target.py"}


def test_its_keys_are_checked_as_all_keys_are(registered: Path) -> None:
    """A wrong value, an unknown setting's place and a key of another kind have their lines."""
    text = _FILE.replace("KIND", "local, shelf: here").replace("toy: {delay_ms: 2}", "redis: {}")
    text = text.replace("name: reads, builtin: get", "name: reads, builtin: got")
    (registered / "toy.yaml").write_text(text)
    facts = MachineFacts(cpus=2.0, memory_bytes=2**33)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(registered / "toy.yaml", facts=facts)
    told = refused.value.message
    assert "`shelf` belongs to the target `memory`, and this is `local`" in told
    assert "`redis` has settings of Redis, and the targets are of Toy" in told
    assert "toy-load brings no `got`" in told


def test_without_its_lines_there_is_no_toy(
    registered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target and its settings are unknown words then."""
    monkeypatch.undo()
    (registered / "toy.yaml").write_text(_FILE.replace("KIND", "local"))
    facts = MachineFacts(cpus=2.0, memory_bytes=2**33)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(registered / "toy.yaml", facts=facts)
    assert "engine: `toy` is not known" in refused.value.message
    assert "unknown key `toy`" in refused.value.message


def test_its_place_in_memory_is_a_kind_of_its_own(registered: Path) -> None:
    """The fields of its class are keys of the file; a record gives it back as it was."""
    (registered / "toy.yaml").write_text(_FILE.replace("KIND", f"memory, shelf: {_SHELF}"))
    facts = MachineFacts(cpus=2.0, memory_bytes=2**33)
    experiment = load_experiment(registered / "toy.yaml", facts=facts).experiment
    assert experiment.configurations[0].target == ToyInMemory(shelf=_SHELF)
    stored = TypeAdapter(Configuration)
    for configuration in experiment.configurations:
        assert stored.validate_json(stored.dump_json(configuration)) == configuration


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("memory", ToyInMemory()),
        ("local", ToyTarget()),
        ("toy", ToyTarget(server="toy")),
        ("/opt/toy", ToyTarget(server="/opt/toy")),
        ("{kind: memory, shelf: other}", ToyInMemory(shelf="other")),
    ],
)
def test_it_is_reached_by_target(registered: Path, word: str, expected: ToyTarget) -> None:
    """`--target` reads a kind, a word for programs and a directory as of the file's engine."""
    (registered / "toy.yaml").write_text(_FILE.replace("KIND", "local"))
    facts = MachineFacts(cpus=2.0, memory_bytes=2**33)
    loaded = load_experiment(registered / "toy.yaml", facts=facts, overrides=[f"target={word}"])
    assert {each.target for each in loaded.experiment.configurations} == {expected}


@pytest.mark.parametrize("word", ["15", "redis-server", "redis://h", "postgresql://h/d"])
def test_servers_of_others_are_refused(registered: Path, word: str) -> None:
    """Their system is named."""
    (registered / "toy.yaml").write_text(_FILE.replace("KIND", "local"))
    facts = MachineFacts(cpus=2.0, memory_bytes=2**33)
    with pytest.raises(ExperimentFileError, match="puts load on Toy, and the target is a server"):
        load_experiment(registered / "toy.yaml", facts=facts, overrides=[f"target={word}"])
