"""The page of crash tests says what the kept tests found, and these found what it says in words."""

import json

import pytest

from steelyard.answers.crashes import crash_summaries
from steelyard.cli.crash_testing import crash_content
from steelyard.core.redis import Death
from steelyard.core.wording import format_bytes
from support.crash_page import KEPT, PAGE, kept, text

NAMES = tuple(sorted(path.stem for path in KEPT.glob("*.json")))


def test_the_tables_are_what_the_tests_give() -> None:
    """Each number on the page comes from a kept test: the page is not edited by hand."""
    assert PAGE.read_text("utf-8") == text()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_derived_is_derived_anew(name: str) -> None:
    """The kept files hold the crashes and what the analysis of today makes of them."""
    test = kept(name)
    assert json.loads((KEPT / f"{name}.json").read_text("utf-8")) == crash_content(test)
    assert not test.interrupted


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
