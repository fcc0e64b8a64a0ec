"""PostgreSQL's checkpoint cycle: what it matters for, its length, and its age."""

import pytest

from fakes.sql import FakeSql
from steelyard.core.experiment import EffectiveSetting
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import TargetError
from steelyard.systems.postgres import settings as checkpoints

ADDRESS = ServerAddress(host="/fake", port=5432)


def test_settings_that_act_on_the_wal_or_on_checkpoints() -> None:
    """Found in any case of letters and kept in order; others are not."""
    names = ("work_mem", "wal_compression", "Max_WAL_Size", "shared_buffers", "full_page_writes")
    found = checkpoints.cycle_settings(names)
    assert found == ("wal_compression", "Max_WAL_Size", "full_page_writes")
    assert checkpoints.cycle_settings(("random_page_cost",)) == ()


def test_every_such_setting_has_a_reason() -> None:
    """A list without reasons could not be judged."""
    assert all(len(reason) > 20 for reason in checkpoints.CYCLE_SETTINGS.values())
    assert list(checkpoints.CYCLE_SETTINGS) == sorted(checkpoints.CYCLE_SETTINGS)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"), [("300", "s", 300.0), ("15", "min", 900.0), ("300", None, 300.0)]
)
def test_the_length_of_the_cycle_in_force(value: str, unit: str | None, seconds: float) -> None:
    """In the unit that the server shows."""
    setting = EffectiveSetting(name="checkpoint_timeout", value=value, unit=unit)
    other = EffectiveSetting(name="work_mem", value="4096", unit="kB")
    assert checkpoints.cycle_s((other, setting)) == seconds
    assert checkpoints.cycle_s((other,)) is None


def test_the_age_in_seconds() -> None:
    """In milliseconds, and never negative: a checkpoint's time is in whole seconds."""
    sql = FakeSql({checkpoints._AGE: [(12.3456789,)]})
    assert checkpoints.checkpoint_age(ADDRESS, sql).seconds == 12.346
    sql.answers[checkpoints._AGE] = [(-0.4,)]
    assert checkpoints.checkpoint_age(ADDRESS, sql).seconds == 0.0


def test_a_server_that_does_not_tell() -> None:
    """The refusal goes up; the bench makes it a reason."""
    with pytest.raises(TargetError):
        checkpoints.checkpoint_age(ADDRESS, FakeSql())
