"""The sections ``linux``, ``kvm`` and ``manual`` of a treatment: what is outside its server."""

import shlex
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.form_values import Form, empty_as_mapping, refusal
from steelyard.experiment.suggestions import shown


def _command(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, list):
        words = [values.text(word) for word in value]
    else:
        try:
            words = shlex.split(values.text(value))
        except ValueError as error:
            raise refusal(f"{shown(value)} is no command: {error}", "Close the quote.") from None
    if not words:
        raise refusal("the command is empty", "Name a program, or leave `command` out.")
    return tuple(words)


HookCommand = Annotated[
    tuple[str, ...] | None,
    PlainValidator(_command),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
LinuxSettings = Annotated[dict[str, values.SettingValue], BeforeValidator(empty_as_mapping)]


class KvmForm(Form):
    """The virtual machine that the treatment's server runs in."""

    domain: values.Text | None = Field(
        default=None,
        description="File with the XML of its libvirt domain, relative to the experiment file.",
        examples=["pg-node.xml"],
    )


class ManualForm(Form):
    """What must be done by hand or by a command of the user's before the server is measured."""

    text: values.Text | None = Field(
        default=None,
        description="What the operator is asked to do; it waits until that is confirmed.",
        examples=["Power-cycle the VM pg-node-1."],
    )
    command: HookCommand = Field(
        default=None,
        description="Run on this machine without a shell instead of asking; it must end with 0.",
        examples=["./power-cycle pg-node-1"],
    )
    timeout: values.LongLength = Field(
        default=600.0,
        description="How long the operator or the command may take.",
        examples=["10m"],
    )
