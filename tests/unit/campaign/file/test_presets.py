"""Presets: each loads, explains itself, and fits into fifteen minutes."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiment_texts import FACTS

from steelyard.answers.published import _rows
from steelyard.campaign.design.schedule import cells_of, schedule_of
from steelyard.campaign.file.files import load_experiment, preset_names, preset_summary, preset_text
from steelyard.core.experiment import SwitchCost
from steelyard.core.schedule import Load, Mode
from steelyard.core.target import (
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    Synchronous,
)
from steelyard.core.wording import ExitCode, ExperimentFileError, InputError
from steelyard.tuning.files.files import MATRIX
from steelyard.tuning.profiles import MachineFacts, profiled_settings

IN_KUBERNETES = {"high-availability", "published-storage", "storage-locality"}
# A whole published matrix, and Clusters that every start makes anew, take hours.
MOST_S = {"storage-ladder": 1800.0}  # three stores, one by one, under six loads: 15 min decide most
LONG = {"published-matrix", "redis-storage", "rds-aurora", *IN_KUBERNETES}


def test_the_presets_are_these() -> None:
    """The presets that the documentation names are there."""
    assert preset_names() == (
        "aa",
        "attribution",
        "aws-defaults",
        "fitted",
        "high-availability",
        "page-size",
        "protocol",
        "published-matrix",
        "published-maxed",
        "published-stack",
        "published-stack-factorial",
        "published-storage",
        "quick",
        "rds-aurora",
        "redis-aof",
        "redis-aof-loaded",
        "redis-split",
        "redis-storage",
        "redis-storage-ladder",
        "scalability",
        "statements",
        "storage-ladder",
        "storage-locality",
        "sysbench",
        "tpcc-like",
        "versions",
        "volume-burst",
        "volume-limits",
    )


@pytest.mark.parametrize("name", [n for n in preset_names() if n not in LONG])
def test_a_preset_loads_and_takes_minutes(name: str) -> None:
    """Each is a valid experiment of small scale with a header, and takes a quarter of an hour."""
    loaded = load_experiment(f"preset:{name}", facts=FACTS, seed=3)
    assert loaded.text == preset_text(name)
    assert loaded.source == f"preset:{name}"
    # A single pass has no budget; how long it takes is what its runs take.
    assert loaded.experiment.is_single_pass or loaded.experiment.stop.budget_s <= MOST_S.get(
        name, 900.0
    )
    assert all((workload.scale_factor or 0) <= 20 for workload in loaded.experiment.workloads)
    assert loaded.experiment.description
    assert len(preset_summary(name)) > 30
    assert load_experiment(f"preset:{name}", facts=FACTS, seed=3).experiment == loaded.experiment


def test_quick_is_what_run_promises() -> None:
    """Small against large shared buffers, reads and writes, sized for six minutes."""
    experiment = load_experiment("preset:quick", facts=FACTS).experiment
    small, large = experiment.configurations
    assert (small.name, experiment.baseline) == ("small", "small")
    assert (small.asked(), large.asked()) == (
        {"shared_buffers": "64MB"},
        {"shared_buffers": "512MB"},
    )
    assert [workload.builtin for workload in experiment.workloads] == [
        "select-only",
        "simple-update",
    ]
    assert experiment.loads == (Load(clients=8, threads=4),)
    assert (experiment.measure.calibration, experiment.measure.warm_up_s) == (None, None)
    assert (experiment.stop.budget_s, experiment.stop.equivalence) == (360.0, 0.05)


def test_rds_against_aurora_is_the_published_study_in_blocks() -> None:
    """Three systems in one class, clients and threads in pairs, an hour each, four times."""
    experiment = load_experiment("preset:rds-aurora", facts=FACTS).experiment
    targets = [each.target for each in experiment.configurations]
    assert [(each.kind, each.instance_class) for each in targets] == [
        ("rds", "db.r5.xlarge"),
        ("rds", "db.r5.xlarge"),
        ("aurora", "db.r5.xlarge"),
    ]
    assert [each.volume.base_iops for each in targets[:2]] == [900.0, 3000.0]
    assert [(load.clients, load.threads) for load in experiment.loads] == [(4, 4), (8, 8), (12, 12)]
    assert (experiment.measure.slice_s, experiment.stop.blocks) == (3600.0, 4)
    assert all(each.accounts == ("000000000000",) for each in targets)


def test_fitted_compares_the_defaults_with_settings_for_this_machine() -> None:
    """Default against fitted settings, the beginning of a checkpoint cycle alone."""
    experiment = load_experiment("preset:fitted", facts=FACTS).experiment
    default, fitted = experiment.configurations
    assert (default.name, default.settings, experiment.baseline) == ("default", (), "default")
    assert fitted.profiles == ("fitted",)
    assert fitted.settings
    assert experiment.measure.rounds == 1


def test_aa_compares_a_server_with_itself_across_restarts() -> None:
    """The A/A preset differs in nothing and restarts all the same."""
    experiment = load_experiment("preset:aa", facts=FACTS).experiment
    first, second = experiment.configurations
    assert (first.target, first.settings) == (second.target, second.settings)
    assert experiment.measure.switch is SwitchCost.RESTART


def test_protocol_differs_in_the_protocol_alone() -> None:
    """The protocol preset's configurations share everything but the query mode."""
    first, second = load_experiment("preset:protocol", facts=FACTS).experiment.configurations
    assert (first.protocol, second.protocol) == ("simple", "prepared")
    assert (first.target, first.settings) == (second.target, second.settings)


