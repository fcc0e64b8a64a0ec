"""The HTML report in a real browser: it draws, it fits a phone, it works on paper and in the dark.

Chromium runs headless and offline on copies of the page. Where there is no Chromium the tests are
skipped; in CI, which must have one, they fail.
"""

import importlib.util
import re
import shutil
import signal
import struct
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from fakes import analyses
from steelyard.answers.browse import Head
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.report.html import render_html
from support.examples import EXAMPLES
from support.lacking import lacking
from support.live import Steelyard, interrupted, lasting, wait_for

pytestmark = pytest.mark.live

NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE_PX, SCREEN_PX = 390, 1280
TIMEOUT_S = 600

# Pages stand in frames beside each other, each as wide as it is told to be: Chromium's own window
# is never narrower than 500 px. What is measured of them ends up in the title, which --dump-dom
# prints. Beside the width of what a frame holds, LOOK says of it: rankings that do not fit their
# place, texts that stay whole and do not fit, how many these are, charts that do not fit or whose
# texts are outside or below 7 px, charts, drawings, and whether its contents stand beside it.
LOOK = """<!DOCTYPE html><html><head><title>waiting</title></head><body style="margin:0">{frames}
<script>
const look = (frame, width) => {{
  const page = frame.contentDocument, root = page.documentElement;
  const box = (each) => each.getBoundingClientRect();
  const all = (where) => [...page.querySelectorAll(where)];
  const wide = (each) => each.scrollWidth > each.clientWidth;
  const drawn = all("svg").filter((each) => box(each).width > 20 && box(each).height > 10);
  const torn = all(".whole").filter(
    (each) => each.getClientRects().length > 1 || box(each).right > width);
  const answers = all("#verdicts .scroll, #campaigns .scroll");
  const told = [root.scrollWidth, answers.filter(wide).length, torn.length, all(".whole").length];
  all("details").forEach((each) => each.open = true);
  const charts = all(".chart").filter((each) => box(each).width > 0);
  const bad = charts.filter((each) => {{
    const svg = each.querySelector("svg");
    return wide(each) || 12 * box(svg).width / svg.viewBox.baseVal.width < 7
      || [...svg.querySelectorAll("text")].some((text) =>
        box(text).left < box(svg).left - 1 || box(text).right > box(svg).right + 1);
  }});
  const contents = page.querySelector(".contents > nav"), first = page.querySelector("section");
  const beside = contents && box(contents).right <= box(first).left;
  return [...told, bad.length, charts.length, drawn.length, Number(Boolean(beside))];
}};
addEventListener("load", () => {{
  const frames = [...document.querySelectorAll("iframe")];
  document.title = "probe " + frames.map(
    (frame) => look(frame, Number(frame.width)).join(" ")).join(" | ");
}});
</script></body></html>"""


