"""What a campaign tells while it runs; ``cli`` shows it, tests collect it."""

from typing import Protocol, Self

from steelyard.analysis.results import CampaignAnalysis
from steelyard.model.campaign import BlockOutcome
from steelyard.model.plan import CampaignPlan


class Progress(Protocol):
    """Listens to a campaign. Nothing here may fail or take long."""

    def stage(self, what: str) -> None:
        """A step before the first block begins: ``preparing data, scale 10``."""
        ...

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Everything is frozen; the first block follows."""
        ...

    def run_started(self, *, block: int, label: str) -> None:
        """A run begins."""
        ...

    def block_ended(self, outcome: BlockOutcome) -> None:
        """A try of a block is complete or thrown away."""
        ...

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
        """The estimates after a complete block."""
        ...


class Silence:
    """Listens and says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def stage(self, what: str) -> None:
        """Say nothing."""

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Say nothing."""

    def run_started(self, *, block: int, label: str) -> None:
        """Say nothing."""

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Say nothing."""

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
        """Say nothing."""
