"""What a sound file comes down to."""

from pathlib import Path

import pytest
from experiment_texts import (
    EVERY_KEY,
    FACTS,
    SMALL,
    load,
    problems_of,
    with_line,
    with_other,
    with_workload,
    write_scripts,
)

from steelyard.campaign.file.files import load_experiment
from steelyard.core.target import LocalTarget
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
        "{extends: default, target: {bin: ./pg/bin, port: 5433, connection: tcp},"
        " protocol: prepared}"
    ).replace("default: {}", "default: {target: {bin: 15, directory: d, run_as: pg}}")
    experiment = load(text, tmp_path).experiment
    assert experiment.configuration("default").target.bin == "15"
    other = experiment.configuration("other")
    assert other.protocol == "prepared"
    assert other.target == LocalTarget(
        bin=str(tmp_path / "pg/bin"),
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
    experiment = load(SMALL.replace("{clients: 1}", loads)).experiment
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


@pytest.mark.parametrize(
    "text",
    [
        with_workload("{name: own, command: 'curl -u a:x1 http://h', measure: {}}"),
        with_workload("{name: own, prepare_command: [mysql, -px1], scripts: [{file: own.sql}]}"),
        with_workload("{name: own, scripts: [{file: own.sql}]}")
        + "generator: {flags: [--mysql-password=x1]}\n",
        with_workload("{name: own, scripts: [{file: own.sql}]}").replace(
            "configurations:",
            "configurations:\n  archived: {postgres: {archive_command: 'curl -u a:x1 h'}}",
        ),
        with_workload("{name: own, scripts: [{file: own.sql}]}").replace(
            "configurations:", "configurations:\n  typed: {manual: {text: 'Run ipmitool -P x1.'}}"
        ),
        with_workload("{name: own, scripts: [{file: own.sql}]}").replace(
            "configurations:",
            "configurations:\n  there: {target: {kind: endpoint, uri: postgresql:///x,"
            " restart_command: [redis-cli, -a, x1], reset_command: 'env API_KEY=x1 y'}}",
        ),
    ],
)
def test_a_secret_is_refused_in_every_key_that_takes_a_command(text: str, tmp_path: Path) -> None:
    """Whichever command it is; the message does not repeat it."""
    (tmp_path / "own.sql").write_text("SELECT 1;")
    with pytest.raises(ExperimentFileError) as caught:
        load(text, tmp_path)
    assert "the command has a password in it" in str(caught.value)
    assert "x1" not in str(caught.value)


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
    both = "{name: r, builtin: select-only, scale_factor: 2, prepare: [orders.sql]}"
    workload = load(with_workload(both), tmp_path).experiment.workload("r")
    assert (workload.scale_factor, len(workload.prepare)) == (2, 1)
    mixed = both.replace("prepare: [orders.sql]", "scripts: [{file: report.sql}]")
    with pytest.raises(ExperimentFileError, match="exclude each other"):
        load(with_workload(mixed), tmp_path)


def test_a_configuration_may_make_data_of_its_own(tmp_path: Path) -> None:
    """By scripts of its own, which replace inherited ones; elsewhere than here they are refused."""
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
    elsewhere = text.replace("{prepare:", "{target: {kind: endpoint}, prepare:")
    assert {problem.path for problem in problems_of(elsewhere, base=tmp_path)} == {
        f"configurations.{name}.prepare" for name in ("default", "other")
    }


def test_a_store_is_in_the_label() -> None:
    """Of the target that has it."""
    target = load(EVERY_KEY).experiment.configuration("default").target
    assert "2 ms per flush, 900 IOPS, 3,000 for 30,000 credits" in target.label


@pytest.mark.parametrize("text", [SMALL, TINY, f"{SMALL}measure:\n  slice: 1s\n"])
def test_the_live_tests_take_the_machine_as_it_is(text: str) -> None:
    """However their text says `measure`, neighbours are only noted."""
    assert load(beside_anybody(text)).experiment.measure.neighbours is None
