"""Scripts are tried before anything is measured, by a real server and pgbench: all told at once."""

import csv
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.endpoint import Server
from support.live import TINY, Steelyard

pytestmark = pytest.mark.live
Completed = subprocess.CompletedProcess[str]

_FOREIGN = Path(__file__).parents[1] / "recordings" / "foreign" / "scripts"
_TABLES = (
    "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, abalance int)",
    "CREATE TABLE pgbench_history (tid int)",
    "INSERT INTO pgbench_accounts VALUES (1, 0)",
)
_NOWHERE = "which no `\\set`, `\\gset` or `--define` sets"
# What is wrong with scripts of other people; with all others of them nothing is.
_REFUSED = {
    "s05.sql": f"1: `:fixed` is used, {_NOWHERE}",
    "s07.sql": "1: only the protocol `simple`",
    "s09.sql": "1: `:x` in a literal",
    "s12.sql": "1: it has no statement",
    "s17.sql": "1: pgbench supports no COPY",
    "s21.sql": "2: end of script reached without completing",
    "s29.sql": f"1: `:aid` is used, {_NOWHERE}",
    "s30.sql": "1: syntax error in command",
    "s32.sql": '3: syntax error at or near ":"',
    "s36.sql": f"1: `:n` is used, {_NOWHERE}",
    "s39.sql": "1: unexpected character",
    "s40.sql": "2: invalid command",
    "s42.sql": '1: relation "PgBench_Accounts" does not exist',
    "s43.sql": "1: invalid command",
    "s46.sql": "1: `:mm` in a literal",
}
# Our own, of the same kinds: a script and what is said of it, "" where it is right.
_OWN = {
    "mistyped": ("SELEC * FROM pgbench_accounts;", '1: syntax error at or near "SELEC"'),
    "function": ("SELECT 1;\nSELECT lowr('A');", "2: function lowr(unknown) does not exist"),
    "sett": ("\\sett a 1\nSELECT 1;\n\\watch", "1: invalid command"),
    "randm": ("\\set c randm(1, 2)\nSELECT :c;", "1: unexpected function name (randm)"),
    "endless": ("\\if 1\nSELECT 1;", "2: \\if without matching \\endif"),
    "columns": ("SELECT 1 AS a \\gset p_\nSELECT :p_a, :p_b;", f"2: `:p_b` is used, {_NOWHERE}"),
    "place": ("\\set n 1\nSET work_mem = :n;", '2: syntax error at or near ":n"'),
    "zero": ("\\set n 1 / 0\nSELECT :n;", "1: division by zero"),
    "empty": ("SELECT 1;\n\\set n random(5, 1)\nSELECT :n;", "2: empty range given to random"),
    "pipeline": ("\\startpipeline\nSELECT 1;", "2: end of script reached with pipeline open"),
    "given": ("SELECT 3 AS a \\gset\n\\set n random(1, :a - 1)\nSELECT :n;", ""),
    "deleting": ("DELETE FROM pgbench_accounts;", ""),
    "flags": ("SELECT :shard::int + :scale;", ""),
    "bom": ("\ufeff\\set n 1\r\nSELECT :n;\r\n", ""),
}


@pytest.fixture
def shop(server: Server) -> Iterator[Server]:
    """A server with the tables that the scripts name."""
    server.do(*_TABLES)
    yield server
    server.do("DROP TABLE pgbench_accounts, pgbench_history")


def told(stderr: str) -> Mapping[str, str]:
    """Return what an error says of each script, by the name of its file: its first problem."""
    lines = (line.removeprefix("error: ") for line in stderr.splitlines() if ".sql:" in line)
    found: dict[str, str] = {}
    for line in lines:
        name, _, said = line.partition(".sql:")
        found.setdefault(f"{Path(name).name}.sql", said)
    return found


