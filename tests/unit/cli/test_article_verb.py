"""Several campaigns as one text: what it says, from what, and the files it is published as."""

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from click.testing import CliRunner

from fakes.analyses import quick
from fakes.durable import high_availability
from fakes.latencies import tails
from steelyard.answers.article import (
    USES,
    Article,
    Chapter,
    Evidence,
    _by_throughput,
    article_document,
)
from steelyard.answers.campaign import analyse
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.durability.rules import ConfigurationDurability, Fate, Loss
from steelyard.answers.money import CostChange, Money, analyse_money
from steelyard.answers.results import CampaignAnalysis
from steelyard.answers.sustained.compute import long_runs, within_bursts
from steelyard.cli.article import write
from steelyard.cli.main import cli
from steelyard.core.experiment import RedisWork
from steelyard.core.findings import Estimate, Verdict
from steelyard.core.measurement import Quantity
from steelyard.core.target import RdsTarget
from steelyard.core.wording import InputError
from steelyard.report import html
from steelyard.report.document import Column, KeyValues, Row, Table
from steelyard.report.html import table_csv
from support.examples import EXAMPLES, analysis_of
from support.snapshots import differences
from unit.answers.scripted_records import a_scripted_record

NEVER_LOST = "nothing acknowledged may be lost"


def invoked(*arguments: str) -> str:
    """Return what the verb prints."""
    result = CliRunner().invoke(cli, ["article", *arguments])
    assert result.exit_code == 0, (result.exception, result.output)
    return result.output


@pytest.fixture(scope="module")
def told() -> dict[str, list[dict[str, object]]]:
    """Return the uses of an article of four kept campaigns, by name."""
    names = ("quick", "fitted", "redis-loaded", "published-matrix")
    found = json.loads(invoked(*(str(EXAMPLES / name) for name in names), "--json"))
    assert [each["label"] for each in found["campaigns"]] == list(names)
    return {each["use"]: each["evidence"] for each in found["uses"]}


def test_choices_come_from_verdicts_alone(told: dict[str, list[dict[str, object]]]) -> None:
    """Faster is chosen, equivalent leaves both, undecided chooses nothing and says what would."""
    reads = {each["campaign"]: each for each in told["read-heavy"]}
    assert reads["quick"]["choice"] == "large"
    assert reads["fitted"]["choice"] is None
    assert str(reads["fitted"]["says"]).endswith("not decided")
    assert re.fullmatch(r"steelyard run preset:fitted .*--budget \d+m", str(reads["fitted"]["run"]))
    assert reads["quick"]["run"] is None
    writes = {each["campaign"]: each for each in told["write-heavy"]}
    assert writes["quick"]["choice"] == "large or small"
    assert "published-matrix" not in writes  # one run per cell gives no verdict


def test_a_rate_that_is_bought_with_durability_is_no_choice(
    told: dict[str, list[dict[str, object]]],
) -> None:
    """The server without a log is faster, and that is not what a write-heavy use is told."""
    redis = [each for each in told["write-heavy"] if each["campaign"] == "redis-loaded"]
    slower = [each for each in redis if "slower" in str(each["says"])]
    assert slower
    assert all(each["choice"] is None for each in slower)
    assert {each["choice"] for each in told[NEVER_LOST]} == {"always", None}


ABOUT_DURABILITY = {NEVER_LOST: (Loss.SERVER, Loss.POWER), "high availability": tuple(Loss)[:3]}
DURABLE = ("redis-loaded", *(f"article-001/{name}" for name in ("persistence", "with-data")))
DURABLE = (*DURABLE, "article-001/storage-stand-in", "article-001/split", "redis-published")


def _lossy_standby() -> CampaignAnalysis:
    """Return servers of which one keeps all with its node, and loses some when it starts again."""
    analysis = high_availability()
    changed = tuple(
        replace(each, survivals=(replace(each.survivals[0], fate=Fate.LAST), *each.survivals[1:]))
        for each in analysis.answer(campaign_durability)
    )
    return analysis.with_answer(campaign_durability, changed)


@pytest.mark.parametrize("name", [*DURABLE, "high-availability", "lossy-standby"])
def test_no_row_about_durability_names_what_loses_acknowledged_writes(name: str) -> None:
    """Whatever it is set against: to lose less than another is not to keep everything."""
    synthetic = {"high-availability": high_availability, "lossy-standby": _lossy_standby}
    analysis = synthetic[name]() if name in synthetic else analysis_of(name)
    of_campaign = analysis.answer(campaign_durability)
    assert of_campaign
    for use, losses in ABOUT_DURABILITY.items():
        keeping = {
            each.configuration
            for each in of_campaign
            if {each.fate(loss) for loss in losses} == {Fate.KEPT}
        }
        named = {each.choice for each in evidence(use, analysis)} - {""}
        assert named <= keeping
        assert use != NEVER_LOST or named == keeping


