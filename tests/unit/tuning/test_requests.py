"""Requests that no plan is made of, and the volumes of a cluster."""

from dataclasses import replace

import pytest

from steelyard.core.stack import Place, StackDesign, StackRequest
from steelyard.core.wording import GIB, KIB, MIB, InputError
from steelyard.tuning.plan.arithmetic import formula_counter
from steelyard.tuning.plan.designing import design_stack
from support.made_machines import bare, machine

SMALL = StackRequest(cpus=2, memory_bytes=8 * GIB)


def planned(**asked: object) -> StackDesign:
    """Return a design on a large machine."""
    request = replace(SMALL, **asked)  # type: ignore[arg-type]
    facts = bare(machine(nodes=1, cores=16, node_gib=1024))
    return design_stack(request, facts, formula_counter(request.postgres_version))


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"name": "../../../evil"}, "is no name that every layer of local takes"),
        ({"name": "../evil", "place": Place.KVM}, "is no name"),
        ({"name": "My_DB", "place": Place.CNPG}, "is no name that every layer of cnpg takes"),
        ({"name": "my.db", "place": Place.CNPG}, "is no name"),
        ({"name": "a" * 51, "place": Place.CNPG}, "is no name"),
        ({"name": "my_db", "place": Place.RDS}, "is no name"),
        ({"max_connections": 3}, "3 are reserved for superusers"),
        ({"shared_buffers_bytes": 0}, "less than any server takes"),
        ({"shared_buffers_bytes": 127 * KIB}, "less than any server takes"),
        ({"volume_bytes": GIB}, "--volume-size is of a cluster"),
        ({"storage_class": "gp3"}, "--storage-class is of a cluster"),
        ({"disks": ("/dev/sda",)}, "--disk is of a virtual machine"),
        ({"bridge": "br0", "place": Place.CNPG}, "--bridge is of a virtual machine"),
        ({"disks": ("vda",), "place": Place.KVM}, "is no path of a disk"),
        ({"bridge": "a bridge", "place": Place.KVM}, "is no name of a bridge"),
    ],
)
def test_what_no_layer_takes_is_refused(asked: dict[str, object], fact: str) -> None:
    """Before any machine is asked, in a sentence with the way out."""
    with pytest.raises(InputError) as caught:
        planned(**asked)
    assert fact in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "My_DB.1", "place": Place.KVM},
        {"name": "my-db", "place": Place.CNPG},
        {"name": "My-DB", "place": Place.RDS},
        {"max_connections": 4},
        {"shared_buffers_bytes": 128 * KIB},
    ],
)
def test_what_every_layer_takes_is_planned(asked: dict[str, object]) -> None:
    """The bounds themselves are no errors."""
    assert planned(**asked).postgres.settings


def wal(made: StackDesign) -> str:
    """Return max_wal_size."""
    return {each.name: each.value for each in made.postgres.settings}["max_wal_size"]


def test_the_wal_fits_on_the_volume() -> None:
    """A volume grows with the WAL, and is told; a volume that was asked for bounds it."""
    large = planned(place=Place.CNPG, memory_bytes=400 * GIB)
    assert large.pod is not None
    assert wal(large) == "100GB"
    assert large.pod.volume_bytes == 400 * GIB
    assert any("volumes of 400.0 GiB" in each for each in large.assumptions)
    bounded = planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=240 * GIB)
    assert wal(bounded) == "60GB"
    assert not any("volumes of" in each for each in bounded.assumptions)
    with pytest.raises(InputError, match="no room for the WAL") as caught:
        planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=50 * GIB)
    enough = int(caught.value.hint.partition("MiB")[0].rpartition(" ")[2]) * MIB
    assert wal(planned(place=Place.CNPG, memory_bytes=400 * GIB, volume_bytes=enough)) == "50GB"


def test_a_class_that_nobody_saw_is_an_assumption() -> None:
    """It is taken to be there and to bind late."""
    made = planned(place=Place.CNPG, storage_class="gp3")
    assert any("'gp3'" in each for each in made.assumptions)
