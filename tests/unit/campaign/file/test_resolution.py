"""What a sound file comes down to, also with values from the command line."""

from pathlib import Path

import pytest
from experiment_texts import (
    EVERY_KEY,
    FACTS,
    SMALL,
    load,
    only_problem,
    problems_of,
    with_line,
    with_other,
    with_workload,
    write_scripts,
)

from steelyard.campaign.file.files import load_experiment
from steelyard.core.experiment import Experiment
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import ExperimentFileError, InputError
from support.live import TINY, beside_anybody


def settings(text: str, configuration: str = "other") -> dict[str, str]:
    """Return a configuration's settings by name."""
    found = load(text).experiment.configuration(configuration).settings
    return {setting.name: setting.value for setting in found}


def test_later_wins_and_null_removes() -> None:
    """Settings are merged by name, whatever their case; null takes an inherited one away."""
    text = with_other("{extends: default, postgres: {a: 1, b: 2, c: 3}}")
    text += "  third: {extends: other, postgres: {B: 5, c: null}}\n"
    assert settings(text, "third") == {"a": "1", "B": "5"}


def test_profiles_come_before_explicit_settings() -> None:
    """Within a configuration an explicit setting wins over its profile's."""
    found = settings(with_other("{profile: fitted, postgres: {work_mem: 5MB, min_wal_size: null}}"))
    assert found["work_mem"] == "5MB"
    assert found["shared_buffers"] == "4096MB"
    assert "min_wal_size" not in found
    assert load(with_other("{profile: fitted}")).experiment.configuration("other").profiles == (
        "fitted",
    )


def test_a_childs_profile_replaces_what_its_parent_set() -> None:
    """Inheritance goes first: later configurations win over earlier ones, layer by layer."""
    text = (
        with_other("{postgres: {work_mem: 1MB}}") + "  third: {extends: other, profile: fitted}\n"
    )
    assert settings(text, "third")["work_mem"] != "1MB"


def test_targets_are_merged_key_by_key(tmp_path: Path) -> None:
    """A child changes one key of its parent's target; directories become absolute."""
    text = with_other(
        "{extends: default, target: {server: ./pg/bin, port: 5433, connection: tcp},"
        " protocol: prepared}"
    ).replace("default: {}", "default: {target: {server: 15, directory: d, run_as: pg}}")
    experiment = load(text, tmp_path).experiment
    assert experiment.configuration("default").target.server == "15"
    other = experiment.configuration("other")
    assert other.protocol == "prepared"
    assert other.target == LocalTarget(
        server=str(tmp_path / "pg/bin"),
        directory=str(tmp_path / "d"),
        port=5433,
        connection="tcp",
        run_as="pg",
    )


@pytest.mark.parametrize(
    ("loads", "pairs"),
    [
        ("{clients: 8}", [(8, 4)]),
        ("{clients: '1,10,25', threads: auto}", [(1, 1), (10, 4), (25, 4)]),
        ("{clients: [1, 8], threads: [1, 2, 8]}", [(1, 1), (8, 1), (8, 2), (8, 8)]),
        ("{clients: 8, threads: 2}", [(8, 2)]),
    ],
)
def test_every_pair_of_clients_and_threads(loads: str, pairs: list[tuple[int, int]]) -> None:
    """All pairs with threads <= clients are loads; auto follows the machine's CPUs."""
    experiment = load(SMALL.replace("{clients: 1, protocol: simple}", loads)).experiment
    assert [(load.clients, load.threads) for load in experiment.loads] == pairs


def test_a_seed_is_drawn_when_none_is_given() -> None:
    """Two campaigns without a seed get two orders; a given seed stays, the caller's wins."""
    text = SMALL.replace("seed: 1\n", "")
    drawn = {load(text).experiment.seed for _ in range(5)}
    assert len(drawn) > 1
    assert all(0 <= seed < 2**31 for seed in drawn)
    assert load(SMALL).experiment.seed == 1


