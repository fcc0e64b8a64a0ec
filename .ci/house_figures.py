"""Figures of the house, held to limits: lines, files, import edges, lone importers, branches.

    python .ci/house_figures.py [--list one|branches|long]

An edge: one module imports another of the package, counted once for a pair. A module with one
importer is no ``__init__`` and is imported by exactly one other module. A branch: an ``isinstance``
whose class ends in Target, Engine, Platform or Place, a comparison with an attribute ``kind``,
``engine`` or ``system``, or with a member of ``EngineName`` or ``SystemName``, and ``is_redis``.
Modules in ``targets``, ``systems`` and ``answers`` are behind a registry: their lone importers and
branches do not count. Exit code 1 when a figure is above its limit. A figure below its limit is
reported, with the value to write here; a limit rises only in a commit of its own that says why.
Those of lines leave a change some room.
"""

import argparse
import ast
import collections
import collections.abc
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
LIMITS = {
    "lines of src": 123801,
    "lines of tests": 112900,
    "files": 337,
    "longest file": 882,
    "import edges": 2509,
    "modules with one importer": 24,
    "branches on kind or system": 8,
}
# A floor: so many tests of `make test` pass in a file system with git, make and Python alone.
TESTS_ON_A_BARE_MACHINE = 10000
REGISTERED = re.compile(r"(^|/)(targets|systems|answers)/")
CLASSES = re.compile(r"(Target|Engine|Platform|Place)$")
KINDS = {"kind", "engine", "system"}
NAMES = {"EngineName", "SystemName"}


def named(node: ast.AST) -> list[str]:
    """Return the names of the classes that an ``isinstance`` asks for."""
    if isinstance(node, ast.BinOp):
        return named(node.left) + named(node.right)
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    return [
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in nodes
        if isinstance(each, ast.Attribute | ast.Name)
    ]


def is_branch(node: ast.AST) -> bool:
    """Return whether a node asks for the kind of a target or for the database system."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return any(CLASSES.search(name) for name in named(node.args[1]))
    if isinstance(node, ast.Compare):
        sides = [each for each in (node.left, *node.comparators) if isinstance(each, ast.Attribute)]
        owners = {getattr(each.value, "id", getattr(each.value, "attr", "")) for each in sides}
        return bool(KINDS & {each.attr for each in sides} or NAMES & owners)
    return isinstance(node, ast.Attribute) and node.attr == "is_redis"


def imported(node: ast.AST, modules: collections.abc.Container[str]) -> list[str]:
    """Return the modules of the package that a statement imports."""
    found = []
    if isinstance(node, ast.ImportFrom) and node.module:
        wholes = [(f"{node.module}.{each.name}", node.module) for each in node.names]
        found = [whole if whole in modules else module for whole, module in wholes]
    elif isinstance(node, ast.Import):
        found = [each.name for each in node.names]
    return [each for each in found if each in modules]


def main() -> int:
    """Print the figures; return 1 when one of them passes its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", choices=["one", "branches", "long"])
    listed = parser.parse_args().list
    files = sorted(SRC.rglob("*.py"))
    modules = {
        ".".join(each.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): each
        for each in files
    }
    edges: set[tuple[str, str]] = set()
    branches, lengths = [], {}
    for module, file in modules.items():
        text = file.read_text()
        lengths[file] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            edges |= {(module, other) for other in imported(node, modules) if other != module}
            if is_branch(node) and not REGISTERED.search(str(file)):
                branches.append(f"{file}:{node.lineno}")
    importers = collections.Counter(other for _, other in edges)
    lone = [
        file
        for module, file in modules.items()
        if importers[module] == 1
        and file.name != "__init__.py"
        and not REGISTERED.search(str(file))
    ]
    tests = [file.read_text().count("\n") for file in (ROOT / "tests").rglob("*.py")]
    figures = {
        "lines of src": sum(lengths.values()),
        "lines of tests": sum(tests),
        "files": len(files),
        "longest file": max(lengths.values()),
        "import edges": len(edges),
        "modules with one importer": len(lone),
        "branches on kind or system": len(branches),
    }
    longest = sorted(lengths, key=lambda each: lengths[each])[-20:]
    for row in {"one": lone, "branches": branches, "long": longest}.get(listed, []):
        print(row)
    for name, figure in figures.items():
        limit = LIMITS[name]
        above = f", more than the limit of {limit}" if figure > limit else ""
        below = f"; lower the limit of {limit} to {figure}" if figure < limit else ""
        print(f"{name}: {figure}{above}{below}")
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
