"""A campaign as read back from its record: the input of every analysis."""

from dataclasses import dataclass

from steelyard.core.experiment import Experiment
from steelyard.core.findings import Finding, Validity
from steelyard.core.measurement import Environment, Fact, Run, SustainedRun
from steelyard.core.plan import CampaignPlan, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOutcome:
    """How one try of a block ended.

    Attributes:
        index: The block, counting from 0.
        attempt: The try, counting from 0.
        complete: All its runs are valid or suspect; only then they count.
        reason: Why it was thrown away; empty when complete.
        configuration: The one that was in force then; empty when complete or not known.
        cause: Code of the rule that threw it away; empty when complete, when no rule did, and in
            records of versions that did not say.
        warm_up_s: For how long of load each server was warmed up in turns; None where the plan
            says it.
    """

    index: int
    attempt: int
    complete: bool
    reason: str = ""
    configuration: str = ""
    cause: str = ""
    warm_up_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMade:
    """A server that was made for one start, and what its place said of it.

    Attributes:
        facts: Of its nodes and volumes, which differ from one to the next.
    """

    block: int
    attempt: int
    start: int
    configuration: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """Everything the journal holds, in order.

    Attributes:
        runs: All runs, those of thrown-away blocks too.
        blocks: One outcome per finished try.
        findings: About the campaign as a whole.
        started_at: Wall clock, seconds since the epoch.
        elapsed_s: Seconds of work, pauses between a kill and a resume excluded.
        command: The command line that reproduces the campaign.
        sustained: Long runs after the last block, in run order, failed tries too.
        planned_at_s: Seconds of work until the plan was frozen; None when it was not.
        made: Servers that were made for a start each, in run order, failed tries too.
    """

    campaign_id: str
    experiment: Experiment
    status: Status
    plan: CampaignPlan | None
    environment: Environment | None
    runs: tuple[Run, ...]
    blocks: tuple[BlockOutcome, ...]
    findings: tuple[Finding, ...]
    started_at: float
    elapsed_s: float
    command: str
    sustained: tuple[SustainedRun, ...] = ()
    planned_at_s: float | None = None
    made: tuple[ServerMade, ...] = ()

    @property
    def complete_blocks(self) -> tuple[tuple[int, int], ...]:
        """Return (index, attempt) of every block that counts, in block order."""
        return tuple(sorted((b.index, b.attempt) for b in self.blocks if b.complete))

    @property
    def counted_runs(self) -> tuple[Run, ...]:
        """Return the runs of complete blocks, in run order; of a single pass from all its tries."""
        counted = set(self.complete_blocks)
        if self.experiment.is_single_pass:
            return self.pass_runs if counted else ()
        return tuple(run for run in self.runs if (run.block, run.attempt) in counted)

    @property
    def pass_runs(self) -> tuple[Run, ...]:
        """Return the usable runs of a single pass so far, in run order: the last of each place.

        A pass has no interleaving to protect, so what one try has measured the next one keeps.
        Journals from before that hold a place more than once.
        """
        usable = [run for run in self.runs if run.validity is not Validity.INVALID]
        last = {run.place: run for run in usable}
        return tuple(last[place] for place in sorted(last))
