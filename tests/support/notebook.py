"""The notebook docs/examples/campaign.ipynb, executed cell by cell by a small runner.

``PYTHONPATH=tests python -m support.notebook`` executes it and stores the outputs. No Jupyter is
needed: a cell prints, and the value of its last expression is what it shows, as there.
"""

import ast
import io
import json
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import vl_convert

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "campaign.ipynb"
Cell = dict[str, Any]


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs that its cells give now."""
    names: dict[str, Any] = {}
    cells, count = [], 0
    with chdir(NOTEBOOK.parent):
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                cells.append(cell)
                continue
            count += 1
            outputs = list(_outputs("".join(cell["source"]), names, count))
            cells.append({**cell, "execution_count": count, "outputs": outputs})
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int) -> Iterator[Cell]:
    *before, last = ast.parse(source).body
    is_shown = isinstance(last, ast.Expr)
    printed = io.StringIO()
    with redirect_stdout(printed):
        run = before if is_shown else [*before, last]
        exec(compile(ast.Module(run, []), "cell", "exec"), names)  # noqa: S102 - our own cells
        whole = compile(ast.Expression(last.value), "cell", "eval") if is_shown else None
        shown = eval(whole, names) if whole else None  # noqa: S307 - as above
    if text := printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    if shown is not None:
        told = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        yield {**told, "data": _data(shown)}


def _data(shown: Any) -> dict[str, Any]:
    """Return a chart as a drawing, all else as its text."""
    if hasattr(shown, "to_json"):
        drawn = vl_convert.vegalite_to_svg(shown.to_json(), allowed_base_urls=[])
        return {"text/plain": [type(shown).__name__], "image/svg+xml": [drawn]}
    return {"text/plain": repr(shown).splitlines(keepends=True)}


def as_text(notebook: dict[str, Any]) -> str:
    """Return a notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep


if __name__ == "__main__":
    NOTEBOOK.write_text(as_text(executed(json.loads(NOTEBOOK.read_text("utf-8")))), "utf-8")