def test_versions_differ_in_the_server_alone() -> None:
    """The versions preset compares binaries with equal initdb options and default settings."""
    old, new = load_experiment("preset:versions", facts=FACTS).experiment.configurations
    assert (old.target.bin, new.target.bin) == ("15", "embedded")
    assert old.target.initdb == new.target.initdb != ()
    assert old.settings == new.settings == ()


def test_scalability_has_loads_for_a_curve() -> None:
    """Seven numbers of clients, doubled each time, under one workload, going on after a verdict."""
    experiment = load_experiment("preset:scalability", facts=FACTS).experiment
    assert [load.clients for load in experiment.loads] == [1, 2, 4, 8, 16, 32, 64]
    assert all(load.rate_per_s is None for load in experiment.loads)
    assert experiment.stop.precision == 0.01
    assert experiment.contenders == ("fitted",)


def test_attribution_is_a_full_factorial() -> None:
    """Three factors, 8 combinations, which take turns."""
    experiment = load_experiment("preset:attribution", facts=FACTS, seed=3).experiment
    attribution = experiment.attribution
    assert attribution is not None
    assert attribution.is_full
    factors = [factor.name for factor in attribution.factors]
    assert factors == ["huge-pages", "statements", "buffers"]
    assert len(experiment.configurations) == 8
    asked = {s.name: s.value for s in experiment.configuration("huge-pages").settings}
    assert asked["huge_pages"] == "on"


def test_the_published_matrix_is_39_runs_in_ascending_order() -> None:
    """Scale 100, 13 combinations of clients and threads, three workloads, 60 s, one target."""
    experiment = load_experiment("preset:published-matrix", facts=FACTS, seed=3).experiment
    assert experiment.is_single_pass
    assert len(experiment.configurations) == 1
    pairs = [(load.clients, load.threads) for load in experiment.loads]
    assert pairs == [
        (clients, threads)
        for clients in (1, 10, 25, 50, 100)
        for threads in (1, 4, 8)
        if threads <= clients
    ]
    assert len(pairs) == 13
    planned = schedule_of(experiment, mode=Mode.STARTS, blocks=1)
    (block,) = planned.blocks
    (start,) = block.starts
    assert [run.cell for run in start.runs] == list(cells_of(experiment))
    assert len(start.runs) == 39
    assert experiment.measure.slice_s == 60.0
    assert {workload.scale_factor for workload in experiment.workloads} == {100}
    assert "SINGLE UNREPEATED PASS" in preset_summary("published-matrix")


