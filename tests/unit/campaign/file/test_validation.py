"""Single values and keys: what is refused, where, and with which way out."""

from experiment_texts import (
    SMALL,
    load,
    only_problem,
    problems_of,
    with_other,
)


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

    Precision, gates and rounds have no sense.
    """
    one = SMALL.split("configurations:", maxsplit=1)[0] + "configurations:\n  server: {}\n"
    assert "design: single-pass" in only_problem(one)
    passed = "design: single-pass\n" + one
    assert load(passed).experiment.is_single_pass
    assert "takes one configuration" in only_problem("design: single-pass\n" + SMALL)
    assert "can never be reached" in only_problem(passed, "stop.precision=1%")
    assert "single pass" in only_problem(passed, "stop.fail_if=slower > 3%")
    assert "not 3 times" in only_problem(passed, "measure.rounds=3")
    assert load(f"{passed}measure: {{rounds: 1}}\n").experiment


def test_nothing_is_restored_where_servers_are_made() -> None:
    """A means of restoring would never be used."""
    text = SMALL.replace("default: {}", "default: {target: {restore: copy}}")
    text = text.replace("{extends: default}", "{}")
    assert "nothing is restored" in only_problem(text, "measure.switch=reprovision")
