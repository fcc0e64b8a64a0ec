"""``steelyard.open``: what a notebook gets of a campaign, and what an import costs."""

import ast
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import vl_convert

import steelyard
from steelyard import notebook
from steelyard.core.findings import Verdict
from steelyard.core.wording import InputError, RecordError
from steelyard.record import tables

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


QUICK = Path(__file__).parents[2] / "docs" / "examples" / "quick"


@pytest.mark.slow
def test_a_campaign_has_verdicts_tables_charts_and_the_report() -> None:
    """Typed verdicts, tables, charts, and the same summary and page as the files beside it."""
    campaign = steelyard.open(QUICK)
    by_workload = {each.workload: each for each in campaign.verdicts}
    assert by_workload["reads"].verdict is Verdict.FASTER
    assert by_workload["writes"].verdict is Verdict.EQUIVALENT
    of_all = {"runs", "intervals", "waits", "counters", "statements", "host", "latency"}
    assert {*campaign.tables} == of_all
    assert campaign.tables["runs"].num_rows == len(campaign.record.runs)
    assert campaign.charts["effects"].to_dict()["vconcat"]
    assert campaign.summary == json.loads((QUICK / "summary.json").read_text("utf-8"))
    assert campaign.report_html() == (QUICK / "report.html").read_text("utf-8")
    assert "reads, large vs small (baseline): faster" in repr(campaign)


def test_what_is_no_campaign_is_refused(tmp_path: Path) -> None:
    """The same sentence as on the command line."""
    with pytest.raises(RecordError, match="holds no campaign"):
        steelyard.open(str(tmp_path))


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and charts are extras; verdicts and the report are there without them."""
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    monkeypatch.setattr(notebook, "can_draw", lambda: False)
    campaign = steelyard.open(QUICK)
    with pytest.raises(InputError) as refused:
        _ = campaign.tables
    assert "pyarrow" in refused.value.hint
    with pytest.raises(InputError) as refused:
        _ = campaign.charts
    assert "altair" in refused.value.hint
    assert len(campaign.verdicts) == 2


def test_importing_steelyard_is_cheap() -> None:
    """Nothing of ours and nothing heavy is imported before a campaign is opened."""
    asked = "import sys, steelyard; print(*[m for m in sys.modules if m.startswith('steelyard')])"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["steelyard"]


@pytest.mark.slow
def test_the_notebook_gives_the_outputs_that_it_shows() -> None:
    """It is executed here; drawings are only compared in that they are there."""
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    assert kept["nbformat"] == 4
    again = executed(kept)
    assert _texts(again) == _texts(kept)
    assert str(kept).count("image/svg+xml") == 1
    assert sum(bool(cell.get("outputs")) for cell in kept["cells"]) >= 4


def _texts(shown: dict) -> list:
    outputs = [each for cell in shown["cells"] for each in cell.get("outputs", ())]
    return [each.get("text") or each["data"]["text/plain"] for each in outputs]
