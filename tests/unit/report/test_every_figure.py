"""Every figure of ``summary.json`` is in the whole report, where its reader looks for it.

Each path of the file is bound to the sections that print it, and to their formats: a figure has to
stand in a line that names its workload and its configuration. What the file alone has is listed
with the reason.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from steelyard.answers.ceilings import microseconds
from steelyard.answers.reasons.section import Choice, explain_document
from steelyard.answers.report import summary_schema
from steelyard.core import wording
from steelyard.core.money import format_money
from steelyard.core.wording import KIB, MIB, US_PER_S, format_bytes, format_duration, format_share
from steelyard.report import document as doc
from steelyard.report.html import render_markdown
from support.examples import EXAMPLES, analysis_of, report_of

Node = dict[str, Any]
Show = Callable[[float], str]
Lines = tuple[tuple[str, str], ...]  # each under the anchor of its section
SCHEMA: Final = summary_schema()


def scaled(show: Show, factor: float, end: str = "") -> Show:
    """Return a format of another unit."""
    return lambda value: f"{show(factor * value)}{end}"


def if_any(value: float) -> str:
    """Return what is said only where it is not zero."""
    return whole(value) if value else ""


def signed_ms(value: float) -> str:
    """Return milliseconds of either sign."""
    return f"{'-' if value < 0 else ''}{doc.milliseconds(abs(value))}"


def latency(value: float) -> str:
    """Return a time with its unit."""
    return wording.format_latencies((value,))[0]


def signed(value: float) -> str:
    """Return a difference in any unit with its sign."""
    return doc.significant(value, signed=True)


whole: Final = "{:,.0f}".format
plain: Final = "{:g}".format
percent, share = scaled(wording.format_percent, 0.01), scaled(format_share, 0.01)
mebibytes, kibibytes = scaled(doc.significant, 1 / MIB), scaled(doc.significant, 1 / KIB)
costs: Final = (doc.significant, signed, *(scaled(s, US_PER_S) for s in (doc.significant, signed)))
hours, minutes = scaled("{:.0f}".format, 1 / 60, " h"), scaled("{:.0f}".format, 1, " min")
sizes: Final = (share, *(lambda v, f=f: f(v).removesuffix(" %") for f in (share, percent)), whole)
counted: Final = (whole, lambda _: "no run stalled")

# Anchors of sections, a pattern of paths in them, and formats. The first that fits counts.
PLACES: Final[tuple[tuple[str, str, tuple[Show, ...]], ...]] = (
    ("method verdicts", r"(blocks|interim_results|scalability\[\]\.blocks)", (whole,)),
    ("method command", r"seed", (str,)),
    ("method", r"started_at", (wording.format_utc,)),
    ("method", r"(measured_s|elapsed_s|checkpoint_phase.*_s)", (format_duration,)),
    ("method", r"checkpoint_phase.*", (whole,)),
    ("method", r"design\.(.*(restarts|reconnects)|warm_up\.measured_s\[\])", (if_any,)),
    ("method", r"design\.stopping\.(width|alpha)", (doc.share,)),
    ("method", r"design\..*_bytes", (format_bytes,)),
    ("method", r"design\..*", (plain, format_duration)),
    ("cells", r"(cells\[\]|scalability.*)\.tps\..*", (doc.rate,)),
    ("cells", r"cells\[\]\..*_s(\.\*)?", (doc.milliseconds,)),
    ("cells", r"cells\[\]\..*", (whole,)),
    (
        "comparisons verdicts",
        r"comparisons\[\]\.minutes_to_decide",
        (hours, minutes, scaled(format_duration, 60)),
    ),
    ("comparisons verdicts effects", r"comparisons\[\]\..*_percent", (percent,)),
    ("comparisons verdicts method", r"comparisons\[\]\..*", (whole,)),
    ("comparisons", r"stalls\[\]\.p_value", (doc.p_value, *counted)),
    ("comparisons", r"stalls\[\]\..*", counted),
    ("scalability", r"scalability.*", (whole,)),
    ("attribution", r"attribution\.effects.*_percent", (percent,)),
    ("published", r"published\[\].*", (doc.rate, whole)),
    ("published", r"published_requests.*(_per_s|held_keys)", (doc.rate, whole)),
    ("published", r"published_requests.*_s", (doc.milliseconds,)),
    ("published", r"published_requests.*of_aof_off", (scaled("{:.1f}".format, 100, " %"),)),
    ("durability", r"durability.*\.seconds", (plain,)),
    ("durability cells", r"durability.*mean_s", (doc.milliseconds,)),
    ("durability cells", r"durability.*per_s", (doc.rate,)),
    ("durability", r"replica_lag.*_bytes", (format_bytes,)),
    ("durability", r"replica_lag.*_s", (latency,)),
    ("durability", r"replica_lag.*", (whole,)),
    ("sustained findings", r"sustained.*tps.*", (doc.rate, whole)),
    ("sustained", r"sustained.*(drop|variation).*", (format_share,)),
    ("sustained", r"sustained.*(seconds|_s)(_low|_high)?", (format_duration, whole)),
    ("sustained", r"sustained.*", (whole,)),
    ("money", r"money.*_percent", (percent,)),
    ("money", r"money.*", (lambda amount: format_money(amount, ""),)),
    ("noise", r"noise.*_percent.*", sizes),
    ("noise", r"noise.*(_ratio|autocorrelation).*", ("{:.2f}".format,)),
    ("noise", r"noise.*share", (format_share,)),
    ("noise", r"noise.*", (format_duration, wording.format_about, "{:.1f}".format, whole)),
    ("latency", r"latency\.levels.*seconds\..*", (doc.milliseconds,)),
    ("latency", r"latency\.levels.*", (whole,)),
    ("latency", r"latency\.comparisons.*_percent", (percent,)),
    ("latency", r"latency\.comparisons.*", (if_any,)),
    ("statements", r"statements.*blocks", (whole,)),
    ("statements", r"statements.*", (signed_ms, lambda value: f"+{doc.milliseconds(value)}")),
    ("time comparison", r"(latency_budget.*blocks|watching.*runs)", (whole,)),
    ("time", r"latency_budget\.cells.*", (doc.part_ms,)),
    ("time comparison", r"latency_budget.*(change|remainder)_s.*", (doc.changed_ms,)),
    ("time comparison", r"latency_budget.*", (doc.part_ms,)),
    ("time", r"watching.*", (format_duration, share)),
    ("costs comparison", r"ledger\.comparisons.*_percent", (percent,)),
    ("costs", r"ledger\.cells.*tps_variation", (format_share,)),
    ("costs comparison", r"ledger.*", costs),
    ("costs", r"server_counts.*_percent", (share,)),
    ("costs", r"server_counts.*_per_s", (mebibytes,)),
    ("costs", r"server_counts.*", (whole, format_duration)),
    ("devices", r"devices.*\.(read|write|flush)_s\..*", (doc.milliseconds,)),
    ("devices", r"devices.*size_bytes\..*", (kibibytes,)),
    ("devices", r"devices.*_bytes_per_s\..*", (mebibytes,)),
    ("devices", r"devices.*_per_s\..*", (doc.rate,)),
    ("devices", r"devices.*(in_flight|busy_fraction)\..*", (*costs, scaled(doc.significant, 100))),
    ("devices", r"wait_events.*", (format_share, doc.significant)),
    ("read-amplification", r"read_amplification.*bytes_per_s\..*", (mebibytes,)),
    ("read-amplification", r"read_amplification.*request_bytes\..*", (kibibytes,)),
    ("read-amplification", r"read_amplification.*_bytes", (format_bytes,)),
    ("read-amplification", r"read_amplification.*", (doc.significant,)),
    ("facts contract", r"machine_limits.*latency_s", (microseconds, scaled("{:.3f}".format, 1e3))),
    ("facts", r"machine_limits.*_per_s", (doc.rate,)),
    ("facts", r"machine_limits.*_s", (microseconds,)),
    ("facts", r"machine_limits.*", (if_any,)),
    ("facts", r"log_rates.*_percent", (share,)),
    ("facts", r"log_rates.*", (scaled(doc.rate, 1 / MIB),)),
)
UNNAMED: Final = ("design", "published")  # what tells their lines apart has another name there
DECIDED: Final = {"faster", "slower", "equivalent"}
# Campaigns with all kinds of figures; of a single pass what repeated ones have not.
WALKED: Final[dict[str, tuple[str, ...]]] = {
    "quick": (),
    "scalability": (),
    "article-004/limits": (),
    "article-001/persistence": (),
    "article-001/split": (),
    "attribution": (),
    "places": (),
    "noise": (),
    "storage-ladder": (),
    "article-004/burst": ("sustained", "machine_limits"),
    "published-matrix": ("published", "statements", "cells"),
}
QUICK: Final = ("quick", "scalability", "article-004/burst", "published-matrix")
# Patterns of paths that no line of a report has, and why.
LEFT: Final = {
    r"format": "the version of the file",
    r"(?!machine)(.*\.)?(clients|threads|rate_per_s|capacity_share|generators|pipeline)": "names of"
    " loads",
    r"(comparisons|attribution\.effects)\[\]\.level": "how much of the error rate an interval took;"
    " the report calls all of them 95 %, and the method says how it is spent",
    r"attribution\.(combinations\.\*\[\]|resolution)": "codes of the levels, which have names",
    r"latency\.levels\[\]\.(blocks|log_sampling)": "as the method has them for all levels",
    r"latency\.levels.*\.(needed|transactions)": "printed where they are why a percentile is not",
    r"(ledger.*costs\.\*|(devices|wait_events|attribution\.effects)\[\])\.blocks": "the campaign's"
    " blocks, or less",
    r"ledger.*costs\.\*\.variation": "the report has that of the CPU time, which it explains",
    r"noise\.designs.*": "foretold of other designs, printed where two are compared",
    r"noise\.width_ratio": "printed as what other slices gain, where that is worth it",
    r"design\.stopping\.spending_power": "the method names it where error is spent",
    r"(smallest_values|instance_noise|capacity|rates|goal|statement_uses)\b.*": "no kept campaign"
    " has them: tests of their sections do",
    r"provider.*": "series: the report has the least and the most of each",
    r"sustained.*\.drop_beside_other_load\..*": "a drop that neighbours may have made",
}


def resolved(node: Node) -> Node:
    """Return a node of the schema, or what it refers to."""
    for choice in (node, *node.get("anyOf", ())):
        if "$ref" in choice:
            node = SCHEMA["$defs"][choice["$ref"].rsplit("/", 1)[-1]]
    return node


def paths(node: Node, path: str = "") -> Iterator[str]:
    """Yield the paths of all numbers that the file may have."""
    node = resolved(node)
    kinds = node.get("type", ())
    if {"number", "integer"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
        yield path
    below = {**node.get("properties", {}), "*": node.get("additionalProperties")}
    for key, child in below.items():
        if isinstance(child, dict):
            yield from paths(child, f"{path}.{key}".lstrip("."))
    if "items" in node:
        yield from paths(node["items"], f"{path}[]")


def figures(
    value: object, node: Node, path: str = "", names: tuple[str, ...] = ()
) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield each number with its path, and the workload and the configuration that it is of."""
    node = resolved(node)
    if isinstance(value, dict):
        own = (value.get(key) for key in ("workload", "configuration"))
        names = (*names, *(name for name in own if isinstance(name, str)))
        known = node.get("properties", {})
        for key, child in value.items():
            below = known.get(key) or node.get("additionalProperties") or {}
            below_path = f"{path}.{key if key in known else '*'}".lstrip(".")
            yield from figures(child, below, below_path, names)
    elif isinstance(value, list):
        for child in value:
            yield from figures(child, node.get("items", {}), f"{path}[]", names)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value, names


