"""A whole campaign from its record, with the answers that are registered."""

import cProfile
from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment, compared, noise
from watched import asking, with_settings

from steelyard.answers import report
from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import compare_pair
from steelyard.answers.report import summary
from steelyard.answers.result.cards import why
from steelyard.answers.results import CampaignAnalysis, Grounds
from steelyard.core import experiment as experiments
from steelyard.core.campaign import BlockOutcome, CampaignRecord, Status
from steelyard.core.findings import Fact, Finding, Severity, Validity, Verdict
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.target import LocalTarget
from steelyard.record.directory import read_campaign
from steelyard.report.document import Chapter, Paragraph, Section
from steelyard.report.html import render_html, render_markdown
from steelyard.report.terminal import render_terminal
from support.examples import EXAMPLES, analysis_of


def test_two_workloads_and_two_contenders() -> None:
    """Four results in file order, each followed by its cells, each at a quarter of the error."""
    experiment = an_experiment(configurations=3, workloads=2, loads=3)
    analysis = analyse(compared(12, 0.05, experiment=experiment))
    named = [(c.workload, c.configuration) for c in analysis.results]
    assert named == [("w0", "t1"), ("w0", "t2"), ("w1", "t1"), ("w1", "t2")]
    assert [c.load for c in analysis.comparisons[:4]] == [None, *experiment.loads]
    assert len(analysis.comparisons) == 16
    assert all(c.verdict is Verdict.FASTER for c in analysis.results)
    assert analysis.plan.stopping.alpha == 0.01


def test_what_is_passed_on() -> None:
    """Identity, times, command, facts and the record's own findings arrive unchanged."""
    noted = Finding(code="noted", severity=Severity.INFO, message="noted by the runner")
    environment = Environment(facts=(Fact(name="kernel", value="6.1"),))
    record = replace(compared(9), findings=(noted,), environment=environment)
    analysis = analyse(record)
    assert analysis.findings[0] == noted
    assert analysis.facts == environment.facts
    assert (analysis.campaign_id, analysis.command) == ("test", "steelyard run test.yaml")
    assert (analysis.elapsed_s, analysis.status) == (1080.0, Status.BUDGET)
    assert analysis.runs == record.counted_runs
    assert analysis.measured_s == pytest.approx(9 * 2 * 5 * 5.0)
    assert (analysis.blocks, analysis.looks) == (9, 2)


def test_before_the_plan() -> None:
    """A campaign that failed while it prepared has an analysis that claims nothing."""
    analysis = analyse(replace(compared(0), plan=None, status=Status.FAILED))
    assert analysis.comparisons == analysis.cells == analysis.stalls == analysis.warmup == ()
    assert (analysis.blocks, analysis.looks, analysis.measured_s) == (0, 0, 0)
    assert analysis.unit == "nothing was replicated: there is no complete block"


def test_cells_are_described_one_by_one() -> None:
    """Each in each cell: median, interval, latency, worst validity, distinct findings."""
    record = compared(8, 0.1)
    doubt = Finding(code="steal", severity=Severity.WARNING, message="4 % steal")
    odd = next(run for run in record.runs if run.configuration == "t1" and run.block == 3)
    doubtful = replace(odd, validity=Validity.SUSPECT, findings=(doubt, doubt))
    runs = tuple(doubtful if run is odd else run for run in record.runs)
    analysis = analyse(replace(record, runs=runs))
    assert [c.configuration for c in analysis.cells] == ["t0", "t1"] * 5
    summary = next(c for c in analysis.cells if (c.configuration, c.cell) == ("t1", odd.cell))
    tps = [r.measurement.tps for r in runs if (r.configuration, r.cell) == ("t1", odd.cell)]
    assert summary.tps.value == pytest.approx(np.median(tps))
    assert summary.tps.low < summary.tps.value < summary.tps.high
    assert (summary.runs, summary.latency_mean_s, summary.stalled) == (8, 0.001, 0)
    assert (summary.validity, summary.findings) == (Validity.SUSPECT, (doubt,))
    assert all(c.validity is Validity.VALID for c in analysis.cells if c is not summary)


