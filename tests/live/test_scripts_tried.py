"""Scripts are tried before anything is measured, by a real server and pgbench: all told at once."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.endpoint import Server
from support.live import TINY, Steelyard

pytestmark = pytest.mark.live

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
    assert done.returncode == 3, done.stderr
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
    assert done.returncode == 3, done.stderr
    expected = {f"{name}.sql": said for name, (_, said) in scripts.items() if said}
    found = told(done.stderr)
    assert {name: found[name][: len(expected[name])] for name in found} == expected
    assert "--resume" not in done.stderr
    assert steelyard.runs == []
