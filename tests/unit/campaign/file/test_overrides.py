"""``--set``: values from the command line."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, only_problem, problems_of, with_line, with_other

from steelyard.core.experiment import Experiment
from steelyard.core.target import EndpointTarget, LocalTarget


def loaded(*overrides: str, text: str = SMALL) -> Experiment:
    """Return the experiment of a text with overrides."""
    return load(text, Path("/nonexistent"), *overrides).experiment


def test_values_are_replaced_or_added() -> None:
    """Paths reach into sections, configurations and workloads, whether or not the file has them."""
    experiment = loaded(
        "stop.budget=20m",
        "loads.clients=1,10,25",
        "workloads.reads.scale_factor=7",
        "configurations.other.postgres.shared_buffers=4GB",
        "configurations.other.postgres.pg_stat_statements.track=all",
        "configurations.other.postgres.log_line_prefix=%m [%p]",
        "configurations.other.target={connection: tcp}",
    )
    assert experiment.stop.budget_s == 1200.0
    assert [each.clients for each in experiment.loads] == [1, 10, 25]
    assert experiment.workloads[0].scale_factor == 7
    other = experiment.configuration("other")
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
        loaded("configurations.other.postgres.work_mem=", text=text).configuration("other").settings
        == ()
    )


def test_another_kind_takes_the_old_ones_keys_with_it() -> None:
    """What the file says of a local server means nothing for an endpoint; what is given stays."""
    text = SMALL.replace("default: {}", "default: {target: {bin: '15', port: 5}}")
    for overrides in (("kind=endpoint", "host=db"), ("host=db", "kind=endpoint")):
        paths = [f"configurations.default.target.{each}" for each in overrides]
        target = loaded(*paths, text=text).configuration("other").target
        assert target == EndpointTarget(host="db")
    same = (
        loaded("configurations.default.target.kind=local", text=text).configuration("other").target
    )
    assert same == LocalTarget(bin="15", port=5)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("postgresql://b@db/x?sslmode=require", {"uri": "postgresql://b@db/x?sslmode=require"}),
        ("endpoint", {}),
        ("{kind: endpoint, host: db, dbname: x}", {"host": "db", "dbname": "x"}),
    ],
)
def test_target_replaces_the_targets_of_all_configurations(
    text: str, target: dict[str, str]
) -> None:
    """A URI, a kind and a mapping are endpoints; heirs inherit them; `--set` comes after."""
    file = SMALL.replace("default: {}", "default: {target: {bin: '15', port: 5}}")
    for each in loaded("seed=2", f"target={text}", text=file).configurations:
        assert each.target == EndpointTarget(**target)
    changed = loaded("configurations.default.target.restore=vacuum", f"target={text}", text=file)
    assert changed.configuration("other").target == EndpointTarget(**target, restore="vacuum")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("local", LocalTarget()),
        ("embedded", LocalTarget(bin="embedded")),
        ("15", LocalTarget(bin="15")),
        ("/opt/pg/bin", LocalTarget(bin="/opt/pg/bin")),
    ],
)
def test_a_target_may_be_programs_of_this_machine(text: str, target: LocalTarget) -> None:
    """What else may stand below `bin:` starts a server here, also in place of an endpoint."""
    file = SMALL.replace("default: {}", "default: {target: {kind: endpoint, host: db}}")
    assert loaded(f"target={text}", text=file).configuration("other").target == target


@pytest.mark.parametrize(
    ("default", "other", "asked"),
    [
        ("max_connections: 200, work_mem: 8MB", "", {}),
        ("MAX_CONNECTIONS: 200, work_mem: 8MB", "", {}),
        ("max_connections: 200", "max_connections: 900", {"max_connections": "900"}),
    ],
)
def test_room_for_clients_is_the_running_servers_business(
    default: str, other: str, asked: dict[str, str]
) -> None:
    """The same max_connections for all makes room and goes; one that is compared stays."""
    file = SMALL.replace("default: {}", f"default: {{postgres: {{{default}}}}}")
    file = file.replace("{extends: default}", f"{{extends: default, postgres: {{{other}}}}}")

    def of_other(target: str) -> dict[str, str]:
        settings = loaded(f"target={target}", text=file).configuration("other").settings
        return {s.name.lower(): s.value for s in settings if s.name.lower() == "max_connections"}

    assert of_other("postgresql://db/x") == asked
    assert of_other("embedded") == asked or of_other("embedded") == {"max_connections": "200"}
    assert of_other("{kind: endpoint, restart_command: [a]}") == of_other("embedded")


def test_configurations_that_differ_by_their_targets_keep_them() -> None:
    """One target for all would compare a server with itself: refused, with the way out."""
    file = with_other("{target: {bin: '15'}}").replace("default: {}", "default: {target: {}}")
    told = only_problem(file, "target=postgresql://db/x")
    assert "--target: the configurations have targets of their own" in told
    assert "--set configurations.NAME.target=" in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "--target: the target is empty"),
        ("{kind", "--target: the target is not a YAML mapping"),
        ("db.example.com", "--target: `db.example.com` is neither `embedded`, nor a version"),
        ("cloudsql", "--target: `cloudsql` is neither `embedded`, nor a version"),
        ("postgresql://db:port/x", "its port is not a number"),
    ],
)
def test_what_is_no_target(text: str, expected: str) -> None:
    """Each is told under the option's name, without a line of the file."""
    assert expected in only_problem(SMALL, f"target={text}")