def test_a_server_that_is_there_executes_nothing(steelyard: Steelyard, shop: Server) -> None:
    """The dry run tells all problems of all scripts, with the user's files and lines."""
    files = [path for path in sorted(_FOREIGN.glob("*.sql")) if path.stem not in ("s41", "s45")]
    expected = dict(_REFUSED)
    marks = steelyard.directory / "shell"
    for name, (text, said) in {**_OWN, "shell": (f"\\shell touch {marks}\nSELECT 1;", "")}.items():
        files.append(steelyard.directory / f"{name}.sql")
        files[-1].write_text(text)
        expected |= {files[-1].name: said} if said else {}
    words = [word for path in files for word in ("--script", str(path))]
    done = steelyard.run(
        *("try", "--dsn", shop.uri, "--set", "random_page_cost=1.1", "--dry-run", *words),
        *("--", "-Dshard=4"),
    )
    assert done.returncode == 2, done.stderr
    found = told(done.stderr)
    assert found.keys() == expected.keys()
    assert {name: found[name][: len(said)] for name, said in expected.items()} == expected
    assert "sett.sql:3: invalid command" in done.stderr
    assert shop.rows("SELECT count(*) FROM pgbench_accounts") == [(1,)]
    assert not marks.exists()


def test_on_data_of_our_own_each_script_runs_once(steelyard: Steelyard) -> None:
    """What only a run shows ends the campaign before anything is measured, once and for good."""
    scripts = {
        "rows": ("SELECT 1;\n\nSELECT aid FROM pgbench_accounts\n\\gset", "3: expected one row"),
        "divided": ("SELECT 1;\nSELECT 1 / (aid - aid) FROM pgbench_accounts;", "2: division by"),
        "right": ("\\set n random(1, 9)\nUPDATE pgbench_accounts SET abalance = :n;", ""),
    }
    for name, (text, _) in scripts.items():
        (steelyard.directory / f"{name}.sql").write_text(text)
    listed = ", ".join(f"{{file: {name}.sql}}" for name in scripts)
    text = TINY.replace("builtin: simple-update", f"scripts: [{listed}]")
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 2, done.stderr
    expected = {f"{name}.sql": said for name, (_, said) in scripts.items() if said}
    found = told(done.stderr)
    assert {name: found[name][: len(expected[name])] for name in found} == expected
    assert "--resume" not in done.stderr
    assert steelyard.runs == []


_PLANNED = (
    "CREATE TABLE parts (id int PRIMARY KEY, kind int, note text)",
    "INSERT INTO parts SELECT i, i % 100, repeat('x', 200) FROM generate_series(1, 40000) i",
    "CREATE INDEX ON parts (kind)",
    (
        "CREATE FUNCTION of_kind(k int) RETURNS bigint LANGUAGE plpgsql STABLE AS"
        " 'BEGIN RETURN (SELECT count(*) FROM parts WHERE kind = k); END'"
    ),
    "VACUUM ANALYZE parts",
)
_BY_KEY = "\\set n random(1, 40000)\nSELECT note FROM parts WHERE id = :n;"
_BY_KIND = "\\set n random(0, 99)\nSELECT sum(length(note)) FROM parts WHERE kind < :n;"


@pytest.fixture
def parts(server: Server) -> Iterator[Server]:
    """A server with a table whose rows are found by key, and of a kind by index or by a scan."""
    server.do(*_PLANNED)
    yield server
    server.do("DROP FUNCTION of_kind", "DROP TABLE parts")


def tried(
    steelyard: Steelyard, server: Server, change: str, *options: str, **texts: str
) -> Completed:
    """Return what ``try`` says of scripts under another value of a setting."""
    words: list[str] = []
    for name, text in texts.items():
        path = steelyard.directory / f"{name}.sql"
        path.write_text(text)
        words += ["--script", str(path)]
    return steelyard.run("try", "--dsn", server.uri, "--set", change, "--yes", *options, *words)


