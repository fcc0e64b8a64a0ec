"""Campaigns in a browser: who may look, what each page shows, and what never leaves a record."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from steelyard.answers import browse
from steelyard.cli import site
from steelyard.cli.main import cli
from steelyard.core.wording import ExitCode, SteelyardError
from support.examples import EXAMPLES

TOKEN = "a-token"
HOSTILE = "<script>alert(1)</script>"
HOST = "localhost:80"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Sound campaigns, one below a directory with a hostile name, and a damaged one."""
    shutil.copytree(EXAMPLES / "quick", tmp_path / "quick")
    shutil.copytree(EXAMPLES / "protocol", tmp_path / HOSTILE / "protocol")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "journal.jsonl").write_text("no journal\n")
    return tmp_path


@pytest.fixture
def visitor(place: Path) -> FlaskClient:
    """A browser that has the token."""
    client = site.application(site.Site(place), TOKEN, {HOST, "localhost"}).test_client()
    assert client.get("/", query_string={"token": TOKEN}).status_code == 303
    return client


def address(visitor: FlaskClient, name: str) -> str:
    """Return where the list says that a campaign is."""
    text = visitor.get("/").text
    found = re.search(rf'href="(/campaign/[0-9a-f]+/)(?:live)?">[^<]*{name}<', text)
    assert found is not None
    return found[1]


def test_nothing_is_shown_without_the_token(place: Path) -> None:
    """Nor with another one, and not under a name that somebody else gave this address."""
    client = site.application(site.Site(place), TOKEN, {"localhost"}).test_client()
    assert client.get("/").status_code == 403
    assert client.get("/?token=another").status_code == 403
    assert "quick" not in client.get("/").text
    admitted = client.get("/campaign/1/?token=" + TOKEN)
    assert (admitted.status_code, admitted.headers["Location"]) == (303, "/campaign/1/")
    assert "HttpOnly" in admitted.headers["Set-Cookie"]
    assert "SameSite=Strict" in admitted.headers["Set-Cookie"]
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"Host": "rebound.example"}).status_code == 403


def test_the_list_finds_by_words_and_tells_damage(visitor: FlaskClient) -> None:
    """Newest first; what cannot be read is said and leads nowhere."""
    whole = visitor.get("/").text
    assert "3 campaigns" in whole
    assert whole.index("small against large") < whole.index("simple protocol")
    assert "is damaged at line 1" in whole
    found = visitor.get("/?q=PROTOCOL simple").text
    assert "1 campaign<" in found
    assert "small against large" not in found
    assert "None has these words" in visitor.get("/?q=nobody").text
    assert visitor.get("/?page=7&q=x%22%3E%3Cscript%3E").status_code == 200


def test_hostile_names_are_only_text(visitor: FlaskClient) -> None:
    """In the list, in the search field, in headers; and no page may run a script at all."""
    for path in ("/", "/?q=" + HOSTILE, address(visitor, "protocol") + "files"):
        answered = visitor.get(path)
        assert "<script" not in answered.text
        assert answered.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "script-src" not in answered.headers["Content-Security-Policy"]


@pytest.mark.slow
def test_from_the_verdict_to_the_turn(visitor: FlaskClient) -> None:
    """Each page leads to the next: report, blocks, a block's runs, a run's turns and waits."""
    home = address(visitor, "quick")
    assert "faster" in visitor.get(home).text
    blocks = visitor.get(home + "blocks").text
    assert blocks.count("counts") == blocks.count('href="block/') == 6
    assert 'href="block/1-1"' in blocks
    runs = visitor.get(home + "block/1-1").text
    assert 'href="../run/1"' in runs
    run = visitor.get(home + "run/1").text
    assert "Turns" in run
    assert "Wait events" in run
    for missing in ("block/99-1", "run/0", "run/99999"):
        assert visitor.get(home + missing).status_code == 404


def test_a_run_in_one_piece_has_seconds(visitor: FlaskClient) -> None:
    """A campaign one by one has no turns."""
    text = visitor.get(address(visitor, "protocol") + "run/1").text
    assert "Seconds" in text
    assert "Turns" not in text


@pytest.mark.slow
def test_a_running_campaign_is_looked_at_again_when_its_journal_grows(
    visitor: FlaskClient, place: Path
) -> None:
    """Blocks so far are those of the lines so far; only what runs asks for itself again."""
    journal = place / "quick" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    ends = [n for n, line in enumerate(lines, 1) if b'"complete":true' in line]
    home = address(visitor, "quick")
    for number, end in enumerate(ends[:3], 1):
        journal.write_bytes(b"".join(lines[:end]))
        text = visitor.get(home + "live").text
        assert f"{number} complete" in text
        assert "died, can be resumed" in text
        assert 'http-equiv="refresh"' not in text
    lock = site.campaign_is_held
    held = pytest.MonkeyPatch()
    held.setattr(site, "campaign_is_held", lambda _path: True)
    try:
        assert 'http-equiv="refresh"' in visitor.get(home + "live").text
        assert re.search(r'/live">quick<', visitor.get("/").text)
    finally:
        held.undo()
    assert site.campaign_is_held is lock


