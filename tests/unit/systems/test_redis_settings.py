"""Redis settings: what a change costs, what may be set, when a value is the one asked for."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from steelyard.core.experiment import Layer, Setting, SwitchCost
from steelyard.core.redis import in_bytes
from steelyard.gateways.redis import ReplyError
from steelyard.systems.redis import settings
from steelyard.systems.redis.server import configuration_text

_LIMITS = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"


class _Session:
    """A server of three settings, of which one cannot be changed."""

    shown: ClassVar = {
        "appendfsync": "everysec",
        "io-threads": "1",
        "save": "3600 1",
        "requirepass": "x",
    }

    def __init__(self) -> None:
        self.asked: list[tuple[str | bytes | int, ...]] = []

    def command(self, *words: str | bytes | int) -> object:
        self.asked.append(words)
        if words[:2] == ("CONFIG", "GET"):
            return [word.encode() for pair in self.shown.items() for word in pair]
        if words[2] == "io-threads":
            raise ReplyError("ERR CONFIG SET failed - can't set immutable config")
        return b"OK"

    def pipeline(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[object]:
        return [self.command(*words) for words in commands]

    def info(self, *sections: str) -> dict[str, str]:
        return dict.fromkeys(sections, "")

    def close(self) -> None:
        """Nothing is held."""


def test_a_server_says_what_can_be_changed() -> None:
    """Only what is asked for is tried, each with the value that it has."""
    session = _Session()
    found = settings.read_catalogue(session, ["IO-Threads", "appendfsync", "no-such"])
    assert found["appendfsync"] == settings.RedisSetting(
        name="appendfsync", default="everysec", changeable=True
    )
    assert not found["io-threads"].changeable
    assert not found["save"].changeable
    assert session.asked[1:] == [
        ("CONFIG", "SET", "appendfsync", "everysec"),
        ("CONFIG", "SET", "io-threads", "1"),
    ]


@pytest.mark.parametrize(
    ("names", "cost"),
    [
        ([], SwitchCost.SESSION),
        (["appendfsync"], SwitchCost.RELOAD),
        (["AppendFsync"], SwitchCost.RELOAD),
        (["io-threads", "appendfsync"], SwitchCost.RESTART),
        (["appendonly"], SwitchCost.RESTART),
        (["unknown"], SwitchCost.RESTART),
    ],
)
def test_the_dearest_setting_decides_the_switch(names: list[str], cost: SwitchCost) -> None:
    """What the server takes at run time is a reload, unless its effect outlives the switch."""
    entries = {"appendfsync": True, "io-threads": False, "appendonly": True}
    catalogue = {
        n: settings.RedisSetting(name=n, default="", changeable=c) for n, c in entries.items()
    }
    assert settings.switch_cost(names, catalogue) is cost


def test_what_steelyard_sets_is_refused_with_the_way_out() -> None:
    """Names are compared without their case, and told as they were given."""
    assert settings.refused_names(["Port", "appendonly", "replicaof"]) == {
        "Port": "Use `target: {port: ...}`.",
        "replicaof": "Use `target: {replica: {...}}`.",
    }


@pytest.mark.parametrize(
    ("name", "asked", "actual"),
    [
        ("maxmemory", "1gb", "1073741824"),
        ("maxmemory", "1G", "1000000000"),
        ("auto-aof-rewrite-min-size", "64MB", "67108864"),
        ("save", "", ""),
        ("save", "60  1", "60 1"),
        ("appendfsync", "Always", "always"),
        ("client-output-buffer-limit", "replica 256mb 64mb 60", _LIMITS),
        ("notify-keyspace-events", "xKE", "xKE"),
        ("notify-keyspace-events", "KEx", "xKE"),
    ],
)  # fmt: skip
def test_the_same_value_in_other_words(name: str, asked: str, actual: str) -> None:
    """Sizes, spaces, cases and orders that Redis shows differently are the same."""
    assert settings.same_value(name, asked, actual)


@pytest.mark.parametrize(
    ("name", "asked", "actual"),
    [
        ("maxmemory", "1gb", "1000000000"),
        ("save", "60 1", ""),
        ("save", "", "3600 1"),
        ("appendfsync", "always", "everysec"),
        ("client-output-buffer-limit", "replica 1mb 0 0", "normal 0 0 0 slave 0 0 0"),
        ("notify-keyspace-events", "KE", "KEx"),
        ("notify-keyspace-events", "kE", "KE"),
    ],
)
def test_another_value_is_another(name: str, asked: str, actual: str) -> None:
    """What differs in effect is not taken for the same."""
    assert not settings.same_value(name, asked, actual)


def test_deviations_name_both_values() -> None:
    """A sentence for each setting that is not in force, none for those that are."""
    asked = [
        Setting(layer=Layer.REDIS, name="appendfsync", value="always"),
        Setting(layer=Layer.REDIS, name="maxmemory", value="1kb"),
        Setting(layer=Layer.REDIS, name="gone", value="1"),
        Setting(layer=Layer.LINUX, name="vm.overcommit_memory", value="1"),
    ]
    effective = settings.recorded({"appendfsync": "everysec", "maxmemory": "1024"})
    assert settings.deviations(asked, effective) == (
        "appendfsync was asked to be 'always' and is 'everysec'",
        "gone is not known to the running server",
    )


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("-1", -1), ("2kb", 2048), ("yes", None)])
def test_sizes_of_redis_conf(text: str, value: int | None) -> None:
    """redis.conf's k is 1000 and its kb 1024; a word is no size."""
    assert in_bytes(text) == value


def test_words_of_a_value_stay_apart_where_redis_wants_several() -> None:
    """One value with spaces is quoted whole, a list of words by word; nothing stays a value."""
    said = configuration_text({"save": "60 1", "appendonly": "no", "logfile": 'a "b"\\'})
    assert said.splitlines()[1:] == ['save "60" "1"', 'appendonly "no"', 'logfile "a \\"b\\"\\\\"']
    assert 'save ""' in configuration_text({"save": ""})
