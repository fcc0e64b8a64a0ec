"""Targets that are there or rented, volumes without room, and what all registries agree in."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
from experiment_texts import SMALL, load
from pydantic import TypeAdapter, ValidationError

from fakes.campaigns import an_experiment
from steelyard.campaign.file.files import (
    ExperimentFileError,
    LoadedExperiment,
    allow_existing,
    load_experiment,
)
from steelyard.campaign.file.form import experiment_schema
from steelyard.campaign.file.kinds import TARGET, target_problems
from steelyard.campaign.file.systems import SYSTEMS
from steelyard.campaign.foresee.forecast import _written_bytes
from steelyard.core.experiment import Configuration, Layer, Setting
from steelyard.core.quantities import key, whole
from steelyard.core.target import (
    TARGETS,
    AuroraTarget,
    CloudNativePgTarget,
    EndpointTarget,
    LocalTarget,
    RdsTarget,
    Server,
    systems,
)
from steelyard.core.wording import GIB, MIB, InputError, PreflightError
from steelyard.systems.protocol import Dataset
from steelyard.targets.kubernetes_site import require_room
from steelyard.tuning.profiles import MachineFacts

# What these keys become is in the snapshots.
EVERY_KEY = """\
version: 1
name: every key
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default: {target: {kind: existing}}
  keys:
    target: {kind: existing, host: db, port: 5433, user: b, dbname: d, service: s,
             allow_existing: true, restart_command: 'ssh db restart', restore: vacuum}
  heir: {extends: keys}
  uri: {target: {kind: existing, uri: 'postgresql://b@db/x', restart_command: [a, b]}}
  reset:
    target: {kind: existing, dbname: d, allow_existing: true, reset_command: 'sh reset',
             reset_timeout: 30m}
"""


def at(keys: str = "", more: str = "") -> str:
    """Return the small experiment at an endpoint."""
    inside = ", ".join(filter(None, ["kind: existing", keys]))
    return SMALL.replace("default: {}", f"default: {{target: {{{inside}}}}}") + more


def test_kinds_of_one_system_are_mixed() -> None:
    """A server of this machine beside one that is there already."""
    text = SMALL.replace("{extends: default}", "{target: {kind: existing}}")
    kinds = [each.target.kind for each in load(text).experiment.configurations]
    assert kinds == ["local", "existing"]


def test_the_flag_allows_existing_databases_everywhere() -> None:
    """`--allow-existing` is for endpoints only."""
    allowed = allow_existing(load(at("dbname: shop"))).experiment
    assert all(target.allow_existing for target in allowed.targets_of(EndpointTarget).values())
    with pytest.raises(InputError, match="has none"):
        allow_existing(load(SMALL))


_PROFILED = SMALL.replace("{extends: default}", "{extends: default, profile: fitted}")
NOWHERE = Path("/nonexistent")
_SERVER = "configurations.default.target={kind: existing, dbname: d}"


def test_a_profile_fits_the_server_that_is_described() -> None:
    """By keys of its target or by the command line, which says the same of every endpoint."""
    told = [
        load(_PROFILED, NOWHERE, _SERVER, *overrides).experiment
        for overrides in (
            ("memory=64GiB", "cpus=16"),
            (
                "configurations.default.target.memory=64GiB",
                "configurations.default.target.cpus=16",
            ),
        )
    ]
    for experiment in told:
        asked = experiment.configuration("other").asked()
        assert (asked["shared_buffers"], asked["max_parallel_workers"]) == ("16384MB", "16")
        assert experiment.configuration("default").target == EndpointTarget(dbname="d")
    assert told[0] == told[1]


PLAIN = {"kind": "rds", "region": "us-east-1", "accounts": ["123456789012"]}


def problems(**given: object) -> list[tuple[str, str, str]]:
    """Return what is wrong with a target."""
    return [*target_problems(TARGET.read({**PLAIN, **given}, "postgresql"))]


def read(**given: object) -> Server:
    """Return the target of a section."""
    return TARGET.read(given, "postgresql").model


def test_a_target_is_read_with_its_storage_and_how_long_its_credits_last() -> None:
    """What the file does not say is the class's; a burst follows from class and storage."""
    target = read(**PLAIN, instance_class="db.t3.large", storage="300Gi", storage_type="gp2")
    assert isinstance(target, RdsTarget)
    assert (target.gib, target.version, target.accounts) == (300, "16", ("123456789012",))
    assert target.volume.base_iops == 900
    assert target.burst_lasts_s == pytest.approx(42.86 * 60, abs=1)
    assert target.provision.cpus == 2.0
    assert "300 GiB of gp2" in target.provision.storage
    assert "900 IOPS" in target.provision.limits
    assert target.is_made
    assert target.is_restarted
    assert read(**PLAIN).burst_lasts_s is None  # gp3 has no bucket


def test_a_sound_target_has_no_problem() -> None:
    """Also with everything that storage may have."""
    assert problems() == []
    more = {"storage": "400Gi", "iops": 16000, "storage_throughput": 700, "version": "16.4"}
    assert problems(**more) == []
    assert problems(storage_type="io1", iops=3000, storage="100Gi") == []


