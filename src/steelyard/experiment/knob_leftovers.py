"""Knobs of the stack that a dead campaign turned: turned back, or looked at."""

from contextlib import suppress

from steelyard.experiment.doors import Doors
from steelyard.experiment.stack_doors import stack_doors
from steelyard.model.errors import LeftBehindError, RecordError, SteelyardError
from steelyard.model.outside import TurnedKnob


def turn_back(turned: TurnedKnob, doors: Doors) -> None:
    """Turn a knob of the stack back to what was there.

    Raises:
        LeftBehindError: It is not as it was.
    """
    try:
        stack_doors(doors)[turned.knob.kind].revert(turned.knob, turned.snapshot)
    except RecordError:
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{turned.label} is not as it was: {error.message}",
            hint=f"{error.hint} Then run `steelyard clean` again.".strip(),
        ) from error


def require_as_it_was(turned: TurnedKnob, doors: Doors) -> None:
    """Look whether a knob that is not ours to turn was turned back by somebody else.

    Raises:
        LeftBehindError: It was not.
    """
    with suppress(SteelyardError, KeyError):
        if stack_doors(doors)[turned.knob.kind].snapshot(turned.knob) == turned.snapshot:
            return
    raise LeftBehindError(
        f"{turned.label} is not as it was, and is not turned back from here, because the cache of"
        f" this account does not know of it; it was {turned.before}",
        hint="Clean as the account that ran the campaign, with its cache; or put it back by hand,"
        " then name the record's directory to `steelyard clean`.",
    )