def test_few_blocks_have_no_bounds() -> None:
    """Below 6 blocks a cell's level has no bounds, rather than guessed ones."""
    assert all(c.tps.low is c.tps.high is None for c in analyse(compared(5)).cells)
    assert all(c.tps.low is not None for c in analyse(compared(6)).cells)


def test_latency_that_was_not_reported() -> None:
    """A generator without latency gives None, not zero."""
    record = compared(6)
    runs = tuple(
        replace(run, measurement=replace(run.measurement, latency_mean_s=None))
        for run in record.runs
    )
    assert all(c.latency_mean_s is None for c in analyse(replace(record, runs=runs)).cells)


def test_thrown_away_tries_are_listed() -> None:
    """Each with its block and try as people count, and the reason."""
    thrown = BlockOutcome(index=2, attempt=0, complete=False, reason="steal of 20 %")
    record = compared(9)
    analysis = analyse(replace(record, blocks=(thrown, *record.blocks)))
    assert analysis.blocks_redone == ("block 3, try 1: steal of 20 %",)


def stalling(share: float) -> CampaignRecord:
    """Return 20 blocks in which t1 runs at a third of its speed in a share of its slices."""
    log_tps = noise(20)
    hit = np.random.default_rng(3).random((20, 5)) < share
    log_tps[:, 1][hit] -= np.log(3.0)
    return a_record(log_tps, an_experiment())


def test_stalls_of_one_arm() -> None:
    """A configuration that stalls in a sixth of its runs is found out, with the counts."""
    analysis = analyse(stalling(0.17))
    (test,) = analysis.stalls
    assert (test.baseline_stalled, test.baseline_runs, test.configuration_runs) == (0, 100, 100)
    assert 10 <= test.configuration_stalled <= 25
    assert test.configuration_stalled == sum(c.stalled for c in analysis.cells)
    finding = next(f for f in analysis.findings if f.code == "stalls-differ")
    assert finding.subject == "t1"
    assert f"{test.configuration_stalled} of 100" in finding.message


def test_no_stalls_no_finding() -> None:
    """Arms that do not stall are tested and not mentioned."""
    analysis = analyse(stalling(0.0))
    assert analysis.stalls[0].p_value == 1.0
    assert "stalls-differ" not in {f.code for f in analysis.findings}


def warming(per_place: float, blocks: int = 15) -> CampaignRecord:
    """Return a record in which t1 loses ``per_place`` at each place less in the start."""
    record = compared(blocks)
    return replace(
        record,
        runs=tuple(
            replace(
                run,
                measurement=replace(
                    run.measurement,
                    transactions=run.measurement.transactions
                    * float(np.exp(per_place * run.position)),
                ),
            )
            if run.configuration == "t1"
            else run
            for run in record.runs
        ),
    )


def test_unequal_warmup_is_a_warning_light() -> None:
    """A contrast that rises along the start is measured and reported; a flat one is not."""
    lit, dark = analyse(warming(0.03)), analyse(warming(0.0))
    assert lit.warmup[0].slope_per_position == pytest.approx(0.03, abs=0.01)
    assert lit.warmup[0].p_value < 0.01
    assert "warm-up-differs" in {f.code for f in lit.findings}
    assert "warm-up-differs" not in {f.code for f in dark.findings}


def test_when_warmup_cannot_be_checked() -> None:
    """Not with few blocks, not with one run per start, not back to back on one server."""
    assert len(analyse(warming(0.0, blocks=6)).warmup) == 1
    assert analyse(warming(0.0, blocks=5)).warmup == ()
    assert analyse(compared(9, experiment=an_experiment(loads=1))).warmup == ()
    assert analyse(compared(9, switch=experiments.SwitchCost.RELOAD)).warmup == ()


