"""Scripts in an order of ours: the file that pgbench runs, and what it tells of each execution."""

import pytest

from steelyard.core.wording import MeasurementError
from steelyard.systems.postgres import scripts
from steelyard.systems.postgres.in_order import text_of, times_of
from steelyard.systems.protocol import Execution

# Recorded: pgbench -n -t 1 -r -M prepared, of 18.6 and 15.18.
HEADS = {
    18: "latency average = 54.000 ms\nstatement latencies in milliseconds and failures:\n",
    15: "latency average = 76.757 ms\nstatement latencies in milliseconds and failures:\n",
}
LINES = {18: "{:10.3f}{:12d} {}\n", 15: "{:10.3f}{:12d}  {}\n"}
DRAWS = "\\set n random(1, 9)\nSELECT count(*) FROM facts WHERE kind = :n; -- of one kind\n"
KEEPS = "SELECT 7 AS seven -- a comment\n\\gset\nSELECT :seven + 1"
BOTH = (DRAWS, KEEPS)


def printed(version: int, *times_ms: float) -> str:
    """Return what a pgbench prints of commands that took so long."""
    line = LINES[version]
    return HEADS[version] + "".join(line.format(each, 0, "SELECT 1;") for each in times_ms)


def test_a_file_has_settings_and_commands_in_order() -> None:
    """Settings come before their execution; what repeats keeps its parameters."""
    text = text_of(
        BOTH,
        [
            Execution(script=0, settings=(("work_mem", "4096"),)),
            Execution(script=0, settings=(("search_path", "it's"),), repeats=True),
            Execution(script=1),
        ],
    )
    assert [each.text.strip() for each in scripts.commands(text)] == [
        "SELECT set_config('work_mem', '4096', false)",
        "\\set n random(1, 9)",
        "SELECT count(*) FROM facts WHERE kind = :n",
        "SELECT set_config('search_path', 'it''s', false)",
        "SELECT count(*) FROM facts WHERE kind = :n",
        "SELECT 7 AS seven -- a comment",
        "SELECT :seven + 1",
    ]
    assert "-- a comment\n\\gset" in text


def test_what_repeats_keeps_parameters_that_are_set_anywhere() -> None:
    """In a transaction, too; what is set several times is computed again."""
    text = "BEGIN;\n\\set n random(1, 9)\n\\set i 1\nSELECT :n, :i;\n\\set i :i + 1\nEND;\n"
    both = text_of([text], [Execution(script=0), Execution(script=0, repeats=True)])
    assert [each.text for each in scripts.commands(both)][6:] == [
        "BEGIN",
        "\\set i 1",
        "SELECT :n, :i",
        "\\set i :i + 1",
        "END",
    ]


@pytest.mark.parametrize("version", sorted(HEADS))
def test_times_are_of_the_commands_of_each_execution(version: int) -> None:
    """What sets a setting counts for none; the rest of a script adds up."""
    executions = [
        Execution(script=0, settings=(("work_mem", "4096"),)),
        Execution(script=0, repeats=True),
        Execution(script=1),
    ]
    told = printed(version, 0.1, 0.006, 53.967, 40.0, 1.5, 2.25)
    assert times_of(told, BOTH, executions) == pytest.approx((0.053973, 0.04, 0.00375))


def test_another_number_of_commands_is_refused() -> None:
    """Times that cannot be told to their executions are none."""
    with pytest.raises(MeasurementError, match="times of 1 commands, and the file has 2"):
        times_of(printed(18, 1.0), BOTH, [Execution(script=0)])
