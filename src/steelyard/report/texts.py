"""Long texts of the answers, each in the template that has the name of its module.

The texts of ``noise/section.py`` are the macros of ``noise/section.j2``::

    {% macro lengths(block_s, preparation_s) %}
    A block takes about {{ block_s|duration }}, the preparation took
    {{ preparation_s|duration }}.
    {% endmacro %}

A line break is a space. A name that is not defined is an error. The words of the engine are there
under their names: ``{{ rate }}``, ``{{ many }}``.
"""

import re
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Final

from steelyard.core import wording
from steelyard.core.experiment import ONE
from steelyard.report import document as doc

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule

_BREAK: Final = re.compile(r"\s*\n\s*")


class Texts:
    """The texts of a module: each is a method of its name, and takes its values by theirs."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., str]:
        """Return the text of a name as a function of its values."""
        macro = getattr(macros(self._module), name)
        return lambda **values: _BREAK.sub(" ", macro(**values).strip())


@cache
def macros(module: str) -> "TemplateModule":
    """Return the macros of the template of a module, which is in the same folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - slow to import

    package, _, name = module.rpartition(".")
    environment = Environment(  # noqa: S701 - no HTML: a rendering escapes what it shows
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = enumerate(fields(wording.WorkWords), ord(ONE))
    environment.globals = {word.name: chr(mark) for mark, word in words}
    environment.filters |= {
        "count": doc.count,
        "duration": wording.format_duration,
        "share": wording.format_share,
        "threshold": doc.share,
    }
    return environment.get_template(f"{name}.j2").module