@pytest.fixture(scope="module")
def browser() -> str:
    """Return the path of a Chromium, or skip; in CI a missing one is a failure."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        lacking(f"none of {', '.join(NAMES)} is installed")
    return found


def run(browser: str, profile: Path, *arguments: str) -> str:
    """Run Chromium once, offline and with a profile of its own, and return what it prints."""
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run "
        "--hide-scrollbars --allow-file-access-from-files --virtual-time-budget=5000"
    )
    command = [browser, *flags.split(), f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return done.stdout


@dataclass(frozen=True)
class Seen:
    """What a page is like in a frame."""

    content_px: int
    wide_rankings: int
    torn: int
    whole: int
    bad_charts: int
    charts: int
    drawings: int
    beside: int


def framed(browser: str, folder: Path, pages: Mapping[str, str], *widths: int) -> list[Seen]:
    """Return what each page is like at each width, page by page."""
    frames = ""
    for number, text in enumerate(pages.values()):
        (folder / f"{number}.html").write_text(text, encoding="utf-8")
        frame = f'<iframe src="{number}.html" style="border:0" height="900" width="'
        frames += "".join(f'{frame}{width}"></iframe>' for width in widths)
    look = folder / "look.html"
    look.write_text(LOOK.format(frames=frames), encoding="utf-8")
    dom = run(browser, folder / "profile", "--dump-dom", look.as_uri())
    found = re.search(r"<title>probe ([0-9 |]+)</title>", dom)
    assert found is not None, dom[:500]
    return [Seen(*map(int, each.split())) for each in found[1].split("|")]


def example(name: str) -> str:
    """Return the page of a kept example."""
    return (EXAMPLES / name).read_text(encoding="utf-8")


def made(analysis: CampaignAnalysis) -> str:
    """Return the page of an analysis."""
    return render_html(build_document(analysis))


def pixels(png: bytes) -> set[bytes]:
    """Return the different colours of a PNG with 8 bits a channel, as Chromium writes it."""
    width, _, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in {(8, 2), (8, 6)}
    size = 3 if kind == 2 else 4
    stream, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            stream += png[place + 8 : place + 8 + length]
        place += 12 + length
    raw = zlib.decompress(stream)
    stride, seen = width * size, set()
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        above = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, size)
        seen |= {above[i : i + size] for i in range(0, stride, size)}
    return seen


def unfiltered(kind: int, line: bytearray, above: bytes, size: int) -> bytes:
    """Return one scan line of a PNG without its filter."""
    for i in range(len(line)):
        left = line[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        guess = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[kind]
        line[i] = (line[i] + guess) & 0xFF
    return bytes(line)


def paeth(left: int, above: int, corner: int) -> int:
    """Return the neighbour that the PNG predictor chooses."""
    base = left + above - corner
    return min((left, above, corner), key=lambda value: abs(base - value))


def test_a_page_is_as_wide_as_its_window(browser: str, tmp_path: Path) -> None:
    """Tables scroll within themselves; all drawings have a size: charts, a mark, intervals.

    The list of sections stands beside them where there is room.
    """
    kinds = (analyses.quick, analyses.many_loads, analyses.hostile)
    pages = {kind.__name__: made(kind()) for kind in kinds}
    for (name, width), seen in zip(
        product(pages, (PHONE_PX, SCREEN_PX)),
        framed(browser, tmp_path, pages, PHONE_PX, SCREEN_PX),
        strict=True,
    ):
        assert seen.content_px <= width, name
        assert seen.drawings >= 5, name
        assert seen.beside == (width == SCREEN_PX), (name, width)


def test_charts_and_answers_fit_every_screen(browser: str, tmp_path: Path) -> None:
    """No ranking or chart scrolls sideways, texts are legible and whole, each chart is there once.

    On a phone no date and no figure is torn from its unit.
    """
    names, widths = (
        ("quick", "redis-published", "stack-factorial", "versions"),
        (PHONE_PX, 700, SCREEN_PX),
    )
    pages = {name: example(f"{name}/report.html") for name in names}
    for (name, width), seen in zip(
        product(names, widths), framed(browser, tmp_path, pages, *widths), strict=True
    ):
        assert seen.bad_charts == 0, (name, width)
        assert seen.charts == pages[name].count("<figure>") > 3, (name, width)
        if width == widths[0] and name in names[:2]:
            assert (seen.wide_rankings, seen.torn) == (0, 0), name
            assert seen.whole >= 4, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_not_blank(browser: str, tmp_path: Path, scheme: str) -> None:
    """Light and dark both show many colours, on a ground that is light or dark."""
    picture, page = tmp_path / "page.png", tmp_path / "page.html"
    page.write_text(made(analyses.quick()), encoding="utf-8")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    size = "--window-size=700,500"
    run(browser, tmp_path / "profile", size, *dark, f"--screenshot={picture}", page.as_uri())
    seen = pixels(picture.read_bytes())
    assert len(seen) > 50
    ground = bytes.fromhex("12171d" if scheme == "dark" else "ffffff")
    assert any(colour[:3] == ground for colour in seen)


def test_it_prints(browser: str, tmp_path: Path) -> None:
    """On paper it is a few pages, not blank and not endless."""
    paper, page = tmp_path / "page.pdf", tmp_path / "page.html"
    page.write_text(made(analyses.many_loads()), encoding="utf-8")
    run(browser, tmp_path / "profile", f"--print-to-pdf={paper}", page.as_uri())
    pages = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
    assert 2 <= pages <= 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real `steelyard serve` over two kept campaigns: the address that it prints."""
    place = tmp_path_factory.mktemp("served")
    for name in ("quick", "protocol"):
        shutil.copytree(EXAMPLES / name, place / name)
    with serving(place) as address:
        yield address


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """Serve the campaigns below a directory, and yield the address that is printed."""
    command = [sys.executable, "-m", "steelyard", "serve", str(place), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            yield server.stderr.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=TIMEOUT_S)
    assert server.returncode in (0, 130)


@pytest.mark.parametrize(
    ("page", "holds"),
    [
        ("", "2 campaigns"),
        ("", "larger shared buffers"),
        ("blocks", "counts"),
        ("live", "Where it stands"),
        ("block/1-1", "mean latency"),
        ("run/1", "Wait events"),
        ("files", "summary.json"),
        ("compare", "Compare with"),
    ],
    ids=["list", "report", "blocks", "live", "block", "run", "files", "compare"],
)
def test_served_pages_have_no_errors(
    browser: str, served: str, page: str, holds: str, tmp_path: Path
) -> None:
    """The browser complains of nothing: no style or drawing is refused, nothing is lacking."""
    top, _, token = served.partition("?")
    path = "" if holds == "2 campaigns" else f"campaign/{identity('quick')}/{page}"
    done = visited(browser, f"{top}{path}?{token}", tmp_path, "--dump-dom")
    assert "CONSOLE" not in done.stderr
    assert holds in done.stdout


def test_the_list_of_campaigns_is_read_whole(browser: str, served: str, tmp_path: Path) -> None:
    """No verdict of the list is cut off or scrolled to, on a screen or on a phone."""
    widths = PHONE_PX, SCREEN_PX
    pages = {"list": text_of(served, "")}
    assert "reads large: faster" in pages["list"]
    for width, seen in zip(widths, framed(browser, tmp_path, pages, *widths), strict=True):
        assert seen.content_px <= width
        assert seen.wide_rankings == 0, width


