"""All rules beside those for single runs, and what they find in a campaign."""

from typing import Final

from steelyard.analysis.judging.facts import CampaignFacts
from steelyard.analysis.judging.machine_rules import MACHINE_RULES
from steelyard.analysis.judging.storage_rules import STORAGE_RULES
from steelyard.analysis.judging.work_rules import WORK_RULES
from steelyard.analysis.observations import Observations
from steelyard.model.campaign import CampaignRecord
from steelyard.model.findings import Finding
from steelyard.model.rules import Rule, Standing, not_judged

CAMPAIGN_RULES: Final[tuple[Rule[CampaignFacts], ...]] = (
    *MACHINE_RULES,
    *STORAGE_RULES,
    *WORK_RULES,
)


def judged(record: CampaignRecord, seen: Observations) -> tuple[Finding, ...]:
    """Return what the rules find, in their order, and at last what could not be judged.

    Where no run was watched, as in records of versions without probes, nothing is said of that.
    """
    facts = CampaignFacts(record=record, seen=seen)
    if not facts.runs:
        return ()
    rulings = [(rule, ruling) for rule in CAMPAIGN_RULES for ruling in rule.judge(facts)]
    found = [rule.finding(ruling) for rule, ruling in rulings if ruling.standing is Standing.BROKEN]
    missing = [(rule.code, ruling.missing) for rule, ruling in rulings if ruling.missing]
    return (*found, *(not_judged(missing, "campaign") if facts.watched else ()))