def test_where_nothing_keeps_every_write_the_row_says_so() -> None:
    """Each configuration stands there with what it may lose, and of which failure."""
    analysis = analysis_of("article-001/persistence")
    weak = tuple(e for e in analysis.answer(campaign_durability) if e.configuration != "always")
    analysis = analysis.with_answer(campaign_durability, weak)
    said = {each.contest: each.says for each in evidence(NEVER_LOST, analysis)}
    assert said["aof-off"].startswith("everything may be lost when the server is killed or the")
    assert said["everysec"] == (
        "the last 2 s of writes may be lost when the server is killed or the power fails"
    )
    article = Article(title="t", chapters=(Chapter.of("c", analysis),))
    rows = {
        row: text
        for section in article_document(article).sections
        for block in section.blocks
        if section.anchor == "choices" and isinstance(block, KeyValues)
        for row, text in block.pairs
    }
    assert rows[NEVER_LOST].startswith("none of these keeps every acknowledged write. Rule: ")


def test_of_equivalent_sides_the_one_that_keeps_more_is_the_choice() -> None:
    """Nothing is bought with what the other may lose; a price, too, buys no durability."""
    analysis = analysis_of("article-001/split")
    lossy = replace(
        analysis,
        comparisons=tuple(
            replace(c, verdict=Verdict.EQUIVALENT, depends_on_load=False)
            for c in analysis.comparisons
        ),
    )
    found = {each.contest: each for each in evidence("write-heavy", lossy)}
    assert found["set, split vs primary-everysec (baseline)"].choice == "primary-everysec"
    assert "; but split may lose" in found["set, split vs primary-everysec (baseline)"].says
    change = CostChange(
        baseline="primary-everysec",
        configuration="nothing",
        workload="set",
        change=Estimate(value=-0.3, low=-0.4, high=-0.2),
    )
    cheaper = analysis.with_answer(analyse_money, Money(changes=(change,)))
    (found_cheaper,) = evidence("cost-bound", cheaper)
    assert found_cheaper.choice == ""
    assert found_cheaper.says.endswith("nothing may lose acknowledged writes that the other keeps")


@pytest.mark.parametrize("use", [use.name for use in USES if use.name != NEVER_LOST])
def test_what_touches_no_data_speaks_of_no_use(use: str) -> None:
    """PING, ECHO and TIME are answered without a key; all other workloads still speak of it."""
    analysis = spoken_of(use)
    before = evidence(use, analysis)
    assert before
    pinging = tuple(
        replace(each, builtin=None, scripts=(), redis=RedisWork(command=("PING",)))
        for each in analysis.experiment.workloads
    )
    experiment = replace(analysis.experiment, workloads=pinging)
    assert evidence(use, replace(analysis, experiment=experiment)) == []


def spoken_of(use: str) -> CampaignAnalysis:
    """Return a campaign that speaks of a use."""
    if use == "cost-bound":
        analysis = quick()
        (c, *_) = analysis.results
        change = CostChange(
            baseline=c.baseline,
            configuration=c.configuration,
            workload=c.workload,
            change=Estimate(value=-0.3, low=-0.4, high=-0.2),
        )
        return analysis.with_answer(analyse_money, Money(changes=(change,)))
    if use == "managed service":
        analysis = quick()
        baseline, other = analysis.experiment.configurations
        managed = replace(baseline, target=RdsTarget(region="eu-central-1"))
        experiment = replace(analysis.experiment, configurations=(managed, other))
        return replace(analysis, experiment=experiment)
    if use == "high availability":
        return high_availability()
    if use == "load for hours":
        analysis = tails()
        long = (replace(each, tps=5000.0) for each in analysis.answer(long_runs))
        return analysis.with_answer(long_runs, tuple(long))
    return tails() if use == "low latency at low load" else quick()


def test_ping_in_a_kept_record_is_no_evidence_for_reads() -> None:
    """GET is, in the same campaign."""
    found = evidence("read-heavy", analysis_of("article-001/persistence"))
    assert {each.contest.partition(",")[0] for each in found} == {"get"}


