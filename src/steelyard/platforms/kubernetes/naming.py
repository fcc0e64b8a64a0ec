"""Names of what a campaign makes in a cluster.

A DNS-1123 label: small letters, digits and ``-``. Kubernetes takes 63 of them; a Cluster of
CloudNativePG has at most 50, because the operator appends to it (its admission webhook says so).
"""

import hashlib
import re
from typing import Final

LONGEST: Final = 50
_BEGINNING: Final = "steelyard"
_DIGEST: Final = 8


def object_name(campaign_id: str, suffix: str = "") -> str:
    """Return the name of an object of a campaign: the same for the same campaign and suffix.

    Args:
        campaign_id: Any; what a name cannot hold or has no room for is replaced by a digest.
        suffix: Tells objects of one campaign apart; small letters, digits and ``-``.
    """
    end = f"-{suffix}" if suffix else ""
    plain = f"{_BEGINNING}-{campaign_id}"
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", plain) and len(plain + end) <= LONGEST:
        return plain + end
    digest = hashlib.sha256(campaign_id.encode()).hexdigest()[:_DIGEST]
    cleaned = re.sub(r"[^a-z0-9-]+", "-", plain.lower())
    room = LONGEST - len(end) - _DIGEST - 1
    return f"{cleaned[:room].strip('-')}-{digest}{end}"
