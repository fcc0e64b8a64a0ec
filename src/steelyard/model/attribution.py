"""What a campaign attributes throughput to: factors, and the combinations that stand for them."""

from dataclasses import dataclass
from enum import StrEnum

Combination = tuple[int, ...]  # one 0 (first level) or 1 (second level) per factor
Effect = tuple[int, ...]  # places of the factors in a main effect (one) or an interaction (more)


class AttributionKind(StrEnum):
    """How the combinations are chosen; the names are the keys of the experiment file."""

    FACTORS = "factors"  # complete or fractional factorial: every factor beside every other
    LADDER = "ladder"  # one after another on top of those before
    ABLATION = "ablation"  # one at a time taken away from all


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A thing that is varied between two levels.

    Attributes:
        first: Name of the level on the baseline's side.
        second: Name of the other.
    """

    name: str
    first: str
    second: str

    @property
    def off(self) -> str:
        """Return the first level as it stands in reports: ``buffers=128MB``."""
        return f"{self.name}={self.first}"

    @property
    def on(self) -> str:
        """Return the second level likewise: ``buffers=2GB``."""
        return f"{self.name}={self.second}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Which treatment of an experiment is which combination of levels.

    Attributes:
        factors: In file order.
        combinations: One per treatment, in treatment order.
        resolution: Length of the shortest defining word; None unless the design is a fraction.
        words: All defining words of a fraction but the empty one, up to sign; () otherwise.
    """

    kind: AttributionKind
    factors: tuple[Factor, ...]
    combinations: tuple[Combination, ...]
    resolution: int | None = None
    words: tuple[Effect, ...] = ()

    @property
    def is_full(self) -> bool:
        """Return whether every combination of levels is measured."""
        return self.kind is AttributionKind.FACTORS and not self.words

    def named(self, effect: Effect) -> str:
        """Return an effect as people write it: ``huge-pages x buffers``."""
        return " x ".join(self.factors[place].name for place in effect)