@pytest.mark.parametrize(
    ("changed", "returned", "uses"),
    [
        (0.0, 1.0, {"read-heavy"}),
        (0.1, 1.0, set()),  # nine in ten transactions read, and one writes: neither
        (1.0, 1.0, {"write-heavy"}),
        (0.0, 0.0, set()),  # SELECT 1
    ],
)
def test_a_script_speaks_of_what_the_server_counted(
    changed: float, returned: float, uses: set[str]
) -> None:
    """By rows per transaction: seldom changed ones make no write-heavy load, and none no load."""
    analysis = analysis_of("article-002/page-size")
    rows = {
        Quantity.ROWS_INSERTED: 0.0,
        Quantity.ROWS_UPDATED: changed,
        Quantity.ROWS_DELETED: 0.0,
        Quantity.ROWS_RETURNED: returned,
        Quantity.ROWS_FETCHED: 0.0,
    }
    runs = tuple(
        replace(
            run,
            evidence=replace(
                run.evidence,
                totals={q: per * run.measurement.transactions for q, per in rows.items()},
            ),
        )
        for run in analysis.runs
        if run.evidence is not None and run.measurement is not None
    )
    counted = replace(analysis, runs=runs)
    both = ("read-heavy", "write-heavy")
    assert {use for use in both if evidence(use, counted)} == uses


def test_what_nobody_measured_is_said(told: dict[str, list[dict[str, object]]]) -> None:
    """No prices, no single client: no evidence, and the page says so."""
    assert told["cost-bound"] == []
    assert told["low latency at low load"] == []
    text = invoked(str(EXAMPLES / "quick"))
    assert "not measured; steelyard run preset:statements would measure it" in text
    assert set(told) == {use.name for use in USES}


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


@pytest.mark.slow
def test_it_is_published_as_files(tmp_path: Path) -> None:
    """Page, Markdown whose drawings are there, every table as CSV, JSON; the same each time."""
    names = [str(EXAMPLES / name) for name in ("quick", "attribution")]
    for out in ("one", "two"):
        invoked(*names, "--title", "A <b>title</b>", "--dir", str(tmp_path / out))
    one, two = (files_in(tmp_path / out) for out in ("one", "two"))
    assert one == two
    page = one["article.html"].decode()
    assert "<b>title" not in page
    assert "<script" not in page
    text = one["article.md"].decode()
    drawings = re.findall(r"!\[[^\]]*\]\((charts/[^)]+)\)", text)
    assert drawings
    assert set(drawings) <= set(one)
    assert all(one[name].startswith(b"<svg") for name in drawings)
    rows = list(csv.reader(one["tables/results-1.csv"].decode().splitlines()))
    assert {"campaign", "workload", "configuration", "baseline", "verdict"} <= {*rows[0]}
    assert len(rows) == 1 + 2 + 3
    identities = re.findall(r'id="([^"]+)"', page)
    assert len(identities) == len(set(identities))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(identities)


def test_two_directories_of_one_name_are_refused(tmp_path: Path) -> None:
    """The reader could not tell them apart."""
    places = [str(EXAMPLES / "protocol"), str(tmp_path / "protocol")]
    copytree(*places)
    result = CliRunner().invoke(cli, ["article", *places])
    assert isinstance(result.exception, InputError)
    assert "more than one campaign is called protocol" in str(result.exception)


def test_what_would_decide_keeps_flags_of_the_generator_behind_its_own() -> None:
    """And leaves out what belongs to one run."""
    changes = "--override stop.budget=9m --override measure.run_time=4s"
    command = f"steelyard run x.yaml --seed 7 {changes} --yes"
    analysis = analysis_of("fitted")
    analysis = replace(analysis, command=f"{command} -- --random-seed=3 --seed 2")
    told = [each.run for each in evidence("read-heavy", analysis) if each.run]
    assert told
    own = r"steelyard run x.yaml --override measure.run_time=4s --yes --budget \d+m"
    wanted = rf"{own} -- --random-seed=3 --seed 2"
    assert all(re.fullmatch(wanted, each) for each in told)


def evidence(use: str, analysis: CampaignAnalysis) -> list[Evidence]:
    """Return what a campaign says of a use."""
    (found,) = (each for each in USES if each.name == use)
    return list(found.evidence("c", analysis))


def test_scripts_that_changed_no_rows_only_read() -> None:
    """What a script of the user's does is what the server counted, not what it might do."""
    analysis = analysis_of("article-002/page-size")
    assert {each.choice for each in evidence("read-heavy", analysis)} == {"4KiB"}
    assert evidence("write-heavy", analysis) == []
    uncounted = replace(analysis, runs=tuple(replace(run, evidence=None) for run in analysis.runs))
    assert evidence("read-heavy", uncounted) == []
    assert len(evidence("write-heavy", uncounted)) == 2


