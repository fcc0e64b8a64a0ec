"""File systems in files that are not there: mounts as entries of a dictionary."""

from dataclasses import dataclass, field
from pathlib import Path

from steelyard.core.wording import LeftBehindError
from steelyard.gateways.host import Clock
from steelyard.gateways.stores import Cut, Volumes


@dataclass
class FakeVolumes(Volumes):
    """Mounts by place; what is done is remembered in order.

    Attributes:
        mounted: Image by directory.
        busy: So many attempts to unmount fail yet.
        room: Bytes that an image may take.
        cuts: A cut takes what was not flushed.
    """

    mounted: dict[Path, Path] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    busy: int = 0
    room: int = 2**40
    cuts: bool = True

    def require(self) -> None:
        """Everything is there."""

    def room_bytes(self, image: Path) -> int:
        """Return what was given."""
        assert image not in self.mounted.values()
        return self.room

    def make(self, image: Path, size_bytes: int) -> None:
        """Remember it."""
        assert size_bytes > 0
        self.did.append(f"make {image.name}")

    def mount(self, image: Path, place: Path) -> None:
        """Mount it."""
        self.did.append(f"mount {image.name}")
        self.mounted[place] = image

    def flush(self, place: Path) -> None:
        """Remember it."""
        assert place in self.mounted
        self.did.append("flush")

    def cut(self, place: Path, clock: Clock) -> Cut:
        """Remember it; it takes a hundredth of a second."""
        assert place in self.mounted
        self.did.append("cut")
        begun_at = clock.monotonic()
        clock.sleep(0.01)
        return Cut(begun_at=begun_at, ended_at=clock.monotonic())

    def outlived(self, place: Path) -> bool:
        """Return what was given."""
        assert place in self.mounted
        assert self.did[-1].startswith("mount")
        return not self.cuts

    def unmount(self, place: Path) -> None:
        """Unmount it, unless it is busy."""
        if place not in self.mounted:
            return
        if self.busy:
            self.busy -= 1
            raise LeftBehindError(f"{place} is still mounted: target is busy")
        self.did.append("unmount")
        del self.mounted[place]

    def mounted_from(self, place: Path) -> Path | None:
        """Return the image."""
        return self.mounted.get(place)
