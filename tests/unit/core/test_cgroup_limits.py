"""Limits as they are written: what is read, what is refused, and how tables show them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.linux import (
    KEYS,
    Controller,
    Limits,
    controllers_of,
    cpu_list,
    limits_of,
    parse_cpu_list,
    shown_limit,
)
from steelyard.core.wording import MIB, InputError


def test_every_key_is_read_in_its_own_way() -> None:
    """A quota is a number, CPUs are a list, throttles are whole numbers, bytes are sizes."""
    asked = {
        "cpus": "0.6",
        "cpuset": "0,2-3",
        "generator_cpuset": "1",
        "memory": "600MB",
        "read_iops": "200",
        "write_iops": "100",
        "read_bytes_per_s": "20MB",
        "write_bytes_per_s": "4096",
    }
    assert set(asked) == set(KEYS)
    assert limits_of(asked) == Limits(
        cpus=0.6,
        cpuset=(0, 2, 3),
        generator_cpuset=(1,),
        memory=600 * MIB,
        read_iops=200,
        write_iops=100,
        read_bytes_per_s=20 * MIB,
        write_bytes_per_s=4096,
    )


def test_nothing_asked_for_is_no_limit() -> None:
    """A configuration without the layer limits nothing."""
    assert limits_of({}) == Limits()
    assert [shown_limit(key, Limits()) for key in KEYS] == [("unlimited", None)] * len(KEYS)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cpus", "0"),
        ("cpus", "-1"),
        ("cpus", "0.009"),
        ("cpus", "10001"),
        ("cpus", "half"),
        ("cpus", "inf"),
        ("cpuset", ""),
        ("cpuset", "1-0"),
        ("cpuset", "0,"),
        ("cpuset", "a"),
        ("cpuset", "99999"),
        ("generator_cpuset", "-1"),
        ("memory", "63MB"),
        ("memory", "much"),
        ("read_iops", "0"),
        ("read_iops", "1.5"),
        ("write_iops", "10000000000"),
        ("read_bytes_per_s", "0"),
        ("write_bytes_per_s", "20MB/s"),
    ],
)
def test_what_is_no_limit_is_refused(key: str, text: str) -> None:
    """With the text in the message, and the way out."""
    with pytest.raises(InputError) as caught:
        limits_of({key: text})
    assert text in caught.value.message
    assert caught.value.hint


def test_the_least_quota_is_the_kernels() -> None:
    """1 ms in a period of 100 ms is taken, and less is not."""
    assert limits_of({"cpus": "0.01"}).cpus == 0.01


@given(st.sets(st.integers(min_value=0, max_value=9999), min_size=1))
def test_lists_of_cpus_come_back(cpus: set[int]) -> None:
    """What is written from a set of CPUs is read as the same set, in order."""
    assert parse_cpu_list(cpu_list(cpus)) == tuple(sorted(cpus))


@given(st.text(max_size=20))
def test_any_text_is_a_list_or_refused(text: str) -> None:
    """No text does anything else than being read or refused."""
    try:
        found = parse_cpu_list(text)
    except InputError:
        return
    assert found == tuple(sorted(set(found)))


@pytest.mark.parametrize(
    ("limits", "key", "shown"),
    [
        (Limits(cpus=0.6), "cpus", ("0.6", None)),
        (Limits(cpuset=(0, 1, 3)), "cpuset", ("0-1,3", None)),
        (Limits(read_iops=200), "read_iops", ("200", None)),
        (Limits(read_bytes_per_s=20 * MIB), "read_bytes_per_s", ("20480", "kB")),
        (Limits(read_bytes_per_s=1000), "read_bytes_per_s", ("1000", "B")),
    ],
)
def test_limits_are_shown_with_their_unit(
    limits: Limits, key: str, shown: tuple[str, str | None]
) -> None:
    """As the table of settings takes them: bytes in kB where they are whole kB."""
    assert shown_limit(key, limits) == shown


def test_only_what_is_asked_for_needs_a_controller() -> None:
    """The generator's CPUs are no matter of the server's group; the freezer limits nothing."""
    assert controllers_of({"cpus"}) == {Controller.CPU}
    assert controllers_of({"generator_cpuset"}) == set()
    assert controllers_of(KEYS) == set(Controller) - {Controller.FREEZER}
