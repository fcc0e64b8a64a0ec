"""The experiment file that ``steelyard capacity`` writes: one server, under shares of its capacity.

It is whole, so that ``experiment.yaml`` of the record repeats the campaign without the verb.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.experiment.form_target import REDIS_TARGETS
from steelyard.experiment.retargeting import target_of
from steelyard.model.errors import InputError

RATES = "50%,70%,90%"
_ROOMY = 90  # clients that fit into the default max_connections = 100, with what we keep for us
_KEPT = 10
_NAME = "capacity"
_TREATMENT = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuestion:
    """What is asked of one server.

    Attributes:
        target: A word, a URI or a mapping as for ``--target``.
        clients: Sessions of the open loops, and the most of the closed ones before them.
        builtins: pgbench's scripts, a workload each.
        rates: As in ``loads.rate``; empty: the usual ones, those of a goal where there is one.
        goal: As in ``slo``; empty: none.
        run_s: Length of a run, as written: ``5s``.
        budget: As written: ``10m``.
    """

    target: str
    clients: int
    scale: int
    builtins: Sequence[str]
    protocol: str
    rates: str
    goal: str
    run_s: str
    budget: str
    seed: int


def capacity_text(asked: CapacityQuestion) -> str:
    """Return the experiment file of a question.

    Raises:
        InputError: The target is none, or of Redis.
    """
    target = target_of(asked.target)
    if target.get("kind") in REDIS_TARGETS:
        raise InputError(
            "the capacity is what loads at a rate are shares of, and no generator of Redis offers"
            " a rate",
            hint="Find the most that it sustains with several numbers of clients in a file:"
            " `loads: {clients: [1, 10, 50, 100]}`.",
        )
    workloads = "\n".join(
        f"  - {{name: {_yaml(builtin)}, builtin: {_yaml(builtin)}, scale_factor: {asked.scale}}}"
        for builtin in asked.builtins
    )
    rates = asked.rates or ("" if asked.goal else RATES)
    offered = f"\n  rate: {_yaml(rates)}" if rates else ""
    goal = f"slo: {_yaml(asked.goal)}\n" if asked.goal else ""
    room = ""
    if target.get("kind") == "local" and asked.clients > _ROOMY:
        room = f"\n    postgres: {{max_connections: {asked.clients + _KEPT}}}"
    return f"""\
# Written by `steelyard capacity`: the most that one server sustains, and the latency below that.
version: 1
name: {_NAME}
description: How much does this server sustain, and how long do transactions take below that?
workloads:
{workloads}
loads:
  clients: {asked.clients}
  threads: auto{offered}
  protocol: {_yaml(asked.protocol)}
{goal}measure:
  slice: {_yaml(asked.run_s)}
  ramp: 1s
  prewarm: true
  discard: 5s
stop: {{budget: {_yaml(asked.budget)}}}
seed: {asked.seed}
treatments:
  {_TREATMENT}:
    target: {_yaml(target)}{room}
"""


def _yaml(value: object) -> str:
    """Return a value in YAML: its JSON, which is YAML whatever a shell let through."""
    return json.dumps(value, ensure_ascii=False, default=str)
