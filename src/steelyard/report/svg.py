"""Settling a drawing: the same bytes every time, fit to stand beside others in one page."""

import re
from html import escape

_ID = re.compile(r'\bid="([^"]+)"')
_ROOT = re.compile(r"<svg\b[^>]*>")
# What the drawing library adds for its own scripts and for every mark; nothing of it is visible.
_UNSEEN = re.compile(
    r'<path class="(?:background|foreground)"(?:(?! fill=| stroke=)[^>])*/>'
    r'|<path class="foreground"[^>]*display="none"[^>]*/>'
)
_UNUSED = re.compile(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"')
_TAG = re.compile(r"<[^>]+>")
_LONG_DECIMAL = re.compile(r"(\.[0-9]{2})[0-9]+")
_SIZE = re.compile(r'\bviewBox="0 0 ([0-9.]+) ([0-9.]+)"')


def settle(drawn: str, *, identity: str, title: str, alt: str) -> str:
    """Return the drawing with its own ids, a title and a description, and no fixed size.

    The drawing library numbers ids with a counter that lives as long as the process, and starts
    at the same number in every process: neither stable nor unique within a page.
    """
    root = _ROOT.search(drawn)
    if root is None:
        return drawn
    body = _TAG.sub(_lean_tag, _UNSEEN.sub("", drawn[root.end() :]))
    body = _rename(body, identity)
    return f"{_opening(root[0], identity)}{_words(identity, title, alt)}{body}"


def _lean_tag(tag: re.Match[str]) -> str:
    """Return the tag without attributes nobody uses, and to the hundredth of a pixel."""
    return _LONG_DECIMAL.sub(r"\1", _UNUSED.sub("", tag[0]))


def _rename(body: str, identity: str) -> str:
    for number, old in enumerate(dict.fromkeys(_ID.findall(body))):
        new = f"{identity}-{number}"
        body = body.replace(f'id="{old}"', f'id="{new}"')
        body = body.replace(f"url(#{old})", f"url(#{new})").replace(f'"#{old}"', f'"#{new}"')
    return body


def _opening(root: str, identity: str) -> str:
    size = _SIZE.search(root)
    width, height = (size[1], size[2]) if size else ("100", "100")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-labelledby="{identity}-title {identity}-alt" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )


def _words(identity: str, title: str, alt: str) -> str:
    return (
        f'<title id="{identity}-title">{escape(title)}</title>'
        f'<desc id="{identity}-alt">{escape(alt)}</desc>'
    )


def on_white(settled: str) -> str:
    """Return a settled drawing with a background, for a file that stands alone on any page."""
    size = _SIZE.search(settled)
    if size is None:
        return settled
    return settled.replace(
        "</desc>", f'</desc><rect width="{size[1]}" height="{size[2]}" fill="white"/>', 1
    )
