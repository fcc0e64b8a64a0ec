"""What a server's container asks for and gets at most, as its manifest says it."""

from typing import Final

from steelyard.model.target import PodResources

_HUGE: Final = "hugepages-"


def resources_of(resources: PodResources) -> dict[str, dict[str, str]]:
    """Return requests and limits; where only one is given, the other is the same.

    Huge pages cannot be overcommitted: what one of the two says of them, the other says, too.
    Source: Kubernetes, 'Manage HugePages'.
    """
    requests, limits = dict(resources.requests), dict(resources.limits)
    if not requests and not limits:
        return {}
    pages = {k: v for k, v in {**requests, **limits}.items() if k.startswith(_HUGE)}
    return {
        "requests": {**(requests or limits), **pages},
        "limits": {**(limits or requests), **pages},
    }
