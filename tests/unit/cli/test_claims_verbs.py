"""``steelyard claims`` and ``import`` as they are typed: exit codes, files, all problems."""

import json
from pathlib import Path

from command_line import Shell

RECORDINGS = Path(__file__).parents[2] / "recordings"


def test_the_article_series_needs_no_file(shell: Shell) -> None:
    """All 32 claims, and with --strict a code that a pipeline sees."""
    code, out, _ = shell.run("claims", "--json")
    assert code == 0
    assert len(json.loads(out)["claims"]) == 32
    code, _, _ = shell.run("claims", "--strict")
    assert code == 10


def test_a_fair_table_passes_strict(shell: Shell, tmp_path: Path) -> None:
    """Nothing is objected to, so the code is 0; a page is written."""
    table, page = tmp_path / "t.csv", tmp_path / "t.html"
    rows = "".join(f"a,r,{n},{1000 + 3 * n}\nb,r,{n},{1100 - 2 * n}\n" for n in range(6))
    table.write_text(f"configuration,workload,block,tps\n{rows}")
    code, out, _ = shell.run("claims", str(table), "--strict", "--html", str(page))
    assert code == 0, out
    assert "faster" in out
    assert "<html" in page.read_text()


def test_problems_of_all_tables_come_at_once(shell: Shell, tmp_path: Path) -> None:
    """Two files, each with what is wrong with it; a file that is none; not UTF-8."""
    one, two, three = (tmp_path / name for name in ("one.csv", "two.csv", "three.csv"))
    one.write_text("configuration,tps\na,x\n")
    two.write_text("configuration\na\n")
    three.write_bytes(b"configuration,tps\n\xff,1\n")
    files = map(str, (one, two, three, tmp_path / "none.csv", tmp_path))
    code, _, err = shell.run("claims", *files)
    assert code == 2
    for told in ("one.csv:2: tps", "two.csv:1: no column", "three.csv:2: it is no text"):
        assert told in err
    assert "there is no file" in err


def test_what_is_read_in_is_examined(shell: Shell, tmp_path: Path) -> None:
    """Two recordings under one name are its runs; the table is one that claims takes."""
    printed = [str(RECORDINGS / "pgbench" / each / "plain.stdout") for each in ("15", "16", "18")]
    table = tmp_path / "t.csv"
    words = (f"a={printed[0]}", printed[1], f"b={printed[2]}")
    code, out, err = shell.run("import", *words, "--out", str(table))
    assert code == 0, err
    assert "n = 1, no interval" in out
    assert "n = 2, no interval below 6" in out
    code, out, _ = shell.run("claims", str(table), "--json")
    assert code == 0
    assert {note["check"] for note in json.loads(out)["tables"]} >= {"one-run"}


def test_what_cannot_be_read_in_is_told_of_every_file(shell: Shell, tmp_path: Path) -> None:
    """With a sentence for each."""
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "b.txt").write_text("transaction type: x\n")
    code, _, err = shell.run("import", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert code == 2
    assert "a.txt" in err
    assert "b.txt: it looks like pgbench, and no result is in it" in err


def test_claims_of_ones_own_are_examined(shell: Shell, tmp_path: Path) -> None:
    """As the page shows them; without a table they are refused."""
    table, claims = tmp_path / "t.csv", tmp_path / "c.toml"
    table.write_text("configuration,workload,clients,tps\na,r,1,100\nb,r,1,150\n")
    body = 'kind="change"\nmetric="tps"\nworkload="r"\nclients=1\nof="b"\nagainst="a"\n'
    claims.write_text(
        f'[[claims]]\nid="1"\narticle=""\ntext="x"\n[[claims.asserts]]\n{body}stated=["+70%"]\n'
    )
    code, out, _ = shell.run("claims", str(table), "--claims", str(claims))
    assert code == 0
    assert "not +70%" in out
    assert shell.run("claims", "--claims", str(claims))[0] == 2