def test_the_command_line_adds_seed_and_flags(tmp_path: Path) -> None:
    """The caller's seed replaces the file's, its flags come after the file's."""
    file = tmp_path / "e.yaml"
    file.write_text(with_line("generator: {flags: [--debug]}"), encoding="utf-8")
    loaded = load_experiment(file, facts=FACTS, seed=7, generator_flags=["--random-seed=3"])
    assert loaded.experiment.seed == 7
    assert loaded.experiment.generator_flags == ("--debug", "--random-seed=3")
    assert loaded.source == str(file)
    assert loaded.text == file.read_text("utf-8")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"  \n", "is empty"),
        (b"ALTER ROLE app PASSWORD 'x';", "has a password in it"),
        (b"-- postgresql://u:pw@host/db", "has a password in it"),
        (b"\\setenv PGPASSWORD x1", "has a password in it"),
        (b"COPY t FROM PROGRAM 'curl -u a:x1 http://h'", "has a password in it"),
    ],
)
def test_scripts_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    """A script is readable text without secrets, since the record stores it."""
    (tmp_path / "own.sql").write_bytes(content)
    with pytest.raises(ExperimentFileError, match=expected):
        load(with_workload("{name: own, scripts: [{file: own.sql}]}"), tmp_path)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_text_is_what_an_editor_shows(tmp_path: Path, mark: bytes, end: bytes) -> None:
    """The experiment, its scripts and what prepares data: no byte-order mark, one end of lines."""
    lines = (b"SELECT 1;", b"SELECT 2;", b"")
    for name in ("own.sql", "data.sql"):
        (tmp_path / name).write_bytes(mark + end.join(lines))
    text = with_workload("{name: own, prepare: [data.sql], scripts: [{file: own.sql}]}")
    file = tmp_path / "e.yaml"
    file.write_bytes(mark + text.encode().replace(b"\n", end))
    loaded = load_experiment(file, facts=FACTS)
    (workload,) = loaded.experiment.workloads
    assert {each.text for each in (*workload.scripts, *workload.prepare)} == {
        "SELECT 1;\nSELECT 2;\n"
    }
    assert loaded.text == text


def test_a_missing_script_names_its_neighbour(tmp_path: Path) -> None:
    """A misspelled file name is answered with the file that is there."""
    write_scripts(tmp_path)
    with pytest.raises(ExperimentFileError, match=r"did you mean `orders\.sql`\?"):
        load(
            with_workload("{name: own, prepare: [order.sql], scripts: [{file: report.sql}]}"),
            tmp_path,
        )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "there is no file"),
        (b"a: \xff", r"e\.yaml:1:4: it is not UTF-8"),
        (b" " * 2**21, "1 MiB"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path: Path, content: bytes | None, expected: str) -> None:
    """A file that is absent, binary or huge is a problem like any other."""
    file = tmp_path / "e.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=expected):
        load_experiment(file, facts=FACTS)


@pytest.mark.parametrize("name", ["quick", "quikc.yaml", "presets/quick.yml"])
def test_a_preset_without_its_prefix_is_recognised(name: str) -> None:
    """Who forgets `preset:` is asked whether it was meant, and not sent to the JSON Schema."""
    with pytest.raises(InputError) as refused:
        load_experiment(name, facts=FACTS)
    assert refused.value.message == f"there is no file {name}"
    assert refused.value.hint.startswith("did you mean `preset:quick`?")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Files from Windows editors load."""
    file = tmp_path / "e.yaml"
    file.write_text(SMALL, encoding="utf-8-sig")
    assert load_experiment(file, facts=FACTS).experiment.name == "small"


def test_builtins_may_have_a_prepare_step(tmp_path: Path) -> None:
    """The generator's tables and own SQL make one prepared state; scripts do not mix with them."""
    write_scripts(tmp_path)
    both = "{name: r, builtin: select-only, scale: 2, prepare: [orders.sql]}"
    workload = load(with_workload(both), tmp_path).experiment.workload("r")
    assert (workload.scale, len(workload.prepare)) == (2, 1)
    mixed = both.replace("prepare: [orders.sql]", "scripts: [{file: report.sql}]")
    with pytest.raises(ExperimentFileError, match="exclude each other"):
        load(with_workload(mixed), tmp_path)


def test_a_configuration_may_make_data_of_its_own(tmp_path: Path) -> None:
    """By scripts of its own, which replace inherited ones; on an existing server, too."""
    for name in ("before.sql", "after.sql"):
        (tmp_path / name).write_text(f"SELECT 1; -- {name}\n")
    text = SMALL.replace("default: {}", "default: {prepare: [before.sql]}")
    both = load(text, tmp_path).experiment.configurations
    assert [[each.name for each in one.prepare] for one in both] == [["before.sql"]] * 2
    other = text.replace("{extends: default}", "{extends: default, prepare: [after.sql]}")
    _, after = load(other, tmp_path).experiment.configurations
    assert after.prepare[0].text == "SELECT 1; -- after.sql\n"
    (missing,) = problems_of(other.replace("after.sql", "absent.sql"), base=tmp_path)
    assert missing.path == "configurations.other.prepare.0"
    elsewhere = text.replace("{prepare:", "{target: {kind: existing}, prepare:")
    there = load(elsewhere, tmp_path).experiment.configurations
    assert [[each.name for each in one.prepare] for one in there] == [["before.sql"]] * 2


