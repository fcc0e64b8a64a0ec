"""Campaigns whose cause was made on purpose: the evidence alone has to name it."""

from steelyard.answers.budget.compute import BudgetChange, Part
from steelyard.answers.costs import Cost, CostChange
from steelyard.answers.reasons.compute import Explanation, campaign_reasons
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.findings import Verdict
from support.examples import analysis_of


def analysed(cause: str) -> CampaignAnalysis:
    """Return the analysis of an example."""
    return analysis_of(f"cause-{cause}")


def explained(analysis: CampaignAnalysis, clients: int = 4) -> Explanation:
    """Return its explanation at so many clients."""
    assert analysis.answer(campaign_reasons) is not None
    cells = {
        each.cell.load.clients: each for each in analysis.answer(campaign_reasons).explanations
    }
    return cells[clients]


def changed(analysis: CampaignAnalysis, clients: int = 4) -> BudgetChange:
    """Return how the latency changed at so many clients."""
    assert analysis.answer(campaign_reasons) is not None
    cells = {
        each.cell.load.clients: each for each in analysis.answer(campaign_reasons).budget.changes
    }
    return cells[clients]


def cost(analysis: CampaignAnalysis, wanted: Cost, clients: int = 4) -> CostChange:
    """Return how a cost of a transaction changed at so many clients."""
    assert analysis.answer(campaign_reasons) is not None
    cells = {
        each.cell.load.clients: each for each in analysis.answer(campaign_reasons).ledger.changes
    }
    return cells[clients].cost(wanted)


def codes(analysis: CampaignAnalysis) -> set[str]:
    """Return the codes of its findings."""
    return {finding.code for finding in analysis.findings}


def test_commits_that_do_not_wait_are_named_by_wal_sync() -> None:
    """The part is WAL, next to nothing of it is left, and durability was traded for it."""
    analysis = analysed("commit")
    found = explained(analysis)
    assert "WAL sync" in found.sentence
    assert found.parts[0] is Part.WAL
    assert found.differing == ("synchronous_commit",)
    assert "durability-traded" in codes(analysis)


def test_a_quota_is_named_by_waiting_for_a_cpu_and_its_periods() -> None:
    """The kernel counted the periods in which the server was stopped; only its arm has them."""
    analysis = analysed("quota")
    found = explained(analysis)
    assert found.parts[0] is Part.CPU_WAIT
    assert "a CPU quota stopped the server of quota" in found.sentence
    assert "quota-throttled" in codes(analysis)
    stopped = {
        configuration: sum(
            run.evidence.totals.get("throttled_periods", 0.0)
            for run in analysis.runs
            if run.configuration == configuration and run.evidence is not None
        )
        for configuration in ("unlimited", "quota")
    }
    assert stopped["quota"] > 0
    assert stopped["unlimited"] == 0


def test_a_throttled_disk_is_named_by_reads_of_data_files_at_the_limit() -> None:
    """The event, and the 200 reads a second that are let through."""
    found = explained(analysed("device"), clients=8)
    assert found.parts[0] is Part.IO
    assert "DataFileRead" in found.sentence
    assert "all that the limit of 200 lets through" in found.sentence


def test_huge_pages_that_are_not_there_get_no_credit() -> None:
    """They are said not to be in effect, and no difference is claimed."""
    analysis = analysed("huge-pages")
    assert "huge-pages-not-in-effect" in codes(analysis)
    assert {each.verdict for each in analysis.results} <= {
        Verdict.NO_CLEAR_DIFFERENCE,
        Verdict.EQUIVALENT,
    }


def test_one_cpu_or_two_is_named_by_the_client_and_by_waiting_for_a_cpu() -> None:
    """At one client waking up the other side is what changes, at many waiting for the CPU."""
    analysis = analysed("placement")
    assert changed(analysis, 1).part(Part.CLIENT) is not None
    assert Part.CLIENT in explained(analysis, 1).parts
    assert {Part.CPU_WAIT, Part.CLIENT} & set(explained(analysis, 8).parts)


def test_parsing_and_planning_are_named_by_cpu_per_transaction() -> None:
    """More of the server's CPU time for the same transaction, whatever its throughput."""
    analysis = analysed("protocol")
    change = cost(analysis, Cost.SERVER_CPU)
    assert change.clear
    assert change.change is not None
    assert change.change.value > 0.2
    assert "CPU per transaction of the server" in explained(analysis).sentence
