"""Which kinds a cluster has, and under which names its API has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.gateways.kubernetes import refusals
from steelyard.gateways.kubernetes.requests import Request, Requests
from steelyard.gateways.kubernetes.statuses import Asked, refused
from steelyard.model.kubernetes import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the API has it.

    Attributes:
        plural: ``pods``.
        namespaced: As the cluster says.
    """

    api_version: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """Return the API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def label(self) -> str:
        """Return it as errors and `kubectl` write it: ``clusters.postgresql.cnpg.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of its objects, of one of them, or of a part such as ``log``."""
        within = ("namespaces", namespace) if self.namespaced and namespace else ()
        root = group_path(self.api_version)
        return "/".join(word for word in (root, *within, self.plural, name, part) if word)


def group_path(api_version: str) -> str:
    """Return the path of a version of an API group."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Discovery:
    """What the API says of its kinds; found kinds are kept, absent ones are asked for again."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._found: dict[tuple[str, str], Resource] = {}

    def find(self, kind: Kind) -> Resource | None:
        """Return a kind as the cluster has it; None where it has not."""
        key = (kind.api_version, kind.name)
        if key not in self._found:
            self._ask(kind.api_version)
        return self._found.get(key)

    def resource(self, kind: Kind) -> Resource:
        """Return a kind as the cluster has it.

        Raises:
            PreflightError: The cluster has no such kind.
        """
        found = self.find(kind)
        if found is None:
            raise refusals.unknown_kind(kind)
        return found

    def _ask(self, api_version: str) -> None:
        path = group_path(api_version)
        asked = Asked(what=path, verb="get", context=self._requests.access.context)
        answered = self._requests.send(Request(method="GET", path=path, asked=asked))
        if answered.status == 404:
            return
        if not answered.succeeded:
            raise refused(answered, asked)
        for each in answered.body.get("resources") or ():
            if "/" not in each["name"]:  # no part of another
                self._found[api_version, each["kind"]] = _resource(api_version, each)


def _resource(api_version: str, said: Mapping[str, Any]) -> Resource:
    return Resource(
        api_version=api_version, plural=said["name"], namespaced=bool(said["namespaced"])
    )