def test_a_store_is_in_the_label() -> None:
    """Of the target that has it."""
    target = load(EVERY_KEY).experiment.configuration("default").target
    assert "2 ms per flush, 900 IOPS, 3,000 for 30,000 credits" in target.label


@pytest.mark.parametrize("text", [SMALL, TINY, f"{SMALL}measure:\n  run_time: 1s\n"])
def test_the_live_tests_take_the_machine_as_it_is(text: str) -> None:
    """However their text says `measure`, neighbours are only noted."""
    assert load(beside_anybody(text)).experiment.measure.max_other_load is None


def loaded(*overrides: str, text: str = SMALL) -> Experiment:
    """Return the experiment of a text with overrides."""
    return load(text, Path("/nonexistent"), *overrides).experiment


def test_values_are_replaced_or_added() -> None:
    """Paths reach into sections, configurations and workloads, whether or not the file has them."""
    experiment = loaded(
        "stop.budget=20m",
        "load.clients=1,10,25",
        "workloads.reads.scale=7",
        "configurations.other.postgres.shared_buffers=4GB",
        "configurations.other.postgres.pg_stat_statements.track=all",
        "configurations.other.postgres.log_line_prefix=%m [%p]",
        "configurations.other.target={connection: tcp}",
    )
    assert experiment.stop.budget_s == 1200.0
    assert [each.clients for each in experiment.loads] == [1, 10, 25]
    assert experiment.workloads[0].scale == 7
    other = experiment.configuration("other")
    assert {setting.name: setting.value for setting in other.settings} == {
        "shared_buffers": "4GB",
        "pg_stat_statements.track": "all",
        "log_line_prefix": "%m [%p]",
    }
    assert other.target.connection == "tcp"


def test_lists_by_comma_or_in_yaml() -> None:
    """Both ways to write a list mean the same."""
    assert loaded("load.clients=1,2").loads == loaded("load.clients=[1, 2]").loads
    assert loaded("workloads.0.scale=3").workloads[0].scale == 3
    text = SMALL.replace("{clients: 1, protocol: simple}", "{clients: [1, 2]}")
    assert [each.clients for each in loaded("load.clients.1=5", text=text).loads] == [1, 5]


def test_a_later_override_wins() -> None:
    """The same path twice: the last counts, as with any command line flag."""
    assert loaded("seed=1", "seed=2").seed == 2


def test_precision_withdraws_the_files_decision() -> None:
    """`--precision` on a file with `detect` is no contradiction; asking for both is."""
    text = with_line("stop: {detect: 3%}")
    assert loaded("stop.width=1%", text=text).stop.width == 0.01
    assert "exclude each other" in only_problem(text, "stop.width=1%", "stop.detect=2%")


def test_an_empty_value_removes() -> None:
    """Nothing after the equals sign is null, which removes an inherited setting."""
    text = SMALL.replace("default: {}", "default: {postgres: {work_mem: 8MB}}")
    assert (
        loaded("configurations.other.postgres.work_mem=", text=text).configuration("other").settings
        == ()
    )


def test_another_kind_takes_the_old_ones_keys_with_it() -> None:
    """What the file says of a local server means nothing for an endpoint; what is given stays."""
    text = SMALL.replace("default: {}", "default: {target: {server: '15', port: 5}}")
    for overrides in (("kind=existing", "host=db"), ("host=db", "kind=existing")):
        paths = [f"configurations.default.target.{each}" for each in overrides]
        target = loaded(*paths, text=text).configuration("other").target
        assert target == EndpointTarget(host="db")
    same = (
        loaded("configurations.default.target.kind=local", text=text).configuration("other").target
    )
    assert same == LocalTarget(server="15", port=5)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("postgresql://b@db/x?sslmode=require", {"uri": "postgresql://b@db/x?sslmode=require"}),
        ("existing", {}),
        ("{kind: existing, host: db, dbname: x}", {"host": "db", "dbname": "x"}),
    ],
)
def test_target_replaces_the_targets_of_all_configurations(
    text: str, target: dict[str, str]
) -> None:
    """A URI, a kind and a mapping are endpoints; heirs inherit them; `--set` comes after."""
    file = SMALL.replace("default: {}", "default: {target: {server: '15', port: 5}}")
    for each in loaded("seed=2", f"target={text}", text=file).configurations:
        assert each.target == EndpointTarget(**target)
    changed = loaded("configurations.default.target.restore=vacuum", f"target={text}", text=file)
    assert changed.configuration("other").target == EndpointTarget(**target, restore="vacuum")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("local", LocalTarget()),
        ("embedded", LocalTarget(server="embedded")),
        ("15", LocalTarget(server="15")),
        ("/opt/pg/bin", LocalTarget(server="/opt/pg/bin")),
    ],
)
def test_a_target_may_be_programs_of_this_machine(text: str, target: LocalTarget) -> None:
    """What else may stand below `bin:` starts a server here, also in place of an endpoint."""
    file = SMALL.replace("default: {}", "default: {target: {kind: existing, host: db}}")
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
    assert of_other("{kind: existing, restart_command: [a]}") == of_other("embedded")