def test_what_explains_a_difference_is_in_its_chapter() -> None:
    """Plans, devices, wait events and what was read beyond the need, where the report has them."""
    titles = ("Plans of the statements", "Devices and wait events", "Read amplification")
    told = invoked(str(EXAMPLES / "article-002" / "page-size"))
    assert [title for title in titles if f"page-size: {title}" not in told] == []


def test_a_single_client_speaks_for_latency() -> None:
    """By percentiles where they clearly differ, the 99th before the median; else by its rate."""
    analysis = analysis_of("scalability")
    chapter = Chapter.of("scalability", analysis)
    found = evidence("low latency at low load", analysis)
    assert len(found) == len([c for c in analysis.comparisons if c.load and c.load.clients == 1])
    assert {each.section for each in found} == {"verdicts"}
    assert chapter.section("nothing of the kind") == ()
    # The longer tail loses, though its median is lower.
    (writes,) = (e for e in evidence("low latency at low load", tails()) if "writes" in e.contest)
    assert (writes.choice, writes.section) == ("default", "latency")
    assert writes.says.startswith("p99 higher")


def test_what_a_lost_node_takes_decides_for_high_availability() -> None:
    """Who keeps what was acknowledged is chosen; between two that do, the higher rate."""
    found = {each.contest: each for each in evidence("high availability", high_availability())}
    required = found["writes, standby-required vs local (baseline)"]
    assert (required.choice, required.section) == ("standby-required", "durability")
    assert "writes, standby-preferred vs local (baseline)" not in found  # neither keeps it for sure
    untraded = tuple(replace(c, trades=()) for c in high_availability().comparisons)
    both = replace(high_availability(), comparisons=untraded).with_answer(
        campaign_durability, _all_kept(high_availability())
    )
    kept = {e.contest: e for e in evidence("high availability", both)}
    assert kept["writes, longhorn-2r vs local (baseline)"].choice == "local"


def _all_kept(analysis: CampaignAnalysis) -> tuple[ConfigurationDurability, ...]:
    return tuple(
        replace(each, survivals=tuple(replace(s, fate=Fate.KEPT) for s in each.survivals))
        for each in analysis.answer(campaign_durability)
    )


def test_the_side_that_a_provider_runs_is_the_managed_one() -> None:
    """At the difference of its line, whatever the verdict; nothing where nobody runs one."""
    assert evidence("managed service", quick()) == []
    found = evidence("managed service", spoken_of("managed service"))
    assert {each.choice for each in found} == {quick().experiment.configurations[0].name}
    assert all("%" in each.says for each in found)


def test_long_runs_decide_by_a_drop_alone() -> None:
    """One run of each has no interval: levels decide nothing."""
    analysis = tails()
    levels = [
        replace(each, tps=5000.0 - 100.0 * n) for n, each in enumerate(analysis.answer(long_runs))
    ]
    found = evidence("load for hours", analysis.with_answer(long_runs, tuple(levels)))
    assert {each.choice for each in found} == {""}
    assert all(each.says.endswith("one run each: not decided") for each in found)
    cliff = analysis_of("cliff-block").answer(long_runs)[0].cliff
    assert cliff is not None
    baseline = analysis.experiment.baseline
    dropped = [
        replace(each, cliff=None if each.run.configuration == baseline else cliff)
        for each in levels
    ]
    found = evidence("load for hours", analysis.with_answer(long_runs, tuple(dropped)))
    assert {each.choice for each in found} == {baseline}


def test_a_rate_within_burst_credits_is_no_choice() -> None:
    """It says nothing of what lasts."""
    analysis = quick()
    within = frozenset((c.configuration, c.workload) for c in analysis.results)
    for use in ("read-heavy", "write-heavy"):
        decided = [each for each in evidence(use, analysis) if each.choice]
        found = evidence(use, analysis.with_answer(within_bursts, within))
        assert decided
        assert not any(each.choice for each in found)


def test_a_rate_that_depends_on_load_is_a_choice_where_all_loads_agree() -> None:
    """Exclusive CPUs are faster for one client and slower for eight; awake ones always faster."""
    found = {
        each.contest: each
        for each in evidence("read-heavy", analysis_of("published-stack-factorial"))
        if each.says.startswith("depends on load")
    }
    turned, agreed = (
        next(each for contest, each in found.items() if name in contest)
        for name in ("exclusive-cpus=exclusive", "wake-ups=awake")
    )
    assert not turned.choice
    said = "depends on load from -42.0 % to +7.0 %; not all loads favour the same side"
    assert turned.says == said
    assert agreed.choice == "wake-ups=awake"


