"""Each finding that holds a ratio has a floor under its base, and is sorted: explains or weakens.

A rule that is not in these tables fails the tests: its author says where it belongs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made_records import compared
from redis_records import redis_experiment
from test_provider import a_series
from test_work_findings import with_series
from watched import both, seen

import steelyard
from fakes.analyses import quick
from steelyard.answers import findings as campaign_rules
from steelyard.answers.campaign import analyse
from steelyard.answers.findings import EXPLAINING, explained_section, split_by_weight
from steelyard.answers.report import build_document, summary
from steelyard.answers.result.section import result_section
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.evidence.run_rules import RUN_RULES, RunFacts
from steelyard.core.campaign import BlockOutcome, CampaignRecord
from steelyard.core.findings import Finding, Severity, State, Verdict
from steelyard.core.measurement import Evidence, Quantity
from steelyard.core.wording import MIB
from steelyard.report.document import BulletList
from support.examples import EXAMPLES, analysis_of

Numbers = Mapping[Quantity, float]


def of_totals(code: str, *, redis: bool = False) -> Callable[[Numbers], bool]:
    """Return whether totals of runs lead to a finding."""

    def told(totals: Numbers) -> bool:
        return is_told(both(quiet(totals), seen(totals), **how), code)

    how = {"experiment": redis_experiment()} if redis else {}
    return told


def quiet(totals: Numbers) -> Evidence:
    """Return the baseline's run: the same base, and nothing of what is judged."""
    kept = {Quantity.COMMITS, Quantity.COMMANDS}
    base = {name: value for name, value in totals.items() if name in kept}
    pages = totals.get(Quantity.PAGES_READ, 0.0) + totals.get(Quantity.PAGES_HIT, 0.0)
    return seen(base | {Quantity.PAGES_HIT: pages, Quantity.PAGES_READ: 0.0})


def is_told(record: CampaignRecord, code: str) -> bool:
    """Return whether a finding is in the analysis, other than as a note."""
    found = [f for f in analyse(record).findings if f.code == code]
    return any(f.severity is not Severity.INFO for f in found)


def swapped_out(levels: Numbers) -> bool:
    """Return whether levels lead to the finding."""
    server = seen(levels=levels)
    return is_told(both(server, server, experiment=redis_experiment()), "data-swapped-out")


def throttled_generator(totals: Numbers) -> bool:
    """Return whether a run's totals lead to the finding."""
    (rule,) = (rule for rule in RUN_RULES if rule.code == "generator-throttled")
    rulings = list(rule.judge(RunFacts(evidence=seen(totals))))
    return any(ruling.state is State.VIOLATED for ruling in rulings)


def trending(transactions: float) -> bool:
    """Return whether runs of so many transactions that double within them have a trend."""
    record = with_series(compared(12), 1.0)
    runs = (
        replace(run, measurement=replace(run.measurement, transactions=transactions))
        for run in record.runs
        if run.measurement is not None
    )
    return is_told(replace(record, runs=tuple(runs)), "trend-in-runs")


def spent(first: float) -> bool:
    """Return whether a balance that falls to nothing is told."""
    series = a_series("CPUCreditBalance", "credits", first, 0.0)
    return is_told(replace(compared(12), provider=(series,)), "credits-spent")


