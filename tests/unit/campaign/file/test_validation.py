"""What is refused in a file, where, and with which way out; and the schema that editors use."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import test_endpoint_targets as endpoint
import test_generators_in_the_file as commands
import test_kubernetes_targets as kubernetes
import test_redis_in_the_file as redis
from experiment_texts import (
    FACTS,
    KEPT,
    SMALL,
    load,
    only_problem,
    problems_of,
    with_line,
    with_other,
    with_workload,
)
from ruamel.yaml import YAML

from steelyard.campaign.file.files import (
    LoadedExperiment,
    load_experiment,
    preset_names,
    preset_text,
    unknown_settings,
)
from steelyard.campaign.file.form import experiment_schema
from steelyard.core.wording import ExitCode, ExperimentFileError, Problem
from support.snapshots import check_text


def test_the_version_is_needed() -> None:
    """It is never guessed."""
    assert "`version` is missing" in only_problem(SMALL.replace("version: 1\n", ""))


def test_a_single_pass_takes_one_configuration_once() -> None:
    """One round may be written."""
    one = instead(
        ["design: single-pass", "measure: {runs_per_start: 1}", "configurations: {server: {}}"]
    )
    assert load(one).experiment.is_single_pass


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
    assert (problem.line, problem.path) == (
        None,
        "--override configurations.other.postgres.wrk_mem",
    )


GOLDEN = Path(__file__).parent / "golden"
BROKEN_FILES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_every_problem_is_told_at_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One attempt names every mistake with line, column, fact and way out, in line order.

    ``STEELYARD_UPDATE_GOLDEN=1`` writes the files anew.
    """
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(ExperimentFileError) as refused:
        load_experiment(Path(f"{name}.yaml"), facts=FACTS)
    assert refused.value.exit_code is ExitCode.BAD_INPUT
    assert all(problem.hint for problem in refused.value.problems)
    check_text(GOLDEN / f"{name}.txt", refused.value.message + "\n")


TEXTS = [*KEPT, endpoint.EVERY_KEY, kubernetes.EVERY_KEY, kubernetes.BEHIND_A_SERVICE]
TEXTS += [redis.EVERY_KEY, redis.EVERYWHERE, redis.IN_PODS, redis.BEHIND_A_SERVICE]
BASES = {"redis": redis.REDIS, "command": commands.FILE}


def instead(lines: list[str], base: str = SMALL) -> str:
    """Return an experiment with these lines in the place of those with the same keys."""
    keys = {line.partition(":")[0] for line in lines}
    head, mark, tail = base.partition("configurations:")
    sections = re.split(r"^(?=\S)", head, flags=re.MULTILINE)
    kept = [section for section in sections if section.partition(":")[0] not in keys]
    rest = "" if keys & {"configurations", "factors", "ladder", "ablation"} else mark + tail
    return "".join(kept) + "\n".join([*lines, rest])


def test_each_mistake_in_a_small_file() -> None:
    """Behind what is written in the small experiment are its problems, each with a way out.

    ``@`` names another experiment to begin with; ``#`` says why.
    """
    path = GOLDEN / "cases.txt"
    made = []
    for case in path.read_text("utf-8").rstrip().split("\n\n"):
        asked = [line for line in case.splitlines() if line[0] in "#@|"]
        base = next((BASES[line[2:]] for line in asked if line.startswith("@ ")), SMALL)
        lines = [line.removeprefix("| ") for line in asked if line.startswith("| ")]
        problems = problems_of(instead(lines, base))
        assert problems
        assert all(problem.hint and problem.line for problem in problems)
        located = [problem.located("").lstrip(":") for problem in problems]
        made.append("\n".join([*asked, *located]))
    check_text(path, "\n\n".join(made) + "\n")


def test_a_password_is_not_echoed() -> None:
    """The problem about a password in a file does not show the password."""
    secret = [
        name for name in BROKEN_FILES if "hunter2" in (GOLDEN / f"{name}.yaml").read_text("utf-8")
    ]
    assert len(secret) >= 6
    for name in (*BROKEN_FILES, "cases"):
        told = (GOLDEN / f"{name}.txt").read_text("utf-8").splitlines()
        assert not [line for line in told if "hunter2" in line and line[:2] != "| "]


