"""Which options say where facts come from, and which of them contradict each other."""

from collections.abc import Mapping
from pathlib import Path

from steelyard.core.errors import InputError


def require_one_source(file: Path | None, looking: Mapping[str, object]) -> dict[str, object]:
    """Return the options that look at something; with a file of facts there are none.

    Args:
        file: Facts that were saved.
        looking: Options with their values, falsy where they were not given.

    Raises:
        InputError: A file looks at nothing, and an option does.
    """
    given = {option: value for option, value in looking.items() if value}
    if file is not None and given:
        raise InputError(
            f"--facts looks at nothing, and {next(iter(given))} does",
            hint="Save the facts there with `steelyard inspect --save`, then give the file alone.",
        )
    return given


def require_no_machine(options: Mapping[str, object]) -> None:
    """Refuse options that name a machine where none is visible.

    Raises:
        InputError: Such an option was given.
    """
    given = [option for option, value in options.items() if value]
    if given:
        raise InputError(
            f"Amazon RDS shows no machine, and {given[0]} names one",
            hint="Leave it out: a parameter group follows from the request.",
        )