@pytest.mark.parametrize(
    ("switch", "reset", "sentence"),
    [
        (
            experiments.SwitchCost.RESTART,
            experiments.Reset.START,
            (
                "9 restarts of one server per configuration on this machine, each from the same"
                " prepared data; not two machines, not two storage products"
            ),
        ),
        (
            experiments.SwitchCost.RELOAD,
            experiments.Reset.BLOCK,
            (
                "9 starts of one server on this machine, in which each cell ran the configurations"
                " back"
                " to back, each after a restart, with the prepared data restored before each block;"
                " not two machines"
            ),
        ),
        (
            experiments.SwitchCost.REPROVISION,
            experiments.Reset.CAMPAIGN,
            (
                "9 newly made servers per configuration on this machine, on data prepared once and"
                " carried along; not other machines than these"
            ),
        ),
    ],
)
def test_the_unit_of_replication(
    switch: experiments.SwitchCost, reset: experiments.Reset, sentence: str
) -> None:
    """What was repeated, counted from the record, and what was not."""
    record = compared(9, switch=switch)
    assert analyse(replace(record, plan=replace(record.plan, reset=reset))).unit == sentence


def test_settings_that_differ() -> None:
    """Requested ones first, with units; where a server lives is no difference; None is unknown."""

    def server(name: str, *settings: experiments.EffectiveSetting) -> ServerEnvironment:
        port = experiments.EffectiveSetting(name="port", value=str(len(name)))
        return ServerEnvironment(configuration=name, version="18.1", settings=(*settings, port))

    def effective(name: str, value: str, unit: str | None = None) -> experiments.EffectiveSetting:
        return experiments.EffectiveSetting(name=name, value=value, unit=unit)

    environment = Environment(
        facts=(),
        servers=(
            server(
                "t0",
                effective("autovacuum", "on"),
                effective("shared_buffers", "16384", "8kB"),
                effective("work_mem", "4096", "kB"),
            ),
            server(
                "t11",
                effective("autovacuum", "on"),
                effective("shared_buffers", "32768", "8kB"),
                effective("huge_page_size", "0", "kB"),
                effective("work_mem", "8192", "kB"),
            ),
        ),
    )
    experiment = an_experiment(configurations=1)
    asked = (
        experiments.Setting(layer=experiments.Layer.POSTGRES, name="Shared_Buffers", value="256MB"),
    )
    contender = experiments.Configuration(
        name="t11", target=experiment.configurations[0].target, settings=asked
    )
    experiment = replace(experiment, configurations=(*experiment.configurations, contender))
    record = replace(compared(0, experiment=experiment), environment=environment)
    shown = [(s.name, tuple(s.values.values()), s.requested) for s in analyse(record).settings]
    assert shown == [
        ("shared_buffers", ("128 MB", "256 MB"), True),
        ("huge_page_size", (None, "0 kB"), False),
        ("work_mem", ("4 MB", "8 MB"), False),
    ]


def test_one_server_has_no_differences() -> None:
    """With one server seen there is nothing to tell apart."""
    only = ServerEnvironment(configuration="t0", version="18.1", settings=())
    record = replace(compared(0), environment=Environment(facts=(), servers=(only,)))
    assert analyse(record).settings == ()


@pytest.mark.parametrize("blocks", [0, 1, 7, 8, 10, 33])
@pytest.mark.parametrize("switch", [experiments.SwitchCost.SESSION, experiments.SwitchCost.RESTART])
@pytest.mark.parametrize("loads", [1, 5])
def test_every_length_of_campaign(blocks: int, switch: experiments.SwitchCost, loads: int) -> None:
    """From no block to more than planned, no warning is raised and no number is not a number."""
    record = compared(blocks, 0.02, experiment=an_experiment(loads=loads), switch=switch)
    analysis = analyse(record)
    assert "nan" not in repr(analysis)
    assert "inf" not in repr(analysis).replace("Severity.INFO", "").replace("'info'", "")


def _calls(record: CampaignRecord) -> int:
    """Return how many function calls one analysis makes, once the levels are known."""
    analyse(record)
    profile = cProfile.Profile()
    profile.runcall(analyse, record, curves=False)  # as the runner does
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_its_work_grows_with_the_blocks_and_not_faster() -> None:
    """Four times the blocks cost at most five times the calls: it is done after every block."""
    experiment = an_experiment(workloads=2)
    few, many = (compared(n, 0.02, experiment=experiment, max_blocks=60) for n in (15, 60))
    assert _calls(many) <= 5 * _calls(few)


