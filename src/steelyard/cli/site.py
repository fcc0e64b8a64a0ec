"""The pages that ``steelyard serve`` answers with: campaigns, down to their seconds; read only.

What a page shows is computed from the record, once for each state of the journal. No page has a
script, loads anything from elsewhere, or changes anything.
"""

import ipaddress
import os
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast
from urllib.parse import quote

from flask import Flask, Response, abort, request, send_file
from waitress.channel import HTTPChannel
from waitress.server import create_server
from werkzeug.exceptions import HTTPException

from steelyard.answers import browse
from steelyard.answers.campaign import analyse
from steelyard.answers.environments import compare_environments, environments_document
from steelyard.answers.report import Listed
from steelyard.cli.campaigns import HOME, campaign_is_held, listed_campaign, readable
from steelyard.core.campaign import CampaignRecord
from steelyard.core.wording import (
    InputError,
    PreflightError,
    RecordError,
    SteelyardError,
    format_bytes,
    printable,
)
from steelyard.record.directory import find_campaigns, read_beginning, read_campaign
from steelyard.report.document import Document, Link, Paragraph, Section, Tone
from steelyard.report.html import render_html

_T = TypeVar("_T")
# What is kept of many campaigns: first lines are small, lines of a list small enough, and whole
# records are not.
_KEPT: Final = {"head": 100_000, "listed": 5000, "record": 4}
_KEPT_ELSE: Final = 64
# Of a journal that a list computes: a guess; a second or two, and all pages wait for that.
_LARGEST_LISTED_BYTES: Final = 32 << 20
# Guesses: less than a process may have open, and long enough for a browser on a slow network.
_CONNECTIONS: Final = 500
_REQUEST_S: Final = 10
_LARGEST_BODY_BYTES: Final = 1024  # no page takes one
_COOKIE: Final = "steelyard"
_HEADERS: Final = {
    # Drawings have styles of their own; there is no script to allow.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Site:
    """The campaigns below a directory, and the pages that were made of them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._made: dict[str, OrderedDict[tuple[object, ...], object]] = {}
        self._found: dict[str, browse.Head] = {}
        self._alone = threading.RLock()  # the machine may be the one that is measured
        self._keeping = threading.Lock()

    def heads(self) -> dict[str, browse.Head]:
        """Return the campaigns that are there now, by what stands for them in addresses."""
        self._found = {}
        for path in find_campaigns(self.place):
            name, started_at = "", 0.0
            with suppress(RecordError):
                name, started_at = self._once(
                    "head", path, partial(read_beginning, path), whole=False
                )
            key = str(path.relative_to(self.place))
            head = browse.Head(key=key, name=name, started_at=started_at)
            self._found[head.identity] = head
        return self._found

    def path(self, head: browse.Head) -> Path:
        """Return the directory of a campaign."""
        return self.place / head.key

    def head(self, identity: str) -> browse.Head:
        """Return the campaign that an address means; 404 where there is none."""
        head = self._found.get(identity)
        if head is None or not (self.path(head) / "journal.jsonl").is_file():
            head = self.heads().get(identity)
        if head is None:
            abort(404, "There is no such campaign here.")
        return head

    def listed(self, path: Path) -> Listed:
        """Return a campaign as a list shows it; whether somebody writes it is asked each time."""

        def make() -> Listed:
            full = listed_campaign(path, curves=False)
            lean = None if full.analysis is None else replace(full.analysis, runs=())
            return replace(full, analysis=lean)

        return replace(self._once("listed", path, make), held=campaign_is_held(path))

    def listed_soon(self, path: Path) -> Listed:
        """Return the same; of a journal that takes long only that it does, until a page of it."""
        size = (path / "journal.jsonl").stat().st_size
        if size <= _LARGEST_LISTED_BYTES or self._kept("listed", _state(path)) is not None:
            return self.listed(path)
        problem = f"not computed for a list: its journal has {format_bytes(size)}"
        return Listed(directory=str(path), size_bytes=size, problem=problem, is_large=True)

    def record(self, path: Path) -> CampaignRecord:
        """Return the record of a campaign.

        Raises:
            RecordError: It is damaged.
        """
        return self._once("record", path, lambda: read_campaign(path))

    def page(self, what: str, path: Path, make: Callable[[], Document]) -> str:
        """Return a page of a campaign, made anew only where its journal has changed."""
        return self._once(what, path, lambda: _page(make()))

    def _once(self, what: str, path: Path, make: Callable[[], _T], *, whole: bool = True) -> _T:
        """Return what was made of a journal in this state, or make it.

        It is of the ``whole`` journal, or of the first line, which never changes.
        """
        key = _state(path, whole=whole)
        kept = self._kept(what, key)
        if kept is not None:  # nobody waits for what another page takes to compute
            return cast("_T", kept)
        with self._alone:
            kept = self._kept(what, key)
            if kept is None:
                kept = make()
                with self._keeping:
                    made = self._made.setdefault(what, OrderedDict())
                    made[key] = kept
                    if len(made) > _KEPT.get(what, _KEPT_ELSE):
                        made.popitem(last=False)
            return cast("_T", kept)

    def _kept(self, what: str, key: tuple[object, ...]) -> object:
        with self._keeping:
            made = self._made.setdefault(what, OrderedDict())
            if key in made:
                made.move_to_end(key)
            return made.get(key)


def _state(path: Path, *, whole: bool = True) -> tuple[object, ...]:
    """Return what tells one state of a journal from another; its first line never changes."""
    status = (path / "journal.jsonl").stat()
    return (path, status.st_ino, *((status.st_mtime_ns, status.st_size) if whole else ()))


class Pages:
    """What each address shows."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def campaigns(self) -> str:
        """Return a page of the list."""
        site, query = self._site, request.args.get("q", "")
        number = _page_number()
        heads = browse.found_heads(list(site.heads().values()), query)
        shown = heads[(number - 1) * browse.PAGE : number * browse.PAGE]
        listed = [(head, site.listed_soon(site.path(head))) for head in shown]
        place = str(site.place)
        document = browse.list_document(
            listed, place=place, query=query, found=len(heads), page=number
        )
        return _page(document)

    def report(self, identity: str) -> str:
        """Return the whole report of a campaign."""
        site, path = self._site, self._path(identity)
        return site.page("report", path, lambda: browse.report_page(analyse(site.record(path))))

    def live(self, identity: str) -> str:
        """Return where a campaign stands."""
        path = self._path(identity)
        site, listed = self._site, self._site.listed(path)
        readable(listed)

        def page() -> Document:
            return browse.live_page(listed, analyse(site.record(path), curves=False))

        return site.page(f"live {listed.held}", path, page)

    def blocks(self, identity: str) -> str:
        """Return the blocks of a campaign."""
        path = self._path(identity)
        record = self._site.record(path)
        analysis = readable(self._site.listed(path))
        return _page(browse.blocks_page(record, analysis, _page_number()))

    def block(self, identity: str, block: int, attempt: int) -> str:
        """Return the runs of one try of a block."""
        return _or_404(browse.block_page(self._record(identity), block, attempt))

    def run(self, identity: str, number: int) -> str:
        """Return one run."""
        return _or_404(browse.run_page(self._record(identity), number))

    def files(self, identity: str) -> str:
        """Return the list of a record's files."""
        path = self._path(identity)
        names = [(name, file.stat().st_size) for name, file in _files(path)]
        return _page(browse.files_page(self._site.record(path), names, _page_number()))

    def file(self, identity: str, name: str) -> Response:
        """Return a file of a record, to be kept and not to be shown."""
        # Only what the list shows: nothing that a name or a link leads to elsewhere.
        wanted = dict(_files(self._path(identity))).get(name)
        if wanted is None:
            abort(404, "There is no such file in this record.")
        shown, path = printable(wanted.name), wanted.resolve()
        # Without a tag, which takes a path in UTF-8: nothing is cached.
        return send_file(path, as_attachment=True, download_name=shown, etag=False)

    def compare(self, identity: str) -> str:
        """Return a campaign beside another, or what it can be set beside."""
        record, other = self._record(identity), request.args.get("with")
        if other is None:
            heads = self._site.heads().values()
            return _page(
                browse.choices_page(record, [each for each in heads if each.identity != identity])
            )
        records = [record, self._record(other)]
        return _page(_linked(environments_document(compare_environments(records, {}))))

    def _path(self, identity: str) -> Path:
        return self._site.path(self._site.head(identity))

    def _record(self, identity: str) -> CampaignRecord:
        return self._site.record(self._path(identity))


_CAMPAIGN: Final = "/campaign/<identity>"
_RULES: Final[Mapping[str, Callable[..., Callable[..., str | Response]]]] = {
    "/": lambda pages: pages.campaigns,
    f"{_CAMPAIGN}/": lambda pages: pages.report,
    f"{_CAMPAIGN}/live": lambda pages: pages.live,
    f"{_CAMPAIGN}/blocks": lambda pages: pages.blocks,
    f"{_CAMPAIGN}/block/<int:block>-<int:attempt>": lambda pages: pages.block,
    f"{_CAMPAIGN}/run/<int:number>": lambda pages: pages.run,
    f"{_CAMPAIGN}/files": lambda pages: pages.files,
    f"{_CAMPAIGN}/file/<path:name>": lambda pages: pages.file,
    f"{_CAMPAIGN}/compare": lambda pages: pages.compare,
}


def application(site: Site, token: str, hosts: Collection[str]) -> Flask:
    """Return the application.

    Args:
        site: Its campaigns.
        token: Without it nothing is shown; it comes with the first address, then as a cookie.
        hosts: Names by which it may be asked, so that no page of somebody else's can: a name that
            leads here is not enough. Empty: any.
    """
    app = Flask("steelyard", static_folder=None)
    app.before_request(lambda: _admitted(token, hosts))

    @app.after_request
    def guarded(answered: Response) -> Response:
        answered.headers.update(_HEADERS)
        return answered

    app.register_error_handler(Exception, _failed)
    pages = Pages(site)
    for rule, of in _RULES.items():
        app.add_url_rule(rule, endpoint=rule, view_func=of(pages), methods=["GET"])
    return app


def _admitted(token: str, hosts: Collection[str]) -> Response | None:
    """Return nothing for who may look; a first address leaves its token behind as a cookie."""
    if hosts and request.host.lower() not in hosts:
        abort(403, "This name is not the one that Steelyard answers to.")
    given = request.args.get("token", "")
    if given and secrets.compare_digest(given.encode(), token.encode()):
        address = "/" + quote(request.path.lstrip("/"))  # here, and in one line
        answered = Response(status=303, headers={"Location": address})
        answered.set_cookie(_COOKIE, token, httponly=True, samesite="Strict")
        return answered
    held = request.cookies.get(_COOKIE, "")
    if not secrets.compare_digest(held.encode(), token.encode()):
        abort(403, "The address lacks the token that `steelyard serve` printed.")
    return None


def _failed(error: Exception) -> tuple[str, int]:
    """Return a page for what went wrong; what is a fault of the program is raised again."""
    if isinstance(error, HTTPException):
        return _trouble(str(error.description), ""), error.code or 500
    if isinstance(error, SteelyardError):
        return _trouble(error.message, error.hint or ""), 422
    if isinstance(error, FileNotFoundError):
        return _trouble("It is no longer there.", ""), 404
    raise error


def _page(document: Document) -> str:
    """Return a page; names of files need not be UTF-8, and pages are."""
    return render_html(document).encode(errors="backslashreplace").decode()


def _or_404(document: Document | None) -> str:
    if document is None:
        abort(404, "The record holds no such thing.")
    return _page(document)


def _page_number() -> int:
    return max(request.args.get("page", 1, type=int), 1)


def _linked(document: Document) -> Document:
    return replace(document, links=(Link(text="all campaigns", address="/"),))


def _trouble(message: str, hint: str) -> str:
    """Return a page that says what is wrong, and the way out."""
    texts = [Paragraph(text=message, tone=Tone.ERROR), *([Paragraph(text=hint)] if hint else [])]
    section = Section(anchor="trouble", title="Nothing to show", blocks=tuple(texts))
    return _page(_linked(Document(title="Steelyard", subtitle="", sections=(section,))))


def _files(path: Path) -> list[tuple[str, Path]]:
    """Return the plain files of a record by name, those of its raw output too; no links."""
    below = (Path(place, name) for place, _, names in os.walk(path) for name in names)
    plain = sorted(file for file in below if file.is_file() and not file.is_symlink())
    return [(printable(str(file.relative_to(path))), file) for file in plain]


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def answer(directory: Path | None, address: str, port: int, *, told: Callable[[str], None]) -> None:
    """Answer until an interrupt.

    Args:
        directory: Holds the campaigns; None: that of all commands.
        address: To listen on.
        port: Likewise; 0: any.
        told: Takes the address for the browser.

    Raises:
        InputError: The directory is none.
        PreflightError: Nothing can listen there.
    """
    place = directory or HOME
    if not place.is_dir():
        raise InputError(f"{place} is not a directory", hint="Name a directory of campaigns.")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        taken = socket.create_server((address, port), family=family)
    except OSError as error:
        raise PreflightError(
            f"nothing can listen on {address}:{port}: {error.strerror or error}",
            hint="Name another port: --listen 127.0.0.1:0 takes a free one.",
        ) from error
    token, names = secrets.token_urlsafe(16), set[str]()
    shown = f"[{address}]" if ":" in address else address
    at = f"{shown}:{taken.getsockname()[1]}"
    told(f"http://{at}/?token={token}")
    if _is_loopback(address):
        names.update((at, at.replace(shown, "localhost")))
    else:
        told("warning: who has this address can read all campaigns; it is not encrypted")
    told("Ctrl-C ends it")
    app = application(Site(place), token, names)
    _serve(app, taken)


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection that only a whole request keeps open, so that slow ones free their places."""

    last_activity: float

    def handle_read(self) -> None:
        """Take what has come."""
        before = self.last_activity
        super().handle_read()
        if not self.requests:
            self.last_activity = before


def _serve(app: Flask, taken: socket.socket) -> None:
    """Answer until an interrupt, which this thread alone hears: waitress swallows some.

    The process ends then, and all connections with it.
    """
    server = create_server(
        app,
        sockets=[taken],
        threads=4,
        ident="steelyard",
        connection_limit=_CONNECTIONS,
        channel_timeout=_REQUEST_S,
        cleanup_interval=1,
        asyncore_use_poll=True,
        max_request_body_size=_LARGEST_BODY_BYTES,
    )
    server.channel_class = _Channel
    loop = threading.Thread(target=server.run, daemon=True)
    loop.start()
    loop.join()
