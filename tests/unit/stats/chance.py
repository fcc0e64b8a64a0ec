"""Binomial bounds for simulated rates: a seeded test must not fail by a hair."""

import numpy as np

SIGMAS = 4.0


def highest_rate(probability: float, trials: int) -> float:
    """Return the rate that so many trials exceed only by a one in thirty thousand chance."""
    return probability + SIGMAS * float(np.sqrt(probability * (1.0 - probability) / trials))


def lowest_rate(probability: float, trials: int) -> float:
    """Return the rate that so many trials fall below only by such a chance."""
    return probability - SIGMAS * float(np.sqrt(probability * (1.0 - probability) / trials))
