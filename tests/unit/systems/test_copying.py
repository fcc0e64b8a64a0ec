"""What copies of tables need, and what is refused before any is made."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.sql import FakeSql
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import PreflightError, RefusedError
from steelyard.gateways.sql import Sql
from steelyard.gateways.sql_copying import copy_rows
from steelyard.systems.postgres.existing import copying, server
from steelyard.systems.postgres.existing.copying import CopyPlan, require_copies
from steelyard.systems.postgres.existing.server import DatasetNeeds, Naming

MIB = 1024**2
PLAN = CopyPlan(
    source=ServerAddress(host="db", port=5432, user="shop", database="shop"),
    tables=("public.orders", "sales.customers"),
    relations=("public.orders", "public.paid", "sales.customers"),
    sequences=(),
    databases=2,
    total_bytes=1000 * MIB,
    wal_bytes=512 * MIB,
    free_bytes=None,
    problems=(),
)


def test_the_space_is_for_all_copies_an_index_and_their_wal() -> None:
    """WAL counts up to what the server lets it grow to."""
    assert PLAN.needed_bytes == (2 * 1000 + 200 + 512 + 2 * 32) * MIB
    small = replace(PLAN, total_bytes=100 * MIB)
    assert small.needed_bytes == (2 * (2 * 100 + 20) + 2 * 32) * MIB
    assert PLAN.label.startswith("orders, sales.customers of database shop, 1000")
    assert "its free space is not visible from here" in PLAN.costs


@pytest.mark.parametrize(
    ("plan", "is_pooled", "said"),
    [
        (PLAN, True, "a pooler is in between at db:5432"),
        (replace(PLAN, problems=("one", "other")), False, "one\nother"),
        (replace(PLAN, free_bytes=2700 * MIB), False, "2.6 GiB are free"),
    ],
)
def test_what_stands_in_the_way_is_refused(plan: CopyPlan, *, is_pooled: bool, said: str) -> None:
    """A pooler, whatever the server said of the tables, and too little disk, with both numbers."""
    with pytest.raises(PreflightError, match=re.escape(said)):
        require_copies(plan, is_pooled=is_pooled, where="db:5432")


def test_enough_space_and_space_that_is_not_seen_are_no_obstacle() -> None:
    """Whoever agreed has read that it is not seen."""
    require_copies(PLAN, is_pooled=False, where="db:5432")
    require_copies(replace(PLAN, free_bytes=2800 * MIB), is_pooled=False, where="db:5432")


def test_a_configuration_with_changes_has_names_of_its_own() -> None:
    """What is only read is measured in what copies would be made of."""
    naming = Naming(token="t", mark="m", existing=None, suffix="_2", is_changed=True, is_kept=True)
    assert naming.live("d") == naming.prepared("d") == "d_t_2_prepared"
    assert naming.common("d") == "d_t_prepared"
    unchanged = replace(naming, is_changed=False)
    assert unchanged.live("d") == unchanged.prepared("d") == "d_t_prepared"
    written = replace(naming, is_kept=False)
    assert (written.live("d"), written.prepared("d")) == ("d_t_2", "d_t_2_prepared")


LAYOUT = (
    "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'it''s' LOCALE_PROVIDER 'icu'"
    " ICU_LOCALE 'de-x-icu'"
)


class Refusing(FakeSql):
    """A server on which an ordinary user sets what a superuser alone may set."""

    code = "42501"

    def execute(self, address: ServerAddress, statements: Sequence[str]) -> None:
        """Note statements, up to the first that is refused."""
        for statement in statements:
            if "log_statement" in statement:
                raise RefusedError("permission denied to set parameter", code=self.code)
            super().execute(address, [statement])


def test_copies_have_the_settings_of_their_origin_that_their_user_may_set() -> None:
    """Logging changes no plan, and a copy of what is read-only is filled all the same."""
    sql = Refusing(
        {
            server._IS_THERE: [],
            copying._LAYOUT: [("UTF8", "C", "it's", "i", "de-x-icu")],
            copying._SETTINGS: [
                (False, "log_statement=ddl"),
                (False, "default_transaction_read_only=on"),
                (False, 'search_path="$user", sales'),
                (True, "work_mem=64MB"),
            ],
        }
    )
    naming = Naming(token="t", mark="m", existing=None)
    needs = DatasetNeeds(name="d", tables=False, scripts=True, is_copied=True)
    announced: list[str] = []
    made = server.Databases(naming, (needs,), sql, lambda _, name, __: announced.append(name))
    made.make(server.TEMPLATE, PLAN.source)
    assert announced == ["d_t_prepared"]
    assert [statement for _, statement in sql.executed] == [
        f'CREATE DATABASE "d_t_prepared" {LAYOUT}',
        "COMMENT ON DATABASE \"d_t_prepared\" IS 'm'",
        "ALTER DATABASE \"d_t_prepared\" SET \"search_path\" = '$user', 'sales'",
        'ALTER ROLE CURRENT_USER IN DATABASE "d_t_prepared" SET "work_mem" = \'64MB\'',
    ]
    sql.code = "53100"
    with pytest.raises(RefusedError):
        made.make(server.TEMPLATE, PLAN.source)


class Copying(Sql):
    """Two sessions that note what they do."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    @contextmanager
    def connected(self, address: ServerAddress) -> Iterator[Any]:
        """Give a session."""
        place = address.database

        @contextmanager
        def copy(statement: bytes) -> Iterator[Any]:
            self.done.append(f"{place}: {statement.decode()}")
            copied = SimpleNamespace(write=lambda rows: self.done.append(f"{place} < {rows}"))
            yield ["a row"] if place == "shop" else copied

        yield SimpleNamespace(
            execute=lambda text: self.done.append(f"{place}: {' '.join(text.decode().split())}"),
            cursor=lambda: SimpleNamespace(copy=copy),
        )


def test_rows_are_copied_from_one_snapshot_without_the_limits_of_the_user() -> None:
    """An index of hours must not end with the time that a statement of the user may take."""
    sql = Copying()
    copy_rows(["orders", '"Odd"'], PLAN.source, replace(PLAN.source, database="copy"), sql)
    limits = [each for each in sql.done if "set_config(name, '0', false)" in each]
    assert [each.partition(":")[0] for each in limits] == ["shop", "copy"]
    assert sql.done[:2] == limits
    assert "transaction_timeout" in limits[0]
    assert "REPEATABLE READ READ ONLY" in sql.done[2]
    assert sql.done[4:] == [
        "shop: COPY orders TO STDOUT (FORMAT binary)",
        "copy: COPY orders FROM STDIN (FORMAT binary)",
        "copy < a row",
        'shop: COPY "Odd" TO STDOUT (FORMAT binary)',
        'copy: COPY "Odd" FROM STDIN (FORMAT binary)',
        "copy < a row",
        "shop: COMMIT",
    ]
