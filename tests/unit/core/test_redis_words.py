"""What Redis and PostgreSQL promise for each death, and what the URI of a Redis server says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.core.redis import (
    Death,
    RedisUri,
    parse_redis_uri,
    promised_commits,
    promised_loss,
)
from steelyard.core.target import REDIS
from steelyard.core.wording import InputError


def _bounds(**settings: str) -> tuple[float | None, float | None]:
    promised = promised_loss({name.replace("_", "-"): value for name, value in settings.items()})
    return promised.after(Death.KILL).most_s, promised.after(Death.POWER).most_s


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"appendonly": "no", "save": ""}, (None, None)),
        ({"appendonly": "no", "save": '""'}, (None, None)),
        ({}, (3600.0, 3600.0)),
        ({"save": "60 10000 900 1"}, (900.0, 900.0)),
        ({"appendonly": "yes"}, (2.0, 2.0)),
        ({"appendonly": "yes", "save": "1 1"}, (2.0, 2.0)),
        ({"appendonly": "yes", "no_appendfsync_on_rewrite": "yes"}, (2.0, 35.0)),
        ({"appendonly": "YES", "appendfsync": "always"}, (0.0, 0.0)),
        ({"appendonly": "yes", "appendfsync": "no"}, (0.0, 35.0)),
        (
            {"appendonly": "yes", "appendfsync": "always", "no_appendfsync_on_rewrite": "yes"},
            (0.0, 35.0),
        ),
    ],
)
def test_bounds_follow_settings(
    settings: dict[str, str], bounds: tuple[float | None, float | None]
) -> None:
    """Each mode has its bound for a kill and for a power cut; what is not set has its default."""
    assert _bounds(**settings) == bounds


def test_words_of_a_bound() -> None:
    """The bound reads as words: nothing, seconds, or everything."""
    promised = promised_loss({"appendonly": "yes", "appendfsync": "no"})
    assert (promised.kill.words, promised.power.words) == ("nothing", "35 s of writes")
    assert promised_loss({"save": ""}).power.words == "everything"


@pytest.mark.parametrize(
    ("save", "most_s", "words"),
    [
        (
            "60 10000",
            None,
            (
                "9,999 writes, or the writes of 60 s if these are more,"
                " and those that come during two saves"
            ),
        ),
        (
            "5 1000",
            None,
            (
                "999 writes, or the writes of 5 s if these are more,"
                " and those that come during two saves"
            ),
        ),
        (
            "300 100 60 10000",
            None,
            (
                "99 writes, or the writes of 300 s if these are more,"
                " and those that come during two saves"
            ),
        ),
        (
            "900 2",
            None,
            (
                "1 write, or the writes of 900 s if these are more,"
                " and those that come during two saves"
            ),
        ),
        ("3600 1 7200 10", 3600.0, "3600 s of writes and the time of two saves"),
        ("3600 1 60 1", 60.0, "60 s of writes and the time of two saves"),
        ("1 1", 1.0, "1 s of writes and the time of two saves"),
    ],
)
def test_save_points_bound_seconds_only_by_a_single_change(
    save: str, most_s: float | None, words: str
) -> None:
    """Fewer writes than a point asks for are never saved; and two saves come on top of seconds."""
    promised = promised_loss({"save": save})
    assert (promised.kill.most_s, promised.kill.words) == (most_s, words)
    assert promised.kill == promised.power


@pytest.mark.parametrize(
    ("save", "per_s", "words"),
    [
        ("5 1000", 7652.0, "about 38,000 writes and those that come during two saves"),
        ("5 1000", 150.0, "up to 999 writes, however old, and those that come during two saves"),
        ("300 100 60 10000", 7652.0, "about 460,000 writes and those that come during two saves"),
        ("300 100 60 10000", 10.0, "about 3,000 writes and those that come during two saves"),
    ],
)
def test_the_larger_bound_follows_from_the_measured_rate(
    save: str, per_s: float, words: str
) -> None:
    """Where writes come fast the seconds of a save point cost more than its number of writes."""
    promised = promised_loss({"save": save}, per_s).kill
    assert promised.words == words
    assert promised.rank == promised_loss({"save": save}).kill.rank


@pytest.mark.parametrize("appendonly", ["yes", "no"])
@pytest.mark.parametrize("appendfsync", ["always", "everysec", "no"])
def test_every_promise_says_why_and_who(appendonly: str, appendfsync: str) -> None:
    """No bound stands without its reason and source, and a kill never costs more than a cut."""
    promised = promised_loss({"appendonly": appendonly, "appendfsync": appendfsync})
    for each in (promised.kill, promised.power):
        assert each.reason
        assert each.source
    if promised.power.most_s is not None:
        assert promised.kill.most_s is not None
        assert promised.kill.most_s <= promised.power.most_s


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({}, (0.0, 0.0)),
        ({"synchronous_commit": "local"}, (0.0, 0.0)),
        ({"synchronous_commit": "off"}, (0.6, 0.6)),
        ({"synchronous_commit": "off", "wal_writer_delay": "10ms"}, (0.03, 0.03)),
        ({"synchronous_commit": "off", "wal_writer_delay": "1s"}, (3.0, 3.0)),
        ({"synchronous_commit": "off", "wal_writer_delay": "50"}, (0.15, 0.15)),
        ({"synchronous_commit": "off", "wal_writer_delay": "500us"}, (0.0015, 0.0015)),
        ({"synchronous_commit": "no", "wal_writer_delay": "1.5 s"}, (4.5, 4.5)),
        ({"synchronous_commit": "FALSE"}, (0.6, 0.6)),
        ({"fsync": "false"}, (0.0, None)),
        ({"fsync": "on", "full_page_writes": "0"}, (0.0, None)),
        ({"fsync": "off"}, (0.0, None)),
        ({"fsync": "off", "synchronous_commit": "off"}, (0.6, None)),
        ({"full_page_writes": "off"}, (0.0, None)),
    ],
)
def test_bounds_of_commits_follow_settings(
    settings: dict[str, str], bounds: tuple[float, float | None]
) -> None:
    """PostgreSQL may lose commits in a kill, too, where they do not wait; without fsync all."""
    promised = promised_commits(settings)
    assert promised.kill.most_s == pytest.approx(bounds[0])
    assert promised.power.most_s == (None if bounds[1] is None else pytest.approx(bounds[1]))


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
    assert REDIS.is_of(text)


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("redis+sentinel://h:26379/mymaster/0", "`redis+sentinel:`|SENTINEL GET-MASTER-ADDR"),
        ("redis-sentinel://h:26379,i:26379/0#mymaster", "`redis-sentinel:`|SENTINEL GET-MASTER"),
        ("redis-socket:///run/redis.sock", "`redis-socket:`|unix:///PATH?db=0"),
        ("redis+socket:///run/redis.sock?virtual_host=1", "`redis+socket:`|unix:///PATH?db=0"),
        ("rediss+cluster://h:6379", "`rediss+cluster:`|rediss:// with TLS"),
        ("REDISS+Insecure://h:6379", "`rediss+insecure:`|rediss:// with TLS"),
        ("valkey://u:hunter2@h:6379/0", "`valkey:`|redis://USER@HOST:PORT/DB"),
        ("valkeys://h", "`valkeys:`|rediss:// with TLS"),
        ("jdbc:redis://h:6379/0", "`jdbc:redis:`|redis://USER@HOST:PORT/DB"),
        ("unix:///x.sock?db=1&protocol=3", "`protocol`|?db="),
        ("redis://h/0?ssl_cert_reqs=none", "`ssl_cert_reqs`|?db="),
    ],
)
def test_forms_of_other_clients_are_named_with_what_is_taken(text: str, words: str) -> None:
    """They are read as meant for Redis, never as libpq's; nothing but the form is repeated."""
    assert REDIS.is_of(text)
    with pytest.raises(InputError) as refused:
        parse_redis_uri(text)
    for word in words.split("|"):
        assert word in f"{refused.value.message} {refused.value.hint}"
    assert "hunter2" not in repr(refused.value) + refused.value.hint


def test_a_password_is_refused_and_not_repeated() -> None:
    """Records carry no secrets, also as redis-py has them among the options."""
    in_options = "unix:///x.sock?db=0&password=hunter2"
    for text in (
        *("redis://u:hunter2@h", "redis://:hunter2@h", "unix://u:hunter2@/x.sock"),
        *(in_options, "redis://h?password=hunter2"),
    ):
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
