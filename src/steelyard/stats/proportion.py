"""How likely an event may be, from how often it happened: an exact binomial bound."""

from steelyard.stats import special


def highest_chance(found: int, *, of: int, level: float) -> float:
    """Return the highest chance of an event that so few events do not refute.

    Args:
        found: How many trials had it, at least 0.
        of: Independent trials, at least 1 and not fewer than were found.
        level: One-sided error level, between 0 and 1.

    Returns:
        A fraction: the upper bound with exact confidence of at least 1 - level. No event in n
        trials leaves 1 - level^(1/n).

    Raises:
        ValueError: Fewer trials than events, or none.

    Source:
        Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the
        case of the binomial", Biometrika 26.
    """
    if not 0 <= found <= of or of < 1:
        raise ValueError("a proportion needs at least one trial, and no more events than trials")
    return 1.0 if found == of else float(special.betaincinv(found + 1, of - found, 1.0 - level))
