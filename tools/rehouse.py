"""Move and merge modules of the package by a list, and rewrite whatever imports them.

Thrown away when the house stands. ``python tools/rehouse.py LIST [--dry-run]`` from the root of the
repository. A line of LIST is ``old.module new.module`` without ``steelyard.``; several old ones with
the same new one are merged in the order of the list, after what they import from each other. A line ``+ package text`` describes a new package; a line ``= old.module name new_name`` changes a name of a module that is merged; a line
``old/folder/ new/folder/`` moves files that are no modules. ``#`` begins a comment.

What it cannot decide it names: a public name that two merged modules define, a wildcard import.
"""

import argparse
import ast
import io
import re
import shutil
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = "steelyard"
SRC = Path("src")
READERS = ("src", "tests", "benchmarks")
TEXTS = ("pyproject.toml", "Makefile", ".ci", "docs", "README.md", "CONTRIBUTING.md", "Containerfile")


def path_of(module: str) -> Path:
    """Return where a module or package lies."""
    place = SRC / Path(*module.split("."))
    package = place / "__init__.py"
    return package if package.exists() else place.with_suffix(".py")


@dataclass
class Import:
    """One name that an import statement binds."""

    module: str  # "" for `import x`
    name: str
    bound: str
    future: bool = False

    def text(self) -> str:
        """Return the statement."""
        alias = "" if self.bound in {self.name, self.name.split(".")[0]} else f" as {self.bound}"
        if not self.module:
            return f"import {self.name}{alias}"
        return f"from {self.module} import {self.name}{alias}"


@dataclass
class Source:
    """A module before it is moved."""

    module: str
    text: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        """Parse it."""
        self.tree = ast.parse(self.text)

    @property
    def docstring(self) -> str:
        """Return its docstring as it stands, without quotes."""
        return ast.get_docstring(self.tree, clean=False) or ""

    def head_end(self) -> int:
        """Return the number of lines of docstring and imports at the top."""
        end = 0
        for node in self.tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node is self.tree.body[0]:
                end = node.end_lineno
            elif isinstance(node, ast.Import | ast.ImportFrom) or is_type_checking(node):
                end = node.end_lineno
            else:
                break
        return end

    def body(self) -> str:
        """Return what follows the imports, with the comments before it."""
        return "\n".join(self.text.split("\n")[self.head_end():]).strip("\n")

    def head_imports(self) -> tuple[list[Import], list[Import]]:
        """Return the imports at the top, and those for type checkers only."""
        plain, typed = [], []
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                plain += imports_of(node)
            elif is_type_checking(node):
                for inner in node.body:
                    typed += imports_of(inner)
        return plain, typed

    def defined(self) -> dict[str, str]:
        """Return the text of each top-level name that is defined here."""
        found = {}
        for node in self.tree.body:
            names = []
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            elif isinstance(node, ast.If | ast.Try) and not is_type_checking(node):
                names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            for name in names:
                found[name] = found.get(name, "") + ast.unparse(node)
        return found


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a node is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse


def imports_of(node: ast.AST) -> list[Import]:
    """Return what a statement binds."""
    if isinstance(node, ast.Import):
        return [Import("", a.name, a.asname or a.name.split(".")[0]) for a in node.names]
    assert isinstance(node, ast.ImportFrom), ast.dump(node)
    assert not node.level, ast.unparse(node)
    return [Import(node.module, a.name, a.asname or a.name, node.module == "__future__") for a in node.names]


