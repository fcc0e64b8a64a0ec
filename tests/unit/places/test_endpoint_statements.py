"""The SQL that changes somebody else's server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.systems.postgres.existing import server as statements


@pytest.mark.parametrize(
    ("name", "value", "statement"),
    [
        ("work_mem", "9MB", "ALTER SYSTEM SET \"work_mem\" = '9MB'"),
        ("work_mem", None, 'ALTER SYSTEM RESET "work_mem"'),
        ("a.b", "it's", "ALTER SYSTEM SET \"a\".\"b\" = 'it''s'"),
        ("log_line_prefix", "\\x", "ALTER SYSTEM SET \"log_line_prefix\" = E'\\\\x'"),
        ("search_path", '"$user", public', "ALTER SYSTEM SET \"search_path\" = '$user', 'public'"),
        ("search_path", '"a, ""b"""', 'ALTER SYSTEM SET "search_path" = \'a, "b"\''),
        ("DateStyle", "ISO, DMY", "ALTER SYSTEM SET \"DateStyle\" = 'ISO, DMY'"),
    ],
)
def test_alter_system(name: str, value: str | None, statement: str) -> None:
    """Values are quoted; lists whose items the server quotes are given item by item."""
    assert statements.set_system(name, value) == statement


def test_session_options() -> None:
    """Spaces and backslashes survive libpq's splitting."""
    assert statements.session_options({}) == ""
    options = statements.session_options({"work_mem": "9 MB", "a.b": "x\\y"})
    assert options == r"-c work_mem=9\ MB -c a.b=x\\y"


@given(st.text(alphabet=st.characters(exclude_characters="\0")))
def test_a_literal_never_ends_early(text: str) -> None:
    """Whatever stands inside, undoing the quoting gives it back."""
    written = statements.literal(text)
    inside = written.removeprefix("E")[1:-1]
    if written.startswith("E"):
        inside = inside.replace("\\\\", "\\")
    assert inside.replace("''", "'") == text
    assert inside.count("'") % 2 == 0


@given(st.text())
def test_an_identifier_never_ends_early(text: str) -> None:
    """Double quotes are doubled."""
    assert statements.identifier(text)[1:-1].replace('""', '"') == text


@pytest.mark.parametrize(
    ("version", "drop", "copy"),
    [
        (120000, 'DROP DATABASE IF EXISTS "a"', 'CREATE DATABASE "a" TEMPLATE "b"'),
        (180006, "(FORCE)", "STRATEGY FILE_COPY"),
    ],
)
def test_versions(version: int, drop: str, copy: str) -> None:
    """What an old server does not know is left out."""
    assert statements.drop_database("a", version).endswith(drop)
    assert statements.copy_database("a", "b", version).endswith(copy)