def test_a_password_in_a_target_is_not_repeated() -> None:
    """It is refused once for all configurations, and nothing that is printed holds it."""
    (problem,) = problems_of(SMALL, "target=postgresql://b:hunter2@db/x")
    assert "has a password in it" in problem.message
    assert "hunter2" not in repr(problem)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("stop.budgt=20m", "--set stop.budgt: unknown key `budgt` (did you mean `budget`?)"),
        ("stp.budget=20m", "--set stp: unknown key `stp` (did you mean `stop`?)"),
        (
            "configurations.othr.protocol=simple",
            "there is no configuration `othr` (did you mean `other`?)",
        ),
        ("workloads.raeds.scale_factor=1", "has no item `raeds` (did you mean `reads`?)"),
        ("workloads.7.scale_factor=1", "has no item `7`"),
        ("name.first=x", "`name` has nothing below it"),
        ("stop.budget", "`stop.budget` is no `path=value`"),
        ("=5", "`=5` is no `path=value`"),
        ("loads.clients=[1", "the value: it is not YAML"),
        ("loads.clients=0", "--set loads.clients: `0` is out of range"),
        ("configurations.other.postgres.port=1", "Steelyard sets `port` itself"),
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


FACTORED = SMALL.partition("configurations:")[0].replace("baseline: default\n", "")
JIT = "  jit: {postgres: {jit: [on, off]}}\n"


@pytest.mark.parametrize("kind", ["factors", "ladder", "ablation"])
@pytest.mark.parametrize("written", [True, False])
def test_target_is_put_on_what_factors_have_in_common(kind: str, *, written: bool) -> None:
    """Every combination runs there, whether the file writes the common configuration or not."""
    common = "configurations:\n  plain: {target: {bin: '15'}}\n" if written else ""
    text = f"{FACTORED}{common}{kind}:\n{JIT}  memory: {{postgres: {{work_mem: [4MB, 8MB]}}}}\n"
    experiment = loaded("target=postgresql://db/x", text=text)
    targets = {configuration.target for configuration in experiment.configurations}
    assert targets == {EndpointTarget(uri="postgresql://db/x")}
    assert len(experiment.configurations) == (4 if kind == "factors" else 3)
    if kind != "ablation":
        assert experiment.baseline == ("plain" if written else "default")


def test_a_factor_may_be_called_as_the_configuration_that_is_made() -> None:
    """The common configuration then takes another name, and nothing is refused."""
    text = f"{FACTORED}factors:\n  default: {{postgres: {{jit: [on, off]}}}}\n"
    for configuration in loaded("target=postgresql://db/x", text=text).configurations:
        assert configuration.target == EndpointTarget(uri="postgresql://db/x")


def test_a_factor_of_targets_is_no_factor_on_one_target() -> None:
    """It would compare a server with itself: refused, with factor, level and the way out."""
    text = f"{FACTORED}factors:\n{JIT}  version: {{old: {{target: {{bin: '15'}}}}, new: {{}}}}\n"
    told = only_problem(text, "target=postgresql://db/x")
    assert "--target: the factor `version` has targets of its own (level `old`)" in told
    assert "--set factors.version.LEVEL.target=" in told