class House:
    """All modules, and where they go."""

    def __init__(self, listed: list[tuple[str, str]]) -> None:
        self.sources = {}
        for file in sorted(SRC.rglob("*.py")):
            parts = file.with_suffix("").relative_to(SRC).parts
            module = ".".join(parts).removesuffix(".__init__")
            self.sources[module] = Source(module, file.read_text())
        self.packages = {m for m in self.sources if (SRC / Path(*m.split(".")) / "__init__.py").exists()}
        self.goes: dict[str, str] = {}
        self.order: dict[str, int] = {}
        for old, new in listed:
            assert f"{ROOT}.{old}" in self.sources, f"there is no {old}"
            assert f"{ROOT}.{old}" not in self.goes, f"{old} goes to two places"
            self.goes[f"{ROOT}.{old}"] = f"{ROOT}.{new}"
            self.order[f"{ROOT}.{old}"] = len(self.order)
        self._definers: dict[tuple[str, str], tuple[str, str]] = {}
        for source in self.sources.values():  # what only passes names on does so no longer
            for node in source.tree.body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and source.text.count("__all__") == 1:
                    lines = source.text.split("\n")
                    lines[node.lineno - 1 : node.end_lineno] = []
                    source.text = "\n".join(lines)
                    source.tree = ast.parse(source.text)
                    break
        self.renamed: dict[tuple[str, str], str] = {}  # (old module, name) -> name after
        self.troubles: list[str] = []
        self.asked: dict[str, dict[str, str]] = defaultdict(dict)  # names to be changed, by module

    def new(self, module: str) -> str:
        """Return where a module is afterwards."""
        return self.goes.get(module, module)

    def members(self) -> dict[str, list[str]]:
        """Return the old modules of each new one, in the order in which they are merged."""
        found = defaultdict(list)
        for module in self.sources:
            if module not in self.packages or module in self.goes:
                found[self.new(module)].append(module)
        return {new: self._sorted(olds) for new, olds in found.items()}

    def _sorted(self, olds: list[str]) -> list[str]:
        """Return modules after those of the same chapter that they import at the top."""
        olds = sorted(olds, key=lambda m: self.order.get(m, -1))
        needs = {}
        for module in olds:
            plain, _ = self.sources[module].head_imports()
            needs[module] = {self.target(each)[0] for each in plain} & set(olds) - {module}
        done: list[str] = []
        while len(done) < len(olds):
            free = [m for m in olds if m not in done and needs[m] <= set(done)]
            if not free:
                left = [m for m in olds if m not in done]
                self.troubles.append(f"modules to be merged import each other: {left}")
                free = left
            done.append(free[0])
        return done

    def target(self, each: Import) -> tuple[str, str]:
        """Return the old module and the name in it that an import means; the name is empty for a module."""
        if not each.module:
            return (each.name, "") if each.name in self.sources else ("", "")
        whole = f"{each.module}.{each.name}"
        if whole in self.sources:
            return whole, ""
        return self._definer(each.module, each.name) if each.module in self.sources else ("", "")

    def _definer(self, module: str, name: str) -> tuple[str, str]:
        """Return where a name is defined that a module may only pass on."""
        key = (module, name)
        if key not in self._definers:
            self._definers[key] = key
            source = self.sources[module]
            if name not in source.defined():
                for each in (i for kind in source.head_imports() for i in kind):
                    if each.bound == name and each.module in self.sources and each.name == name:
                        self._definers[key] = self._definer(each.module, name)
        return self._definers[key]

    def moved(self, each: Import) -> Import:
        """Return an import as it is afterwards."""
        module, name = self.target(each)
        if not module:
            return each
        new = self.new(module)
        if name:
            return Import(new, self.renamed.get((module, name), name), each.bound)
        if not each.module:
            return Import("", new, each.bound) if each.bound != ROOT else Import("", new, ROOT)
        parent, _, leaf = new.rpartition(".")
        return Import(parent, leaf, each.bound)


def renamed_tokens(text: str, names: dict[str, str], unprefixed: set[str] = frozenset()) -> str:
    """Return a text with names changed wherever they are no attributes or keywords of calls."""
    if not names and not unprefixed:
        return text
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    lines = text.split("\n")
    edits = []
    depth = 0
    for place, token in enumerate(tokens):
        if token.type == tokenize.OP:
            depth += token.string in "([{"
            depth -= token.string in ")]}"
        if token.type == tokenize.STRING and re.match("[rR]?[fF]", token.string) and token.start[0] == token.end[0]:
            after = in_fields(token.string, names, unprefixed)
            if after != token.string:
                edits.append((token.start[0] - 1, token.start[1], token.end[1], after))
            continue
        if token.type != tokenize.NAME:
            continue
        before = tokens[place - 1].string if place else ""
        after = tokens[place + 1].string if place + 1 < len(tokens) else ""
        if before == ".":
            continue
        if token.string in unprefixed and after == ".":
            edits.append((token.start[0] - 1, token.start[1], tokens[place + 1].end[1], ""))
        elif token.string in names and not (after == "=" and depth and before in "(,"):
            edits.append((token.start[0] - 1, token.start[1], token.end[1], names[token.string]))
    for line, begin, end, word in sorted(edits, reverse=True):
        lines[line] = lines[line][:begin] + word + lines[line][end:]
    return "\n".join(lines)


