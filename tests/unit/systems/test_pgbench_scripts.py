"""Scripts of pgbench as other people write them: what they do, and why one cannot be measured."""

from pathlib import Path

import pytest

from steelyard.systems.postgres import pgbench, scripts

_FOREIGN = Path(__file__).parents[2] / "recordings" / "foreign" / "scripts"
_NOWHERE = "which no `\\set`, `\\gset` or `--define` sets"
_INSIDE = "which is set only inside of `\\if`"
# Of scripts that write, or whose protocol or text is at fault: what is said under `prepared`. All
# others only read and can be measured; what pgbench's parser and a server refuse is another test.
_WRITING = frozenset({"s12", "s17", "s18", "s19", "s26", "s27", "s34", "s35", "s43"})
_WRONG = {
    "s05": (1, "`:fixed` is used, " + _NOWHERE),
    "s07": (1, "only the protocol `simple` sends what `\\;` joins"),
    "s09": (1, "`:x` in a literal"),
    "s12": (1, "it has no statement"),
    "s17": (1, "pgbench supports no COPY"),
    "s29": (1, "`:aid` is used, " + _NOWHERE),
    "s36": (1, "`:n` is used, " + _NOWHERE),
    "s46": (1, "`:mm` in a literal"),
}
_ONLY_PREPARED = frozenset({"s07", "s09", "s46"})


@pytest.mark.parametrize("path", sorted(_FOREIGN.glob("*.sql")), ids=lambda path: path.stem)
def test_scripts_of_other_people(path: Path) -> None:
    """Reading or writing, and what their text tells of them under each protocol."""
    if path.stem in ("s41", "s45"):
        with pytest.raises(UnicodeDecodeError):
            path.read_text("utf-8")
        return
    text = path.read_text("utf-8-sig")
    assert scripts.only_reads(text) is (path.stem not in _WRITING)
    for protocol in ("prepared", "extended", "simple"):
        found = [*scripts.problems(text, protocol=protocol)]
        expected = _WRONG.get(path.stem)
        if expected is None or (protocol == "simple" and path.stem in _ONLY_PREPARED):
            assert found == []
        else:
            (problem,) = found
            assert (problem[0], problem[1][: len(expected[1])]) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT :a, :b;\nSELECT :a;", [(1, ":a"), (1, ":b"), (2, ":a")]),
        ("\\set m :n + 1\nSELECT :m;", [(1, _NOWHERE)]),
        ("\\sleep :t ms\nSELECT 1;", [(1, _NOWHERE)]),
        ("\\shell curl http://host:port/:x\nSELECT 1;", []),
        ("\\setshell x echo :y\nSELECT :x;", [(1, ":y")]),
        ("SELECT :n;\n\\set n 5", [(1, "set only later, in line 2")]),
        ("\\if :scale > 1\n\\set n 1\n\\endif\nSELECT :n;", [(4, _INSIDE)]),
        ("\\if :scale > 1\n\\set n 1\n\\elif :n\nSELECT 1;\n\\endif", [(3, _INSIDE)]),
        ("\\if :scale > 1\n\\set n 1\n\\else\n\\set n 2\n\\endif\nSELECT :n;", []),
        ("\\if :scale > 1\n\\set n 1\nSELECT :n;\n\\endif", []),
        ("\\if 1\n\\if 1\n\\set n 1\n\\else\n\\set n 2\n\\endif\nSELECT :n;\n\\endif", []),
        ("SELECT 1 AS a \\gset p_\nSELECT :p_a;", []),
        ("SELECT 1 AS a;\n\\aset p_\nSELECT :p_a, :q_a;", [(3, ":q_a")]),
        ("SELECT 1 AS a \\gset\nSELECT :a;", []),
        ("\\set n \\\r\n  5\r\nSELECT :n;\r\n", []),
        ("SELECT x::int, '12:30:00', (array[1, 2])[1:2], a[lo:hi], f(a := 1) FROM t;", []),
        ("SELECT a[1 + :n];", [(1, ":n")]),
        ("SELECT E'it\\'s; :x' FROM t", [(1, "`:x` in a literal")]),
        ("/* by\n :x */\nSELECT 1;", [(1, "`:x` in a literal or comment")]),
        ("-- of :x\nSELECT 1; -- and :y", []),
        ("SELECT 1 -- of :x\n;", [(1, "`:x` in a literal or comment")]),
        ("SELECT 1;\n\nCOPY t\nFROM stdin;", [(3, "no COPY")]),
        ("COPY t FROM '/stdin.csv';", []),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT :x);", [(1, ":x")]),
    ],
)
def test_what_the_text_of_a_script_tells(text: str, said: list[tuple[int, str]]) -> None:
    """Each variable that is not set where it is used, and what pgbench cannot send; with lines."""
    found = [*scripts.problems(text, protocol="prepared", columns={"SELECT 1 AS b": ("b",)})]
    assert [line for line, _ in found] == [line for line, _ in said]
    assert all(words in message for (_, message), (_, words) in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("flags", "values"),
    [
        (["-Da=1", "-nD", "b=2", "-c4"], {"a": "1", "b": "2"}),
        (["--define=c=3", "--def", "d=x=y"], {"c": "3", "d": "x=y"}),
        (["-fDb=1", "--debug", "--random-seed=5"], {}),
    ],
)
def test_variables_that_flags_give(flags: list[str], values: dict[str, str]) -> None:
    """As getopt takes them: behind other letters, apart, shortened."""
    assert pgbench.defined(flags) == values
    text = "SELECT :scale, :client_id, :random_seed, :default_seed" + "".join(
        f", :{name}" for name in values
    )
    assert [*scripts.problems(text, protocol="prepared", defined=values)] == []


