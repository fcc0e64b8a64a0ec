"""Settings of PostgreSQL as an include file and as parameters of RDS."""

import json

import pytest

from fakes import stack_designs
from steelyard.core.stack import Place, Scope, StackRequest
from steelyard.core.wording import GIB, InputError
from steelyard.tuning.files.files import configuration, parameter_group_files, rds_value


def test_odd_values_are_quoted() -> None:
    """A value that is no bare word stands in quotes, with quotes inside it doubled."""
    odd = stack_designs.setting("search_path", 'it\'s, "mine"')
    text = configuration(stack_designs.postgres(odd))
    assert text.endswith("search_path = 'it''s, \"mine\"'\n")


@pytest.mark.parametrize(
    ("name", "value", "rds"),
    [
        ("shared_buffers", "6GB", "786432"),
        ("wal_buffers", "16MB", "2048"),
        ("wal_buffers", "-1", "-1"),
        ("effective_cache_size", "12GB", "1572864"),
        ("work_mem", "4MB", "4096"),
        ("max_wal_size", "8GB", "8192"),
        ("checkpoint_timeout", "15min", "900"),
        ("statement_timeout", "2s", "2000"),
        ("track_io_timing", "on", "1"),
        ("jit", "off", "0"),
        ("huge_pages", "on", "on"),
        ("random_page_cost", "1.1", "1.1"),
        ("io_method", "worker", "worker"),
    ],
)
def test_values_of_rds(name: str, value: str, rds: str) -> None:
    """Sizes and times become whole numbers of the parameter's own unit, switches 0 and 1."""
    assert rds_value(name, value) == rds


@pytest.mark.parametrize(("name", "value"), [("my.size", "4MB"), ("work_mem", "15min")])
def test_an_unknown_unit_is_refused(name: str, value: str) -> None:
    """A size of a parameter whose unit is not known is refused, not guessed."""
    with pytest.raises(InputError, match=name):
        rds_value(name, value)


def test_a_call_has_at_most_twenty_parameters() -> None:
    """More parameters take more files, each used by a command, and none is lost."""
    settings = [stack_designs.setting(f"number_{at}", str(at)) for at in range(45)]
    design = stack_designs.design(Place.RDS, postgres=stack_designs.postgres(*settings))
    *calls, commands = parameter_group_files(design)

    names = [
        each["ParameterName"] for call in calls for each in json.loads(call.content)["Parameters"]
    ]
    assert names == [each.name for each in settings]
    assert max(len(json.loads(call.content)["Parameters"]) for call in calls) <= 20
    assert all(f"file://files/{call.name}" in commands.content for call in calls)


def test_decoding_has_a_switch_of_its_own_on_rds() -> None:
    """wal_level is not RDS's to set; rds.logical_replication is, and needs a restart."""
    asked = StackRequest(
        cpus=2, memory_bytes=16 * GIB, place=Place.RDS, name="pg", logical_decoding=True
    )
    read = json.loads(parameter_group_files(stack_designs.design(Place.RDS, asked))[0].content)
    assert read["Parameters"][-1] == {
        "ParameterName": "rds.logical_replication",
        "ParameterValue": "1",
        "ApplyMethod": "pending-reboot",
    }


def test_no_scope_but_a_restart_waits_for_one() -> None:
    """Settings of sessions and of reloads are applied at once."""
    setting = stack_designs.setting("work_mem", "4MB", Scope.SESSION)
    design = stack_designs.design(Place.RDS, postgres=stack_designs.postgres(setting))
    read = json.loads(parameter_group_files(design)[0].content)
    assert read["Parameters"][0]["ApplyMethod"] == "immediate"