def minutes(record: CampaignRecord) -> list[float | None]:
    """Return what is forecast for each comparison of a campaign."""
    return [each.minutes_to_decide for each in analyse(record).comparisons]


@pytest.mark.parametrize(
    ("asked", "in_force", "other", "alike"),
    [
        ({}, {}, {}, True),
        ({"work_mem": "8MB"}, {}, {}, False),
        ({"work_mem": "4096kB"}, {"work_mem": "4 MB"}, {"work_mem": "4 MB"}, True),
        ({"work_mem": "8MB"}, {"work_mem": "8 MB"}, {"work_mem": "4 MB"}, False),
    ],
)
def test_nothing_is_forecast_for_a_configuration_and_its_like(
    asked: dict[str, str], in_force: dict[str, str], other: dict[str, str], *, alike: bool
) -> None:
    """Asked alike, or alike in force: no time decides a difference that does not exist."""
    record = compared(10, experiment=asking(an_experiment(), **asked))
    if in_force:
        record = with_settings(record, t0=other, t1=in_force)
    found = minutes(record)
    assert len(found) == 6
    assert (set(found) == {None}) is alike


def test_a_configuration_on_another_target_is_not_its_like() -> None:
    """Another directory may be another disk, so the forecast stays."""
    experiment = an_experiment()
    one, other = experiment.configurations
    elsewhere = replace(other, target=LocalTarget(directory="/mnt/other"))
    moved = replace(experiment, configurations=(one, elsewhere))
    assert any(value is not None for value in minutes(compared(10, experiment=moved)))
    pair = analyse(compared(10, experiment=moved))
    assert pair.results[0].is_of_pair


def test_nothing_is_forecast_for_a_pair_of_the_like() -> None:
    """Two configurations that are picked from a campaign are judged the same way."""
    record = compared(10, experiment=an_experiment(configurations=3))
    pair = compare_pair(record, analyse(record), reference="t1", configuration="t2")
    assert {each.minutes_to_decide for each in pair.campaign.comparisons} == {None}


@pytest.mark.parametrize("status", [Status.BUDGET, Status.DECIDED])
@pytest.mark.parametrize("blocks", [7, 10, 14])
def test_a_planned_pair_says_what_the_report_says(status: Status, blocks: int) -> None:
    """At the end of the budget and after an early stop as well: the same numbers and words."""
    record = replace(compared(blocks, experiment=an_experiment(configurations=3)), status=status)
    whole = analyse(record)
    pair = compare_pair(record, whole, reference="t0", configuration="t1")
    assert pair.planned
    expected = [each for each in whole.comparisons if each.configuration == "t1"]
    assert expected
    assert list(pair.campaign.comparisons) == expected


def test_a_pair_has_the_stalls_and_findings_of_its_two() -> None:
    """Its places are not the campaign's: what the first two did was told of the last two."""
    log_tps = noise(24, 3, 1)
    log_tps[2:11, 2] -= 3.0
    record = a_record(log_tps, an_experiment(configurations=3, loads=1))
    whole = analyse(record)
    told = (Finding(code="of-t0", severity=Severity.INFO, message="t0: slow", subject="t0"),)
    whole = replace(whole, findings=(*whole.findings, *told))
    pair = compare_pair(record, whole, reference="t1", configuration="t2").campaign
    (stalls,) = pair.stalls
    assert (stalls.baseline_stalled, stalls.configuration_stalled) == (0, 9)
    assert not set(told) & set(pair.findings)
    assert {each.subject for each in pair.findings} <= {"t1", "t2", "campaign", ""}


def test_findings_of_a_pair_set_its_two_against_each_other() -> None:
    """The campaign's are about its baseline, which is neither: what one of them may lose, too."""
    pair = compare_pair(
        read_campaign(EXAMPLES / "article-001" / "persistence"),
        analysis_of("article-001/persistence"),
        reference="rdb",
        configuration="everysec",
    )
    told = {each.code: each for each in pair.campaign.findings}
    assert told["persistence-traded"].subject == "rdb"
    assert "under rdb into 0 of 33" in told["rewrites-differ"].message
    assert not [each for each in pair.campaign.findings if "aof-off" in each.message]