def redone(blocks: int) -> bool:
    """Return whether a third of the tries is a warning, in a campaign of so many."""
    record = compared(blocks)
    tries = (
        BlockOutcome(index=index, attempt=7, complete=False, reason="steal")
        for index in range(blocks // 2)
    )
    return is_told(replace(record, blocks=(*tries, *record.blocks)), "blocks-redone")


def reads(mib: float, seconds: float) -> Numbers:
    """Return reads of a device, nine in ten bytes of which nobody asked for."""
    return {
        Quantity.DEVICE_READ_BYTES: mib * MIB,
        Quantity.RELATION_READ_BYTES: mib * MIB / 10.0,
        Quantity.DEVICE_READ_S: seconds,
        Quantity.DEVICE_READS: 10.0 * mib,
    }


def pages(per_transaction: float) -> Numbers:
    """Return pages of which every second one was not in shared_buffers."""
    half = 500.0 * per_transaction
    return {Quantity.COMMITS: 1000.0, Quantity.PAGES_HIT: half, Quantity.PAGES_READ: half}


def misses(of_commands: float) -> Numbers:
    """Return reads, all of keys that are not there, that are a share of the commands."""
    return {
        Quantity.KEYSPACE_MISSES: 1e4 * of_commands,
        Quantity.KEYSPACE_HITS: 0.0,
        Quantity.COMMANDS: 1e4,
    }


def moved(cpu_s: float) -> Numbers:
    """Return large values, whose moving takes all CPU time of the main thread."""
    return {
        Quantity.COMMANDS: 10.0,
        Quantity.NETWORK_IN_BYTES: 10.0 * MIB,
        Quantity.NETWORK_OUT_BYTES: 0.0,
        Quantity.MAIN_THREAD_CPU_S: cpu_s,
        Quantity.COMMAND_S: 0.0,
    }


def quota(periods: float, *, generator: bool = False) -> Numbers:
    """Return periods of a quota, all of them held back."""
    if generator:
        names = Quantity.GENERATOR_QUOTA_PERIODS, Quantity.GENERATOR_THROTTLED_PERIODS
    else:
        names = Quantity.QUOTA_PERIODS, Quantity.THROTTLED_PERIODS
    return dict.fromkeys(names, periods)


def resident(used: float) -> Numbers:
    """Return the levels of a server of which half is resident."""
    return {Quantity.USED_MEMORY_BYTES: used, Quantity.RESIDENT_BYTES: used / 2.0}


# The ratio is the same in both: the base of the first is a trifle.
FLOORS = {
    "read-amplification": [
        (of_totals("read-amplification"), reads(100.0, 0.06), reads(100.0, 0.08)),
        (of_totals("read-amplification"), reads(0.2, 0.08), reads(2.0, 0.08)),
    ],
    "cache-regime-differs": [(of_totals("cache-regime-differs"), pages(0.9), pages(1.0))],
    "quota-throttled": [(of_totals("quota-throttled"), quota(0.1), quota(1.0))],
    "generator-throttled": [
        (throttled_generator, quota(9.0, generator=True), quota(10.0, generator=True))
    ],
    "keys-missing": [(of_totals("keys-missing", redis=True), misses(0.009), misses(0.01))],
    "network-bound": [(of_totals("network-bound", redis=True), moved(0.06), moved(0.08))],
    "data-swapped-out": [(swapped_out, resident(15.0 * MIB), resident(16.0 * MIB))],
    "trend-in-runs": [(trending, 99.0, 100.0)],
    "credits-spent": [(spent, 0.9, 1.0)],
    "blocks-redone": [(redone, 2, 4)],
}
CASES = [(code, *case) for code, cases in FLOORS.items() for case in cases]

IN_TIME = "its base is the time of the runs"
OF_RATES = "it compares rates of whole runs, by their interval or their test"
MEASURED = "its base was measured under full load"
OWN_FLOOR = "the limit is a size of the difference itself, not of a ratio alone"
# Findings that hold a ratio and need no floor, with the reason.
WITHOUT_FLOOR = {
    "aa-difference": OF_RATES,
    "cache-pressure": OWN_FLOOR,
    "carry-over": OF_RATES,
    "device-limit": MEASURED,
    "disk-nearly-full": "its base is the size of a file system",
    "drift": OF_RATES,
    "foreign-disk": IN_TIME,
    "foreign-load-differs": "its base is the CPU time of whole runs",
    "generator-saturated": IN_TIME,
    "log-limited-by-bytes": MEASURED,
    "measured-beside-neighbour": "it counts blocks and runs",
    "memory-pressure": IN_TIME,
    "negative-control-differs": OF_RATES,
    "neighbour-cpu": IN_TIME,
    "rate-not-reached": OWN_FLOOR,
    "round-trip-differs": OWN_FLOOR,
    "shared-machine": IN_TIME,
    "slice-length": IN_TIME,
    "steal": IN_TIME,
    "still-warming": OF_RATES,
    "warm-up-differs": OF_RATES,
    "warm-up-risk": OF_RATES,
    "writes-in-flight": OWN_FLOOR,
}


@pytest.mark.parametrize(("code", "told", "trifle", "enough"), CASES)
def test_a_ratio_of_two_trifles_is_not_told(
    code: str, told: Callable[[object], bool], trifle: object, enough: object
) -> None:
    """The same ratio is told from the floor of its base on."""
    assert not told(trifle), code
    assert told(enough), code


def test_an_amplification_of_trifles_is_in_no_table() -> None:
    """Neither in the section of reads nor in the ledger of costs, which gives the reason."""
    few, many = (
        summary(analyse(both(seen(reads(100.0, s)), seen(reads(100.0, s))))) for s in (0.06, 0.08)
    )
    assert "read_amplification" not in few
    assert "read_amplification" in many
    assert '"read_amplification": 10.0' not in str(few["ledger"]).replace("'", '"')


# Findings without a ratio, or whose share is one of runs.
WITHOUT_RATIO = frozenset(
    {
        *(
            "workers-apart",
            "autovacuum-differs",
            "burst-hides",
            "burst-not-sustained",
            "burstable-machine",
        ),
        *("capacity-of-more-clients", "checkpoint-phase-differs", "checkpoints-differ"),
        *("clock-jump", "cluster-kept-elsewhere", "credits-not-back", "durability-traded"),
        *("early-checkpoint-phase", "failed-transactions", "few-transactions", "fits-in-memory"),
        *("foreign-namespace", "fork-may-fail", "fork-on-huge-pages", "generator-beside-database"),
        *("generator-failed", "guest-in-acl-log", "huge-pages-not-in-effect", "io-threads-spin"),
        *("incomplete-block", "io-beyond-limit", "keys-evicted", "keys-grow", "log-unusable"),
        "load-from-outside",
        *("logs-on-disk", "no-huge-pages", "no-transactions", "not-in-force", "not-measured"),
        *("older-pgbench", "pair-of-instances", "pass-continued", "permission-missing"),
        *("persistence-traded", "replica-beside", "rewrites-differ", "server-died"),
        *("shared-cpus", "single-pass", "snapshots-differ", "stalls-differ", "surplus-credits"),
        *("sustained-failed", "swapping", "terms-not-known", "too-short-for-a-cliff"),
        *("unequal-terms", "version-not-run", "writeback-not-limited"),
    }
)
_CODE = re.compile(r'code="([a-z]+(?:-[a-z]+)+)"')


def codes_in_the_source() -> set[str]:
    """Return the codes that the source writes, those of rules for the stack apart."""
    root = Path(steelyard.__file__).parent
    texts = (path.read_text("utf-8") for path in root.rglob("*.py"))
    return {code for text in texts for code in _CODE.findall(text)}


def test_a_new_finding_is_in_one_of_the_tables() -> None:
    """Whoever adds one says whether it holds a ratio, and where the base has its floor."""
    ratios = FLOORS.keys() | WITHOUT_FLOOR.keys()
    assert codes_in_the_source() - ratios - WITHOUT_RATIO == set()
    assert ratios.isdisjoint(WITHOUT_RATIO)
    assert FLOORS.keys().isdisjoint(WITHOUT_FLOOR)
    assert codes_in_the_source() >= EXPLAINING


BASELINE, OTHER = (each.name for each in quick().experiment.configurations)


def finding(code: str, subject: str) -> Finding:
    """Return a warning of a rule about a configuration."""
    return Finding(code=code, severity=Severity.WARNING, message=f"{subject}: m", subject=subject)


def decided(verdict: Verdict, *found: Finding) -> CampaignAnalysis:
    """Return a campaign of two configurations with this verdict and these findings."""
    analysis = quick()
    comparisons = tuple(
        replace(c, verdict=verdict, no_practical_weight=False) for c in analysis.comparisons
    )
    return replace(analysis, comparisons=comparisons, findings=found)


@pytest.mark.parametrize("code", sorted(EXPLAINING))
@pytest.mark.parametrize(
    ("verdict", "subjects", "explains"),
    [
        (Verdict.FASTER, (BASELINE,), True),
        (Verdict.SLOWER, (BASELINE,), False),  # the faster side has it
        (Verdict.EQUIVALENT, (BASELINE,), False),  # there is nothing to explain
        (Verdict.FASTER, (BASELINE, OTHER), False),  # both are limited alike
    ],
)
def test_what_slows_one_side_alone_explains_that_it_is_slower(
    code: str, verdict: Verdict, subjects: tuple[str, ...], *, explains: bool
) -> None:
    """Else it weakens: the side that is faster has it, or both sides have it."""
    found = tuple(finding(code, subject) for subject in subjects)
    weakening, explaining = split_by_weight(decided(verdict, *found))
    assert ({f.code for f in explaining} == {code}) is explains
    assert (code in {f.code for f in weakening}) is not explains


def test_what_concerns_the_measuring_never_explains() -> None:
    """A neighbour, a short run or a checkpoint on one side makes the comparison less sure."""
    others = (FLOORS.keys() | WITHOUT_FLOOR.keys() | WITHOUT_RATIO) - EXPLAINING
    found = tuple(finding(code, BASELINE) for code in sorted(others))
    _, explaining = split_by_weight(decided(Verdict.FASTER, *found))
    assert explaining == ()


def test_a_cause_is_shown_as_one() -> None:
    """On the first screen, in its own section and key; not among what weakens the results."""
    analysis = analysis_of("quick")
    bullets = [each for each in result_section(analysis).blocks if isinstance(each, BulletList)]
    (cause,) = (each["message"] for each in summary(analysis)["explained_by"])
    assert [each.items for each in bullets] == [(f"{cause}.",)]
    (section,) = explained_section(analysis)
    assert cause in str(section)
    told = summary(analysis)
    assert [each["code"] for each in told["explained_by"]] == ["cache-regime-differs"]
    assert "cache-regime-differs" not in {each["code"] for each in told["findings"]}
    anchors = [each.anchor for each in build_document(analysis).sections]
    assert anchors.index(campaign_rules.EXPLAINED) < anchors.index("findings")


def test_both_records_that_are_kept_for_it_are_there() -> None:
    """The examples hold a cause on the slower side, and one that both sides share."""
    assert (EXAMPLES / "cause-quota").is_dir()
    assert {f.code for f in split_by_weight(analysis_of("cause-quota"))[1]} == {"quota-throttled"}
    assert split_by_weight(analysis_of("published-storage"))[1] == ()