@pytest.mark.slow
def test_what_would_decide_is_told_once_for_many(tmp_path: Path) -> None:
    """By the longest of them; each line leads to a section that is there."""
    names = [str(EXAMPLES / name) for name in ("redis-loaded", "attribution")]
    invoked(*names, "--dir", str(tmp_path))
    text = (tmp_path / "article.md").read_text()
    assert "5 comparisons are not decided" in text  # and not those of PING
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert linked == set(re.findall(r'<a id="([^"]+)"></a>', text))
    assert {"verdicts-1", "verdicts-2"} <= linked


def test_a_cell_is_no_formula_of_a_spreadsheet() -> None:
    """Numbers with a sign stay numbers."""
    cells = ("=1+1", "@x", "-4.4 %", "+3", "-cmd", "plain")
    table = Table(
        title="t", columns=tuple(Column(name=str(n)) for n in range(6)), rows=(Row(cells=cells),)
    )
    assert table_csv(table).splitlines()[1] == "'=1+1,'@x,-4.4 %,+3,'-cmd,plain"


KEPT = sorted(path.parent for path in EXAMPLES.rglob("article.md"))
_LEAD = "**Of what it is about it does not show:**\n\n"


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept.relative_to(EXAMPLES)))
def test_the_kept_article_is_what_the_verb_writes(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text and tables to the byte; figures of its JSON may differ in the last digits.

    Drawings take seconds, and may differ by a pixel: they are named as before.
    ``STEELYARD_UPDATE_GOLDEN=1`` writes text and tables anew.
    """
    monkeypatch.setattr(html, "render_chart", lambda _: "<svg></svg>")
    text = (kept / "article.md").read_text().replace("\\`", "`")
    left_out = text.partition(_LEAD)[2].partition("\n\n")[0]
    (names,) = re.findall(r"^\d+ campaigns?: (.*) · ", text, re.MULTILINE)
    write(
        [kept.parent / name for name in names.split(", ")],
        title=text.splitlines()[0].removeprefix("# "),
        out=tmp_path,
        notes=dict(re.findall(r"^([\w-]+): (A stand-in: .*)$", text, re.MULTILINE)),
        missing=tuple(re.findall(r"^- (.*)$", left_out, re.MULTILINE)),
    )
    old, new = files_in(kept), files_in(tmp_path)
    assert old.keys() | {"article.json"} == new.keys()
    same = [name for name in old if name.endswith((".md", ".csv"))]
    if os.environ.get("STEELYARD_UPDATE_GOLDEN") == "1":
        for name, content in old.items():
            if name.endswith((".md", ".csv", ".json")) and content != new[name]:
                (kept / name).write_bytes(new[name])
        return
    assert [name for name in same if old[name] != new[name]] == []
    if "article.json" in old:
        told, tells = json.loads(old["article.json"]), json.loads(new["article.json"])
        assert differences(told, tells, rel=1e-9) == []


def test_scripts_that_contradict_each_other_choose_nothing() -> None:
    """Their sum favours one side, and who runs the slower script would regret it."""
    analysis = analyse(a_scripted_record({"q1": 0.45, "q2": -0.7, "q3": -0.7}))
    (result,) = analysis.results
    assert result.is_mixed
    (told,) = (_by_throughput("one", analysis, each) for each in analysis.results)
    assert told.choice == ""
    assert told.says.endswith("not all scripts favour the same side")


@pytest.mark.parametrize("use", ["cost-bound", "low latency at low load"])
def test_nor_do_they_by_a_price_or_a_percentile(use: str) -> None:
    """Both are of all scripts together, as the rate is."""
    analysis = spoken_of(use)
    assert {each.choice for each in evidence(use, analysis)} != {""}
    (mixed,) = analyse(a_scripted_record({"q1": 0.45, "q2": -0.7, "q3": -0.7})).results
    loads = [load for load in analysis.experiment.closed_loads if load.clients == 1]
    scripts = tuple(
        replace(each, load=load) for each in mixed.scripts for load in loads or [each.load]
    )
    with_scripts = tuple(
        replace(each, scripts=scripts) if each.load is None else each
        for each in analysis.comparisons
    )
    found = evidence(use, replace(analysis, comparisons=with_scripts))
    assert {each.choice for each in found} == {""}
    assert any(each.says.endswith("not all scripts favour the same side") for each in found)