def lines_of(*documents: doc.Document) -> Lines:
    """Return the lines, a row of a table after its title and its headings."""
    found: list[tuple[str, str]] = []
    for section in (each for document in documents for each in document.sections):
        title, above = "", list[str]()
        part = replace(documents[0], sections=(section,), setup=(), place="", description="")
        for line in render_markdown(part).splitlines():
            if line.startswith(("#", "**")):
                title = line
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                above, text = [], line
            else:
                title = title if above else f"{title} {line}"
                ditto = zip(cells[:3], above or cells, strict=False)
                above = [*(cell or old for cell, old in ditto), *cells[3:]]
                text = f"| {title} | {' | '.join(above)} |"
            found.append((section.anchor, text))
    return tuple(found)


def lacking(summary: dict[str, Any], lines: Lines) -> dict[str, str]:
    """Return the paths of which a figure is in none of its sections, each with such a figure."""

    @cache
    def place(path: str) -> tuple[str, tuple[Show, ...]] | None:
        if any(re.fullmatch(pattern, path) for pattern in LEFT):
            return None
        bound = ((each, shows) for each, pattern, shows in PLACES if re.fullmatch(pattern, path))
        return next(bound, ("", ()))

    @cache
    def text(anchors: str, names: tuple[str, ...]) -> str:
        of_all = (line for anchor, line in lines if anchor in anchors.split())
        # A row or an item names what it is of; a paragraph is of all.
        return "\n".join(
            line
            for line in of_all
            if not line.startswith(("|", "- ")) or all(name in line for name in names)
        )

    missing = dict[str, str]()
    for path, value, names in figures(summary, SCHEMA):
        bound = place(path)
        if bound is None:
            continue
        anchors, shows = bound
        of = () if path.startswith(UNNAMED) else names
        # The file has twelve digits: what was a tie may be on its other side.
        near = (value, value * (1 - 1e-11), value * (1 + 1e-11)) if value % 1 else (value,)
        forms = {show(each) for show in shows for each in near}
        if not any(is_in(form, text(anchors, of)) for form in forms):
            missing.setdefault(path, f"{path} = {value} of {names}: {forms}")
    return missing