def test_pages_are_made_once_for_a_journal(
    visitor: FlaskClient, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look at the same record computes nothing."""
    home = address(visitor, "protocol")
    first = visitor.get(home).text
    monkeypatch.setattr(site, "analyse", lambda *_, **__: pytest.fail("computed again"))
    assert visitor.get(home).text == first


@pytest.mark.slow
def test_a_page_of_one_campaign_looks_at_no_other(
    visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the list was shown the tree is not searched again, unless the campaign has gone."""
    home = address(visitor, "quick")
    monkeypatch.setattr(site, "find_campaigns", lambda _: pytest.fail("searched again"))
    for page in ("", "blocks", "block/1-1", "run/1", "files"):
        assert visitor.get(home + page).status_code == 200


def test_every_line_of_a_list_is_computed_once(
    visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of more campaigns than whole analyses are kept of; no runs are kept with them."""
    monkeypatch.setattr(site, "_KEPT_ELSE", 1)
    assert visitor.get("/").status_code == 200
    monkeypatch.setattr(site, "listed_campaign", lambda *_, **__: pytest.fail("computed again"))
    assert visitor.get("/").status_code == 200


def test_a_large_journal_holds_up_no_list(
    visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list says that it was not read; once a page of it was, it shows it."""
    monkeypatch.setattr(site, "_LARGEST_LISTED_BYTES", 200_000)
    text = visitor.get("/").text
    assert text.count("not computed for a list: its journal has") == 1
    assert "small against large shared buffers" in text
    assert visitor.get(address(visitor, "quick") + "blocks").status_code == 200
    assert "not computed for a list" not in visitor.get("/").text


def test_what_was_computed_waits_for_nobody(
    place: Path, visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another thread computes a page, those that are kept are shown."""
    pages = site.Site(place)
    path = place / "quick"
    kept = pages.listed(path)
    with pages._alone, ThreadPoolExecutor(1) as other:
        assert other.submit(pages.listed, path).result(timeout=60) == kept


def test_many_files_and_blocks_come_in_pages(
    visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is on one page; the first leads to the next and the next leads back."""
    monkeypatch.setattr(browse, "_LINES", 4)
    home = address(visitor, "quick")
    for page, mark, lines in (("blocks", 'href="block/', 6), ("files", 'href="file/', None)):
        first, second = (visitor.get(f"{home}{page}?page={n}").text for n in (1, 2))
        assert first.count(mark) == 4
        assert ('href="?page=2"' in first, 'href="?page=1"' in first) == (True, False)
        assert 'href="?page=1"' in second
        if lines:
            assert second.count(mark) == lines - 4
    assert visitor.get(home + "blocks?page=99").status_code == 200


def test_only_files_of_the_record_are_given_away(visitor: FlaskClient, place: Path) -> None:
    """As downloads; nothing above it, and nothing that a link leads to."""
    (place / "secret").write_text("secret")
    (place / "quick" / "link").symlink_to(place / "secret")
    (place / "quick" / "folder").symlink_to(place)
    home = address(visitor, "quick")
    with visitor.get(home + "file/summary.json") as got:
        assert got.data == (EXAMPLES / "quick" / "summary.json").read_bytes()
        assert got.headers["Content-Disposition"].startswith("attachment")
    listed = visitor.get(home + "files").text
    assert "summary.json" in listed
    for name in ("../secret", "%2e%2e/secret", "link", "folder/secret", "nothing"):
        assert visitor.get(home + "file/" + name).status_code == 404
        assert f">{name}<" not in listed


def test_two_campaigns_side_by_side(visitor: FlaskClient, place: Path) -> None:
    """The choice leads to the comparison, those of one experiment first; nothing but reading."""
    shutil.copytree(place / "quick", place / "again")
    home = address(visitor, "quick")
    choice = visitor.get(home + "compare").text
    found = re.findall(r'href="(compare\?with=[0-9a-f]+)">([^<]*)<', choice)
    assert [name.rpartition("/")[2] for _, name in found] == ["again", "protocol", "damaged"]
    same, other = (visitor.get(home + found[place][0]) for place in (0, 1))
    assert (same.status_code, other.status_code) == (200, 422)
    assert "reads" in same.text
    assert visitor.get(home + "compare?with=0").status_code == 404
    for method in ("post", "put", "delete"):
        assert getattr(visitor, method)(home).status_code == 405


def test_a_record_that_vanishes_or_is_damaged_is_told(visitor: FlaskClient, place: Path) -> None:
    """On the page, without a trace of the program."""
    home = address(visitor, "quick")
    (place / "quick" / "journal.jsonl").write_bytes(b"{}\n")
    told = visitor.get(home + "live")
    assert told.status_code == 422
    assert "is damaged at line 1" in told.text
    shutil.rmtree(place / "quick")
    assert visitor.get(home).status_code == 404


@pytest.mark.parametrize("listen", ["here", "127.0.0.1:70000", ":"])
def test_where_it_cannot_listen(listen: str, tmp_path: Path) -> None:
    """Told before anything is read."""
    result = CliRunner().invoke(cli, ["serve", str(tmp_path), "--listen", listen])
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "[ADDRESS:]PORT" in result.output


def test_a_port_that_is_taken_and_a_directory_that_is_none(tmp_path: Path) -> None:
    """A sentence with the way out."""
    import socket  # noqa: PLC0415

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SteelyardError, match="nothing can listen"):
            site.answer(tmp_path, "127.0.0.1", port, told=print)
    with pytest.raises(SteelyardError, match="is not a directory"):
        site.answer(tmp_path / "nothing", "127.0.0.1", 0, told=print)
