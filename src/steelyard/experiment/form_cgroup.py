"""The section ``cgroup`` of a treatment: limits of the server and the load generator."""

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.form_values import Form, refusal
from steelyard.experiment.suggestions import shown
from steelyard.model.cgroup import PARSERS
from steelyard.model.errors import InputError


def _limit(key: str) -> Callable[[object], str | None]:
    """Return a validator for one limit: its text as written, None to remove an inherited one."""

    def read(value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise refusal(f"{shown(value)} is a list or mapping", "Write it as text: '0,2-3'.")
        text = values.text(value)
        try:
            PARSERS[key](text)
        except InputError as error:
            raise refusal(error.message, error.hint) from None
        return text

    return read


_CPU_LIST: Final = {"type": ["string", "integer", "null"], "examples": ["0", "0-1", "0,2-3"]}
_RATE: Final = {"type": ["string", "integer", "null"], "examples": ["20MB"]}
_IOPS: Final = {"type": ["integer", "string", "null"], "minimum": 1}
Cpus = Annotated[
    str | None,
    PlainValidator(_limit("cpus")),
    WithJsonSchema({"type": ["number", "string", "null"], "exclusiveMinimum": 0}),
]
CpuList = Annotated[str | None, PlainValidator(_limit("cpuset")), WithJsonSchema(_CPU_LIST)]
Iops = Annotated[str | None, PlainValidator(_limit("read_iops")), WithJsonSchema(_IOPS)]
Rate = Annotated[str | None, PlainValidator(_limit("read_bytes_per_s")), WithJsonSchema(_RATE)]


class CgroupForm(Form):
    """Limits of server and generator; null removes an inherited one."""

    cpus: Cpus = Field(default=None, description="CPU time of the server, in CPUs.", examples=[0.6])
    cpuset: CpuList = Field(
        default=None, description="CPUs that the server may run on.", examples=["0-1"]
    )
    generator_cpuset: CpuList = Field(
        default=None, description="CPUs that the load generator may run on.", examples=["0"]
    )
    read_iops: Iops = Field(
        default=None, description="Reads per second from the disk of the data.", examples=[200]
    )
    write_iops: Iops = Field(
        default=None, description="Writes per second to the disk of the data.", examples=[200]
    )
    read_bytes_per_s: Rate = Field(
        default=None, description="Bytes per second from the disk.", examples=["20MB"]
    )
    write_bytes_per_s: Rate = Field(
        default=None, description="Bytes per second to the disk.", examples=["20MB"]
    )