@cache
def is_in(form: str, text: str) -> bool:
    """Return whether a text has a figure, and not as a part of another one; nothing it has."""
    if not form or form not in text:
        return not form
    return re.search(rf"(?<![\w.,+-]){re.escape(form)}(?!\w|[.,]\d)", text) is not None


def shown(name: str) -> dict[str, Any]:
    """Return the file of a campaign without what its tables say they leave out."""
    summary: dict[str, Any] = json.loads((EXAMPLES / name / "summary.json").read_text("utf-8"))
    for each in summary.get("wait_events", ()):
        told = [event for event in each["events"][:6] if event["share"]["estimate"] >= 0.01]
        each["events"] = told
    for each in summary["comparisons"]:
        if each["verdict"] in DECIDED:
            each.pop("minutes_to_decide", None)
        if each.get("depends_on_load"):  # then the range over the loads is told
            for key in ("effect_percent", "low_percent", "high_percent"):
                del each[key]
    return {key: summary[key] for key in WALKED[name] or summary}


@cache
def report_lines(name: str) -> Lines:
    """Return what the whole report of a campaign says, and the reasons of all its loads."""
    return lines_of(report_of(name), explain_document(analysis_of(name), Choice()))


def test_every_number_of_the_file_has_a_place_or_a_reason() -> None:
    """Whoever adds a figure says where a report prints it."""
    bound = [*(pattern for _, pattern, _ in PLACES), *LEFT]
    unbound = [path for path in paths(SCHEMA) if not any(re.fullmatch(p, path) for p in bound)]
    assert unbound == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in WALKED]
)
def test_every_figure_is_in_the_report(name: str) -> None:
    """In a line of its section, as that is printed."""
    assert lacking(shown(name), report_lines(name)) == {}


@pytest.mark.parametrize("anchor", ["cells", "comparisons", "costs", "devices", "latency", "facts"])
def test_a_section_that_is_left_out_is_missed(anchor: str) -> None:
    """No figure of it is found by chance elsewhere, so that the walk passes without it."""
    lines = tuple(line for line in report_lines("quick") if line[0] != anchor)
    missing = {path.split(".")[0].removesuffix("[]") for path in lacking(shown("quick"), lines)}
    owner = {"comparisons": "stalls", "costs": "ledger", "facts": "machine_limits"}.get(
        anchor, anchor
    )
    assert owner in missing
