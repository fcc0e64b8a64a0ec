"""What a load generator's user may do follows from what it sends."""

import pytest

from steelyard.core.experiment import RedisWork, Workload
from steelyard.core.outside import Guest, ServerAddress
from steelyard.core.wording import PreflightError
from steelyard.systems.redis.redis_benchmark import credentials, refuse_password, secrets_of
from steelyard.systems.redis.settings import COMMANDS, rights_of

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


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("HGETALL cart:__rand_int__", ("+hgetall", "~cart:*")),
        ("SET a*[1]?\\ __data__", ("+set", "~a\\*\\[1\\]\\?\\\\")),
        ("BITOP AND to from:__rand_int__", ("+bitop", "~AND", "~to", "~from:*")),
        ("INCRBY hits __rand_int__", ("+incrby", "~hits", "~[0-9_]*")),
        ("SET __data__ x", ("+set", "~*", "~x")),
        ("OBJECT ENCODING cart", ("+object|encoding", "~ENCODING", "~cart")),
        ("CONFIG GET save", ("+config|get", "~GET", "~save")),
        ("SORT list BY weight_*", ("+sort", "~*")),
        ("TIME", ("+time",)),
    ],
)
def test_a_command_of_the_user_may_use_keys_like_its_words(
    command: str, rules: tuple[str, ...]
) -> None:
    """Which of them are keys is not known; no other command, not even one beside it."""
    own = Workload(name="w", redis=RedisWork(command=tuple(command.split())))
    assert rights_of([own]) == ("+select", *rules)


def test_only_a_guest_s_password_goes_into_a_command_line() -> None:
    """That of the server's owner never does; a user without one takes any."""
    guest = Guest(name="steelyard-1", password="for-a-day")
    assert credentials(_PLACE) is None
    with pytest.raises(PreflightError, match="as an argument"):
        refuse_password(_PLACE)
    invited = ServerAddress(host="db", port=1, user="bench", password="planted", guest=guest)
    user, word = credentials(invited) or ("", "")
    assert user == "steelyard-1"
    assert "for-a-day" not in word
    assert secrets_of(invited) == {word: "for-a-day"}
    refuse_password(invited)
    bare = ServerAddress(host="db", port=1, user="bench")
    assert (credentials(bare), secrets_of(bare)) == (("bench", "none"), {})
    assert "for-a-day" not in repr(invited)
