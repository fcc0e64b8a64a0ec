"""The 32 claims of the article series come out of the computation as the key says."""

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from steelyard.answers import claims as package
from steelyard.answers.claims.examination import Examination, ExaminedClaim, examine
from steelyard.answers.claims.grounds import Grade
from steelyard.answers.claims.tables import article_series
from steelyard.core.published import PublishedRow, parse_printed

KEY = Path(__file__).parents[2] / "golden" / "claims" / "key.csv"

WRONG, NONE, OPEN, BUT, SO = Grade
_SUFFIXES = (".py", ".toml", ".csv")
# What the key's sentence says, in the words of the examination.
VERDICTS = {
    **dict.fromkeys(("C1", "C5", "C6", "C9", "C14", "C15", "C16", "C19", "C21"), WRONG),
    **dict.fromkeys(("C23", "C24", "C25", "C26", "C31", "C32"), WRONG),
    **dict.fromkeys(("C4", "C13", "C20", "C22", "C27", "C28", "C29", "C30"), NONE),
    **dict.fromkeys(("C3", "C8", "C17", "C18"), OPEN),
    **dict.fromkeys(("C2", "C7", "C10", "C12"), BUT),
    "C11": SO,
}
# Numbers of the key that the tables do not hold, or that they contradict, each with its reason.
BEYOND = {
    "C11": {"6": "of 849e6, an input", "0.20": "an input"},
    "C12": {"61": "by a figure of the text that C32 corrects; by iostat the size is 64.0 KiB"},
    "C13": {"3": "the name of an instance type", "2": "likewise"},
    "C14": {"15": "a version", "18": "a version", "6": "the size behind 3,072", "2": "page size"},
    "C20": {"180": "the payload, in bytes here"},
    "C24": {"4": "the memory behind the sum"},
    "C29": {
        "8": "what Aurora counts, from its documentation",
        "4": "likewise",
        "256": "what EBS counts, from its documentation",
    },
    "C30": {
        "400": "where RDS stripes, from its documentation",
        "12,000": "four stripes at burst, from its documentation",
    },
    "C31": {"0.115": "an input"},
    "C32": {"1024": "KiB in a MiB", "205.42": "an input"},
}
_NUMBERS = re.compile(r"\d[\d,]*(?:\.\d+)?")


@cache
def _examined() -> Examination:
    return examine(article_series())


def _claim(name: str, examination: Examination | None = None) -> ExaminedClaim:
    return next(each for each in (examination or _examined()).claims if each.claim.id == name)


def _key() -> dict[str, dict[str, str]]:
    with KEY.open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def _numbers(text: str) -> set[float]:
    return {float(found.replace(",", "").rstrip(".")) for found in _NUMBERS.findall(text)}


def test_all_claims_of_the_key_are_examined() -> None:
    """None is left out, none is added."""
    assert [each.claim.id for each in _examined().claims] == list(_key())
    assert set(VERDICTS) == set(_key())


@pytest.mark.parametrize("name", [*VERDICTS])
def test_the_verdict_is_that_of_the_key(name: str) -> None:
    """Its sentence, in a word of the examination."""
    found = _claim(name)
    assert found.grade is VERDICTS[name], [note.text for note in found.notes]


@pytest.mark.parametrize("name", [*VERDICTS])
def test_each_number_of_the_key_was_computed(name: str) -> None:
    """Every figure in the key's sentence stands in what was computed, or is beyond the tables."""
    found = _claim(name)
    told = " ".join(note.text for note in found.notes)
    computed = [*_numbers(told), *_numbers(found.claim.text)]
    wanted = _key()[name]["what_the_published_tables_give"]
    beyond = {float(each.replace(",", "")) for each in BEYOND.get(name, {})}
    for text in _NUMBERS.findall(re.sub(r"C\d+|\dR\b|Tuning \d", "", wanted)):
        figure = parse_printed(text.rstrip(",."))
        if figure.value not in beyond:
            near = [each for each in computed if figure.low <= each <= figure.high]
            assert near, f"{text} in {told}"


def test_the_key_is_nowhere_in_the_package() -> None:
    """The computation cannot have read it."""
    root = Path(next(iter(package.__path__))).parent
    texts = [
        path.read_text() for path in root.rglob("*") if path.suffix in (".py", ".toml", ".csv")
    ]
    assert len(texts) > 20
    for row in _key().values():
        assert not any(row["what_the_published_tables_give"] in text for text in texts)


def _with(rows: dict[tuple[str, str, int | None], str], metric: str = "tps") -> Examination:
    """Return the series examined with other figures in some cells."""

    def changed(row: PublishedRow) -> PublishedRow:
        text = rows.get((row.configuration, row.workload, row.clients))
        if text is None:
            return row
        factor = 1.0 if metric == "tps" else 0.001
        figures = {**dict(row.figures), metric: parse_printed(text, factor)}
        return replace(row, figures=tuple(figures.items()))

    series = article_series()
    return examine(replace(series, rows=tuple(map(changed, series.rows))))


def test_other_figures_give_other_verdicts() -> None:
    """What comes out depends on the tables: with figures that fit, the claims hold."""
    fitting = _with(
        {
            ("cnpg-local-ssd", "simple-update", None): "1421",
            ("aurora-io-optimized-t3.large", "select-only", None): "10631",
            ("cnpg-local-ssd", "tpcb-like", 50): "1070",
            ("cnpg-local-ssd", "tpcb-like", 100): "1010",
        }
    )
    assert _claim("C1", fitting).grade is BUT
    assert _claim("C6", fitting).grade is BUT
    assert _claim("C16", fitting).grade is SO
    below = _with({("local-aof-off", "SET", 20): "4.98"}, "latency_p99")
    assert _claim("C21", below).grade is SO


def test_a_smaller_floor_decides_more() -> None:
    """Were what is called equal closer together, 9.8 % would be beyond noise."""
    closer = _with({("cnpg-longhorn-2r-shared-disk", "select-only", None): "6400"})
    assert _claim("C18", closer).grade is BUT
    assert _claim("C18").grade is OPEN


def test_what_the_tables_themselves_show() -> None:
    """One run per cell, averages over workloads, a generator that is busy; no copies."""
    found = {note.check for note in _examined().notes if note.grade.accuses}
    assert found == {"one-run", "averaged-workloads", "littles-law"}
