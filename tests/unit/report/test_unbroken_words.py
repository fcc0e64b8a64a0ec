"""Kept reports on narrow terminals: no number and no word is split, whatever the width."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

import pytest

from steelyard.report.document import Figure
from steelyard.report.terminal import render_terminal
from support.examples import CAMPAIGNS, report_of

DRAWN = set(" ─│·━┿◆")


def texts(part: object) -> Iterator[str]:
    """Yield every text of a document; figures are not shown on a terminal."""
    if type(part) is str:
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from texts(each)
    elif is_dataclass(part) and not isinstance(part, Figure):
        for field in fields(part):
            yield from texts(getattr(part, field.name))


def words(text: str) -> set[str]:
    """Return the words of a text without what a sentence or a list puts around them."""
    return {word.strip(",;:()") for word in text.split() if not set(word) <= DRAWN}


@cache
def own_words(name: str) -> frozenset[str]:
    """Return the words of a kept example."""
    return frozenset().union(*(words(text) for text in texts(report_of(name))))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "whole"), [(60, True), (80, False)])
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_number_and_no_word_is_split(name: str, width: int, *, whole: bool) -> None:
    """What stands in the terminal are words of the report, each whole, and no line overflows.

    But for a word that is longer than a line, such as a setting that lists many things.
    """
    own = own_words(name)
    text = render_terminal(report_of(name), width, whole=whole)
    text = re.sub(r"(?m)^and [0-9]+ more in the whole report$", "", text)
    assert max(len(line) for line in text.split("\n")) <= width
    lone = {word for word in own if len(word) >= width - 4}
    glue = {"", "-", *words("no difference of practical weight interval and estimate")}
    strange = {
        word
        for word in words(text) - own - glue
        if not any(word.strip("─") in long for long in lone)
    }
    assert strange == set()
