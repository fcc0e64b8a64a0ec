"""What the registries of systems and targets must agree in, whoever adds to them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from steelyard.campaign.file.files import ExperimentFileError, LoadedExperiment, load_experiment
from steelyard.campaign.file.form import experiment_schema
from steelyard.campaign.file.systems import SYSTEMS
from steelyard.core.experiment import Configuration
from steelyard.core.target import TARGETS, LocalTarget, systems
from steelyard.tuning.profiles import MachineFacts

_FILE = """\
version: 1
name: shelves
workloads: [{name: reads, builtin: select-only, scale_factor: 1}]
loads: {clients: [1]}
design: single-pass
configurations: {default: {target: {kind: shelf, KEYS}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf(LocalTarget):
    """A place for PostgreSQL with a key of its own."""

    kind: Literal["shelf"] = "shelf"  # type: ignore[assignment]
    board: int = 1


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the kind its line."""
    monkeypatch.setitem(TARGETS, "shelf", Shelf)


def _loaded(keys: str, folder: Path) -> LoadedExperiment:
    (folder / "x.yaml").write_text(_FILE.replace("KEYS", keys))
    return load_experiment(folder / "x.yaml", facts=MachineFacts(cpus=2.0, memory_bytes=2**33))


def test_every_kind_has_the_name_of_its_line() -> None:
    """By it a file and a record find the class; every system of a target has its line, too."""
    assert {name: model().kind for name, model in TARGETS.items()} == {n: n for n in TARGETS}
    assert {each.name for each in systems()} == set(SYSTEMS)
    assert all(name is system.about.name for name, system in SYSTEMS.items())


@pytest.mark.usefixtures("shelf")
def test_a_class_says_what_its_kind_has_in_a_file(tmp_path: Path) -> None:
    """Its fields are keys beside those that it shares; a directory is found from the file."""
    (configuration,) = _loaded("board: 3, directory: here", tmp_path).experiment.configurations
    assert configuration.target == Shelf(board=3, directory=str(tmp_path / "here"))
    stored = TypeAdapter(Configuration)
    assert stored.validate_json(stored.dump_json(configuration)) == configuration


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("board: high", "target.board: `high` is not understood"),
        ("bored: 3", "target.bored: unknown key `bored`"),
        ("uri: postgresql://h/d", "`uri` belongs to the target"),
    ],
)
def test_wrong_keys_of_a_class_have_their_lines(keys: str, told: str, tmp_path: Path) -> None:
    """A value of another type, a misspelled key and one of another kind are told."""
    with pytest.raises(ExperimentFileError) as refused:
        _loaded(keys, tmp_path)
    assert told in refused.value.message
    assert "x.yaml:6:" in refused.value.message


def test_a_key_that_no_kind_has_is_refused_and_told_once(tmp_path: Path) -> None:
    """So is a section of settings of an unknown system, whatever stands in it."""
    keys = "board: 3}, colour: red, extra: {x: 1"
    with pytest.raises(ExperimentFileError) as refused:
        _loaded(keys, tmp_path)
    told = refused.value.message
    assert [told.count(f"unknown key `{key}`") for key in ("board", "colour", "extra")] == [1, 1, 1]
    assert "`shelf` is no kind of target" in told


@pytest.mark.usefixtures("shelf")
def test_an_editor_knows_keys_of_classes_and_no_others() -> None:
    """The schema lists them, and refuses what no class has."""
    target = experiment_schema()["$defs"]["TargetForm"]
    assert "board" in target["properties"]
    assert target["additionalProperties"] is False


def test_a_record_with_an_unknown_kind_is_refused() -> None:
    """Its class is not registered here."""
    stored = TypeAdapter(Configuration)
    text = stored.dump_json(Configuration(name="a", target=Shelf()))
    with pytest.raises(ValidationError, match="'shelf' is no kind of target"):
        stored.validate_json(text)