@cache
def validator() -> Any:
    """Return what judges a text as an editor does."""
    return jsonschema.Draft202012Validator(experiment_schema())


def errors(text: str) -> list[Any]:
    """Return what the schema finds wrong with a text."""
    return list(validator().iter_errors(YAML(typ="safe", pure=True).load(text)))


def test_it_is_a_schema_of_draft_2020_12() -> None:
    """The schema itself is valid and says which draft it follows."""
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid(name: str) -> None:
    """An editor finds nothing wrong with a preset."""
    assert errors(preset_text(name)) == []


@pytest.mark.parametrize("text", TEXTS)
def test_every_key_is_valid(text: str) -> None:
    """An editor accepts the design's own example, and all keys of its sections."""
    assert errors(text) == []


@pytest.mark.parametrize(
    "text",
    [
        with_line("bogus: 1"),
        with_line("measure: {reset: daily}"),
        with_workload("{name: x, builtin: tpcb}"),
        with_other("{target: {kind: cloudsql}}"),
        with_other("{profile: fited}"),
        SMALL.replace("version: 1", "version: 2"),
        SMALL.replace("load: {clients: 1, protocol: simple}", "load: {clients: 0}"),
    ],
)
def test_mistakes_of_one_place_are_found(text: str) -> None:
    """Unknown keys and words and numbers out of range are marked while one types."""
    assert errors(text)


def test_every_key_has_a_description() -> None:
    """Hovering over any key says what it means."""
    schema = experiment_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = [key for section in sections for key in section["properties"].items()]
    assert [name for name, key in keys if not key.get("description")] == []


@pytest.mark.parametrize(
    ("key", "misspelled"),
    [
        ("version: 1", "verson: 1"),
        ("name: small", "NAME: small"),
        ("workloads:", "worklods:"),
        ("{name: reads", "{nmae: reads"),
        ("load:", "lod:"),
        ("load:", "laod:"),
        ("clients: 1", "client: 1"),
        ("configurations:", "configuration:"),
        ("configurations:", "design: one-by-one\nFACTORS: {f: {postgres: {jit: [on, off]}}}\nx:"),
        ("  other: {extends: default}\n", "DESIGN: single-pass\n"),
    ],
)
def test_a_misspelled_key_is_not_missing_as_well(key: str, misspelled: str) -> None:
    """It is one problem, with the key that was meant; so is all that follows from its absence."""
    problems = problems_of(SMALL.replace(key, misspelled))
    told = [each for each in problems if not each.message.startswith("unknown key")]
    assert not told
    assert any(each.hint.startswith("did you mean") for each in problems)


def test_what_a_misspelled_key_holds_is_told_where_it_stands() -> None:
    """The line is that of the key as it was written."""
    problems = problems_of(with_line("baselin: nobody"))
    assert {each.line for each in problems} == {7}
    assert len(problems) == 2


def test_blanks_around_the_design_change_nothing() -> None:
    """A single pass takes one configuration, however it is written."""
    assert "a single pass takes one configuration" in only_problem(
        with_line("design: 'single-pass '")
    )


def test_a_misspelled_engine_or_parent_is_one_problem() -> None:
    """The rest of the file is read as with the key that was meant."""
    text = preset_text("redis-aof").replace("engine: redis", "engie: redis")
    assert "unknown key `engie` (did you mean `engine`?)" in only_problem(text)
    child = with_other("{EXTENDS: default, postgres: {jit: }}").replace(
        "default: {}", "default: {postgres: {jit: off}}"
    )
    assert "unknown key `EXTENDS` (did you mean `extends`?)" in only_problem(child)


def test_a_key_that_may_mean_two_is_no_factor_for_that() -> None:
    """`lad` is near to `ladder`, too; configurations are not told to be too many for one."""
    problems = problems_of(SMALL.replace("load:", "lad:"))
    assert {each.message for each in problems} == {"unknown key `lad`", "`load` is missing"}


def test_what_a_target_lacks_is_told_once_where_it_is_written() -> None:
    """Configurations that inherit it have no problem of their own."""
    problems = problems_of(SMALL.replace("default: {}", "default: {target: {kind: rds}}"))
    assert len(problems) == 2
    for problem, key in zip(problems, ("region", "accounts"), strict=True):
        assert f"`{key}` of a server" in problem.message
        assert (problem.path, problem.line) == ("configurations.default.target", 8)
