"""The dearest statements as scripts: values that fit, and statements that are left out by name."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes.sql import FakeSql
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import InputError, RefusedError
from steelyard.systems.postgres import scripts, top

HERE = ServerAddress(host="db", port=5432, user="shop", database="shop")
_DEAREST = top._DEAREST.format(schema="public")
TEXT = "SELECT count(*) FROM sold s WHERE s.tags = $1 AND s.note = $2"
PLAN = [
    {
        "Plan": {
            "Node Type": "Seq Scan",
            "Alias": "s",
            "Schema": "public",
            "Relation Name": "sold",
            "Filter": "((s.tags = $1) AND (s.note = $2))",
        }
    }
]


def server(text: str = TEXT, *common: str) -> FakeSql:
    """Return a server that has had one statement, with a common value of its columns."""
    values = [*common]
    return FakeSql(
        {
            top._SCHEMA: [("public",)],
            _DEAREST: [("7", text, 3.0, 1.5, "shop", True)],
            top._TYPES: [("integer[]",), ("text",)],
            f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE {top._PREPARED} (NULL, NULL)": [
                (json.dumps(PLAN),)
            ],
            top._COMMON: lambda: [([values.pop(0)], None)],
        }
    )


def only(sql: FakeSql, known: top.Parameters | None = None) -> top.TopStatement:
    """Return the one statement that the server has had."""
    (statement,) = top.top_statements(HERE, sql, 1, known or {})
    return statement


def test_common_values_are_those_of_arrays_and_no_variables_of_pgbench() -> None:
    """A colon in a value is none for pgbench, and for the server it is the same text."""
    found = only(server(TEXT, "{1,2}", "it's urn:isbn at 10:20"))
    assert "s.tags = '{1,2}'::integer[]" in found.script
    assert r"s.note = E'it''s urn\x3aisbn at 10:20'::text" in found.script
    assert not [*scripts.problems(found.script, protocol=scripts.PREPARED)]
    assert found.values[1] == "$2 = it's urn:isbn at 10:20 (common value 1 of sold.note)"


def test_an_element_stands_for_an_array() -> None:
    """A column that is compared with any of a list has common values that are no arrays."""
    assert "s.tags = ARRAY['3']::integer[]" in only(server(TEXT, "3", "x")).script


def test_values_that_are_given_may_be_null() -> None:
    """As YAML has it."""
    found = only(server(), {"7": ["{1}", None]})
    assert "s.note = NULL::text" in found.script
    assert found.values == ("$1 = {1} (given)", "$2 = NULL (given)")


def test_values_that_the_server_does_not_take_leave_the_statement_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever stands in the file, the others run."""
    sql = server()

    def execute(_: ServerAddress, statements: Sequence[str]) -> None:
        if any("'{x}'::integer[]" in statement for statement in statements):
            raise RefusedError('invalid input syntax for type integer: "x"')

    monkeypatch.setattr(sql, "execute", execute)
    found = only(sql, {"7": ["{x}", "a"]})
    assert not found.script
    assert found.left_out.startswith("the server does not plan it: invalid input")


def test_comments_are_left_out_but_for_hints() -> None:
    """What asks may stand before a statement, with names that pgbench takes for variables."""
    found = only(server(f"/* app:shop */ {TEXT} -- page:9", "{1}", "x"))
    assert found.script.startswith("SELECT count(*)")
    assert "page" not in found.script
    assert only(server(f"/*+ SeqScan(s) */ {TEXT}", "{1}", "x")).script.startswith("/*+ SeqScan(s)")


@pytest.mark.parametrize(
    ("text", "said"), [("7: [[1, 2]]\n", "a list in a list"), ("- 1\n", "no lists of values")]
)
def test_a_file_without_values_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With the form that it should have."""
    file = tmp_path / "values.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        top.parameters_of(file)


def test_values_of_a_file_are_texts_or_null(tmp_path: Path) -> None:
    """Whatever YAML takes them for."""
    file = tmp_path / "values.yaml"
    file.write_text("-12: [1, null, X, 2026-01-01]\n")
    assert top.parameters_of(file) == {"-12": ["1", None, "X", "2026-01-01"]}