@pytest.mark.parametrize("name", sorted(IN_KUBERNETES))
def test_a_preset_for_kubernetes_makes_every_cluster_anew(name: str) -> None:
    """Each loads, says that Longhorn was not run, and asks for a new Cluster in every start."""
    loaded = load_experiment(f"preset:{name}", facts=FACTS, seed=3)
    experiment = loaded.experiment
    assert experiment.is_in_kubernetes
    assert not experiment.is_single_pass
    assert experiment.measure.switch is SwitchCost.REPROVISION
    assert "Longhorn itself" in loaded.text
    assert "was never run with this preset" in " ".join(loaded.text.replace("\n#", " ").split())
    assert {workload.scale_factor for workload in experiment.workloads} == {100}
    asked = [target.storage_class for target in experiment.cluster_targets.values()]
    assert set(asked) <= {each.name for each in MATRIX}


def test_published_storage_is_the_published_matrix() -> None:
    """Its four storages, 13 combinations of clients and threads, three workloads, 2 CPUs, 8 GB."""
    experiment = load_experiment("preset:published-storage", facts=FACTS, seed=3).experiment
    assert experiment.baseline == "local-ssd"
    targets = experiment.cluster_targets
    assert {name: target.storage_class for name, target in targets.items()} == {
        "local-ssd": "local-path",
        "longhorn-1r": "longhorn-1r",
        "longhorn-2r": "longhorn-2r",
        "longhorn-2r-shared": "longhorn-2r-shared",
    }
    assert len({replace(target, storage_class=None) for target in targets.values()}) == 1
    (alike,) = {target.resources for target in targets.values()}
    assert dict(alike.requests) == dict(alike.limits) == {"cpu": "2", "memory": "8Gi"}
    single = load_experiment("preset:published-matrix", facts=FACTS, seed=3).experiment
    assert experiment.loads == single.loads
    assert [each.builtin for each in experiment.workloads] == [
        each.builtin for each in single.workloads
    ]
    published = {row["environment"] for row in _rows("postgres_cells.csv")}
    assert {f"cnpg-{name}" for name in ("local-ssd", "longhorn-1r", "longhorn-2r")} <= published
    assert "cnpg-longhorn-2r-shared-disk" in published


def test_published_storage_has_the_settings_of_rds_for_eight_gigabytes() -> None:
    """What was printed, and what the profile computes for 8 GiB, to the megabyte."""
    experiment = load_experiment("preset:published-storage", facts=FACTS, seed=3).experiment
    asked = experiment.configuration("longhorn-2r").asked()
    profile = profiled_settings("aws-defaults", MachineFacts(cpus=2, memory_bytes=8 * 1024**3))
    computed = {each.setting.name: int(each.setting.value) for each in profile}
    assert int(asked["max_connections"]) == computed["max_connections"]
    for name in ("shared_buffers", "effective_cache_size"):
        assert int(asked[name].removesuffix("MB")) == round(computed[name] * 8 / 1024)


def test_high_availability_weighs_a_standby_against_replicated_storage() -> None:
    """One instance as the baseline; a standby required and preferred; two replicas; writes only."""
    experiment = load_experiment("preset:high-availability", facts=FACTS, seed=3).experiment
    targets = experiment.cluster_targets
    told = {
        name: (target.storage_class, target.instances, target.synchronous)
        for name, target in targets.items()
    }
    assert experiment.baseline == "local"
    assert told == {
        "local": ("local-path", 1, None),
        "standby-required": ("local-path", 2, Synchronous()),
        "standby-preferred": ("local-path", 2, Synchronous(data_durability="preferred")),
        "longhorn-2r": ("longhorn-2r", 1, None),
    }
    assert {each.builtin for each in experiment.workloads} == {"simple-update", "tpcb-like"}
    near = ["configurations.local.target.generators.same_node=true"]
    asked = load_experiment(
        "preset:high-availability", facts=FACTS, seed=3, overrides=near
    ).experiment
    assert all(t.place.generators.same_node for t in asked.cluster_targets.values())


