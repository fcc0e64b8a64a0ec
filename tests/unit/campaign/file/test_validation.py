"""Single values and keys: what is refused, where, and with which way out."""

import pytest
from experiment_texts import (
    SMALL,
    load,
    only_problem,
    problems_of,
    with_line,
    with_other,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("budgt: 3", "test.yaml:7:1: budgt: unknown key `budgt` (`budget` belongs to `stop`)"),
        ("scale: 10", "unknown key `scale` (`scale_factor` belongs to `workloads`)"),
        ("b: {}", "unknown key `b` (known: "),
        ("key0: 1", "unknown key `key0` (known: "),
        ("sustained: 10m", "unknown key `sustained` (it is called `sustain` now)"),
        ("sustain: 2s", "`2s` is too short (Write at least 5 s.)"),
        ("stop: {budgt: 3m}", "(did you mean `budget`?)"),
        ("measure: {budget: 3m}", "it belongs to `stop`"),
        ("stop: {budget: soon}", "`soon` is not a duration (Write it as 90s, 20m or 1h30m.)"),
        ("stop: {budget: .nan}", "`.nan` is not a duration"),
        ("stop: {budget: true}", "`true` is not a duration"),
        ("stop: {decide: 3}", "`3` is not a share between 0 % and 100 %"),
        ("stop: {decide: 3%, precision: 1%}", "`decide` and `precision` exclude each other"),
        ("stop: 20m", "`20m` is not a mapping (`key: value` lines)"),
        ("measure: {slice: 2.5s}", "`2.5s` is not a whole number of seconds"),
        ("measure: {reset: daily}", "`daily` is not known (known: `auto`, `start`, `block`"),
        ("measure: {switch: restrat}", "did you mean `restart`?"),
        ("measure: {prewarm: perhaps}", "`perhaps` is neither true nor false"),
        ("measure: {warm_up: 5s, calibration: {}}", "`warm_up` already declares it"),
        ("measure: {calibration: {run: 10s}}", "at_least (20 s) is longer than run (10 s)"),
        ("measure: {calibration: {run: 2s, at_least: 1s}}", "`2s` is too short"),
        ("baseline: othr", "there is no configuration `othr` (did you mean `other`?)"),
        ("baseline: a b", "`a b` is no name"),
        ("description: [a]", "`[a]` is not text"),
    ],
)
def test_a_wrong_line_is_one_problem(line: str, expected: str) -> None:
    """Each mistake gives exactly one problem, in words that name the value and the way out."""
    problems = problems_of(with_line(line))
    told = [problem.located("test.yaml") for problem in problems]
    assert any(expected in each for each in told), told
    assert all(problem.line == 7 for problem in problems)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ("{clients: true}", "`true` is not a whole number"),
        ("{clients: []}", "`clients` is empty"),
        ("{clients: 1, threads: []}", "`threads` is empty"),
        ("{clients: [2, 2]}", "2 is given 2 times"),
        ("{clients: [1, 8], threads: 4}", "no thread count fits clients 1"),
        ("{clients: [1, 8], threads: [1, 16]}", "threads 16 exceed every number of clients"),
        ("{clients: 1, protocol: binary}", "known: `simple`, `extended` or `prepared`"),
        ("{clients: 1, ratio: 100}", "unknown key `ratio`"),
        ("{}", "`clients` is missing (Add it, as in `clients: [1, 10, 50]`.)"),
        ("", "loads: it is empty"),
    ],
)
def test_wrong_loads(loads: str, expected: str) -> None:
    """Loads that the generator could not offer are refused before anything starts."""
    assert expected in only_problem(SMALL.replace("{clients: 1}", loads))


def test_the_version_is_needed_and_known() -> None:
    """A later format is not misread as this one."""
    assert "version `3` of the file format" in only_problem(
        SMALL.replace("version: 1", "version: 3")
    )
    assert "`version` is missing" in only_problem(SMALL.replace("version: 1\n", ""))


def test_a_comparison_needs_two_configurations() -> None:
    """One configuration alone answers no question; the hint shows how to compare it with itself."""
    told = only_problem(SMALL.replace("  other: {extends: default}\n", ""))
    assert "`again: {extends: default}`" in told


def test_a_baseline_is_asked_for_when_none_is_called_so() -> None:
    """The control configuration is never guessed from the order of the file."""
    text = SMALL.replace("  default: {}", "  one: {}").replace("extends: default", "extends: one")
    assert "`baseline` is missing (Add `baseline: one`" in only_problem(text)
    both = SMALL + "  baseline: {}\n"
    assert "`baseline` is missing" in only_problem(both)
    assert load(SMALL).experiment.baseline == "default"


def test_initdb_options_are_equal_in_all_configurations() -> None:
    """A prepared state is comparable only when its clusters were made alike."""
    differing = with_other("{target: {initdb: [--data-checksums]}}")
    assert "the initdb options of `other` differ from those of `default`" in only_problem(differing)
    governed = with_other("{extends: default}").replace(
        "default: {}", "default: {target: {initdb: ['--pgdata=/x']}}"
    )
    assert "`--pgdata=/x` is not yours to give" in only_problem(governed)


def test_one_mistake_does_not_hide_another_elsewhere() -> None:
    """Checks across sections run on the sound parts of a file that is wrong elsewhere."""
    text = with_other("{extends: nobody}").replace("scale_factor: 1", "scale_factor: 0")
    assert [problem.line for problem in problems_of(text)] == [4, 9]


def test_a_single_pass_takes_exactly_one_configuration() -> None:
    """One configuration is refused in blocks and wanted in a single pass.

    Precision has no sense.
    """
    one = SMALL.split("configurations:", maxsplit=1)[0] + "configurations:\n  server: {}\n"
    assert "design: single-pass" in only_problem(one)
    passed = "design: single-pass\n" + one
    assert load(passed).experiment.is_single_pass
    assert "takes one configuration" in only_problem("design: single-pass\n" + SMALL)
    assert "can never be reached" in only_problem(passed, "stop.precision=1%")
