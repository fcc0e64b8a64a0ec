"""What copies of tables need, and what is refused before any is made."""

import re
from dataclasses import replace

import pytest

from steelyard.core.outside import ServerAddress
from steelyard.core.wording import PreflightError
from steelyard.systems.postgres.existing.copying import CopyPlan, require_copies
from steelyard.systems.postgres.existing.server import Naming

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