@pytest.mark.parametrize("key", ["region", "accounts"])
def test_nothing_is_made_where_nobody_said(key: str) -> None:
    """Region and account have to be named."""
    ((named, message, _),) = problems(**{key: None})
    assert named == key
    assert "is missing" in message


AURORA = {**PLAIN, "kind": "aurora"}


def test_a_cluster_of_aurora_is_read() -> None:
    """Its storage is for the price alone, so no burst follows from it."""
    given = {"instance_class": "db.serverless", "min_capacity": 1, "max_capacity": 8.5}
    target = read(**AURORA, **given, io_optimized=True)
    assert isinstance(target, AuroraTarget)
    assert (target.gib, target.volume, target.burst_lasts_s) == (10, None, None)
    assert (target.is_serverless, target.max_capacity) == (True, 8.5)
    assert "1 to 8.5 ACU" in target.label
    assert "I/O-Optimized" in target.label
    assert "ACU" not in read(**AURORA).label


def _judge(settings: dict[str, str], scale: int = 1, **target: str) -> None:
    dataset = Dataset(name="d", scale=scale, prepare=())
    require_room(CloudNativePgTarget(**target), settings, [dataset])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "target", "said"),
    [
        ({"max_wal_size": "100GB"}, {"wal_storage": "1Gi"}, "1Gi for WAL .* is 100GB"),
        ({"max_wal_size": "102400"}, {"wal_storage": "1Gi"}, "for WAL has no room"),
        ({}, {"wal_storage": "1Gi"}, "max_wal_size is 1GB"),
        ({"wal_keep_size": "8GB"}, {"wal_storage": "4Gi"}, "for WAL has no room"),
        ({"max_wal_size": "100GB"}, {"storage": "20Gi"}, "20Gi has no room .* copy, WAL"),
    ],
)
def test_wal_that_would_fill_its_volume_is_refused(
    settings: dict[str, str], target: dict[str, str], said: str
) -> None:
    """On a volume of its own, by the server's default too; beside the data where it is asked."""
    with pytest.raises(PreflightError, match=said) as caught:
        _judge(settings, **target)
    assert "max_wal_size" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"max_wal_size": "4GB"}, {"wal_storage": "5Gi", "storage": "1Gi"}),
        ({"max_wal_size": "4GB"}, {"storage": "20Gi"}),
        ({}, {"storage": "1Gi"}),
        ({"max_wal_size": "much"}, {"wal_storage": "1Gi"}),
    ],
)
def test_wal_that_fits_is_taken(settings: dict[str, str], target: dict[str, str]) -> None:
    """WAL on its own volume takes none of the data's; a wrong value is the server's to refuse."""
    _judge(settings, **target)


def test_data_that_would_fill_their_volume_are_refused() -> None:
    """Without a word of WAL where nothing sizes it."""
    with pytest.raises(PreflightError, match="copy, and what grows") as caught:
        _judge({}, scale=1000, storage="20Gi")
    assert "max_wal_size" not in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value", "size"),
    [
        ("max_wal_size", "64GB", 64 * GIB),
        ("Max_WAL_Size", "64GB", 64 * GIB),
        ("max_wal_size", "1024 ", GIB),
        ("max_wal_size", "0x400", GIB),
        ("max_wal_size", "1536.5", 1536.5 * MIB),
        ("wal_level", "replica", GIB),
    ],
)
def test_the_forecast_reads_wal_as_the_server_does(name: str, value: str, size: float) -> None:
    """Names have no case, and a number alone is megabytes."""
    setting = Setting(layer=Layer.POSTGRES, name=name, value=value)
    asked = replace(an_experiment().configurations[0], settings=(setting,))
    assert _written_bytes(asked, 0) == size


_FILE = """\
version: 1
name: shelves
workloads: [{name: reads, builtin: select-only, scale: 1}]
load: {clients: [1]}
design: single-pass
configurations: {default: {target: {kind: shelf, KEYS}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf(LocalTarget):
    """A place for PostgreSQL with a key of its own."""

    kind: Literal["shelf"] = "shelf"  # type: ignore[assignment]
    board: int = key(1, whole(), "Where it lies.", 3)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the kind its line."""
    monkeypatch.setitem(TARGETS["postgresql"], "shelf", Shelf)


def _loaded(keys: str, folder: Path) -> LoadedExperiment:
    (folder / "x.yaml").write_text(_FILE.replace("KEYS", keys))
    return load_experiment(folder / "x.yaml", facts=MachineFacts(cpus=2.0, memory_bytes=2**33))


def test_every_kind_has_the_name_of_its_line() -> None:
    """By it a file and a record find the class; every system of a target has its line, too."""
    for engine, kinds in TARGETS.items():
        assert {name: model().kind for name, model in kinds.items()} == {n: n for n in kinds}
        assert {model.system.name for model in kinds.values()} == {engine}
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
        ("board: high", "target.board: `high` is not a whole number"),
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
    target = experiment_schema()["$defs"]["Target"]
    assert "board" in target["properties"]
    assert target["additionalProperties"] is False


def test_a_record_with_an_unknown_kind_is_refused() -> None:
    """Its class is not registered here."""
    stored = TypeAdapter(Configuration)
    text = stored.dump_json(Configuration(name="a", target=Shelf()))
    with pytest.raises(ValidationError, match="'shelf' is not a kind of target of 'postgresql'"):
        stored.validate_json(text)
