"""Keys that are kept on disk: equal for equal things, other for whatever matters."""

from dataclasses import dataclass, field, make_dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core import target as targets
from steelyard.core.experiment import KeySpace
from steelyard.core.outside import stored_key
from steelyard.core.places import KubernetesPlace, PodResources
from steelyard.places.local.server import state_key
from steelyard.systems.protocol import Dataset

_SCRIPTS = (("orders.sql", "CREATE TABLE orders (id int)"),)
_IDENTITY = ("postgres", "18.6")


def _dataset(name: str = "s10", scale: int | None = 10, **options: object) -> Dataset:
    return Dataset(name=name, scale=scale, **{"prepare": (), **options})


_VARIANTS = [
    (_IDENTITY, [_dataset()]),
    (("postgres", "18.7"), [_dataset()]),
    (("postgres", "18.6", "--wal-segsize=64"), [_dataset()]),
    (("redis", "18.6"), [_dataset()]),
    (_IDENTITY, [_dataset(scale=100)]),
    (_IDENTITY, [_dataset(name="other")]),
    (_IDENTITY, [_dataset(), _dataset(name="own", scale=None)]),
    (_IDENTITY, [_dataset(prepare=_SCRIPTS)]),
    (_IDENTITY, [_dataset(prepare=(("orders.sql", "CREATE TABLE orders (id bigint)"),))]),
    (_IDENTITY, [_dataset(prepare=(("other.sql", _SCRIPTS[0][1]),))]),
    (_IDENTITY, []),
]


def test_anything_that_matters_changes_the_key() -> None:
    """Engine, version, initdb options, scale, prepare scripts and their names."""
    keys = [state_key(identity, content) for identity, content in _VARIANTS]
    assert all(one != other for one, other in combinations(keys, 2))


def test_equal_content_has_one_key() -> None:
    """A key is a function of the content alone, in every process."""
    for identity, content in _VARIANTS:
        assert state_key(identity, content) == state_key(list(identity), list(content))
    assert state_key(("a",), ()) == "b567c9c2f6342d67"


@given(
    one=st.lists(st.text(max_size=5), max_size=4), other=st.lists(st.text(max_size=5), max_size=4)
)
def test_words_do_not_run_together(one: list[str], other: list[str]) -> None:
    """``ab, c`` is not ``a, bc``; program and content are told apart."""
    assert (state_key(one, ()) == state_key(other, ())) is (one == other)
    assert state_key(one, ("x",)) != state_key([*one, "x"], ())


CLUSTER = targets.CloudNativePgTarget(
    place=KubernetesPlace(namespace="bench"),
    resources=PodResources(limits=(("cpu", "2"),)),
)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (targets.LocalTarget(), "855a390045323b5e"),
        (targets.LocalTarget(server="15", initdb=("--wal-segsize=64",)), "7d518c87a31bf0da"),
        (CLUSTER, "94fa205ded323f43"),
        (
            Dataset(name="s10", scale=10, prepare=(("a.sql", "SELECT 1"),)),
            "fd38ed853c6ae48c",
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


@pytest.mark.parametrize("target", [targets.LocalTarget(), targets.RedisLocalTarget(), CLUSTER])
def test_what_makes_no_other_target_makes_no_other_key(target: targets.Target) -> None:
    """How long burst credits last is said of a place that stays the same."""
    assert stored_key(replace(target, burst_lasts_s=600.0)) == stored_key(target)


def test_kinds_are_told_apart() -> None:
    """Where all else is as by default, too. Who stores one names its engine beside it."""
    assert stored_key(targets.LocalTarget()) != stored_key(targets.EndpointTarget())


def test_what_has_no_lasting_form_makes_no_key() -> None:
    """An object would be known by its address, a set by its order of the moment."""
    for value in (object(), {1, 2}, b"bytes"):
        with pytest.raises(TypeError, match="no stored key"):
            stored_key(value)
