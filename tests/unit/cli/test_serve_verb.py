"""Campaigns in a browser: who may look, what each page shows, and what never leaves a record."""

import http.client
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from steelyard.answers import browse
from steelyard.answers.campaign import analyse
from steelyard.cli import site
from steelyard.cli.main import cli
from steelyard.core.wording import ExitCode, SteelyardError
from steelyard.record.directory import read_campaign
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
    assert whole.index("larger shared buffers") < whole.index("simple protocol")
    assert "is damaged at line 1" in whole
    found = visitor.get("/?q=PROTOCOL simple").text
    assert "1 campaign<" in found
    assert "larger shared buffers" not in found
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
    assert blocks.count("counts") == blocks.count('href="block/') == 8
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
    assert "larger shared buffers" in text
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
    for page, mark, lines in (("blocks", 'href="block/', 8), ("files", 'href="file/', None)):
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
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SteelyardError, match="nothing can listen"):
            site.answer(tmp_path, "127.0.0.1", port, told=print)
    with pytest.raises(SteelyardError, match="is not a directory"):
        site.answer(tmp_path / "nothing", "127.0.0.1", 0, told=print)


@contextmanager
def _served(place: Path, *, slow_s: float | None = None) -> Iterator[tuple[int, str, int]]:
    """Serve a directory in a process of its own; yield its port, its token and its PID."""
    shorter = "" if slow_s is None else f"site._REQUEST_S = {slow_s}; "
    program = (
        f"from steelyard.cli import site; {shorter}from steelyard.cli.main import main; main()"
    )
    command = [sys.executable, "-c", program, "serve", str(place), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r":([0-9]+)/\?token=(\S+)", process.stderr.readline())
            assert found is not None
            assert "Ctrl-C" in process.stderr.readline()
            yield int(found[1]), found[2], process.pid
        finally:
            process.kill()


def _answer(port: int, request: bytes) -> bytes:
    """Return the first line of what is answered to some bytes, within 5 s."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


def test_slow_connections_keep_nobody_out(tmp_path: Path) -> None:
    """200 that send a byte now and then: the owner is answered at once, and they are closed."""
    begun = b"GET / HTTP/1.1\r\nHost: x\r\nX-a: "
    with _served(tmp_path, slow_s=2) as (port, token, _):
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for each in slow:
            each.sendall(begun)
        request = f"GET /?token={token} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n".encode()
        assert b" 303 " in _answer(port, request)
        deadline = time.monotonic() + 20
        is_open = True
        while is_open and time.monotonic() < deadline:  # a byte a second is no sign of life
            time.sleep(1)
            with suppress(OSError):
                slow[0].sendall(b"a")
            slow[0].settimeout(0.1)
            with suppress(TimeoutError):
                with suppress(ConnectionError):
                    is_open = bool(slow[0].recv(1))
                is_open = False
        assert not is_open
        for each in slow:
            each.close()


def test_a_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Nothing is ever sent here: the length alone is answered, and nothing is kept of it."""
    with _served(tmp_path) as (port, _, _):
        for length, code in ((300_000_000, b" 413 "), (2000, b" 413 "), (0, b" 403 ")):
            head = f"POST / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\n\r\n"
            assert code in _answer(port, head.encode())


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(4))
def test_ctrl_c_is_never_swallowed(tmp_path: Path, attempt: int) -> None:
    """Also while requests are being handled: one is enough."""
    with _served(tmp_path) as (port, _, pid):
        until = time.monotonic() + 0.4 + 0.05 * attempt

        def ask() -> None:
            with suppress(OSError, http.client.HTTPException):
                while time.monotonic() < until + 20:
                    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                        connection.request("GET", "/")
                        connection.getresponse().read()

        with ThreadPoolExecutor(2) as visitors:
            for _ in range(2):
                visitors.submit(ask)
            time.sleep(until - time.monotonic())
            os.kill(pid, signal.SIGINT)
            ended, _ = _waited(pid)
        assert ended == pid


def _waited(pid: int) -> tuple[int, int]:
    """Return the PID of a child that ends within 20 s, or 0, with its status."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = os.waitpid(pid, os.WNOHANG)
        if found[0]:
            return found
        time.sleep(0.05)
    return 0, 0


def test_file_names_need_not_be_utf_8(visitor: FlaskClient, place: Path) -> None:
    """They are listed with all others, and given away."""
    (place / "quick" / "raw").mkdir()
    odd = os.fsencode(place / "quick" / "raw") + b"/\xc3\xa9\xff\x1b"
    Path(os.fsdecode(odd)).write_bytes(b"odd")
    shutil.copytree(place / "quick", os.fsdecode(os.fsencode(place) + b"/camp\xff"))
    home = address(visitor, "quick")
    listed = visitor.get(home + "files")
    assert listed.status_code == 200
    assert "summary.json" in listed.text
    found = re.search(r'href="(file/raw/[^"]*udcff[^"]*)"', listed.text)
    assert found is not None
    with visitor.get(home + found[1]) as got:
        assert (got.status_code, got.data) == (200, b"odd")
    assert "camp\\udcff" in visitor.get("/").text


@pytest.mark.parametrize("way", ["link", "link/below"])
def test_a_directory_may_be_a_link(place: Path, tmp_path: Path, way: str) -> None:
    """All files are listed however the record is reached; no link in it is followed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "link").symlink_to(place if way == "link" else place.parent)
    at = tmp_path / "outside" / way.replace("below", place.name)
    names = [name for name, _ in site._files(at / "quick")]
    assert names == [name for name, _ in site._files(place / "quick")]
    assert {"journal.jsonl", "summary.json"} <= {*names}
    assert len(names) == sum(file.is_file() for file in (EXAMPLES / "quick").rglob("*"))


@pytest.mark.parametrize(
    ("path", "location"),
    [("//x/\r\nSet-Cookie:x", "/x/%0D%0ASet-Cookie%3Ax"), ("//evil.example/", "/evil.example/")],
)
def test_the_first_address_leads_here_in_one_line(place: Path, path: str, location: str) -> None:
    """Whatever its path holds, and however the name of the host is written."""
    client = site.application(site.Site(place), TOKEN, {"localhost"}).test_client()
    answered = client.get(
        "/",
        query_string={"token": TOKEN},
        headers={"Host": "LOCALHOST"},
        environ_overrides={"PATH_INFO": path},
    )
    assert (answered.status_code, answered.headers["Location"]) == (303, location)


def test_the_page_of_blocks_has_the_percentages_of_the_report(visitor: FlaskClient) -> None:
    """Each block's difference in tps, not its logarithm: they lie about the estimate."""
    results = analyse(read_campaign(EXAMPLES / "quick")).results
    text = visitor.get(address(visitor, "quick") + "blocks").text.replace("\N{NO-BREAK SPACE}", " ")
    shown = [float(number) / 100 for number in re.findall(r">([+-][0-9.]+) %<", text)]
    for place, result in enumerate(results):
        of_blocks = shown[place :: len(results)]
        logs = result.contrasts
        assert of_blocks == [pytest.approx(math.expm1(each), abs=0.0006) for each in logs]
        assert result.effect is not None
        assert min(of_blocks) <= result.effect.value <= max(of_blocks)


def test_only_one_function_makes_a_percentage_of_a_log_ratio() -> None:
    """A surface of its own would forget the exponential, or take it twice."""
    source = Path(site.__file__).parents[1]
    own = re.compile(r"format_(?:percent|share)\([^\n]*(?:expm1|contrasts|log_ratio|slope_per)")
    found = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if own.search(line)
    ]
    assert found == ["core/wording.py: return format_percent(math.expm1(log_ratio))"]
