"""The SQL that changes a server, as text: settings, databases, marks."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.model.command import ServerAddress

# Lists whose items the server quotes one by one (GUC_LIST_QUOTE): written as one literal, a list
# would become a single name.
_QUOTED_LISTS = frozenset(
    {
        "local_preload_libraries",
        "search_path",
        "session_preload_libraries",
        "shared_preload_libraries",
        "temp_tablespaces",
        "unix_socket_directories",
    }
)
_ITEM = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]+)\s*(?:,|$)')
_FORCE_FROM = 130000
_STRATEGY_FROM = 150000


def identifier(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it, whatever ``standard_conforming_strings`` says."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        doubled = quoted.replace("\\", "\\\\")
        return f"E'{doubled}'"
    return f"'{quoted}'"


def set_system(name: str, value: str | None) -> str:
    """Return ALTER SYSTEM for one setting; None removes it from ``postgresql.auto.conf``."""
    named = ".".join(identifier(part) for part in name.split("."))
    if value is None:
        return f"ALTER SYSTEM RESET {named}"
    return f"ALTER SYSTEM SET {named} = {', '.join(map(literal, _items(name, value)))}"


def _items(name: str, value: str) -> list[str]:
    if name.lower() not in _QUOTED_LISTS or not value.strip():
        return [value]
    items = [match[1].strip() for match in _ITEM.finditer(value)]
    return [i[1:-1].replace('""', '"') if i.startswith('"') else i for i in items]


def session_options(settings: Mapping[str, str]) -> str:
    """Return settings as libpq's ``options``, where backslashes protect spaces."""
    escaped = (re.sub(r"([\\\s])", r"\\\1", f"{name}={value}") for name, value in settings.items())
    return " ".join(f"-c {setting}" for setting in escaped)


def with_settings(address: ServerAddress, settings: Mapping[str, str]) -> ServerAddress:
    """Return an address whose sessions have these settings, beside those that it gives them."""
    parameters = dict(address.parameters)
    own = [parameters.get("options", ""), session_options(settings)]
    if options := " ".join(filter(None, own)):
        parameters["options"] = options
    return replace(address, parameters=tuple(parameters.items()))


def drop_database(name: str, version_num: int) -> str:
    """Return DROP DATABASE; from 13 on it ends the sessions in it."""
    force = " WITH (FORCE)" if version_num >= _FORCE_FROM else ""
    return f"DROP DATABASE IF EXISTS {identifier(name)}{force}"


def copy_database(name: str, template: str, version_num: int) -> str:
    """Return CREATE DATABASE from a template, by copying files: little WAL."""
    strategy = " STRATEGY FILE_COPY" if version_num >= _STRATEGY_FROM else ""
    return f"CREATE DATABASE {identifier(name)} TEMPLATE {identifier(template)}{strategy}"


def mark_database(name: str, mark: str) -> str:
    """Return the statement that marks a database as Steelyard's."""
    return f"COMMENT ON DATABASE {identifier(name)} IS {literal(mark)}"


def mark_tables(names: Iterable[str], mark: str) -> list[str]:
    """Return the statements that mark tables as Steelyard's."""
    return [f"COMMENT ON TABLE {identifier(name)} IS {literal(mark)}" for name in names]