def test_storage_locality_differs_in_the_place_of_the_replica_alone() -> None:
    """One replica each: on any node, near the pod where possible, or nowhere else."""
    experiment = load_experiment("preset:storage-locality", facts=FACTS, seed=3).experiment
    classes = {each.name: each.longhorn for each in MATRIX}
    asked = [classes[t.storage_class or ""] for t in experiment.cluster_targets.values()]
    assert [each.locality for each in asked if each] == ["disabled", "best-effort", "strict-local"]
    assert {(each.replicas, each.disks) for each in asked if each} == {(1, "dedicated")}


@pytest.mark.parametrize("name", ["redis-aof", "redis-aof-loaded", "redis-storage"])
def test_redis_presets_ask_what_was_published(name: str) -> None:
    """20 clients, no pipeline, one key of 180,000 bytes, SET GET PING; labelled so."""
    loaded = load_experiment(f"preset:{name}", facts=FACTS, seed=3)
    experiment = loaded.experiment
    assert experiment.loads == (Load(clients=20, threads=2),)  # one process would be the limit
    assert [each.builtin for each in experiment.workloads] == ["set", "get", "ping_mbulk"]
    spaces = [each.redis.space for each in experiment.workloads if each.redis is not None]
    assert {space.keys for space in spaces} == {1}
    assert {space.value_bytes for space in spaces[:2]} == {180_000}
    assert "one key" in loaded.text.lower()
    assert "scaled down" in loaded.text or "loaded" in loaded.text
    assert load_experiment("preset:redis-aof", facts=FACTS, seed=3).experiment.generator_flags == ()


def test_the_loaded_preset_differs_in_its_data_alone() -> None:
    """Data that no request touches lie beside the key of the published study."""
    empty, data = (
        load_experiment(f"preset:{name}", facts=FACTS, seed=3).experiment
        for name in ("redis-aof", "redis-aof-loaded")
    )
    assert empty.configurations == data.configurations
    assert empty.workloads[:2] == data.workloads[:2]
    space = data.workload("ping").redis
    assert space is not None
    assert space.space.loaded * space.space.value_bytes == 300_000_000


def test_redis_aof_has_a_configuration_for_each_published_way_to_persist() -> None:
    """Off, every second, two tunings; and always and a dump beside them."""
    experiment = load_experiment("preset:redis-aof", facts=FACTS, seed=3).experiment
    assert experiment.baseline == "aof-off"
    asked = {t.name: t.asked() for t in experiment.configurations}
    assert {name for name, each in asked.items() if each["appendonly"] == "no"} == {
        "aof-off",
        "rdb",
    }
    assert [name for name, each in asked.items() if each.get("appendfsync") == "always"] == [
        "always"
    ]
    assert asked["no-fsync-on-rewrite"]["no-appendfsync-on-rewrite"] == "yes"
    assert asked["fewer-rewrites"]["auto-aof-rewrite-min-size"] == "1gb"


def test_redis_split_persists_on_the_replica_alone_and_names_the_recipe() -> None:
    """A dump on the primary would bring its replica back to the time of the dump: there is none.

    tests/live/test_redis_split_trap.py shows that; what prevents it is named in the head.
    """
    loaded = load_experiment("preset:redis-split", facts=FACTS, seed=3)
    asked = {t.name: t.asked() for t in loaded.experiment.configurations}
    replicas = {
        t.name: t.target.replica
        for t in loaded.experiment.configurations
        if isinstance(t.target, RedisLocalTarget) and t.target.replica is not None
    }
    assert list(replicas) == ["split"]
    assert dict(replicas["split"])["appendonly"] == "yes"
    assert {each["save"] for each in asked.values()} == {""}
    assert {name: each["appendonly"] for name, each in asked.items()} == {
        "primary-everysec": "yes",
        "primary-always": "yes",
        "split": "no",
        "nothing": "no",
    }
    assert asked["primary-always"]["appendfsync"] == "always"
    assert "docs/redis.md has a recipe" in loaded.text


