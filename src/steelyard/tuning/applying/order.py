"""The order of knobs: each after those that must be in effect before it."""

from collections.abc import Sequence

from steelyard.model.errors import InputError
from steelyard.model.stack import Knob

_HINT = "Make the plan anew with `steelyard stack plan`."


def ordered(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """Return knobs so that none comes before one of its ``after``; else as they were given.

    Raises:
        InputError: A name is there twice, is unknown, or waits for itself.
    """
    by_name = {knob.name: knob for knob in knobs}
    if len(by_name) != len(knobs):
        raise InputError("the plan names a knob twice", hint=_HINT)
    unknown = sorted({name for knob in knobs for name in knob.after} - set(by_name))
    if unknown:
        raise InputError(f"the plan has no knob {', '.join(unknown)}", hint=_HINT)
    placed: dict[str, Knob] = {}
    while len(placed) < len(knobs):
        ready = [k for k in knobs if k.name not in placed and set(k.after) <= set(placed)]
        if not ready:
            circle = [knob.name for knob in knobs if knob.name not in placed]
            raise InputError(f"knobs wait for each other: {', '.join(circle)}", hint=_HINT)
        placed[ready[0].name] = ready[0]
    return tuple(placed.values())
