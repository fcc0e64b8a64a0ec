"""All rules beside those for single runs, and what they find in a campaign."""

from typing import Final

from steelyard.answers.observations import Observations, count
from steelyard.answers.validity.facts import CampaignFacts
from steelyard.answers.validity.machine_rules import MACHINE_RULES, STORAGE_RULES
from steelyard.answers.validity.redis_rules import KEYSPACE_RULES, PERSISTENCE_RULES
from steelyard.answers.validity.work_rules import TURN_RULES, WORK_RULES
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Finding, Rule, Standing, not_judged
from steelyard.core.plan import RUN_NEEDS, missing_for

CAMPAIGN_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    *MACHINE_RULES,
    *STORAGE_RULES,
    *WORK_RULES,
    *TURN_RULES,
    *PERSISTENCE_RULES,
    *KEYSPACE_RULES,
)


def judged(record: CampaignRecord, seen: Observations) -> tuple[Finding, ...]:
    """Return what the rules find, in their order, and at last what could not be judged.

    Where no run was watched, as in records of versions without probes, nothing is said of that.
    """
    facts = CampaignFacts(record=record, seen=seen)
    if not facts.runs:
        return ()
    rules = [rule for rule in CAMPAIGN_RULES if rule.concerns(facts.experiment.engine)]
    rulings = [(rule, ruling) for rule in rules for ruling in rule.judge(facts)]
    found = [rule.finding(ruling) for rule, ruling in rulings if ruling.standing is Standing.BROKEN]
    missing = [(rule.code, ruling.missing) for rule, ruling in rulings if ruling.missing]
    missing += _missing_of_runs(facts)
    return (*found, *(not_judged(missing, "campaign") if facts.watched else ()))


def _missing_of_runs(facts: CampaignFacts) -> list[tuple[str, str]]:
    """Return the rules for runs that lacked a fact, and in how many runs they did."""
    watched = [run.evidence for run in facts.runs if run.evidence is not None]
    found = []
    for code in RUN_NEEDS:
        lacked = [missing for each in watched if (missing := missing_for(code, each))]
        if lacked:
            told = ", ".join(dict.fromkeys(name for missing in lacked for name in missing))
            found.append((code, f"{told}; {len(lacked)} of {count(len(watched), 'run')}"))
    return found
