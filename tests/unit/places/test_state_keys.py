"""The key of a prepared state: equal for equal data, other for anything that matters."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.places.local.server import state_key
from steelyard.systems.protocol import Dataset

_SCRIPTS = (("orders.sql", "CREATE TABLE orders (id int)"),)
_IDENTITY = ("postgres", "18.6")


def _dataset(name: str = "s10", scale: int | None = 10, **options: object) -> Dataset:
    return Dataset(name=name, scale_factor=scale, **{"prepare": (), **options})


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
    one=st.lists(st.text(max_size=5), max_size=4),
    other=st.lists(st.text(max_size=5), max_size=4),
)
def test_words_do_not_run_together(one: list[str], other: list[str]) -> None:
    """``ab, c`` is not ``a, bc``; program and content are told apart."""
    assert (state_key(one, ()) == state_key(other, ())) is (one == other)
    assert state_key(one, ("x",)) != state_key([*one, "x"], ())
