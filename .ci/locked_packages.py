"""Copies the packages that steelyard[kubernetes,tables,workers] needs out of this environment into a directory.

With --list it prints those of steelyard[kubernetes] with their versions instead.
"""

import shutil
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def collect(texts: Iterable[str], found: dict[str, Distribution], extras: Iterable[str]) -> None:
    """Find the distributions of requirements, and all that they require on this Python."""
    for text in texts:
        asked = Requirement(text)
        if asked.marker and not any(asked.marker.evaluate({"extra": e}) for e in ("", *extras)):
            continue
        here = distribution(asked.name)
        if here.metadata["Name"] not in found:
            found[here.metadata["Name"]] = here
            collect(here.requires or (), found, asked.extras)


def main(place: str) -> None:
    """Copy their files, but no scripts; the project's own file says what it requires."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    found: dict[str, Distribution] = {}
    extras = project["optional-dependencies"]
    more = [] if place == "--list" else [*extras["tables"], *extras["workers"]]
    collect([*project["dependencies"], *extras["kubernetes"], *more], found, ())
    if place == "--list":
        print(*sorted(f"{canonicalize_name(n)}=={d.version}" for n, d in found.items()), sep="\n")
        return
    target = Path(place)
    for file in (file for each in found.values() for file in each.files or ()):
        if ".." not in file.parts and file.suffix != ".pyc":
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target / file)


main(sys.argv[1])
