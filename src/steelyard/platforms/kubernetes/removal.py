"""What goes away with a server that a campaign made: waited for, or told where it stays."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import LeftBehindError, PrivilegeError
from steelyard.model.kubernetes import VOLUME, Manifest, ObjectRef

_GONE_S: Final = 300.0  # a disk of a cloud is detached first; a guess
_PAUSE_S: Final = 0.5
_RETAIN: Final = "Retain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A volume that a server held.

    Attributes:
        storage_class: That made it.
        stays: Its reclaim policy keeps it when nobody claims it any more.
    """

    ref: ObjectRef
    storage_class: str
    stays: bool


def held_by(api: KubernetesApi, claims: Iterable[Manifest]) -> Iterator[Held]:
    """Yield the volumes behind claims; none where this account may not see volumes."""
    for claim in claims:
        name = claim["spec"].get("volumeName")
        if not name:
            continue
        volume = ObjectRef(kind=VOLUME, name=str(name))
        try:
            found = api.read(volume)
        except PrivilegeError:
            continue
        if found is not None:
            spec = found["spec"]
            yield Held(
                ref=volume,
                storage_class=str(spec.get("storageClassName") or ""),
                stays=spec.get("persistentVolumeReclaimPolicy") == _RETAIN,
            )


class Departure:
    """Waits until what was removed is gone."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def await_none(self, left: Callable[[], list[str]]) -> None:
        """Wait until nothing is left.

        Args:
            left: Returns what is left, by what it is called.

        Raises:
            LeftBehindError: Something is, after five minutes.
        """
        deadline = self._clock.monotonic() + _GONE_S
        while names := left():
            if self._clock.monotonic() > deadline:
                raise LeftBehindError(
                    f"{', '.join(names)} did not go away within {_GONE_S:.0f} s",
                    hint="Look at it with `kubectl describe`; who holds it? Then run"
                    " `steelyard clean`.",
                )
            self._clock.sleep(_PAUSE_S)

    def await_gone(self, refs: Iterable[ObjectRef]) -> None:
        """Wait until none of these objects is there.

        Raises:
            LeftBehindError: One is, after five minutes.
        """
        gone = tuple(refs)
        self.await_none(lambda: [ref.label for ref in gone if self._api.read(ref) is not None])

    def of_volumes(self, volumes: Iterable[Held]) -> tuple[Held, ...]:
        """Wait until the volumes that go are gone; return those that stay.

        Raises:
            LeftBehindError: One does not go away.
        """
        held = tuple(volumes)
        self.await_gone(each.ref for each in held if not each.stays)
        return tuple(each for each in held if each.stays)
