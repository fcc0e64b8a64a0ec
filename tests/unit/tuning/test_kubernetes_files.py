"""Objects of Kubernetes: read back as YAML, they have what the rules of the stack ask for."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from ruamel.yaml import YAML

from fakes import stack_designs
from steelyard.core.stack import Place, PlannedSetting, StackRequest
from steelyard.core.wording import GIB, KIB, MIB
from steelyard.tuning.files.files import (
    cluster,
    kubelet_configuration,
    quantity,
    render,
    rendered,
    storage_class,
)

UNITS = {"Ki": KIB, "Mi": MIB, "Gi": GIB}


def loaded(text: str) -> Any:
    """Return YAML as Kubernetes reads it: by version 1.1, where a bare ``on`` is a truth."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    return yaml.load(text)


def count(text: str) -> int:
    """Return the bytes of a quantity."""
    return int(text[:-2]) * UNITS[text[-2:]]


def a_request(**changed: Any) -> StackRequest:
    """Return a request for a cluster."""
    values = {"cpus": 2, "memory_bytes": 16 * GIB, "place": Place.CNPG, "name": "pg", **changed}
    return StackRequest(**values)


@pytest.mark.parametrize("nodes", [(0,), (0, 1), (0, 1, 2)])
def test_reserved_memory_is_the_exact_sum(nodes: tuple[int, ...]) -> None:
    """Over all nodes it is kubeReserved + systemReserved + evictionHard, to the byte (K8S007)."""
    read = loaded(kubelet_configuration(stack_designs.pod(numa_nodes=nodes), exclusive=True))
    reserved = [
        read["kubeReserved"]["memory"],
        read["systemReserved"]["memory"],
        read["evictionHard"]["memory.available"],
    ]
    promised = [each["limits"] for each in read["reservedMemory"]]
    assert sum(map(count, reserved)) == GIB + 1012 * MIB
    assert sum(count(each["memory"]) for each in promised) == sum(map(count, reserved))
    assert [each["numaNode"] for each in read["reservedMemory"]] == list(nodes)
    assert all(list(each) == ["memory"] for each in promised)


def test_shared_cpus_need_no_policies() -> None:
    """Without exclusive CPUs the kubelet's policies stay as they are; reservations remain."""
    read = loaded(kubelet_configuration(stack_designs.pod(), exclusive=False))
    assert not {"cpuManagerPolicy", "memoryManagerPolicy", "reservedMemory"} & set(read)
    assert read["kubeReserved"] == {"memory": "1Gi"}


def test_large_pages_are_asked_for_by_their_own_name() -> None:
    """Pages of a gibibyte are another resource."""
    pod = stack_designs.pod(page_bytes=GIB, huge_pages_bytes=7 * GIB)
    limits = loaded(cluster(stack_designs.cnpg(), pod))["spec"]["resources"]["limits"]
    assert limits["hugepages-1Gi"] == "7Gi"


def test_parameters_are_texts_of_the_user() -> None:
    """All are texts, none belongs to the operator, and wal_level is not its default (CNPG001)."""
    settings = (
        *stack_designs.SETTINGS,
        stack_designs.setting("listen_addresses", "*"),
        stack_designs.setting("archive_mode", "on"),
        stack_designs.setting("allow_alter_system", "off"),
    )
    design = stack_designs.design(Place.CNPG, postgres=stack_designs.postgres(*settings))
    parameters = loaded(cluster(design, stack_designs.pod()))["spec"]["postgresql"]["parameters"]

    assert parameters == {each.name: each.value for each in stack_designs.SETTINGS}
    assert parameters["huge_pages"] == "on"
    assert all(isinstance(value, str) for value in parameters.values())


@pytest.mark.parametrize(("decoding", "level"), [(False, "replica"), (True, "logical")])
def test_wal_level_is_always_said(*, decoding: bool, level: str) -> None:
    """Left out, the operator would make it logical; it is so only where it is needed (CNPG002)."""
    design = stack_designs.design(
        Place.CNPG,
        a_request(logical_decoding=decoding),
        postgres=stack_designs.postgres(stack_designs.setting("work_mem", "4MB")),
    )
    spec = loaded(cluster(design, stack_designs.pod()))["spec"]
    assert spec["postgresql"]["parameters"]["wal_level"] == level


