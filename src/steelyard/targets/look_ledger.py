"""Ledgers for looking at an experiment without running it."""

import secrets
from pathlib import Path

from steelyard.core.outside import InCluster, OnServer
from steelyard.core.stack import Knob
from steelyard.record import registry


class NoLedger:
    """A ledger for looking only: nothing is made."""

    def created(self, directory: Path) -> None:
        """Nothing is made."""

    def removed(self, directory: Path) -> None:
        """Nothing was made."""

    def changed(self, thing: OnServer) -> None:
        """Nothing is changed."""

    def undone(self, thing: OnServer) -> None:
        """Nothing was changed."""

    def group_made(self, directory: Path) -> None:
        """Nothing is made."""

    def group_removed(self, directory: Path) -> None:
        """Nothing was made."""

    def placed(self, thing: InCluster) -> None:
        """Nothing is made."""

    def taken_away(self, thing: InCluster) -> None:
        """Nothing was made."""

    def kept(self, knob: Knob) -> str | None:
        """Nothing was turned."""

    def keep(self, knob: Knob, snapshot: str) -> None:
        """Nothing is turned."""

    def put_back(self, knob: Knob) -> None:
        """Nothing was turned."""


class RegistryLedger(NoLedger):
    """A ledger for looking at a cluster: a pod of a moment is noted in the registry alone.

    There is no record. After a death `steelyard clean` finds what the registry lists.
    """

    def __init__(self) -> None:
        self.campaign_id = f"look-{secrets.token_hex(4)}"
        self._is_noted = False
        self._there: set[str] = set()

    def placed(self, thing: InCluster) -> None:
        """Note it."""
        if not self._is_noted:
            registry.register(self.campaign_id, Path("no-record", self.campaign_id))
            self._is_noted = True
        registry.note_placed(self.campaign_id, thing)
        self._there.add(thing.label)

    def taken_away(self, thing: InCluster) -> None:
        """Forget the look when nothing of it is left, however it ended."""
        self._there.discard(thing.label)
        if not self._there:
            registry.unregister(self.campaign_id)
            self._is_noted = False
