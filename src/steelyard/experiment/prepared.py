"""The prepared state of every treatment, and how the live data come back from it."""

from collections.abc import Callable, Mapping

from steelyard.engines.engine import Engine
from steelyard.model.command import ServerAddress
from steelyard.platforms.platform import Platform, PreparedState


class PreparedStates:
    """The states of one experiment, by treatment.

    Args:
        engine: Builds the data sets.
        platforms: Of each treatment, by name.
    """

    def __init__(self, engine: Engine, platforms: Mapping[str, Platform]) -> None:
        self._engine = engine
        self._platforms = platforms
        self._states: dict[str, PreparedState] = {}
        self._templated: set[object] = set()  # live data whose server holds templates of them

    def __getitem__(self, treatment: str) -> PreparedState:
        """Return the state of a treatment, which has one."""
        return self._states[treatment]

    def prepare(self, treatment: str, told: Callable[[str], None]) -> None:
        """Make the state of a treatment, or find it in the cache."""
        program = self._engine.program(treatment)
        platform = self._platforms[treatment]
        content = self._engine.datasets()
        if platform.find(program, content) is None:
            sizes = ", ".join(dataset.name for dataset in content)
            told(f"preparing data: {self._engine.label(treatment)}, {sizes}")
        self._states[treatment] = platform.prepare(program, content, self._builder(treatment))

    def make_anew(self, treatment: str) -> None:
        """Make a treatment's server anew, with its data.

        Raises:
            TargetError: It could not be made.
        """
        self._states[treatment] = self._platforms[treatment].reprovision(
            self._engine.program(treatment), self._engine.datasets(), self._builder(treatment)
        )

    def restore(self, treatment: str, means: str) -> None:
        """Make the live data of a treatment anew from its files; the server is stopped.

        Raises:
            TargetError: Copying failed.
        """
        self._platforms[treatment].restore(self._states[treatment], means)
        self._templated.discard(self.data_of(treatment))

    def restore_templates(self, treatment: str, *, asked: bool) -> None:
        """Bring the data back on the running server, from templates that it keeps first.

        Args:
            treatment: Whose server runs.
            asked: Bring them back where there are templates already, too.
        """
        address = self._platforms[treatment].address
        place = self.data_of(treatment)
        if place not in self._templated:
            self._engine.keep_templates(address)
            self._templated.add(place)
            asked = True  # the data were put aside, so they must come back
        if asked:
            self._engine.restore_from_templates(address)

    def data_of(self, treatment: str) -> object:
        """Return what tells the live data of one treatment from those of another.

        Treatments on one platform with one prepared state run on the same live data; another
        version or another directory has data of its own.
        """
        state = self._states.get(treatment)  # none yet of a server that is made for each visit
        return (id(self._platforms[treatment]), treatment if state is None else state.key)

    def _builder(self, treatment: str) -> Callable[[ServerAddress], None]:
        def build(address: ServerAddress) -> None:
            for dataset in self._engine.datasets():
                self._engine.build(dataset, address, treatment)

        return build
