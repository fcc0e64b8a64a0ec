"""The cost of statements and commits for programs: a part of ``summary.json``."""

from collections.abc import Sequence

from steelyard.analysis.statement_costs import SCRIPTS, StatementCost, StatementFit
from steelyard.analysis.waits import WaitReasoning
from steelyard.report.json_values import Json, interval, number


def statements_json(
    fit: StatementFit | None, waits: Sequence[WaitReasoning] = ()
) -> dict[str, Json]:
    """Return both costs as plain values, where they were measured; units are in the names."""
    if fit is None:
        return {}
    return {
        "statements": {
            "costs": [_cost(cost) for cost in fit.costs],
            "differences": [
                {
                    "baseline": each.baseline,
                    "treatment": each.treatment,
                    "per_statement_s": interval(each.per_statement_s),
                    "per_commit_s": interval(each.per_commit_s),
                }
                for each in fit.differences
            ],
            "published": [_cost(cost) for cost in fit.published],
            **({"waits": waits_json(waits)} if waits else {}),
        }
    }


def waits_json(waits: Sequence[WaitReasoning]) -> list[Json]:
    """Return whether changed statements wait or work, as plain values."""
    return [
        {
            "baseline": each.baseline,
            "treatment": each.treatment,
            "cause": each.cause.value,
            "per_statement_s": interval(each.per_statement_s),
            "cpu_s": None if each.cpu_s is None else [number(bound) for bound in each.cpu_s],
            "run_queue_s": number(each.run_queue_s),
            "missing": each.missing or None,
            "one_memory_node": each.one_node,
            **({"suspects": list(each.suspects)} if each.suspects else {}),
        }
        for each in waits
    ]


def _cost(cost: StatementCost) -> dict[str, Json]:
    return {
        "name": cost.name,
        "blocks": cost.blocks,
        "latency_s": {
            script: number(latency) for script, latency in zip(SCRIPTS, cost.latency_s, strict=True)
        },
        "per_statement_s": interval(cost.per_statement_s),
        "per_commit_s": interval(cost.per_commit_s),
        "residual_s": number(cost.residual_s),
    }