def test_configurations_that_differ_by_their_targets_keep_them() -> None:
    """One target for all would compare a server with itself: refused, with the way out."""
    file = with_other("{target: {server: '15'}}").replace("default: {}", "default: {target: {}}")
    told = only_problem(file, "target=postgresql://db/x")
    assert "--target: the configurations have targets of their own" in told
    assert "--override configurations.NAME.target=" in told


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
    common = "configurations:\n  plain: {target: {server: '15'}}\n" if written else ""
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
    text = f"{FACTORED}factors:\n{JIT}  version: {{old: {{target: {{server: '15'}}}}, new: {{}}}}\n"
    told = only_problem(text, "target=postgresql://db/x")
    assert "--target: the factor `version` has targets of its own (level `old`)" in told
    assert "--override factors.version.LEVEL.target=" in told


def test_a_line_of_descent_is_not_endless() -> None:
    """What would take the memory of the machine is refused, once."""
    far = "".join(f"  c{i}: {{extends: {f'c{i - 1}' if i else 'default'}}}\n" for i in range(400))
    assert "`c31` extends one after another" in only_problem(SMALL + far)


_BY_NUMBER = """\
version: 1
name: by number
baseline: 15
workloads: [{name: 01, builtin: select-only, scale: 1}, {name: 1, builtin: select-only, scale: 2}]
load: {clients: 1}
configurations:
  15: {postgres: {work_mem: 8MB}}
  16: {extends: 15, postgres: {jit: off}}
"""


def test_a_name_may_be_a_number() -> None:
    """It is the name that was written, wherever it stands, and one that is not there is told."""
    loaded = load(_BY_NUMBER).experiment
    assert loaded.baseline == "15"
    assert loaded.configuration("16").asked() == {"jit": "off", "work_mem": "8MB"}
    assert [work.name for work in loaded.workloads] == ["01", "1"]
    for wrong, told in (
        ("extends: 15", "8:17: configurations.16.extends: there is no configuration `17`"),
        ("baseline: 15", "3:11: baseline: there is no configuration `17`"),
    ):
        assert told in only_problem(_BY_NUMBER.replace(wrong, wrong.replace("15", "17")))
    alike = _BY_NUMBER.replace("name: 01", "name: '1'")
    assert "there are two workloads called `1`" in only_problem(alike)
    factors = _BY_NUMBER.partition("  16:")[0] + "factors: {jit: {postgres: {jit: [on, off]}}}\n"
    assert load(factors).experiment.baseline == "15"


def test_a_name_has_no_blanks_around_it() -> None:
    """Two configurations or factors would have one name in tables."""
    told = "`other ` has blanks around it"
    assert told in only_problem(SMALL.replace("  other:", "  'other ':"))
    factors = "factors: {'other ': {postgres: {jit: [on, off]}}}\n"
    assert told in only_problem(SMALL.partition("configurations:")[0] + factors)


def test_blanks_around_a_kind_do_not_move_the_target_here() -> None:
    """Its word is read, and its class is that of the word."""
    loaded = load(with_other("{target: {kind: 'existing ', host: db}}"))
    assert isinstance(loaded.experiment.configuration("other").target, EndpointTarget)


def test_an_override_names_a_script_with_its_dots(tmp_path: Path) -> None:
    """Like a setting, the file of a workload is one step of the path."""
    for name in ("report.sql", "rewritten.sql"):
        (tmp_path / name).write_text(f"SELECT 1; -- {name}\n")
    text = with_workload("{name: own, scripts: [{file: report.sql}]}")
    override = "configurations.other.scripts.report.sql=rewritten.sql"
    (script,) = load(text, tmp_path, override).experiment.configuration("other").scripts
    assert (script.name, script.rewritten_in) == ("report.sql", "rewritten.sql")
