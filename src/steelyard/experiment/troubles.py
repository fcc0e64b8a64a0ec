"""Several attempts of which each is made, whatever became of the others."""

from collections.abc import Callable, Sequence

from steelyard.model.errors import LeftBehindError, RecordError, SteelyardError


def trouble_of(attempt: Callable[[], None]) -> LeftBehindError | None:
    """Return why an attempt left something behind; None where it did not.

    Raises:
        Interrupted: Nothing more is to be tried.
        RecordError: What is undone cannot be noted.
    """
    try:
        attempt()
    except RecordError:
        raise
    except LeftBehindError as error:
        return error
    except SteelyardError as error:
        return LeftBehindError(error.message, hint=error.hint)
    return None


def raise_all(troubles: Sequence[SteelyardError]) -> None:
    """Raise what is left behind as one error; nothing happens where nothing is.

    Raises:
        LeftBehindError: With all messages, and each hint once.
    """
    if troubles:
        raise LeftBehindError(
            "; ".join(error.message for error in troubles),
            hint=" ".join(dict.fromkeys(error.hint for error in troubles if error.hint)),
        )
