"""Settings of a running Redis server: by CONFIG SET, never in its file.

Invariant: before the first change, what every setting of the campaign was is in the ledger.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from steelyard.gateways.clock import Clock
from steelyard.gateways.redis import RedisSession, ReplyError, opened
from steelyard.model.command import ServerAddress
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.outside import SavedSetting
from steelyard.platforms.redis_endpoint.connection import RedisMeans
from steelyard.platforms.redis_endpoint.readiness import settings_like

# Records carry no secrets, and what is saved goes into the record.
SECRETS: Final = frozenset(
    {"requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}
)
RESTART_VARIABLE: Final = "STEELYARD_SETTINGS"
_EMPTY: Final = '""'
_LAST: Final = "appendonly"  # it begins to rewrite at once, as the others say
_QUIET_TIMEOUT_S: Final = 1800.0  # a rewrite of the AOF writes all keys of the server
_SAVE_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1


class ServerSettings:
    """The settings that a campaign changes on one server.

    Args:
        names: Of every setting that any treatment on this server asks for.
        means: To reach it.
        keep: Called with what they were, before the first change.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        means: RedisMeans,
        keep: Callable[[tuple[SavedSetting, ...]], None],
    ) -> None:
        self._names = names
        self._means = means
        self._keep = keep
        self._before: tuple[SavedSetting, ...] | None = None

    def wanted(self, asked: Mapping[str, str], address: ServerAddress) -> Mapping[str, str]:
        """Return the value of every setting under a treatment; what was, where it asks for none.

        Raises:
            TargetError: The server is gone, or does not have one of them.
        """
        if self._before is None:
            before = read_saved(self._names, self._means, address)
            if before:
                self._keep(before)
            self._before = before
        by_name = {name.lower(): value for name, value in asked.items()}
        return {each.name: by_name.get(each.name, each.value or "") for each in self._before}

    def change(self, asked: Mapping[str, str], address: ServerAddress) -> None:
        """Set what a treatment asks for, put the rest back to what it was, and wait for quiet.

        Raises:
            TargetError: The server refuses, or does not become quiet.
        """
        wanted = self.wanted(asked, address)
        with opened(self._means.redis, address) as session:
            changed = set_all(session, wanted)
            await_quiet(session, self._means.clock, rewrites=_LAST in changed)


def read_saved(
    names: Sequence[str], means: RedisMeans, address: ServerAddress
) -> tuple[SavedSetting, ...]:
    """Return what each of these settings is now.

    Raises:
        TargetError: The server is gone, or does not have one of them.
    """
    folded = tuple(dict.fromkeys(name.lower() for name in names))
    if secret := sorted(SECRETS & set(folded)):
        raise PreflightError(
            f"`{secret[0]}` is a secret, and what it was would go into the record",
            hint="Remove it from the treatments.",
        )
    if not folded:
        return ()
    with opened(means.redis, address) as session:
        found = settings_like(session, *folded)
    if missing := [name for name in folded if name not in found]:
        raise TargetError(f"the server has no setting {missing[0]}", hint="Correct its name.")
    return tuple(SavedSetting(name=name, value=found[name]) for name in folded)


def set_all(session: RedisSession, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Set every setting that is not as wanted; return the names of those.

    Raises:
        TargetError: The server refuses one, in its words.
    """
    now = settings_like(session, *wanted)
    ordered = sorted(wanted, key=lambda each: (each == _LAST, each))
    changed = tuple(name for name in ordered if now.get(name) != wanted[name])
    for name in changed:
        try:
            session.command("CONFIG", "SET", name, wanted[name])
        except ReplyError as error:
            raise _not_set(name, error) from error
    return changed


def _not_set(name: str, error: ReplyError) -> TargetError:
    if "immutable" in error.message:
        return TargetError(
            f"`{name}` cannot be changed on a running server: {error.message}",
            hint="Let the `restart_command` of the target give the server its settings: they are"
            f" in its environment, {RESTART_VARIABLE}, as lines of redis.conf.",
        )
    return TargetError(f"`{name}` cannot be set: {error.message}", hint="Correct its value.")


def restart_text(wanted: Mapping[str, str]) -> str:
    """Return settings as lines of redis.conf."""
    return "".join(f"{name} {value or _EMPTY}\n" for name, value in wanted.items())


def await_quiet(
    session: RedisSession, clock: Clock, *, rewrites: bool, saves: bool = False
) -> None:
    """Return when the server has done what a change began: rewritten its AOF, freed its keys.

    A save is waited for, too, but not for ever: where saves are frequent the next one begins.

    Args:
        session: On the server.
        clock: To wait.
        rewrites: The change may have begun a rewrite of the AOF, which has to succeed.
        saves: A save was asked for, and it is waited for as long as a rewrite.

    Raises:
        TargetError: The AOF cannot be rewritten, or it takes too long.
    """
    begun = clock.monotonic()
    while True:
        told = {**session.info("persistence"), **session.info("memory")}
        waited_s = clock.monotonic() - begun
        is_rewriting = any(
            told.get(f"aof_rewrite_{n}") == "1" for n in ("in_progress", "scheduled")
        )
        failed = told.get("aof_last_bgrewrite_status") == "err"
        if rewrites and failed and not is_rewriting and told.get("aof_enabled") == "1":
            raise TargetError(
                "the server cannot rewrite its AOF (aof_last_bgrewrite_status is err)",
                hint="Look into its log: its disk may be full, or its directory not writable.",
            )
        frees = told.get("lazyfree_pending_objects", "0") != "0"
        is_saving = told.get("rdb_bgsave_in_progress") == "1"
        if not (is_rewriting or frees or (is_saving and (saves or waited_s < _SAVE_TIMEOUT_S))):
            return
        if waited_s > _QUIET_TIMEOUT_S:
            raise TargetError(
                f"the server still rewrites its AOF, or saves, after {waited_s:.0f} s",
                hint="Load fewer keys.",
            )
        clock.sleep(_POLL_S)
