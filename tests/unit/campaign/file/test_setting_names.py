"""Unknown settings: told with their line once the servers' own lists are known."""

from pathlib import Path

from experiment_texts import SMALL, load, with_other

from steelyard.campaign.file.files import LoadedExperiment, unknown_settings
from steelyard.core.wording import Problem

NAMES = frozenset({"shared_buffers", "work_mem", "TimeZone"})


def unknown(loaded: LoadedExperiment, *names: str) -> list[Problem]:
    """Return what a server of version 18.4 does not know of some configurations."""
    return [
        problem
        for name in names
        for problem in unknown_settings(loaded, name, NAMES, "PostgreSQL 18.4")
    ]


def test_an_unknown_setting_is_told_where_it_was_written() -> None:
    """A setting that a configuration inherits is reported once, at its own line."""
    text = with_other("{postgres: {shared_bufers: 1GB, timezone: UTC}}")
    loaded = load(text + "  third: {extends: other}\n")
    problems = unknown(loaded, "default", "other", "third")
    assert [problem.located("test.yaml") for problem in dict.fromkeys(problems)] == [
        (
            "test.yaml:9:22: configurations.other.postgres.shared_bufers: `shared_bufers` is not a "
            "setting of PostgreSQL 18.4 (did you mean `shared_buffers`?)"
        )
    ]
    assert "has 1 problem:" in loaded.error(problems).message


def test_settings_of_extensions_pass() -> None:
    """Names with a dot are known only once their extension is loaded."""
    loaded = load(with_other("{postgres: {pg_stat_statements.track: all}}"))
    assert not unknown(loaded, "other")


def test_servers_differ_in_what_they_know() -> None:
    """Each configuration is checked against its own server."""
    loaded = load(with_other("{postgres: {io_method: worker}}"))
    new = NAMES | {"io_method"}
    assert not [*unknown_settings(loaded, "other", new, "PostgreSQL 18.4")]
    (problem,) = unknown_settings(loaded, "other", NAMES, "PostgreSQL 15.18")
    assert "PostgreSQL 15.18" in problem.message


def test_a_setting_from_a_profile_is_told_at_its_configuration() -> None:
    """What no line of the file sets points at the configuration that asked for the profile."""
    loaded = load(with_other("{profile: fitted}"))
    problems = unknown(loaded, "other")
    assert {problem.line for problem in problems} == {9}


def test_an_overridden_setting_has_no_line() -> None:
    """A setting from the command line is told with its path instead."""
    loaded = load(SMALL, Path("/nonexistent"), "configurations.other.postgres.wrk_mem=1")
    (problem,) = unknown(loaded, "other")
    assert (problem.line, problem.path) == (None, "--set configurations.other.postgres.wrk_mem")
