"""Settings of PostgreSQL as a file that ``postgresql.conf`` includes."""

import re
from typing import Final

from steelyard.model.stack import PlannedSetting, PostgresDesign, RenderedFile, Scope
from steelyard.tuning.rendering.remarks import HEAD, hashed, remark

_BARE: Final = re.compile(r"[A-Za-z0-9._-]+")


def configuration_file(design: PostgresDesign) -> RenderedFile:
    """Return the file to include, with reason and source above every setting."""
    name = "postgres/steelyard.conf"
    return RenderedFile(
        name=name,
        layer="postgres",
        content=configuration(design),
        validated_by="postgres -D DATA_DIRECTORY -C shared_memory_size_in_huge_pages",
    )


def configuration(design: PostgresDesign) -> str:
    """Return the settings as text, with what each needs before it is in effect."""
    head = hashed(
        f"{HEAD} For PostgreSQL {design.version}; copy it to a `conf.d` folder that the server "
        "includes, or add `include = 'steelyard.conf'` at the end of postgresql.conf.",
        f"Its shared memory takes {design.huge_pages} huge pages, by {design.counted_by}.",
    )
    return "\n".join((head, *(_lines(setting) for setting in design.settings)))


def _lines(setting: PlannedSetting) -> str:
    needs = f" Takes effect with a {Scope.SERVER}." if setting.scope is Scope.SERVER else ""
    return f"{hashed(remark(setting) + needs)}{setting.name} = {_quoted(setting.value)}\n"


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else "'" + value.replace("'", "''") + "'"
