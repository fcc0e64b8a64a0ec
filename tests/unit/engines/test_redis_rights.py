"""What a load generator's user may do follows from what it sends."""

import pytest

from steelyard.engines.redis.addresses import credentials, refuse_password
from steelyard.engines.redis.rights import rights_of
from steelyard.engines.redis.words import COMMANDS
from steelyard.model.command import Guest, ServerAddress
from steelyard.model.errors import PreflightError
from steelyard.model.workload import RedisWork, Workload

_PLACE = ServerAddress(host="db", port=6379, password="planted")


def test_a_test_of_the_generator_may_use_its_keys_only() -> None:
    """Each command with the names of its keys, and no right twice."""
    asked = [
        Workload(name=name, builtin=name, redis=RedisWork()) for name in ("set", "get", "ping")
    ]
    assert rights_of(asked) == ("+select", "+set", "~key:*", "+get", "+ping")


@pytest.mark.parametrize("builtin", sorted(COMMANDS))
def test_no_test_needs_the_right_to_everything(builtin: str) -> None:
    """Whatever the generator can send by itself has keys of a known name."""
    rules = rights_of([Workload(name="w", builtin=builtin, redis=RedisWork())])
    assert "~*" not in rules
    assert f"+{COMMANDS[builtin][0].lower()}" in rules


def test_a_command_of_the_user_may_use_any_key_but_no_other_command() -> None:
    """Which of its words are keys is not known."""
    own = Workload(name="w", redis=RedisWork(command=("HGETALL", "cart:__rand_int__")))
    assert rights_of([own]) == ("+select", "+hgetall", "~*")


def test_a_mix_reads_and_writes() -> None:
    """memtier_benchmark's own mix is of GET and SET."""
    mix = Workload(name="mix", redis=RedisWork(read_share=0.9))
    assert rights_of([mix]) == ("+select", "+get", "~key:*", "+set")


def test_only_a_guest_s_password_goes_into_a_command_line() -> None:
    """That of the server's owner never does; a user without one takes any."""
    guest = Guest(name="steelyard-1", password="for-a-day")
    assert credentials(_PLACE) is None
    with pytest.raises(PreflightError, match="as an argument"):
        refuse_password(_PLACE, "redis-benchmark")
    invited = ServerAddress(host="db", port=1, user="bench", password="planted", guest=guest)
    assert credentials(invited) == ("steelyard-1", "for-a-day")
    refuse_password(invited, "redis-benchmark")
    assert credentials(ServerAddress(host="db", port=1, user="bench")) == ("bench", "none")
    assert "for-a-day" not in repr(invited)
