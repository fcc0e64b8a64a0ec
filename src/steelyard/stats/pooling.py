"""One contrast per block from the contrasts of its cells: the headline's sample (METHOD 3.2)."""

import numpy as np

from steelyard.stats.confidence import FloatArray
from steelyard.stats.signed_rank import hodges_lehmann_centres

TRIMMED_FROM = 4


def pooled_contrasts(contrasts: FloatArray) -> FloatArray:
    """Return the mean of the cells' centres plus each block's trimmed deviation from them.

    It estimates the mean effect over cells also when the effect depends on the load, and one
    stalled slice cannot spoil a block.

    Args:
        contrasts: Shape (n, cells), n >= 1, log ratio, paired within each block and cell.

    Returns:
        Shape (n,), log ratio. Deviations are stretched by sqrt(n / (n - 1)) because the centres
        were estimated from the same blocks; from 4 cells on the lowest and the highest of each
        block are dropped. A single cell is returned as it is: nothing was centred.

    Raises:
        ValueError: The array has no block or no cell.

    Source:
        METHOD 3.2.
    """
    blocks, cells = contrasts.shape
    if not blocks or not cells:
        raise ValueError(f"nothing to pool in {blocks} blocks of {cells} cells")
    if cells == 1:
        return contrasts[:, 0]
    centres = hodges_lehmann_centres(contrasts)
    deviations = contrasts - centres
    if cells >= TRIMMED_FROM:
        deviations = np.sort(deviations, axis=1)[:, 1:-1]
    stretch = np.sqrt(blocks / max(blocks - 1, 1))
    return np.asarray(stretch * deviations.mean(axis=1) + centres.mean())
