"""What a forecast, a plan and a report say of treatments that alternate, and why others do not."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.core.experiment import ONE, RATE, Experiment, SwitchCost
from steelyard.core.plan import CampaignPlan
from steelyard.core.schedule import Mode, Pausing, SharedMemory, TurnTimes, WorkloadTurns
from steelyard.core.units import format_bytes
from steelyard.report.formats import enumeration
from steelyard.report.json_values import Json, number

TAKEN: Final = {
    Mode.ALTERNATING: "alternating",
    Mode.VISITS: "one by one, in visits",
    Mode.BACK_TO_BACK: "one by one, back to back",
}
WHY_SWITCHED: Final = {
    SwitchCost.SESSION: "a new session is enough to switch",
    SwitchCost.RELOAD: "a reload is enough to switch",
    SwitchCost.RESTART: "switching needs a restart",
    SwitchCost.REPROVISION: "switching needs a new server",
}
_PAUSED: Final = {
    Pausing.FREEZER: "load generator and server stand still together, by the freezer of their"
    " control groups",
    Pausing.SIGNALS: "load generator and server are stopped by signals (SIGSTOP), one process after"
    " another: what a server starts in that instant runs a little longer. The freezer of control"
    " groups, which takes root, has no such gap",
    Pausing.GENERATOR: "the load generator alone: measured with pauses for background work",
}
BACKGROUND: Final = (
    "What checkpoints and vacuum cost: only the load generators stood still, so these are figures"
    " with pauses for background work, which catches up in the turns of the others."
)
_ABSOLUTE: Final = (
    f"Measured in turns beside servers that stood still: this is not the {RATE} of a server that"
    " runs alone without pauses. Compare, do not quote."
)
_ABSOLUTE_ALONE: Final = (
    f"Measured in turns, with pauses for background work: this is not the {RATE} of a server that"
    " is under load without pauses. Compare, do not quote."
)
ABSOLUTE_LATENCY: Final = (
    f"Measured in turns: pauses are taken off each {ONE} that one fell into, and those that end"
    " while a turn settles do not count. A server that runs alone without pauses has other"
    " latencies."
)
CUT_LATENCY: Final = (
    f"Measured in turns in which the load generator alone stood still: a {ONE} that a pause fell"
    " into was answered at a time that nobody knows. It counts as longer than all that is told, is"
    " in no mean, and nothing above a fifth of a turn or the time of settling is told."
)


def taken_words(mode: Mode, reason: str, switch: SwitchCost) -> str:
    """Return which design was taken and why, for a line that is called design."""
    if mode is Mode.ALTERNATING:
        return f"{TAKEN[mode]}, because {reason}" if reason else TAKEN[mode]
    not_alternating = f"; not alternating, because {reason}" if reason else ""
    return f"{TAKEN[mode]}, because {WHY_SWITCHED[switch]}{not_alternating}"


def turn_words(turns: TurnTimes) -> str:
    """Return how long a turn is and what of it counts."""
    return f"{turns.turn_s:g} s, of which the first {turns.settling_s:g} s are thrown away"


def seconds_words(turns: TurnTimes, slice_s: float) -> str:
    """Return the seconds of turns of a treatment in a cell of a block, and those that count."""
    counted_s = turns.turns_in(slice_s) * turns.counted_s
    anew = (
        f", in {turns.reconnections + 1} parts with load generators of their own"
        if turns.reconnections
        else ""
    )
    return f"{slice_s:g} s per treatment, cell and block{anew}; {counted_s:.3g} s of them count"


def pausing_words(pausing: Pausing) -> str:
    """Return what stands still while another has its turn, and what that gives up."""
    return _PAUSED[pausing]


def absolute_words(plan: CampaignPlan | None) -> str:
    """Return what figures of turns are not; empty of figures that were taken in one piece."""
    if plan is None or plan.mode is not Mode.ALTERNATING:
        return ""
    return _ABSOLUTE_ALONE if plan.pausing is Pausing.GENERATOR else _ABSOLUTE


def memory_words(memory: SharedMemory) -> str:
    """Return what servers that are up together need of what there is."""
    needed, available = map(format_bytes, (memory.needed_bytes, memory.available_bytes))
    return f"at most {needed} for all servers with their data, {available} available"


def warm_up_words(seconds: float) -> str:
    """Return how long a start is warmed up."""
    return f"{seconds:g} s under load per start and workload, in turns, equal for all"


def turn_pairs(turns: Sequence[WorkloadTurns], slice_s: float) -> Iterator[tuple[str, str]]:
    """Yield lengths of turns and seconds of them, once for workloads whose turns are alike."""
    names: dict[TurnTimes, list[str]] = {}
    for each in turns:
        names.setdefault(each.times, []).append(each.workload)
    for times, workloads in names.items():
        of = f", {enumeration(tuple(workloads))}" if len(names) > 1 else ""
        yield f"turns{of}", f"{turn_words(times)}; in every round in an order drawn by the seed"
        yield f"measured{of}", seconds_words(times, slice_s)


def shared_pairs(pausing: Pausing | None, memory: SharedMemory | None) -> Iterator[tuple[str, str]]:
    """Yield what stands still and what all servers need, where it is known."""
    if pausing is not None:
        yield "in pauses", pausing_words(pausing)
    if memory is not None:
        yield "memory", memory_words(memory)


def turns_json(plan: CampaignPlan, slice_s: float, warm_ups_s: Sequence[float]) -> dict[str, Json]:
    """Return how turns were taken for programs; nothing where none were."""
    if plan.mode is not Mode.ALTERNATING:
        return {}
    return {
        "turns": {
            "pausing": None if plan.pausing is None else plan.pausing.value,
            "warm_up_s": [number(each) for each in warm_ups_s],
            "memory": _memory_json(plan.memory),
            "workloads": [
                {"workload": each.workload, **_times(each.times, slice_s)} for each in plan.turns
            ],
        }
    }


def plan_json(
    mode: Mode, experiment: Experiment, pausing: Pausing | None, memory: SharedMemory | None
) -> dict[str, Json]:
    """Return how turns would be taken for programs; nothing where none would be."""
    if mode is not Mode.ALTERNATING:
        return {}
    slice_s = experiment.measure.slice_s
    return {
        "turns": {
            "pausing": None if pausing is None else pausing.value,
            "memory": _memory_json(memory),
            **_times(experiment.measure.turns, slice_s),
        }
    }


def _memory_json(memory: SharedMemory | None) -> Json:
    """Return what servers that are up together need for programs; null where nobody knows."""
    if memory is None:
        return None
    return {
        "needed_bytes": memory.needed_bytes,
        "available_bytes": memory.available_bytes,
    }


def _times(times: TurnTimes, slice_s: float) -> dict[str, Json]:
    return {
        "turn_s": number(times.turn_s),
        "settling_s": number(times.settling_s),
        "reconnections": times.reconnections,
        "seconds": number(slice_s),
        "counted_s": number(round(times.turns_in(slice_s) * times.counted_s, 6)),
    }
