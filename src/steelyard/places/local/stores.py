"""The simulated storage of a campaign: made before its servers, taken away after them.

All of it lies below directories that the ledger and the registry know before anything is made, so
that after a death ``clean`` unmounts and removes it.
"""

from pathlib import Path

from steelyard.core.outside import MadeDirectory
from steelyard.core.storage import Store
from steelyard.gateways.files import make_directory, remove_tree
from steelyard.gateways.host import Clock
from steelyard.gateways.stores import StorePaths, Stores, Volumes, unmounted
from steelyard.places.protocol import Ledger
from steelyard.record import registry


class MadeStores:
    """Simulated storage, one for each place and kind that is asked for.

    Args:
        campaign_id: Whose it is.
        ledger: Notes what is made.
        stores: Makes it.
        volumes: Unmounts it.
        clock: To wait until nobody uses it any more.
    """

    def __init__(
        self, campaign_id: str, ledger: Ledger, stores: Stores, volumes: Volumes, clock: Clock
    ) -> None:
        self._campaign_id = campaign_id
        self._ledger = ledger
        self._stores = stores
        self._volumes = volumes
        self._clock = clock
        self._made: dict[tuple[Path, Store], StorePaths] = {}
        self._directories: list[Path] = []

    def volume(self, root: Path, store: Store) -> Path:
        """Return where a store below a directory is mounted; it is made when first asked for.

        Raises:
            PrivilegeError: Only root may.
            PreflightError: A program is not here.
            TargetError: The kernel or a program refuses.
        """
        if (root, store) not in self._made:
            self._stores.require()
            paths = self._paths(root / "stores" / "live" / self._campaign_id)
            for place in (paths.served, paths.volume):
                registry.note_mount(self._campaign_id, place)
                make_directory(place)
            self._made[root, store] = paths
            self._stores.make(paths, store, self._clock)
        return self._made[root, store].volume

    def _paths(self, directory: Path) -> StorePaths:
        if directory not in self._directories:
            self._ledger.created(MadeDirectory(path=directory))
            self._directories.append(directory)
            make_directory(directory)
        number = len(self._made) + 1
        return StorePaths(
            image=directory / f"image-{number}",
            served=directory / f"served-{number}",
            volume=directory / f"volume-{number}",
        )

    def remove(self) -> None:
        """Unmount and remove all of it; a second time changes nothing.

        Raises:
            LeftBehindError: Somebody uses it; ``clean`` goes on from there.
        """
        for paths in reversed(self._made.values()):
            for place in (paths.volume, paths.served):
                unmounted(place, self._volumes, self._clock)
        self._made.clear()
        while self._directories:
            remove_tree(self._directories[-1])
            self._ledger.removed(MadeDirectory(path=self._directories.pop()))