def attributes(house: House, source: Source) -> str:
    """Return the text with changed names of modules that are imported as modules."""
    text = source.text
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for each in imports_of(node):
                module, name = house.target(each)
                if not module or name:
                    continue
                for (old, was), after in house.renamed.items():
                    if old == module:
                        text = re.sub(rf"(?<![\w.]){each.bound}\.{was}\b", f"{each.bound}.{after}", text)
                        text = re.sub(rf"(setattr\(\s*{each.bound}, )\"{was}\"", rf'\1"{after}"', text)
    return text


def in_fields(text: str, names: dict[str, str], unprefixed: set[str]) -> str:
    """Return an f-string whose fields have the changed names."""
    def field(match: re.Match) -> str:
        inner = match[0]
        for prefix in unprefixed:
            inner = re.sub(rf"(?<![\w.]){prefix}\.", "", inner)
        return re.sub(r"(?<![\w.])[A-Za-z_]\w*(?!\s*=[^=])", lambda m: names.get(m[0], m[0]), inner)

    return re.sub(r"(?<!\{)\{[^{}]+\}", field, text)


def inner_imports(source: Source) -> list[ast.AST]:
    """Return import statements that are not at the top."""
    top = set()
    for node in source.tree.body:
        top.add(id(node))
        if is_type_checking(node):
            top |= {id(inner) for inner in node.body}
    found = [n for n in ast.walk(source.tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    return [n for n in found if id(n) not in top]


def with_inner(house: House, source: Source, here: str) -> str:
    """Return a text whose imports inside of functions are moved."""
    lines = source.text.split("\n")
    for node in sorted(inner_imports(source), key=lambda n: -n.lineno):
        bound = imports_of(node)
        if not any(house.target(each)[0] for each in bound):
            continue
        comment = ""
        if "#" in lines[node.end_lineno - 1] or "#" in lines[node.lineno - 1]:
            comment = "  " + next(
                l[l.index("#"):] for l in (lines[node.lineno - 1], lines[node.end_lineno - 1]) if "#" in l
            )
        indent = lines[node.lineno - 1][: node.col_offset]
        made = []
        grouped: dict[str, list[Import]] = {}
        for each in bound:
            after = house.moved(each)
            old, name = house.target(each)
            if house.new(old) == here and name:
                if after.name != each.bound:
                    made.append(f"{indent}{each.bound} = {after.name}")
                else:
                    house.troubles.append(f"{here}: an import of itself inside of a function: {each.text()}")
                continue
            grouped.setdefault(after.module, []).append(after)
        for module, names in grouped.items():
            if not module or len(names) == 1:
                made += [indent + each.text() + comment for each in names]
                continue
            made.append(f"{indent}from {module} import ({comment}")
            made += [f"{indent}    {each.text().partition(' import ')[2]}," for each in names]
            made.append(f"{indent})")
        lines[node.lineno - 1 : node.end_lineno] = made or [f"{indent}pass"]
    return "\n".join(lines)


def built(house: House, here: str, olds: list[str]) -> str:
    """Return the text of a module afterwards."""
    sources = [house.sources[old] for old in olds]
    if len(sources) == 1:
        return rewritten(house, sources[0], here)
    docs = [s.docstring for s in sources if s.docstring]
    main = min(olds, key=lambda old: house.order.get(old, -1))
    docs.sort(key=lambda d: d != house.sources[main].docstring)
    plain: dict[str, Import] = {}
    typed: dict[str, Import] = {}
    bodies, taken = [], {}
    for source in sources:
        names: dict[str, str] = {}
        stem = source.module.rpartition(".")[2]
        defined = source.defined()
        dropped = []
        for name, after in house.asked[source.module].items():
            names[name] = house.renamed[source.module, name] = after
            taken[after] = defined.pop(name)
        for name, text in defined.items():
            if name in {"__all__"}:
                house.troubles.append(f"{here}: __all__ of {source.module}")
            if name not in taken:
                taken[name] = text
            elif taken[name] == text:
                dropped.append(name)
            elif name.startswith("_"):
                names[name] = f"{name}_{stem}" if not name.isupper() else f"{name}_{stem.upper()}"
                house.renamed[source.module, name] = names[name]
                taken[names[name]] = text
            else:
                house.troubles.append(f"{here}: {name} is defined twice, again in {source.module}")
        heads = source.head_imports()
        prefixes = set()
        for kept, found in zip((plain, typed), heads, strict=True):
            for each in found:
                after = house.moved(each)
                old, name = house.target(each)
                if old and house.new(old) == here:
                    if not name:
                        prefixes.add(each.bound)
                    elif after.name != each.bound:
                        names[each.bound] = after.name
                    continue
                if old and name and after.name != name and each.bound == name and not name.startswith("_"):
                    names[name] = after.bound = after.name
                bound = after.bound
                other = plain.get(bound) or typed.get(bound)
                if other is not None and (other.module, other.name) != (after.module, after.name):
                    names[each.bound] = after.bound = f"{bound}_{stem}"
                    house.troubles.append(f"{here}: {bound} of {source.module} is another one; it is {after.bound} now")
                kept[after.bound] = after
        text = with_inner(house, Source(source.module, attributes(house, source)), here)
        moved = Source(source.module, text)
        body = without(moved, dropped)
        bodies.append(renamed_tokens(body, names, prefixes))
    for bound in set(plain) & set(taken):
        house.troubles.append(f"{here}: {bound} is imported and defined")
    for bound in set(plain):
        typed.pop(bound, None)
    lines = ['"""' + "\n\n".join(d.strip("\n") for d in docs).rstrip() + ('\n"""' if len(docs) > 1 or "\n" in docs[0] else '"""')]
    said = dict.fromkeys(l for s in sources for l in s.text.split("\n") if l.startswith("# ruff:"))
    lines += [""] + list(said) + [each.text() for each in plain.values()]
    if typed:
        lines += ["", "if TYPE_CHECKING:"] + [f"    {each.text()}" for each in typed.values()]
    return "\n".join(lines) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def without(source: Source, names: list[str]) -> str:
    """Return the body without some definitions, each of which is one statement."""
    lines = source.text.split("\n")
    for node in reversed(source.tree.body):
        own = set()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own = {node.name}
        elif isinstance(node, ast.Assign):
            own = {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own = {node.target.id}
        if own and own <= set(names):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            lines[first - 1 : node.end_lineno] = []
    begin = source.head_end()
    return "\n".join(lines[begin:]).strip("\n")


def rewritten(house: House, source: Source, here: str) -> str:
    """Return the text of one module, or of a file outside the package, with its imports moved."""
    text = with_inner(house, Source(source.module, attributes(house, source)), here)
    source = Source(source.module, text)
    words = {}
    for each in (i for kind in source.head_imports() for i in kind):
        module, name = house.target(each)
        after = house.moved(each)
        if module and name and after.name != name and each.bound == name and not name.startswith("_"):
            words[name] = after.name
    if words:
        end = source.head_end()
        parts = text.split("\n")
        text = "\n".join(parts[:end]) + "\n" + renamed_tokens("\n".join(parts[end:]), words)
        source.bound = words
    lines = text.split("\n")
    nodes = []
    for node in source.tree.body:
        nodes += node.body if is_type_checking(node) else [node]
    for node in reversed(nodes):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        bound = imports_of(node)
        if not any(house.target(each)[0] for each in bound):
            continue
        comments = [l[l.index("  #"):] for l in lines[node.lineno - 1 : node.end_lineno] if "  #" in l]
        indent = " " * node.col_offset
        for each in bound:
            if each.bound in words:
                each.bound = words[each.bound]
        made = [indent + house.moved(each).text() for each in bound]
        if comments:
            made[0] += comments[0]
        lines[node.lineno - 1 : node.end_lineno] = made
    return "\n".join(lines)


def strings(house: House, text: str) -> str:
    """Return a text in which dotted names of modules, as in strings and docs, are the new ones."""
    def one(match: re.Match) -> str:
        words = match[0].split(".")
        for end in range(len(words), 1, -1):
            module = ".".join(words[:end])
            if module in house.goes:
                rest = words[end:]
                if rest:
                    rest[0] = house.renamed.get((module, rest[0]), rest[0])
                return ".".join([house.goes[module], *rest])
        return match[0]

    return re.sub(rf"\b{ROOT}(\.\w+)+", one, text)


def rings(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, by Tarjan's algorithm."""
    index, low, stack, found, counter = {}, {}, [], [], [0]

    def visit(node: str) -> None:
        index[node] = low[node] = counter[0]
        counter[0] += 1
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            ring = set()
            while True:
                one = stack.pop()
                ring.add(one)
                if one == node:
                    break
            if len(ring) > 1:
                found.append(ring)

    for node in edges:
        if node not in index:
            visit(node)
    return found


def read_list(path: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return modules and folders with where they go."""
    modules, folders = [], []
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] not in {"=", "+"}:
            old, new = words
            (folders if old.endswith("/") or "/" in old else modules).append((old, new))
    return modules, folders


def main() -> int:
    """Do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    modules, folders = read_list(options.list)
    house = House(modules)
    described: dict[str, str] = {}
    for line in options.list.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] == "+":
            described[f"{ROOT}.{words[1]}"] = " ".join(words[2:])
        if words and words[0] == "=":
            house.asked[f"{ROOT}.{words[1]}"][words[2]] = words[3]
    members = house.members()
    # Twice: the first time finds which names are changed in which module.
    for _ in range(2):
        house.troubles = []
        made = {here: built(house, here, olds) for here, olds in members.items()}
    print("\n".join(sorted(set(house.troubles))))
    print(f"{len(house.sources)} modules -> {len(made)}")
    edges = {}
    for here, olds in members.items():
        found = {
            house.new(house.target(each)[0])
            for old in olds
            for each in house.sources[old].head_imports()[0]
            if house.target(each)[0]
        }
        edges[here] = found - {here}
    for ring in rings(edges):
        print("import each other:", " ".join(sorted(ring)))
        for one in sorted(ring):
            for old in members[one]:
                for each in house.sources[old].head_imports()[0]:
                    aim = house.target(each)[0]
                    if aim and house.new(aim) in ring - {one}:
                        print(f"    {old} -> {aim} ({each.name})")
    for here, text in sorted(made.items()):
        length = text.count("\n")
        if length > 700 or len(members[here]) > 1 and length < 120:
            print(f"{here}: {length} lines of {len(members[here])}")
    if options.dry_run:
        return 0
    outside = [f for root in READERS if root != "src" for f in sorted(Path(root).rglob("*.py"))]
    others = {f: strings(house, rewritten(house, Source("", f.read_text()), "")) for f in outside}
    for file in sorted(SRC.rglob("*.py")):
        parts = file.with_suffix("").relative_to(SRC).parts
        module = ".".join(parts).removesuffix(".__init__")
        if module in house.goes:
            file.unlink()
    parents = {here.rpartition(".")[0] for here in made} | {here.rpartition(".")[0].rpartition(".")[0] for here in made}
    there = {here for here in house.packages if here not in house.goes}
    for here in sorted(parents - set(made) - there - {""}):
        made[here] = f'"""{described[here]}"""\n'
        members[here] = []
    for here, text in made.items():
        place = SRC / Path(*here.split("."))
        file = place / "__init__.py" if here in parents else place.with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(strings(house, text))
    for file, text in others.items():
        file.write_text(text)
    for old, new in folders:
        source, to = SRC / ROOT / old, SRC / ROOT / new
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, to)
    for name in TEXTS:
        place = Path(name)
        for file in [place] if place.is_file() else sorted(place.rglob("*")):
            if file.is_file() and "examples" not in file.parts and file.suffix in {".md", ".toml", ".sh", ""}:
                try:
                    text = file.read_text()
                except UnicodeDecodeError:
                    continue
                after = strings(house, text)
                if after != text:
                    file.write_text(after)
    for folder in sorted(SRC.rglob("*"), reverse=True):
        if folder.is_dir() and folder.name != "__pycache__":
            here = [f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
            alone = [f.name for f in here] == ["__init__.py"]
            if not here or alone and ".".join(folder.relative_to(SRC).parts) not in parents:
                shutil.rmtree(folder)
            elif any(f.suffix == ".py" for f in folder.iterdir()) and not (folder / "__init__.py").exists():
                print(f"{folder} has no __init__.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
