"""Neighbours that take CPU time from whatever runs beside them: what they use, along a clock."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What a neighbour used of the machine up to each moment; nobody is there after the last."""

    at_s: np.ndarray
    used_s: np.ndarray

    def share(self, begin_s, end_s):
        """Return the mean share of the machine that it had between two moments, also of arrays."""
        used = np.interp(end_s, self.at_s, self.used_s) - np.interp(begin_s, self.at_s, self.used_s)
        return used / (np.asarray(end_s) - begin_s)


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """One that works and rests by turns.

    Attributes:
        on_s: How long it works at a time.
        off_s: How long it rests then.
        least: Share of the machine that it uses while it works, drawn for each time.
        most: The most of it.
        by_chance: Times are exponential, and those above are their means.
    """

    on_s: float
    off_s: float
    least: float = 0.1
    most: float = 0.7
    by_chance: bool = True

    def timeline(self, rng, until_s):
        """Return what it does for about so long; when it begins is drawn."""
        number = int(1.2 * until_s / (self.on_s + self.off_s)) + 20
        lasts = np.tile([self.off_s, self.on_s], (number, 1))
        if self.by_chance:
            lasts = rng.exponential(lasts)
        shares = np.zeros_like(lasts)
        shares[:, 1] = rng.uniform(self.least, self.most, number)
        at_s = np.concatenate([[0.0], np.cumsum(lasts)])
        used_s = np.concatenate([[0.0], np.cumsum(lasts * shares)])
        return Timeline(at_s=at_s - rng.uniform(0.0, self.on_s + self.off_s), used_s=used_s)


# As benchmarks/neighbours.py has them on a machine with two CPUs; a job comes and goes as a
# campaign may meet it.
NEIGHBOURS = {
    "square wave of 0.5 s": Neighbour(on_s=0.25, off_s=0.25, least=0.5, most=0.5, by_chance=False),
    "30 % of the CPUs": Neighbour(on_s=60.0, off_s=120.0, least=0.3, most=0.3),
    "a compile": Neighbour(on_s=1.5, off_s=1.0, least=0.2, most=0.9),
}
