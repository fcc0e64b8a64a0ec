"""URIs of Redis servers: what each form says, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.redis import RedisUri, is_redis_uri, parse_redis_uri
from steelyard.core.wording import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://", RedisUri(host="localhost")),
        ("redis://cache", RedisUri(host="cache")),
        ("redis://cache:6380/3", RedisUri(host="cache", port=6380, db=3)),
        ("redis://cache/?db=3", RedisUri(host="cache", db=3)),
        ("rediss://b%40c@[::1]:1/0", RedisUri(host="::1", port=1, user="b@c", db=0, tls=True)),
        ("unix:///run/r%20x.sock?db=2", RedisUri(host="/run/r x.sock", db=2)),
        ("unix://bench@/run/redis.sock", RedisUri(host="/run/redis.sock", user="bench")),
    ],
)
def test_what_a_uri_says(text: str, expected: RedisUri) -> None:
    """Each part has its place; what is absent is None."""
    assert parse_redis_uri(text) == expected
    assert is_redis_uri(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h/d",
        "redis:h",
        "redis://h:x",
        "redis://h:70000",
        "redis://h/x",
        "redis://h/1?db=1",
        "redis://h?timeout=1",
        "redis://h/1#f",
        "unix://",
        "unix:///",
        "unix://run/redis.sock",
        "redis://[h",
    ],
)
def test_what_is_no_uri_of_redis(text: str) -> None:
    """It is refused with the forms that there are, and never guessed."""
    with pytest.raises(InputError) as refused:
        parse_redis_uri(text)
    assert refused.value.hint


def test_a_password_is_refused_and_not_repeated() -> None:
    """Records carry no secrets."""
    for text in ("redis://u:hunter2@h", "redis://:hunter2@h", "unix://u:hunter2@/x.sock"):
        with pytest.raises(InputError, match="password") as refused:
            parse_redis_uri(text)
        assert "hunter2" not in repr(refused.value) + refused.value.hint


@given(st.text(max_size=30))
def test_any_text_is_a_uri_or_is_refused(rest: str) -> None:
    """Nothing else is raised, whatever stands there."""
    for scheme in ("redis", "unix", ""):
        try:
            parsed = parse_redis_uri(f"{scheme}://{rest}")
        except InputError:
            continue
        assert parsed.host
