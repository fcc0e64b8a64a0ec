"""A way to a record that is opened again when it breaks."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Final, Protocol, Self, TypeVar

from steelyard.gateways.clock import Clock
from steelyard.model.errors import MeasurementError, SteelyardError, TargetError
from steelyard.platforms.job.record_files import Piece, RecordFile

_PATIENCE_S: Final = 900.0  # without any answer; a guess: a laptop changes its network
_PAUSE_S: Final = 5.0
_T = TypeVar("_T")


class Source(Protocol):
    """Where a record is."""

    def listed(self) -> tuple[RecordFile, ...]:
        """Return its files with their checksums, the journal first."""
        ...

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of them."""
        ...


class PatientSource:
    """A source that bears lost connections, and pods that end.

    Args:
        opened: Opens a way to the record.
        clock: Waits between tries.
        told: Hears of a way that broke, once.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Source]],
        clock: Clock,
        told: Callable[[str], None],
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._told = told
        self._stack = ExitStack()
        self._source: Source | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def listed(self) -> tuple[RecordFile, ...]:
        """Return the files of the record."""
        return self._answer(lambda source: source.listed())

    def read(self, pieces: Sequence[Piece]) -> tuple[bytes, ...]:
        """Return pieces of them."""
        return self._answer(lambda source: source.read(pieces))

    def _answer(self, asked: Callable[[Source], _T]) -> _T:
        """Return what a source answers, in time.

        Raises:
            TargetError: None does.
        """
        deadline = self._clock.monotonic() + _PATIENCE_S
        said = False
        while True:
            try:
                return asked(self._way())
            except (TargetError, MeasurementError) as error:
                self._close()
                if self._clock.monotonic() > deadline:
                    hint = "What came is kept; attach again, and it goes on there."
                    raise TargetError(error.message, hint=hint) from error
                if not said:
                    self._told(f"{error.message}; trying again")
                said = True
            self._clock.sleep(_PAUSE_S)

    def _way(self) -> Source:
        if self._source is None:
            self._source = self._stack.enter_context(self._opened())
        return self._source

    def _close(self) -> None:
        self._source = None
        # A pod that cannot be removed now has its deadline, and goes with the volume.
        with suppress(SteelyardError):
            self._stack.close()