@pytest.mark.parametrize(("instances", "budget"), [(1, False), (3, True)])
def test_disruption_budget_follows_the_instances(*, instances: int, budget: bool) -> None:
    """A budget protects several instances and only hinders one (CNPG004)."""
    pod = stack_designs.pod(instances=instances)
    spec = loaded(cluster(stack_designs.cnpg(), pod))["spec"]
    assert (spec["instances"], spec["enablePDB"]) == (instances, budget)
    assert spec["affinity"]["podAntiAffinityType"] == "required"


def test_shared_memory_of_parallel_queries() -> None:
    """The size of /dev/shm is asked for where the design has one (PG012)."""
    with_it = loaded(cluster(stack_designs.cnpg(), stack_designs.pod()))["spec"]
    without = loaded(cluster(stack_designs.cnpg(), stack_designs.pod(shm_bytes=0)))["spec"]
    assert with_it["ephemeralVolumesSizeLimit"] == {"shm": "256Mi"}
    assert "ephemeralVolumesSizeLimit" not in without


@pytest.mark.parametrize(
    ("asked", "name", "provisioner"),
    [
        ({}, "local-path-late", "rancher.io/local-path"),
        ({"storage": "longhorn"}, "longhorn-strict-local", "driver.longhorn.io"),
    ],
)
def test_volumes_are_local_and_late(asked: dict[str, str], name: str, provisioner: str) -> None:
    """The class binds late, and of Longhorn it keeps one copy beside the pod (LH001 to LH003)."""
    design = stack_designs.design(Place.CNPG, a_request(**asked), pod=stack_designs.pod())
    read = loaded(storage_class(design))
    spec = loaded(cluster(design, stack_designs.pod()))["spec"]

    assert (read["metadata"]["name"], read["provisioner"]) == (name, provisioner)
    assert spec["storage"]["storageClass"] == name
    assert read["volumeBindingMode"] == "WaitForFirstConsumer"
    if "longhorn" in provisioner:
        assert read["parameters"]["numberOfReplicas"] == "1"
        assert read["parameters"]["dataLocality"] == "strict-local"


@pytest.mark.parametrize("name", ["fast", "longhorn-pg"])
def test_a_class_that_was_named_is_referenced_not_made(name: str) -> None:
    """Nobody knows its provisioner from here: a class of that name would be another one."""
    asked = a_request(storage_class=name)
    design = stack_designs.design(Place.CNPG, asked, pod=stack_designs.pod())
    files = {file.name: file.content for file in render(design)}
    assert "kubernetes/storage-class.yaml" not in files
    spec = loaded(files["kubernetes/cluster.yaml"])["spec"]
    assert spec["storage"]["storageClass"] == name
    unnamed = stack_designs.design(Place.CNPG, a_request(), pod=stack_designs.pod())
    assert "kubernetes/storage-class.yaml" in {file.name for file in render(unnamed)}


def test_a_volume_has_the_size_of_the_plan() -> None:
    """Not a constant: the WAL of a large server would not fit."""
    pod = stack_designs.pod(volume_bytes=120 * GIB)
    spec = loaded(cluster(stack_designs.cnpg(), pod))["spec"]
    assert spec["storage"]["size"] == "120Gi"


@pytest.mark.parametrize(
    ("size", "text"),
    [(2 * GIB, "2Gi"), (6500 * MIB, "6500Mi"), (3 * KIB, "3Ki"), (1001, "1001"), (0, "0")],
)
def test_quantities_are_exact(size: int, text: str) -> None:
    """A size is written in the largest unit that keeps it whole."""
    assert quantity(size) == text


@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_back_as_it_was(value: str) -> None:
    """No quote, backslash, line end or strange character of a value ends it early in a template."""
    setting = PlannedSetting(name="log_line_prefix", value=value, reason="Asked for", source="")
    design = stack_designs.cnpg()
    changed = replace(design, postgres=replace(design.postgres, settings=(setting,)))
    parameters = loaded(cluster(changed, stack_designs.pod()))["spec"]["postgresql"]["parameters"]
    assert parameters["log_line_prefix"] == value


def test_a_template_does_without_no_value() -> None:
    """A value that a template needs and nobody gives is an error, not an empty place in a file."""
    with pytest.raises(UndefinedError, match="settings"):
        rendered("sysctl.conf")
