"""The result of one script of a workload, and the words for several of them together.

A change is that of its time: 0.44 means that it takes 44 % longer.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, ClassVar, Final

from steelyard.core.findings import Estimate, Verdict
from steelyard.core.quantities import INLINE, PERCENT, Computed
from steelyard.core.schedule import Blocks, Load
from steelyard.report import document as doc

UNSTABLE: Final = "unstable"
MIXED: Final = "mixed"
PENDING: Final = "no verdict yet"
_NAMED: Final = 6  # scripts that one sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution of a script's statements, by EXPLAIN (ANALYZE, BUFFERS)."""

    execution_s: Annotated[float | None, "Execution time, s; null if unknown."] = None
    pages_read: Annotated[float | None, "Pages that were not in shared_buffers."] = None
    temporary_bytes: Annotated[float | None, "Bytes written to temporary files."] = None
    jit_s: Annotated[float | None, "Time of the JIT compiler, s; 0 if it was not used."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """One script of a workload under a configuration against the baseline, at one load.

    Attributes:
        title: What it is called where people read.
        change: None before a block has executions of both sides.
        is_unstable: Undecided at the end of the campaign, and its interval is wider than the
            margin to both sides.
        medians_s: Of the baseline and of the configuration: medians over blocks of the median of a
            block.
        quartiles: Between the quartiles of all executions of the baseline, over their median.
        plan_differs: Of one of its statements; None where its plans are not known.
        used: By configuration.
    """

    script: Annotated[str, "Name of the script."]
    title: str
    load: Annotated[Load, INLINE]
    verdict: Annotated[Verdict, "faster, slower, equivalent, or no clear difference."]
    is_unstable: bool = False
    word: ClassVar = Computed(
        lambda script: word_of(script),  # noqa: PLW0108 - defined below
        Annotated[
            str,
            "The verdict, `no verdict yet` without an interval, or `unstable`: at the end its times"
            " vary too much for an interval as narrow as the margin.",
        ],
    )
    change: Annotated[
        Estimate | None, PERCENT, INLINE, "Change of its median time, %; positive is slower."
    ]
    no_practical_weight: Annotated[
        bool, "The difference is clear and smaller than `stop.margin`."
    ] = False
    blocks: Blocks
    level: Annotated[
        float | None,
        "Two-sided level of the interval, shared by all scripts of the workload (Holm); null"
        " before the first interim result.",
    ]
    medians_s: Annotated[
        tuple[float | None, float | None],
        "Median time of the baseline and of the configuration, s: medians over blocks.",
    ]
    executions: Annotated[tuple[int, int], "Executions of the baseline and of the configuration."]
    block_sd: Annotated[
        float | None,
        PERCENT,
        "Standard deviation of the ratio of both sides from block to block, %; may be null.",
    ] = None
    quartiles: Annotated[
        float | None,
        PERCENT,
        "Distance between the quartiles of the baseline's executions, % of their median.",
    ] = None
    minutes_to_decide: Annotated[
        float | None,
        "Further minutes until a difference of `stop.detect` is certain; may be null.",
    ] = None
    plan_differs: Annotated[
        bool | None, "A statement of it has another plan; null if plans are not known."
    ] = None
    used: Annotated[
        Mapping[str, Execution],
        "One execution alone, by configuration; empty if its statements were not executed alone.",
    ] = field(default_factory=dict)
    reason: Annotated[str, "Why an interval is missing or of fewer blocks; may be null."] = ""

    @property
    def differs(self) -> bool:
        """Return whether it is clearly faster or slower, by more than the margin perhaps."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER) and not self.no_practical_weight

    @property
    def added_s(self) -> float:
        """Return the additional time of an execution, s."""
        before, after = self.medians_s
        return 0.0 if before is None or after is None else after - before

    @property
    def effect(self) -> Estimate | None:
        """Return the change with the sign of a throughput: positive is faster."""
        if self.change is None:
            return None
        low, high = (None if end is None else -end for end in (self.change.high, self.change.low))
        return Estimate(value=-self.change.value, low=low, high=high)


def word_of(script: ScriptResult) -> str:
    """Return the strongest word that its interval allows."""
    if script.is_unstable:
        return UNSTABLE
    return PENDING if doc.bounds(script.change) is None else script.verdict.value


def changed(script: ScriptResult) -> str:
    """Return a change with its interval, if it has one."""
    if doc.bounds(script.change) is None:
        return f"{doc.effect_value(script.change)}, without an interval"
    return f"{doc.effect_value(script.change)} {doc.effect_interval(script.change)}"


def by_consequence(results: Sequence[ScriptResult]) -> tuple[ScriptResult, ...]:
    """Return those that differ first, then the unstable ones; inside by the seconds they add."""

    def rank(script: ScriptResult) -> tuple[bool, bool, float]:
        return (not script.differs, not script.is_unstable, -abs(script.added_s))

    return tuple(sorted(results, key=rank))


def opposites(results: Sequence[ScriptResult]) -> tuple[ScriptResult, ScriptResult] | None:
    """Return the slower and the faster script with the largest effects; None if one side lacks."""
    differing = [each for each in by_consequence(results) if each.differs]
    slower, faster = (
        next((each for each in differing if each.verdict is word), None)
        for word in (Verdict.SLOWER, Verdict.FASTER)
    )
    return None if slower is None or faster is None else (slower, faster)


def in_a_sentence(
    results: Sequence[ScriptResult], name: Callable[[ScriptResult], str] = attrgetter("title")
) -> str:
    """Return those that differ by name, and the number of all others.

    ``q18 slower, time +44 % [+38 %, +51 %], its plan changed; 3 equivalent``; of many that
    differ the first ones are named.
    """
    ordered = by_consequence(results)
    named = [each for each in ordered if each.differs]
    parts = [clause(each, name(each)) for each in named[:_NAMED]]
    further = Counter(each.word for each in named[_NAMED:])
    parts += [f"{number} more {word}" for word, number in further.items()]
    others = Counter(each.word for each in ordered if not each.differs)
    parts += [f"{number} {word}" for word, number in others.items()]
    return "; ".join(parts)


def clause(script: ScriptResult, name: str) -> str:
    """Return one as a clause: ``q18 slower, time +44 % [+38 %, +51 %], its plan changed``."""
    plan = ", its plan changed" if script.plan_differs else ""
    return f"{name} {script.word}, time {changed(script)}{plan}"