def test_redis_storage_differs_in_its_volume_and_makes_it_anew() -> None:
    """AOF off and on a local volume, and on a replicated one; Longhorn was not run."""
    loaded = load_experiment("preset:redis-storage", facts=FACTS, seed=3)
    experiment = loaded.experiment
    assert experiment.is_made_anew
    targets = [t.target for t in experiment.configurations]
    assert all(isinstance(target, RedisKubernetesTarget) for target in targets)
    classes = [t.storage_class for t in targets if isinstance(t, RedisKubernetesTarget)]
    assert classes == ["local-path", "local-path", "longhorn-2r"]
    assert set(classes) <= {each.name for each in MATRIX}
    assert "was never run with this preset" in " ".join(loaded.text.replace("\n#", " ").split())


@pytest.mark.parametrize("name", ["redis-aof", "redis-aof-loaded"])
def test_a_redis_preset_runs_on_any_redis(name: str) -> None:
    """`--target URI` is all it takes for another server."""
    overrides = ["target=redis://cache:6379/3"]
    experiment = load_experiment(f"preset:{name}", facts=FACTS, overrides=overrides).experiment
    assert {t.target for t in experiment.configurations} == {
        RedisEndpointTarget(uri="redis://cache:6379/3")
    }


@pytest.mark.parametrize("name", ["aa", "protocol", "published-matrix", "published-maxed"])
def test_a_preset_runs_on_any_target(name: str) -> None:
    """`--target URI` is all it takes, where the preset neither restarts nor fits this machine."""
    overrides = ["target=postgresql://b@db/x"]
    if name == "aa":  # restarts the server between its two sides
        overrides.append("configurations.first.target.restart_command=[ssh, db, restart]")
    experiment = load_experiment(f"preset:{name}", facts=FACTS, overrides=overrides).experiment
    uris = {target.uri for target in experiment.endpoint_targets.values()}
    assert uris == {"postgresql://b@db/x"}
    assert len(experiment.endpoint_targets) == len(experiment.configurations)


@pytest.mark.parametrize("name", ["fitted", "aws-defaults"])
def test_a_preset_that_fits_this_machine_stays_here(name: str) -> None:
    """Settings from this machine's memory are not put on a server somewhere else."""
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(f"preset:{name}", facts=FACTS, overrides=["target=postgresql://b@db/x"])
    (problem,) = refused.value.problems
    assert "fits this machine, not the one of an endpoint" in problem.message


def test_a_path_is_a_file_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the word `preset:NAME` is a preset; a file of that name can still be named by a path."""
    monkeypatch.chdir(tmp_path)
    Path("preset:aa").write_text(preset_text("protocol"), encoding="utf-8")
    assert load_experiment(Path("preset:aa"), facts=FACTS).experiment.baseline == "simple"
    assert load_experiment("preset:aa", facts=FACTS).experiment.baseline == "first"


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    """A misspelled preset is bad input with the way out."""
    with pytest.raises(InputError) as refused:
        load_experiment("preset:quik", facts=FACTS)
    assert refused.value.hint == "did you mean `quick`?"
    assert refused.value.exit_code is ExitCode.BAD_INPUT


def test_a_preset_is_called_published_only_where_something_was() -> None:
    """A name is a claim: no head of such a preset takes it back."""
    heads = {
        name: preset_text(name).split("version: 1", 1)[0].lower()
        for name in preset_names()
        if name.startswith("published-")
    }
    assert heads
    assert [name for name, head in heads.items() if "nothing of this was published" in head] == []
