"""Numbers with their nouns, for sentences."""


def count(number: int, noun: str) -> str:
    """Return ``1 block``, ``2 blocks``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
