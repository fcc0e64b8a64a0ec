"""``steelyard man``: a man page for each verb, made from its help."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

import steelyard


@click.command("man")
@click.argument("directory", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write man pages into DIRECTORY: steelyard.1, and one for each verb.

    For the account: steelyard man ~/.local/share/man/man1, then man steelyard-run.
    """
    from steelyard.cli.main import cli
    from steelyard.core.wording import RecordError
    from steelyard.gateways.files import make_directory, write_text

    make_directory(directory)
    for words, verb in verbs(cli, ("steelyard",)):
        name = "-".join(words)
        write_text(directory / f"{name}.1", page(words, verb), error_type=RecordError)


def verbs(
    group: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, each with the words that call it."""
    yield words, group
    if isinstance(group, click.Group):
        context = _context(group, words)
        for name in group.list_commands(context):
            verb = group.get_command(context, name)
            if verb is not None:
                yield from verbs(verb, (*words, name))


def _context(verb: click.Command, words: tuple[str, ...]) -> click.Context:
    """Return the context of a command as it is called; click keeps the names of help it finds."""
    from steelyard.cli.main import cli

    return click.Context(verb, info_name=" ".join(words), **cli.context_settings)


def page(words: tuple[str, ...], verb: click.Command) -> str:
    """Return the man page of a command."""
    return "".join(_parts(words, verb))


def _parts(words: tuple[str, ...], verb: click.Command) -> Iterator[str]:
    name = "-".join(words)
    context = _context(verb, words)
    first, *paragraphs = re.split(r"\n\s*\n", (verb.help or "").strip())
    yield f'.TH {name.upper()} 1 "" "Steelyard {steelyard.__version__}" "Steelyard"\n'
    yield f".SH NAME\n{_text(name)} \\- {_text(_unbroken(first).removesuffix('.'))}\n"
    usage = " ".join(verb.collect_usage_pieces(context))
    yield f".SH SYNOPSIS\n.B {_text(' '.join(words))}\n{_text(usage)}\n"
    if paragraphs:
        yield ".SH DESCRIPTION\n"
        yield ".PP\n".join(f"{_text(_unbroken(each))}\n" for each in paragraphs)
    options = [each.get_help_record(context) for each in verb.get_params(context)]
    yield from _listed("OPTIONS", [each for each in options if each is not None])
    if isinstance(verb, click.Group):
        below = [(name, _summary(verb, context, name)) for name in verb.list_commands(context)]
        yield from _listed("COMMANDS", below)
    if len(words) > 1:
        yield f".SH SEE ALSO\n.BR {_text('-'.join(words[:-1]))} (1)\n"


def _summary(group: click.Group, context: click.Context, name: str) -> str:
    found = group.get_command(context, name)
    return "" if found is None else _unbroken(re.split(r"\n\s*\n", (found.help or "").strip())[0])


def _listed(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {title}\n"
    for name, told in rows:
        yield f".TP\n.B {_text(name)}\n{_text(told)}\n"


def _unbroken(text: str) -> str:
    return " ".join(text.split())


def _text(text: str) -> str:
    r"""Return a text whose backslashes, hyphens and dots are characters and no requests."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha")
    safe = safe.replace("~", "\\(ti").replace('"', "\\(dq")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
