"""Which pgbench scripts only read, by the words of their statements."""

import pytest

from steelyard.systems.postgres.pgbench import only_reads


@pytest.mark.parametrize(
    "script",
    [
        "\\set c random(1, 10)\nSELECT count(*) FROM orders WHERE customer = :c;\n",
        "SELECT 1 AS a \\gset x_\nSELECT :x_a;",
        "SELECT 1 \\; SELECT 2;",
        "BEGIN; SELECT 1; END;",
        "WITH recent AS (SELECT 1) SELECT * FROM recent",
        "SELECT 'update' -- insert; delete\n;",
        "/* delete; */ SELECT $$insert;$$, $a$merge$a$;",
        "select update_time from orders;",
        "VALUES (1); TABLE orders; SHOW work_mem;",
    ],
)
def test_scripts_that_read(script: str) -> None:
    """Words in literals, comments and names are none of a statement."""
    assert only_reads(script)


@pytest.mark.parametrize(
    "script",
    [
        "SELECT * FROM orders FOR UPDATE;",
        "SELECT * FROM orders FOR NO KEY UPDATE;",
        "SELECT * FROM orders FOR SHARE;",
        "SELECT nextval('s');",
        "SELECT 1 INTO t;",
        "BEGIN; UPDATE orders SET a = 1; END;",
        "WITH gone AS (DELETE FROM orders RETURNING 1) SELECT 1;",
        "BEGIN READ WRITE; SELECT 1; END;",
        "SELECT 1; CALL f();",
        "DO $$ SELECT 1 $$;",
        "SET jit = off; SELECT 1;",
        "VACUUM orders;",
        "\\set a 1\n",
        "",
    ],
)
def test_scripts_that_may_write(script: str) -> None:
    """Anything else than reading statements, locks of rows, sequences, and no statement at all."""
    assert not only_reads(script)