def text_of(served: str, path: str) -> str:
    """Return a page that is served, as it comes."""
    top, _, token = served.partition("?token=")
    cookie = {"Cookie": f"steelyard={token}"}
    request = urllib.request.Request(f"{top}{path}", headers=cookie)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answered:  # noqa: S310 - likewise
        text: str = answered.read().decode()
    return text


def visited(
    browser: str, address: str, profile: Path, *wanted: str
) -> "subprocess.CompletedProcess[str]":
    """Visit a page that is served, as it comes; its console is in standard error."""
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", f"--user-data-dir={profile}"),
        *("--enable-logging=stderr", *wanted, address),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.mark.slow
def test_the_page_of_a_running_campaign_moves(
    browser: str, steelyard: Steelyard, tmp_path: Path
) -> None:
    """A real campaign: when another block has ended, the page that asks for itself says so."""
    place = tmp_path / "campaigns"
    campaign = place / "c"
    options = ("--dir", str(campaign), "--no-verdict")
    process = steelyard.start("run", steelyard.experiment(lasting()), *options)

    def complete() -> int:
        journal = campaign / "journal.jsonl"
        return journal.read_text().count('"complete":true') if journal.exists() else 0

    try:
        wait_for(lambda: complete() >= 1, process)
        with serving(place) as served:
            top, _, token = served.partition("?")
            address = f"{top}campaign/{identity('c')}/live?{token}"
            seen, pictures, shown = [], [], [0]
            for _ in range(2):
                wait_for(lambda: complete() > shown[-1], process)
                dom = visited(browser, address, tmp_path / "profile", "--dump-dom").stdout
                told = re.search(r"(\d+) complete", dom)
                assert told is not None
                assert 'http-equiv="refresh"' in dom
                seen.append(int(told[1]))
                picture = tmp_path / f"{len(seen)}.png"
                whole = ("--window-size=1000,4000", f"--screenshot={picture}")
                visited(browser, address, tmp_path / "profile", *whole)
                pictures.append(picture.read_bytes())
                # A block that ended between the words and the picture is in the picture.
                shown.append(complete())
    finally:
        interrupted(process)
    assert 1 <= seen[0] < seen[1]
    assert pictures[0] != pictures[1]


# Scripts are put into copies: no page of Steelyard may run one. What is found ends up in the title.
AXE = """<script>{axe}</script><script>
addEventListener("load", () => axe.run(document, {{resultTypes: ["violations"]}}).then((found) => {{
  const grave = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
  document.title = ["axe", found.passes.length,
    ...grave.map((each) => each.id + ": " + each.nodes[0].target)].join(" | ");
}}));
</script></body>"""


def grave(browser: str, text: str, folder: Path, *, dark: bool = False) -> list[str]:
    """Return what axe-core finds serious or critical in a page."""
    package = importlib.util.find_spec("axe_core_python")
    if package is None or package.origin is None:
        lacking("axe-core-python is not installed")
    axe = Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    page = folder / "axed.html"
    end = AXE.format(axe=axe.replace("</script>", "<\\/script>"))
    page.write_text(text.replace("</body>", end), encoding="utf-8")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    size = "--window-size=1200,900"
    dom = run(browser, folder / "profile", *scheme, size, "--dump-dom", page.as_uri())
    told = re.search(r"<title>axe \| (\d+)(?: \| ([^<]*))?</title>", dom)
    assert told is not None, dom[:500]
    assert int(told[1]) > 10  # rules that applied and were kept
    return told[2].split(" | ") if told[2] else []


def test_axe_finds_what_is_wrong(browser: str, tmp_path: Path) -> None:
    """A picture without a text and pale letters are found: the check can fail."""
    bad = '<img src="data:,"><p style="color:#ccc;background:#fff">pale</p></body>'
    found = grave(browser, made(analyses.quick()).replace("</body>", bad), tmp_path)
    assert {each.partition(":")[0] for each in found} >= {"image-alt", "color-contrast"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dark"), [("redis-published/report.html", False), ("article/article.html", True)]
)
def test_nothing_in_a_report_is_hard_to_use(
    browser: str, name: str, tmp_path: Path, *, dark: bool
) -> None:
    """axe-core finds nothing serious or critical: contrast, names, tables, headings, regions."""
    assert grave(browser, example(name), tmp_path, dark=dark) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["", "campaign", "live", "block/1-1", "run/1", "compare"])
def test_nothing_in_a_served_page_is_hard_to_use(
    browser: str, served: str, page: str, tmp_path: Path
) -> None:
    """Likewise for each kind of page; ``campaign`` is the report of the example ``quick``."""
    home = f"campaign/{identity('quick')}/"
    path = page if page == "" else home + page.removeprefix("campaign")
    assert grave(browser, text_of(served, path), tmp_path) == []


def identity(key: str) -> str:
    """Return what stands for a campaign in addresses."""
    return Head(key=key).identity
