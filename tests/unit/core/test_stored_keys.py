"""Keys that are kept on disk: the same in a later version, other for whatever matters."""

from dataclasses import dataclass, field, make_dataclass, replace

import pytest

from steelyard.core.experiment import KeySpace
from steelyard.core.outside import stored_key
from steelyard.core.target import (
    CloudNativePgTarget,
    KubernetesPlace,
    LocalTarget,
    PodResources,
    RedisLocalTarget,
    Target,
)
from steelyard.systems.protocol import Dataset

CLUSTER = CloudNativePgTarget(
    place=KubernetesPlace(namespace="bench"),
    resources=PodResources(limits=(("cpu", "2"),)),
)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (LocalTarget(), "855a390045323b5e"),
        (LocalTarget(bin="15", initdb=("--wal-segsize=64",)), "9943be33211b5ca0"),
        (RedisLocalTarget(), "935156aa531c1835"),
        (CLUSTER, "f18c5ef1c870397c"),
        (
            Dataset(name="s10", scale_factor=10, prepare=(("a.sql", "SELECT 1"),)),
            "1b9b58c22dd4e93e",
        ),
        (Dataset(name="k", space=KeySpace(keys=10)), "37e920f54020ec74"),
    ],
)
def test_keys_are_those_that_are_kept_already(value: object, key: str) -> None:
    """Another one would lose what a user has prepared and measured."""
    assert stored_key(value) == key


@dataclass(frozen=True, kw_only=True)
class _Before:
    name: str
    size: int = 1


def test_the_name_of_a_class_and_a_further_field_change_nothing() -> None:
    """A class is renamed, and a field is added whose default means what was meant before."""
    later = make_dataclass(
        "Later", [("name", str), ("more", str, field(default="")), ("size", int, 1)]
    )
    assert stored_key(later(name="a")) == stored_key(_Before(name="a"))
    assert stored_key(later(name="a", size=2)) == stored_key(_Before(name="a", size=2))
    assert stored_key(later(name="a", more="x")) != stored_key(_Before(name="a"))


@pytest.mark.parametrize("target", [LocalTarget(), RedisLocalTarget(), CLUSTER])
def test_what_makes_no_other_target_makes_no_other_key(target: Target) -> None:
    """How long burst credits last is said of a place that stays the same."""
    assert stored_key(replace(target, burst_lasts_s=600.0)) == stored_key(target)


def test_kinds_are_told_apart() -> None:
    """Where all else is as by default, too."""
    assert stored_key(LocalTarget()) != stored_key(RedisLocalTarget())


def test_what_has_no_lasting_form_makes_no_key() -> None:
    """An object would be known by its address, a set by its order of the moment."""
    for value in (object(), {1, 2}, b"bytes"):
        with pytest.raises(TypeError, match="no stored key"):
            stored_key(value)