def test_a_turned_pair_has_reasons_of_its_own() -> None:
    """The plan's are of the other direction, where none of this one can be found."""
    record = read_campaign(EXAMPLES / "cause-commit")
    pair = compare_pair(record, analyse(record), reference="async", configuration="default")
    (result,) = pair.campaign.results
    assert "flushes of the WAL per" in why(pair.campaign, result)


def fastest_run(grounds: Grounds) -> str:
    """Return whose run was the fastest of all."""
    runs = grounds.record.counted_runs
    return max((run.measurement.tps, run.configuration) for run in runs if run.measurement)[1]


def shouted(grounds: Grounds) -> str:
    """Return the same in capitals, from the answer before."""
    return (grounds.analysis.answer(fastest_run) or "").upper()


def _section(analysis: CampaignAnalysis) -> tuple[Section, ...]:
    text = f"The fastest run was one of {analysis.answer(fastest_run)}."
    return (Section(anchor="fastest", title="The fastest run", blocks=(Paragraph(text=text),)),)


def _record() -> CampaignRecord:
    log_tps = np.zeros((8, 2, 1))
    log_tps[:, 1] = 0.5
    return a_record(log_tps, an_experiment(loads=1))


def test_an_answer_computes_from_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is all: what it computes is in the analysis, the report and the summary."""
    new = report.Answer(
        compute=fastest_run,
        sections=_section,
        json=lambda analysis: {"fastest": analysis.answer(fastest_run)},
    )
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    analysis = analyse(_record())
    assert analysis.answer(fastest_run) == "t1"
    assert summary(analysis)["fastest"] == "t1"
    assert "The fastest run was one of t1." in render_markdown(report.build_document(analysis))


def test_an_answer_may_rest_on_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed in their order; an interim result computes none of them."""
    lines = (report.Answer(compute=fastest_run), report.Answer(compute=shouted))
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, *lines))
    assert analyse(_record()).answer(shouted) == "T1"
    assert analyse(_record(), curves=False).answer(shouted) is None


def _noted(grounds: Grounds) -> tuple[Finding, ...]:
    """Note whose run was the fastest, or that nobody has looked yet."""
    told = grounds.analysis.answer(fastest_run) or "nobody looked"
    return (Finding(code="fastest-run", severity=Severity.INFO, message=told),)


def test_an_answer_brings_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand with those of all others, in an interim result, too."""
    new = report.Answer(compute=fastest_run, findings=_noted)
    monkeypatch.setattr(report, "ANSWERS", (*report.ANSWERS, new))
    assert [f.message for f in analyse(_record()).findings if f.code == "fastest-run"] == ["t1"]
    early = analyse(_record(), curves=False).findings
    assert [f.message for f in early if f.code == "fastest-run"] == ["nobody looked"]


def test_an_answer_stands_in_its_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapters come in their order, details last in theirs; in short Markdown names them alone."""
    made = {
        name: Section(anchor=name, title=f"The {name}", blocks=(Paragraph(text=f"{name} run."),))
        for name in ("setup", "second", "detail", "first")
    }
    answers = (
        report.Answer(sections=lambda _: (made["setup"],), chapter=Chapter.SETUP),
        report.Answer(sections=lambda _: (made["detail"],), detail=True),
        report.Answer(sections=lambda _: (made["first"],)),
        report.Answer(sections=lambda _: (made["second"],)),
    )
    monkeypatch.setattr(report, "ANSWERS", answers)
    document = report.build_document(analyse(_record()))
    order = ["Results", "first run.", "second run.", "detail run.", "Setup", "setup run."]
    for text in (render_markdown(document), render_terminal(document), render_html(document)):
        places = [text.rindex(each) for each in order]
        assert places == sorted(places)
    short = render_markdown(document, short=True)
    assert "detail run." not in short
    assert "Details, with `steelyard report DIR --full`: The detail." in short
    assert '<details class="more" id="detail">' in render_html(document)
    assert '<details class="more" id="detail" open>' in render_html(document, opened=True)