def test_statements_that_keep_their_plan_are_the_answer(
    steelyard: Steelyard, parts: Server
) -> None:
    """No load runs and no record is made, whatever the parameters; `--json` has the same."""
    done = tried(steelyard, parts, "random_page_cost=3.9", "--dir", "c", key=_BY_KEY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "1 statement keeps its plan under random_page_cost = 3.9, for 20 drawn sets of"
        " parameters: no difference is to be expected. --anyway measures.\n"
    )
    assert not (steelyard.directory / "c").exists()
    done = tried(steelyard, parts, "random_page_cost=3.9", "--json", key=_BY_KEY)
    (statement,) = json.loads(done.stdout)["statements"]
    assert (statement["drawn"], statement["changed"], statement["unknown"]) == (20, 0, None)


def test_a_plan_that_changes_for_some_parameters_is_found(
    steelyard: Steelyard, parts: Server
) -> None:
    """`--plans` names the statement, for how many sets, and both plans; the other is counted."""
    options = ("--plans", "--protocol", "extended")
    done = tried(steelyard, parts, "random_page_cost=40", *options, key=_BY_KEY, kind=_BY_KIND)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 of 2 statements with another plan under random_page_cost")
    found = re.search(r"kind\.sql: .* \((\d+) of 20 sets\); ", done.stdout)
    assert found is not None
    assert 0 < int(found[1]) < 20
    assert "key.sql" not in done.stdout
    assert re.search(r"now .*(Index|Bitmap)", done.stdout)
    assert re.search(r"tried .*Seq Scan", done.stdout)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT of_kind(5);", "function of_kind have plans of their own"),
        ("UPDATE parts SET kind = 1 WHERE id = 1;", "its script may write"),
        ("SELECT 3 AS k \\gset\nSELECT note FROM parts WHERE id = :k;", ":k is not known"),
    ],
)
def test_what_explain_does_not_show_is_not_known(
    steelyard: Steelyard, parts: Server, text: str, why: str
) -> None:
    """Then nothing is claimed to be equal."""
    done = tried(steelyard, parts, "random_page_cost=3.9", "--plans", hidden=text)
    assert done.returncode == 0, done.stderr
    assert why in done.stdout
    assert "no difference" not in done.stdout


def test_plans_that_nobody_can_ask_for(steelyard: Steelyard, parts: Server) -> None:
    """A setting of the whole server, and statements that are nowhere yet: exit code 2."""
    done = tried(steelyard, parts, "max_wal_size=2GB", "--plans", key=_BY_KEY)
    assert done.returncode == 2, done.stderr
    assert "a session cannot have max_wal_size for itself" in done.stderr
    done = tried(steelyard, parts, "random_page_cost=3.9", "--plans")
    assert done.returncode == 2, done.stderr
    assert "only of statements of scripts" in done.stderr


def test_planned_workers_belong_to_a_plan(steelyard: Steelyard, parts: Server) -> None:
    """They are seen in a plan that becomes parallel, also under a setting that does more."""
    text = "SELECT sum(length(note)) FROM parts;"
    done = tried(steelyard, parts, "parallel_setup_cost=0", "--plans", sum=text)
    assert re.search(r"tried .*Workers Planned: [12]", done.stdout), done.stdout + done.stderr


def test_the_plans_are_a_table(steelyard: Steelyard, parts: Server) -> None:
    """As CSV a row for each statement, with numbers and the reason of what is not known."""
    options = ("--plans", "-o", "csv", "--protocol", "extended")
    texts = {"kind": _BY_KIND, "hidden": "SELECT of_kind(5);"}
    done = tried(steelyard, parts, "random_page_cost=40", *options, **texts)
    assert done.returncode == 0, done.stderr
    kind, hidden = csv.DictReader(done.stdout.splitlines())
    assert (kind["script"].endswith("kind.sql"), kind["drawn"]) == (True, "20")
    assert 0 < int(kind["changed"]) < 20
    assert "of_kind" in hidden["reason"]
