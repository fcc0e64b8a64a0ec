"""From a planned block to one that counts: as many tries as it may have, each in the journal."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from steelyard.experiment.redoing import MAX_TRIES, bears_neighbours, pause_before_s
from steelyard.gateways.clock import Clock
from steelyard.model.campaign import BlockOutcome, CampaignRecord
from steelyard.model.command import quoted
from steelyard.model.errors import MeasurementError
from steelyard.model.measurement import Run, RunPlace
from steelyard.model.rules import ENVIRONMENT
from steelyard.model.schedule import PlannedBlock
from steelyard.record.directory import CampaignDirectory
from steelyard.record.entries import BlockEnded, BlockStarted, RunFinished


class TakesBlocks(Protocol):
    """Takes a block once, one configuration after another or in turns.

    Attributes:
        void_because: Why the last try was thrown away; empty when it counts.
        void_under: The treatment that was in force then.
        void_by: Code of the rule that threw it away.
        way_out: What that rule advises.
        warmed_s: For how long of load each server was warmed up in the last try; None where the
            plan says it.
    """

    clock: Clock
    void_because: str
    void_under: str
    void_by: str
    way_out: str
    warmed_s: float | None

    def learn(self, record: CampaignRecord) -> None:
        """Take from the blocks so far what the next one needs."""
        ...

    def take(
        self,
        block: PlannedBlock,
        attempt: int,
        kept: Collection[RunPlace] = (),
        *,
        bearing: bool = False,
    ) -> Iterator[Run]:
        """Yield each run as it is finished; after an invalid one the block ends."""
        ...


@dataclass(slots=True, kw_only=True)
class BlockCompleter:
    """Lets a taker try blocks until they count; ``told`` hears how each try ended.

    ``lasted_s`` is how long the last try took, without those before it and the pauses.
    """

    taker: TakesBlocks
    directory: CampaignDirectory
    told: Callable[[BlockOutcome], None]
    lasted_s: float = 0.0

    def complete(self, block: PlannedBlock, record: CampaignRecord) -> CampaignRecord:
        """Try a block until all its runs count; a single pass goes on from what there is.

        A neighbour uses up no try: it is borne in the end (``redoing``).

        Raises:
            MeasurementError: It failed ``MAX_TRIES`` times in a row.
        """
        self.taker.learn(record)
        before = sum(outcome.index == block.index for outcome in record.blocks)
        tried, failed = before, 0
        while failed < MAX_TRIES:
            self.taker.clock.sleep(pause_before_s(tried - before))
            begun_s = self.directory.journal.elapsed_s
            record = self._try(block, tried, record)
            tried, outcome = tried + 1, record.blocks[-1]
            self.told(outcome)
            self.lasted_s = self.directory.journal.elapsed_s - begun_s
            if outcome.complete:
                return replace(record, elapsed_s=self.directory.journal.elapsed_s)
            failed += outcome.cause not in ENVIRONMENT
        way_out = self.taker.way_out or "Remove the cause."
        raise MeasurementError(
            f"block {block.index + 1} failed {MAX_TRIES} times: {self.taker.void_because}",
            hint=f"{way_out} Then go on with: steelyard run --resume {quoted(self.directory.path)}",
        )

    def _try(self, block: PlannedBlock, attempt: int, record: CampaignRecord) -> CampaignRecord:
        """Take a block once; return the record with its runs and with how it ended."""
        self.directory.journal.append(BlockStarted(index=block.index, attempt=attempt))
        kept = record.pass_runs if record.experiment.is_single_pass else ()
        bearing = bears_neighbours(record.blocks, block.index)
        places = {run.place for run in kept}
        for run in self.taker.take(block, attempt, places, bearing=bearing):
            self.directory.journal.append(RunFinished(run=run))
            record = replace(record, runs=(*record.runs, run))
        outcome = BlockOutcome(
            index=block.index,
            attempt=attempt,
            complete=not self.taker.void_because,
            reason=self.taker.void_because,
            treatment=self.taker.void_under,
            cause=self.taker.void_by,
            warm_up_s=self.taker.warmed_s,
        )
        self.directory.journal.append(BlockEnded(outcome=outcome))
        return replace(record, blocks=(*record.blocks, outcome))
