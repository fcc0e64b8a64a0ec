"""PostgreSQL whose programs are those of a container image, run in pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.engines.engine import Complaint
from steelyard.engines.postgres import checks
from steelyard.engines.postgres.engine import PostgresEngine
from steelyard.engines.postgres.installation import Installation
from steelyard.engines.postgres.server import PostgresProgram
from steelyard.engines.postgres.settings import (
    SettingEntry,
    parse_catalogue,
    undescribed,
)
from steelyard.gateways.process import Processes
from steelyard.gateways.sql import Sql
from steelyard.model.command import Command
from steelyard.model.errors import PreflightError
from steelyard.model.experiment import Experiment, Treatment

SERVER: Final = ("postgres", "psql", "pgbench")
CLIENTS: Final = ("psql", "pgbench")
_TIMEOUT_S: Final = 60.0
_EMPTY: Final = "/tmp/steelyard-no-settings"  # noqa: S108 - in a pod of its own
# Where packages and images have their programs. The names in /usr/bin of Debian are wrappers that
# choose a version: not what is asked for by a directory.
_FIND: Final = """
for dir in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \\
    "$(dirname "$(command -v "$1" 2>/dev/null || echo /none/x)")"; do
  all=yes
  for name in "$@"; do [ -x "$dir/$name" ] || all=no; done
  if [ "$all" = yes ]; then echo "$dir"; exec "$dir/$1" --version; fi
done
exit 1
"""
_DESCRIBE: Final = (
    'mkdir -p "$2" && : > "$2/postgresql.conf" && exec "$1/postgres" --describe-config'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePrograms:
    """What the programs of one image say.

    Attributes:
        catalogue: Settings that its server knows.
        refused: Values that its server refuses, by treatment.
    """

    installation: Installation
    catalogue: Mapping[str, SettingEntry]
    refused: Mapping[str, tuple[Complaint, ...]]


def find_in_image(image: str, processes: Processes, needed: Sequence[str] = SERVER) -> Installation:
    """Return the directory in which an image has these programs, with the version of the first.

    Raises:
        PreflightError: It lacks one of them, or a shell.
    """
    argv = ("sh", "-c", _FIND, "find", *needed)
    completed = processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
    lines = completed.stdout.splitlines()
    if not completed.succeeded or len(lines) < 2:
        raise PreflightError(
            f"the image {image} does not have {', '.join(needed)} in one directory",
            hint="Name an image with PostgreSQL's client programs with `generators: {image: ...}`,"
            " and one of PostgreSQL with `image:`.",
        )
    programs, said = Path(lines[0]), lines[-1]
    return Installation(
        programs=programs, root=programs, version=said.strip().partition("(PostgreSQL) ")[2]
    )


def describe_image(
    image: str, treatments: Sequence[Treatment], processes: Processes
) -> ImagePrograms:
    """Return what the programs of an image say of themselves and of what treatments ask.

    Args:
        image: Its name, for messages.
        treatments: Whose servers are of this image.
        processes: Runs programs in a pod of it.

    Raises:
        PreflightError: It lacks a program.
    """
    installation = find_in_image(image, processes)
    catalogue = _catalogue(installation, treatments, processes)
    return ImagePrograms(
        installation=installation,
        catalogue=catalogue,
        refused={
            treatment.name: tuple(
                checks.refused_in(treatment, installation, catalogue, Path(_EMPTY), processes)
            )
            for treatment in treatments
        },
    )


def _catalogue(
    installation: Installation, treatments: Sequence[Treatment], processes: Processes
) -> Mapping[str, SettingEntry]:
    """Return the settings that the server describes, and of the others those that are asked for."""
    argv = ("sh", "-c", _DESCRIBE, "describe", str(installation.programs), _EMPTY)
    completed = processes.run(Command(argv=argv), timeout_s=_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(f"postgres --describe-config failed: {completed.tail(1)}")
    described = parse_catalogue(completed.stdout)
    asked = {name: None for treatment in treatments for name in treatment.asked()}
    others = [name for name in asked if "." not in name and name not in described]
    postgres = installation.program("postgres")
    return {**described, **undescribed(postgres, others, Path(_EMPTY), processes)}


class InImageEngine(PostgresEngine):
    """Servers of images, under the pgbench of one image.

    Args:
        experiment: What will run.
        images: Of each treatment's server.
        generator: That drives them all.
        processes: Runs programs in the pods of generators.
        sql: Reaches the servers.
    """

    def __init__(
        self,
        experiment: Experiment,
        images: Mapping[str, ImagePrograms],
        generator: Installation,
        *,
        processes: Processes,
        sql: Sql,
    ) -> None:
        super().__init__(
            experiment,
            {
                name: PostgresProgram(
                    # psql, too, is run in the generators' pods.
                    installation=_in_place(image.installation, generator),
                    initdb=(),
                    sql=sql,
                )
                for name, image in images.items()
            },
            {name: image.catalogue for name, image in images.items()},
            processes=processes,
            sql=sql,
            account=None,
        )
        self._images = images
        self._generator = generator

    @property
    def generator(self) -> Installation:
        """Return the programs of the generators' image."""
        return self._generator

    def complaints(self, treatment: str) -> tuple[Complaint, ...]:
        """Return what the image's own server would refuse."""
        asked = self._experiment.treatment(treatment)
        return (
            *checks.fixed_settings(asked),
            *self._images[treatment].refused.get(treatment, ()),
            *checks.too_few_connections(asked, self._experiment.loads),
        )


def _in_place(server: Installation, generator: Installation) -> Installation:
    """Return a server's version with the directory of the programs that are run in pods."""
    return Installation(programs=generator.programs, root=generator.root, version=server.version)
