"""What ``try --set`` names: values at commas, as the server's kinds of settings have it."""

from typing import TYPE_CHECKING, cast

import pytest

from steelyard.campaign.file.trial import (
    TRIED,
    may_be_several,
    tried_values,
    values_of,
    wishes_of,
)
from steelyard.core.wording import InputError
from steelyard.systems.postgres.settings import SettingEntry, listed

if TYPE_CHECKING:
    from steelyard.systems.protocol import Engine

_KINDS = {
    "work_mem": "integer",
    "random_page_cost": "real",
    "jit": "bool",
    "constraint_exclusion": "enum",
    "search_path": "string",
}


class _Server:
    """A server that knows the kinds of settings, and has two values."""

    def listed(self, _: str, name: str, text: str) -> tuple[str, ...]:
        kind = _KINDS.get(name.lower())
        entry = SettingEntry(name=name, context="user", group="", kind=kind) if kind else None
        return listed(entry, text)

    def has_now(self, _: str, name: str, value: str) -> bool:
        return (name, value) in {("work_mem", "4MB"), ("jit", "on")}


def tried(*texts: str) -> dict[str, dict[str, str]]:
    """Return the configurations of a command line."""
    found = tried_values(wishes_of(texts), cast("Engine", _Server())).configurations
    return {name: dict(settings) for name, settings in found.items()}


def test_each_value_is_a_configuration_and_the_servers_own_is_the_baseline() -> None:
    """The other settings go with every value; a name has no dot."""
    server = cast("Engine", _Server())
    found = tried_values(wishes_of(["work_mem=4MB, 64MB,256MB", "jit=off"]), server)
    assert found.configurations == {
        "64MB": {"work_mem": "64MB", "jit": "off"},
        "256MB": {"work_mem": "256MB", "jit": "off"},
    }
    assert found.left_out == (("work_mem", "4MB"),)
    assert values_of(found.configurations) == {"work_mem": "64MB or 256MB", "jit": "off"}
    assert list(tried("random_page_cost=1.1,-1,.5")) == ["1_1", "minus-1", "5"]
    assert list(tried("constraint_exclusion=off,partition")) == ["off", "partition"]


def test_a_text_is_one_value_and_a_second_option_another() -> None:
    """A comma within a string, or in what the server does not know, parts nothing."""
    assert tried("search_path=a, b") == {TRIED: {"search_path": "a, b"}}
    assert tried("nosuch=1,2") == {TRIED: {"nosuch": "1,2"}}
    two = tried("search_path=a, b", "Search_Path=ä")
    assert two == {"a-b": {"search_path": "a, b"}, "value-2": {"search_path": "ä"}}
    assert list(tried("search_path=value-2", "search_path=ä")) == ["value-2", "value-3"]
    assert tried("jit=on,off") == {TRIED: {"jit": "off"}}
    assert tried("work_mem=1MB", "work_mem=2MB") == tried("work_mem=1MB,2MB")
    assert not may_be_several(wishes_of(["work_mem=1MB", "jit=off"]))
    assert may_be_several(wishes_of(["jit=off", "JIT=on"]))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["work_mem=1MB,2MB", "jit=on,off"], "work_mem and jit have several values each"),
        (["work_mem=1MB,,2MB"], "a value of work_mem is empty"),
        (["work_mem=1MB,1mb"], "work_mem has the value 1mb twice"),
        (["=1"], "'=1' is no setting with its value"),
    ],
)
def test_what_is_no_series_is_refused(texts: list[str], message: str) -> None:
    """One setting has several values, each once."""
    with pytest.raises(InputError, match=message):
        tried(*texts)
