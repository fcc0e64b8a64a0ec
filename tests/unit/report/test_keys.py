"""What declarations make: keys with values, the schema that fits them, tables as data."""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import pytest
from jsonschema import Draft7Validator

from steelyard.answers.report import build_document
from steelyard.core.findings import Estimate, Severity
from steelyard.core.quantities import INLINE, OPTIONAL, PERCENT, SECONDS, By, Computed, Named
from steelyard.core.schedule import CellKey, Load
from steelyard.report.document import MISSING, Form, column, milliseconds, table_of
from steelyard.report.html import render_csv, table_csv
from steelyard.report.keys import Declared, row_of
from support.examples import analysis_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part."""

    name: str
    effect: Annotated[Estimate | None, PERCENT, INLINE, "Its effect."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer with every kind of key."""

    cell: Annotated[CellKey, INLINE]
    latency: Annotated[Estimate | None, SECONDS, "Its latency."]
    severity: Annotated[Severity, "Its weight."]
    twice: ClassVar = Computed(lambda answer: 2 * answer.blocks, Annotated[int, "Blocks, twice."])
    blocks: int = 3
    shares: Annotated[Mapping[int, float | None], PERCENT, "By minutes, %."]
    parts: Annotated[tuple[Part, ...], By("name"), "Parts by name."] = ()
    notes: Annotated[tuple[str, ...], OPTIONAL, Named("remarks"), "What to know."] = ()
    reason: Annotated[str, "Why it is missing."] = ""


FULL = Answer(
    cell=CellKey(workload="reads", load=Load(clients=8, threads=2, pipeline=4)),
    latency=Estimate(value=0.001),
    severity=Severity.WARNING,
    shares={10: 0.5, 20: None},
    parts=(
        Part(name="wal", effect=Estimate(value=0.02, low=0.01, high=0.03)),
        Part(name="client", effect=None),
    ),
    notes=("one",),
)
KEYS = Declared(tuple[Answer, ...], "answers", "All of them.")


def test_a_field_is_a_key_with_its_unit() -> None:
    """What has no sentence is no key; what is nothing is null, or left out where it may be."""
    full, bare = KEYS((FULL, Answer(**{**_fields(FULL), "latency": None, "notes": ()})))["answers"]
    assert full == {
        "workload": "reads",
        "clients": 8,
        "threads": 2,
        "rate_per_s": None,
        "pipeline": 4,
        "latency_s": {"estimate": 0.001, "low": None, "high": None},
        "severity": "warning",
        "twice": 6,
        "shares_percent": {"10": 50.0, "20": None},
        "parts": {
            "wal": {"effect_percent": 2.0, "low_percent": 1.0, "high_percent": 3.0},
            "client": {"effect_percent": None, "low_percent": None, "high_percent": None},
        },
        "remarks": ["one"],
        "reason": None,
    }
    assert bare["latency_s"] is None
    assert "remarks" not in bare


def _fields(answer: Answer) -> dict[str, object]:
    return {name: getattr(answer, name) for name in Answer.__slots__}


def test_the_schema_fits_what_is_written_and_describes_every_key() -> None:
    """Keys are those of the values, in their order, left out ones too."""
    properties = KEYS.properties
    interval = {"type": "object"}
    schema = {"properties": properties, "$defs": {"interval": interval}}
    Draft7Validator(schema).validate(KEYS((FULL,)))
    item = properties["answers"]["items"]["properties"]
    written = KEYS((FULL,))["answers"][0]
    assert [key for key in item if key in written] == [*written]
    assert {*item} - {*written} == {"capacity_share", "generators"}
    assert item["reason"] == {"description": "Why it is missing.", "type": ["null", "string"]}
    assert item["parts"]["additionalProperties"]["properties"]["low_percent"] == {
        "description": "Lower bound of the interval, %; may be null.",
        "type": ["null", "number"],
    }


@pytest.mark.parametrize(
    "name", ["quick", "noise", "cliff-cpu", "redis-loaded", "published-storage"]
)
def test_a_table_is_data_that_joins_with_the_summary(name: str) -> None:
    """Numbers in base units under the keys of the cells; a bound is one, and missing is empty."""
    analysis = analysis_of(name)
    cells = {(cell.cell.workload, str(cell.cell.load.clients)) for cell in analysis.cells}
    places = {*cells, *((workload, "pooled") for workload, _ in cells)}
    text = render_csv(build_document(analysis))
    tables = [list(csv.DictReader(part.splitlines())) for part in text.split("\n\n")]
    typed = [table for table in tables if any(key.endswith(("_s", "_percent")) for key in table[0])]
    assert len(typed) > 1
    for row in (row for table in typed for row in table):
        if "workload" in row:  # not in what is of a place or of a whole configuration
            assert (row["workload"], row.get("clients", "pooled")) in places
        if row.get("published") != "True":  # those of other machines have names of their own
            assert row.get("configuration", analysis.names[0]) in analysis.names
        for key, value in row.items():
            if re.search(r"(_s|_percent)(_low|_high)?$", key):
                assert value == "" or math.isfinite(float(value))


def test_a_mark_of_a_name_is_no_part_of_the_data() -> None:
    """And what the screen shows is left as it is."""
    form = Form(show=milliseconds, unit=SECONDS, heading="ms")
    table = table_of(
        (Estimate(value=0.002, low=0.001, high=0.004), None),
        column("configuration", lambda _: "tuned"),
        column("latency", lambda value: value and value.value, form),
        column("p99", lambda value: value, replace(form, show=str)),
        title="Latencies",
        reason=lambda value: "" if value else "not measured",
    )
    marked = replace(table, rows=tuple(replace(r, cells=("tuned †",)) for r in table.rows))
    assert [row.cells[:2] for row in table.rows] == [("tuned", "2.00"), ("tuned", MISSING)]
    assert table_csv(marked).splitlines() == [
        "configuration,latency_s,p99_s,p99_s_low,p99_s_high,reason",
        "tuned,0.002,0.002,0.001,0.004,",
        "tuned,,,,,not measured",
    ]


def test_a_row_has_a_column_for_each_value_and_bound() -> None:
    """Keys of objects below stand after the name of theirs; lists are left out."""
    row = dict(row_of(replace(FULL, latency=Estimate(value=0.2, low=0.1, high=0.3)), "x_"))
    assert [row[f"x_latency_s{bound}"] for bound in ("", "_low", "_high")] == [0.2, 0.1, 0.3]
    assert row["x_parts_wal_low_percent"] == 1.0
    assert row["x_parts_client_effect_percent"] is None
    assert row["x_shares_percent_10"] == 50.0
    assert "x_remarks" not in row


def test_the_data_of_a_row_stand_beside_texts() -> None:
    """Columns of texts are only shown; a dot of a name is no part of a key."""
    table = table_of(
        [FULL],
        ("severity", lambda answer: answer.severity.value),
        column("p99.9", lambda answer: answer.latency, Form(unit=SECONDS, show=str)),
        title="Answers",
        data=lambda answer: row_of(answer.cell),
    )
    assert table.rows[0].cells[0] == "warning"
    assert dict(table.data[0])["p99_9_s"] == 0.001
    assert dict(table.data[0])["workload"] == "reads"
    assert "severity" not in dict(table.data[0])
