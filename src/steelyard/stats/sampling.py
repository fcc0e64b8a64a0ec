"""Whether a sample drawn by chance is as large as it should be."""

from steelyard.stats import special


def chance_of_so_few(found: int, *, of: int, share: float) -> float:
    """Return the chance that so few or fewer are drawn, each alone with the same probability.

    Args:
        found: How many were drawn, at least 0.
        of: From how many; not fewer than were found.
        share: Probability of each, above 0 and at most 1.

    Returns:
        P(X <= found) of a binomial X: exact, so that a rule that accuses below a level is wrong at
        most at that level.
    """
    return float(special.bdtr(found, of, share))