def test_what_a_statement_returns_is_set_and_nothing_else() -> None:
    """Once its columns are known; before that each name that begins with the prefix is."""
    text = "SELECT 1 AS a \\gset p_\nSELECT :p_a, :p_b;"
    assert [*scripts.problems(text, protocol="prepared")] == []
    ((line, said),) = scripts.problems(text, protocol="prepared", columns={"SELECT 1 AS a": ("a",)})
    assert (line, said.split()[0]) == (2, "`:p_b`")


def test_a_rehearsal_executes_nothing_of_a_script() -> None:
    """Each command has its line and its number."""
    text = (
        "\\set n 1\n\\sleep 5 s\n\\shell rm x\n\\setshell s echo 5\nBEGIN;\nDELETE FROM t\n"
        "\\gset\nSELECT 1 \\; SELECT 2 \\aset p_\nCOMMIT PREPARED 'x';\nEND;\n\\if :n\n\\endif"
    )
    rehearsed = scripts.rehearsal(text, {"DELETE FROM t": ("a", 'b"c')})
    assert rehearsed.splitlines() == [
        *("\\set n 1", "\\sleep 0", "\\sleep 0", "\\set s 1", "BEGIN;"),
        *('SELECT 1 AS "a", 1 AS "b""c" \\gset', ""),
        *("SELECT 1 \\aset p_", "SELECT 1 ;", "END;", "\\if :n", "\\endif"),
    ]
    assert len(scripts.commands(rehearsed)) == len(scripts.commands(text))


@pytest.mark.parametrize(
    "hidden",
    [
        *("\\SHELL rm x", "\\ shell rm x", "BEGIN \\ shell rm x", "BEGIN \\SetShell a rm x"),
        *("SELECT 1 \\ \\\nshell rm x", "END 'a\n\\shell rm x'", "BEGIN \\\nshell rm x"),
    ],
)
def test_a_rehearsal_starts_no_program_that_is_written_oddly(hidden: str) -> None:
    r"""As `\SHELL` and `\ shell`, which pgbench takes; a dry run takes any file."""
    assert "rm" not in scripts.rehearsal(hidden, {})


@pytest.mark.parametrize("text", ["\\SET n 5\nSELECT :n;", "\\\nSELECT 5 AS n \\ GSET\nSELECT :n;"])
def test_commands_of_any_case_set_variables(text: str) -> None:
    """As pgbench reads them; a lone backslash is nothing."""
    assert [*scripts.problems(text, protocol="prepared")] == []


_ABORTED = "pgbench: error: client 0 script 0 aborted in command 1 query 0: ERROR:  "
_EVALUATED = "pgbench: error: client 0 aborted in command 0 (set) of script 0; evaluation of it\n"


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ('pgbench: error: -:2: invalid command in command "sett"\n', (2, "invalid command")),
        ("pgbench: fatal: /c/0-a.sql:3: syntax error in command\n", (3, "syntax error")),
        (_ABORTED + "division by zero\n", (3, "division by zero")),
        (f"pgbench: error: ERROR:  no table\nLINE 1: x\n{_ABORTED}no P_1\n", (3, "no table")),
        (f"pgbench: error: empty range given to random\n{_EVALUATED}", (1, "empty range given")),
        ('pgbench: error: condition error in script "-" command 2: \\if ...\n', (3, "\\if ...")),
        ("pgbench: error: client 0 script 0 command 1 query 0: expected one row", (3, "expected")),
        ("pgbench: error: client 0 aborted: end of script reached\n", (3, "end of script")),
        ("pgbench: error: client 0 aborted in command 1 (x) of script 0; no x\n", (3, "no x")),
        ("pgbench: error: COPY is not supported in pgbench, aborting\n", (3, "COPY is not")),
        (_ABORTED + "canceling statement due to statement timeout\n", None),
        ("pgbench: error: connection to server failed: FATAL:  role missing\n", None),
        ("WARNING:  SET LOCAL can only be used in transaction blocks\n", None),
    ],
)
def test_what_a_trial_says_of_a_script(printed: str, found: tuple[int, str] | None) -> None:
    """The line of the script and the reason, without paths and numbers of pgbench's own."""
    failed = scripts.failure(printed, "\\set a 1\n\nSELECT\n 1;\n")
    assert (failed and (failed[0], failed[1][: len(found[1])] if found else "")) == found


def test_values_of_a_continued_line_are_typical_ones() -> None:
    """A backslash before the end of the line goes on with the next one."""
    assert scripts.typical_values("\\set a random(1,\\\n  9)\nSELECT :a;") == (
        ("a", "floor((1) + 0.500000000 * ((9) - (1)))::bigint"),
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT 1;\n-- INSERT\nSELECT 'UPDATE t; x';\n", None),
        ("SELECT $a$;DELETE$a$;\n/* a\nb */\nCREATE  VIEW v AS SELECT 1;", (4, "CREATE VIEW")),
        ("SELECT 1;\n\n(SELECT id FROM t FOR UPDATE)", (3, "SELECT id ... UPDATE")),
        ("WITH d AS (DELETE FROM t RETURNING 1)\nSELECT 1", (1, "WITH d ... DELETE")),
    ],
)
def test_what_may_write_is_named_with_its_line(text: str, place: tuple[int, str] | None) -> None:
    """Words within literals and comments make nothing a writing statement."""
    assert scripts.writing(text) == place
    assert scripts.only_reads(text) is (place is None)
