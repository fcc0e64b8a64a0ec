"""``--set``: values from the command line."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, only_problem, problems_of, with_line, with_other


def loaded(*overrides: str, text: str = SMALL):  # noqa: ANN201
    """Return the experiment of a text with overrides."""
    return load(text, Path("/nonexistent"), *overrides).experiment


def test_values_are_replaced_or_added() -> None:
    """Paths reach into sections, treatments and workloads, whether or not the file has them."""
    experiment = loaded(
        "stop.budget=20m",
        "loads.clients=1,10,25",
        "workloads.reads.scale_factor=7",
        "treatments.other.postgres.shared_buffers=4GB",
        "treatments.other.postgres.pg_stat_statements.track=all",
        "treatments.other.postgres.log_line_prefix=%m [%p]",
        "treatments.other.target={connection: tcp}",
    )
    assert experiment.stop.budget_s == 1200.0
    assert [each.clients for each in experiment.loads] == [1, 10, 25]
    assert experiment.workloads[0].scale_factor == 7
    other = experiment.treatment("other")
    assert {setting.name: setting.value for setting in other.settings} == {
        "shared_buffers": "4GB",
        "pg_stat_statements.track": "all",
        "log_line_prefix": "%m [%p]",
    }
    assert other.target.connection == "tcp"


def test_lists_by_comma_or_in_yaml() -> None:
    """Both ways to write a list mean the same."""
    assert loaded("loads.clients=1,2").loads == loaded("loads.clients=[1, 2]").loads
    assert loaded("workloads.0.scale_factor=3").workloads[0].scale_factor == 3
    text = SMALL.replace("{clients: 1}", "{clients: [1, 2]}")
    assert [each.clients for each in loaded("loads.clients.1=5", text=text).loads] == [1, 5]


def test_a_later_override_wins() -> None:
    """The same path twice: the last counts, as with any command line flag."""
    assert loaded("seed=1", "seed=2").seed == 2


def test_precision_withdraws_the_files_decision() -> None:
    """`--precision` on a file with `decide` is no contradiction; asking for both is."""
    text = with_line("stop: {decide: 3%}")
    assert loaded("stop.precision=1%", text=text).stop.precision == 0.01
    assert "exclude each other" in only_problem(text, "stop.precision=1%", "stop.decide=2%")


def test_an_empty_value_removes() -> None:
    """Nothing after the equals sign is null, which removes an inherited setting."""
    text = SMALL.replace("default: {}", "default: {postgres: {work_mem: 8MB}}")
    assert (
        loaded("treatments.other.postgres.work_mem=", text=text).treatment("other").settings == ()
    )


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("stop.budgt=20m", "--set stop.budgt: unknown key `budgt` (did you mean `budget`?)"),
        ("stp.budget=20m", "--set stp: unknown key `stp` (did you mean `stop`?)"),
        ("treatments.othr.protocol=simple", "there is no treatment `othr` (did you mean `other`?)"),
        ("workloads.raeds.scale_factor=1", "has no item `raeds` (did you mean `reads`?)"),
        ("workloads.7.scale_factor=1", "has no item `7`"),
        ("name.first=x", "`name` has nothing below it"),
        ("stop.budget", "`stop.budget` is no `path=value`"),
        ("=5", "`=5` is no `path=value`"),
        ("loads.clients=[1", "the value: it is not YAML"),
        ("loads.clients=0", "--set loads.clients: `0` is out of range"),
        ("treatments.other.postgres.port=1", "Steelyard sets `port` itself"),
    ],
)
def test_wrong_overrides_have_no_line(override: str, expected: str) -> None:
    """A wrong override is a problem with its path and the way out, and with no line."""
    problems = problems_of(SMALL, override)
    told = [problem.located("test.yaml") for problem in problems]
    assert any(expected in each for each in told), told
    assert all(problem.line is None and problem.column is None for problem in problems)


def test_the_files_problems_keep_their_lines() -> None:
    """Overrides do not blur what is wrong with the file itself; theirs come last."""
    text = with_other("{protocol: fast}")
    lines = [problem.line for problem in problems_of(text, "seed=x")]
    assert lines == [9, None]
