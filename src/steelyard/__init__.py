"""Steelyard weighs databases: which is faster, by how much, how sure that is, and why.

``steelyard.open`` reads a campaign in a notebook; it imports what it takes when it is called.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from steelyard.notebook import Campaign

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(directory: "str | PathLike[str]") -> "Campaign":  # noqa: A001 - as in `steelyard.open`
    """Return the campaign in a directory, whatever state it is in, to be looked at.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    from steelyard.notebook import read  # noqa: PLC0415 - `import steelyard` stays cheap

    return read(directory)
