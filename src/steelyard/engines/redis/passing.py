"""What INFO tells of the moment only, added up look by look: rewrites, saves, forks, the log."""

from dataclasses import dataclass, field
from typing import Final

from steelyard.engines.redis.figures import Told, behind_bytes, number
from steelyard.model.evidence import Quantity
from steelyard.model.units import US_PER_S

_REWRITING: Final = "aof_rewrite_in_progress"
_SAVING: Final = "rdb_bgsave_in_progress"
# Work in progress, and what it had copied when it ended.
_COPIES: Final = {_REWRITING: "aof_last_cow_size", _SAVING: "rdb_last_cow_size"}
_DURING: Final = {
    Quantity.AOF_REWRITING_S: _REWRITING,
    Quantity.RDB_SAVING_S: _SAVING,
    Quantity.AOF_FSYNC_PENDING_S: "aof_pending_bio_fsync",
}


@dataclass(slots=True)
class Passing:
    """Sums since the first look, as fine as looks are frequent."""

    _last: Told = field(default_factory=dict)
    _last_s: float = 0.0
    _sums: dict[str, float] = field(default_factory=dict)
    _copied: float = 0.0
    _behind: float | None = None
    _lag: float | None = None
    _background_s: float = 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Return the sums so far."""
        return dict(self._sums)

    @property
    def levels(self) -> dict[str, float]:
        """Return the most of what was seen at a moment."""
        found: dict[str, float] = {}
        if Quantity.FORK_S in self._sums:
            found[Quantity.COPIED_BYTES] = self._copied
        if self._behind is not None:
            found[Quantity.REPLICA_BEHIND_BYTES] = self._behind
        if self._lag is not None:
            found[Quantity.REPLICA_LAG_BYTES] = self._lag
        return found

    def look(self, told: Told, at_s: float) -> None:
        """Take what the server says at a moment."""
        if self._last:
            self._add_moment(told, at_s - self._last_s)
            self._add_log(told)
            self._add_forks(told)
            self._note_copies(told)
        else:
            self._begin(told)
        self._note_background(told)
        behind = behind_bytes(told)
        if behind is not None:
            self._behind = max(behind, self._behind or 0.0)
        self._last, self._last_s = told, at_s

    def compare(self, told: Told, of_replica: Told) -> None:
        """Take what a replica says of itself just after its primary was asked."""
        sent = number(told, "master_repl_offset")
        applied = number(of_replica, "slave_repl_offset")
        if sent is not None and applied is not None:
            self._lag = max(sent - applied, 0.0, self._lag or 0.0)

    def _begin(self, told: Told) -> None:
        """Start every sum that this server can have; one without the log has 0 of it."""
        without = told.get("aof_enabled") == "0"
        for quantity, name in _DURING.items():
            if name in told or without:
                self._sums[quantity] = 0.0
        if "aof_current_size" in told or without:
            self._sums[Quantity.AOF_BYTES] = 0.0
        if "total_forks" in told:
            self._sums[Quantity.FORK_S] = 0.0

    def _add_moment(self, told: Told, passed_s: float) -> None:
        for quantity, name in _DURING.items():
            if quantity in self._sums and number(told, name):
                self._sums[quantity] += passed_s

    def _add_log(self, told: Told) -> None:
        """Add what the log has grown by; after a rewrite, what it has grown by since."""
        size, before = number(told, "aof_current_size"), number(self._last, "aof_current_size")
        base, old_base = number(told, "aof_base_size"), number(self._last, "aof_base_size")
        if size is None or before is None or Quantity.AOF_BYTES not in self._sums:
            return
        rewritten = base != old_base or size < before
        grown = size - (base or 0.0) if rewritten else size - before
        self._sums[Quantity.AOF_BYTES] += max(grown, 0.0)

    def _add_forks(self, told: Told) -> None:
        forks, before = number(told, "total_forks"), number(self._last, "total_forks")
        took = number(told, "latest_fork_usec")
        if forks is not None and before is not None and took is not None and forks > before:
            self._sums[Quantity.FORK_S] += (forks - before) * took / US_PER_S

    def _note_copies(self, told: Told) -> None:
        """Keep the most that a child has copied, while it works and when it has ended."""
        for work, ended in _COPIES.items():
            if number(told, work):
                self._copied = max(self._copied, number(told, "current_cow_size") or 0.0)
            elif number(self._last, work) or told.get(ended) != self._last.get(ended):
                self._copied = max(self._copied, number(told, ended) or 0.0)

    def _note_background(self, told: Told) -> None:
        """Keep the CPU time of all threads but the main one; read apart, so it may step back."""
        names = ("used_cpu_sys", "used_cpu_user")
        whole = [number(told, name) for name in names]
        main = [number(told, f"{name}_main_thread") for name in names]
        known = [value for value in (*whole, *main) if value is not None]
        if len(known) == len(whole) + len(main):
            spent_s = known[0] + known[1] - known[2] - known[3]
            self._background_s = max(self._background_s, spent_s)
            self._sums[Quantity.BACKGROUND_CPU_S] = self._background_s
