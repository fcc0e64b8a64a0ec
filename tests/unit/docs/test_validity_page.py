"""The page of the rules explains each of them, with what the code says of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers import observations as seen
from steelyard.answers import turns
from steelyard.answers.validity import facts, machine_rules, redis_rules, work_rules
from steelyard.campaign.evidence import run_rules
from steelyard.core.findings import ENVIRONMENT, Judges, Severity, ValidityRule
from steelyard.core.target import EngineName
from steelyard.core.wording import format_bytes, format_share
from steelyard.stats.turns import LEAST_BLOCKS, SUSPECT_BEYOND, SUSPECT_LEVEL

RULES: tuple[ValidityRule[Any], ...] = (*run_rules.RUN_RULES, *work_rules.CAMPAIGN_RULES)
PAGE = (Path(__file__).parents[3] / "docs" / "validity.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
ENGINES = {EngineName.POSTGRES: "PostgreSQL", EngineName.REDIS: "Redis"}
LEVEL = f"{100 * SUSPECT_LEVEL:g} %"
NUMBERS = {
    "measured-beside-neighbour": [format_share(machine_rules.MOST_RUNS)],
    "foreign-load-differs": ["a quarter", LEVEL, f"{LEAST_BLOCKS} blocks"],
    "quota-throttled": [f"{machine_rules.LEAST_PERIODS} or more"],
    "io-threads-spin": [f"{redis_rules.SPINNING_CPUS:g} CPUs"],
    "memory-pressure": [format_share(machine_rules.MEMORY_PRESSURE_SHARE)],
    "device-limit": [format_share(seen.FULL), f"{seen.QUEUED:g} req", format_share(seen.STEADY)],
    "swapping": [f"{machine_rules.SWAPPED_PER_S:.0f} pages"],
    "disk-nearly-full": [format_share(machine_rules.DISK_FREE_SHARE)],
    "read-amplification": [
        f"{machine_rules.AMPLIFICATION:g} bytes",
        format_bytes(seen.ENOUGH_READ_BYTES),
        format_share(seen.READ_TIME_SHARE),
    ],
    "cache-regime-differs": [
        f"{100 * machine_rules.HIT_RATIO_POINTS:g} points",
        f"{machine_rules.LEAST_PAGES:g} page",
        f"{machine_rules.DEVICE_READS_FACTOR:g} times",
        f"more than {machine_rules.LEAST_DEVICE_READS:g}",
    ],
    "checkpoints-differ": [f"p < {facts.EVENT_LEVEL}"],
    "autovacuum-differs": [f"p < {facts.EVENT_LEVEL}"],
    "snapshots-differ": [f"p < {facts.EVENT_LEVEL}"],
    "rewrites-differ": [f"p < {facts.EVENT_LEVEL}"],
    "keys-missing": [format_share(redis_rules.MISSED_SHARE), format_share(redis_rules.READS_SHARE)],
    "network-bound": [
        format_bytes(redis_rules.PAYLOAD_BYTES),
        format_share(redis_rules.EXECUTING_SHARE),
        format_share(redis_rules.LEAST_CPU_SHARE),
        format_share(redis_rules.LINK_SHARE),
    ],
    "data-swapped-out": [
        format_share(redis_rules.RESIDENT_SHARE),
        format_bytes(redis_rules.LEAST_USED_BYTES),
    ],
    "carry-over": [LEVEL, f"{100 * SUSPECT_BEYOND:g} %", f"{LEAST_BLOCKS} blocks"],
    "still-warming": [LEVEL, f"{100 * SUSPECT_BEYOND:g} %", f"{LEAST_BLOCKS} blocks"],
    "writes-in-flight": [f"{turns.ENOUGH_WRITTEN_BYTES >> 20} MiB"],
    "cache-pressure": [LEVEL, f"{SUSPECT_BEYOND:g} pages", f"{LEAST_BLOCKS} blocks"],
    "trend-in-runs": [
        format_share(work_rules.TREND),
        f"level {work_rules.TREND_LEVEL}",
        f"{work_rules.TREND_FROM} blocks",
        f"{work_rules.FEW_TRANSACTIONS} transactions",
    ],
    "few-transactions": [f"{work_rules.FEW_TRANSACTIONS} in"],
    "round-trip-differs": [
        f"{work_rules.TRIP_FACTOR:g} times",
        f"{work_rules.LEAST_TRIP_S * 1000:g} ms",
    ],
    "generator-saturated": [format_share(run_rules.SATURATED_SHARE)],
    "generator-throttled": [
        format_share(run_rules.THROTTLED_SHARE),
        f"{run_rules.LEAST_PERIODS} periods",
    ],
    "workers-apart": [f"{1000 * run_rules.APART_S:.0f} ms from"],
    "slice-length": [f"a factor of {run_rules.OFF_LENGTH:g}"],
    "rate-not-reached": [
        format_share(run_rules.DONE_SHARE),
        f"{run_rules.POISSON_DEVIATIONS:g} standard deviations",
    ],
    "clock-jump": [f"{run_rules.CLOCK_JUMP_S} s"],
    "neighbour-cpu": [format_share(run_rules.DEFAULT_NEIGHBOURS)],
    "steal": [format_share(run_rules.STEAL_SHARE)],
    "foreign-disk": [format_share(run_rules.DEFAULT_NEIGHBOURS)],
}


def _consequence(rule: ValidityRule[Any]) -> str:
    limited = ", redone within limits; in turns noted only" if rule.code in ENVIRONMENT else ""
    words = {Severity.ERROR: "invalid", Severity.WARNING: "suspect"}
    made = words.get(rule.severity) if rule.judges is Judges.RUN else None
    return f"{made or f'finding ({rule.severity})'}{limited}"


def test_the_page_lists_all_rules_and_no_other() -> None:
    """In their order, each with what it judges and what it makes of that, and a section."""
    rows = [f"| [`{r.code}`](#{r.code}) | {r.judges} | {_consequence(r)} |\n" for r in RULES]
    assert "".join(rows) in PAGE
    assert PAGE.count("\n| [`") == len(rows)
    assert list(SECTIONS) == [rule.code for rule in RULES]


def test_codes_are_unique_and_stable_in_form() -> None:
    """A code names one rule, in kebab case, as summaries and links use it."""
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert set(codes) >= ENVIRONMENT
    assert all(f"`{code}`" in PAGE.split("## All rules")[0] for code in ENVIRONMENT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_explained(rule: ValidityRule[Any]) -> None:
    """What, why, remedy and source, and every threshold with its number and its reason."""
    what, *items = re.split(r"\n- \*\*", SECTIONS[rule.code])
    told = [tuple(" ".join(item.split()).split("**: ", 1)) for item in items]
    assert what.strip()
    assert ("Makes it", f"{_consequence(rule)}; judges a {rule.judges}.") in told
    assert (("Only for", f"{ENGINES.get(rule.engine)}.") in told) is (rule.engine is not None)
    assert ("Remedy", f"{rule.remedy.removesuffix('.')}.") in told
    assert ("Source", f"{rule.source.removesuffix('.')}.") in told
    assert dict(told)["Why"]
    thresholds = [words for name, words in told if name == "Threshold"]
    assert all(". Reason: " in each for each in thresholds)
    numbers = " ".join(thresholds)
    assert [each for each in NUMBERS.get(rule.code, []) if each not in numbers] == []
