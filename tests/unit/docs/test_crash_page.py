"""The page of crash tests says what the kept tests found, and these found what it says in words."""

import json

import pytest

from steelyard.answers.crashes import crash_summaries
from steelyard.cli.crash_testing import crash_content
from steelyard.core.redis import Death
from steelyard.core.wording import format_bytes
from support.crash_page import KEPT, PAGE, kept, tables, text

NAMES = tuple(sorted(path.stem for path in KEPT.glob("*.json")))
MATRICES = ("redis", "postgres")


def test_the_tables_are_what_the_tests_give() -> None:
    """Each number on the page comes from a kept test: the page is not edited by hand."""
    assert PAGE.read_text("utf-8") == text()


def test_every_kept_test_is_shown() -> None:
    """Both deaths of both engines, and the long load."""
    shown = {*((name, death.value) for name in MATRICES for death in Death)}
    assert set(tables()) == shown | {("redis-minute", "power")}
    assert {name for name, _ in tables()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_derived_is_derived_anew(name: str) -> None:
    """The kept files hold the crashes and what the analysis of today makes of them."""
    test = kept(name)
    assert json.loads((KEPT / f"{name}.json").read_text("utf-8")) == crash_content(test)
    assert not test.interrupted


@pytest.mark.parametrize("name", MATRICES)
def test_enough_deaths_were_taken(name: str) -> None:
    """At least twenty of each kind for each mode; a server with a replica is only killed."""
    test = kept(name)
    for death in Death:
        for mode in test.modes:
            is_taken = mode.replica is None or death is Death.KILL
            assert len(test.of(mode.name, death)) >= 20 * is_taken
            assert is_taken or not test.of(mode.name, death)


def test_what_the_page_says_of_redis_was_found() -> None:
    """Nothing is lost with always, up to a second with everysec, all with no: the cuts cut."""
    found = {(each.mode, each.death): each for each in crash_summaries(kept("redis"))}
    assert found["always", Death.POWER].losing == 0
    assert found["no", Death.POWER].is_control
    assert found["no", Death.POWER].whole_load == found["no", Death.POWER].crashes
    everysec = found["everysec", Death.POWER]
    assert everysec.losing == everysec.crashes
    assert 0.9 < everysec.most_lost_s < 1.0
    assert found["off", Death.KILL].whole_load == found["off", Death.KILL].crashes
    assert [found[mode, Death.KILL].losing for mode in ("no", "everysec", "always")] == [0, 0, 0]
    late = found["always", Death.POWER]
    assert f"Under `always` there were {late.uncounted:,} in 20 cuts" in PAGE.read_text("utf-8")
    assert late.uncounted_lost == 0


def test_what_both_pages_say_of_a_pair_was_found() -> None:
    """Two of forty kills lost something, in their last moment; so said beside `everysec`."""
    test = kept("redis")
    kills = test.of("split", Death.KILL)
    late, early = (each for each in kills if each.gone)
    assert (len(kills), early.lost, late.late_lost, late.gone) == (40, 16, 45, 45)
    assert (early.oldest_lost_s or 1) < 0.001
    found = {(each.mode, each.death): each for each in crash_summaries(test)}
    logged = found["everysec", Death.KILL]
    page = (PAGE.parent / "redis.md").read_text("utf-8")
    assert f"2 of {len(kills)} kills lost writes, at most {late.gone};" in page
    assert f"{logged.losing} of {logged.crashes} kills did" in page
    most = max(each.behind_bytes or 0 for each in kills)
    assert f"up to {format_bytes(most)} of the stream behind" in page


def test_what_the_page_says_of_postgres_was_found() -> None:
    """Waiting commits survive both deaths; those that do not wait may go in a kill, too."""
    found = {(each.mode, each.death): each for each in crash_summaries(kept("postgres"))}
    assert found["sync", Death.POWER].losing == found["sync", Death.KILL].losing == 0
    assert found["no-fsync", Death.KILL].losing == 0
    assert found["async", Death.KILL].losing > 0
    no_fsync = found["no-fsync", Death.POWER]
    assert no_fsync.whole_load == no_fsync.crashes
    assert sum(each.unusable for each in found.values()) == 0


def test_what_the_page_says_of_a_long_load_was_found() -> None:
    """The kernel had its turn in the 35th second: before it all was lost, after it not."""
    crashes = kept("redis-minute").crashes
    late = [each for each in crashes if each.under_load_s > 35.0]
    assert (len(crashes), len(late)) == (8, 4)
    assert all((each.lost < each.acknowledged) == (each in late) for each in crashes)
    assert [round(each.oldest_lost_s or 0) for each in late] == [5, 23, 7, 11]
