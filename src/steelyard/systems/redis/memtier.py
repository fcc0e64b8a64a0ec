"""memtier_benchmark: command lines and the reading of its JSON.

Never run here: it is in no Debian release. Written by its README, its ``--help`` and the JSON file
in its repository (versions 1.3 to 2.1).

- It takes a time. It has no ramp, and tells the requests of each second.
- ``--rate-limiting`` holds back each connection, and latency counts from the sending: what waits
  for its turn while the server stalls is not measured. That is no open loop, and none is offered.
- Its JSON goes to a file. A generator that runs as another account may not open the pipe that it
  was given, hence the shell with a pipe of its own.
- It takes a password as an argument only, which every account of the machine can read.
- Its histograms are HdrHistograms in the compressed V2 encoding, of any precision; ``steps_of``
  reads them. Source: HdrHistogram (Java), ``AbstractHistogram.decodeFromCompressedByteBuffer`` and
  ``valueFromIndex``; ZigZag LEB128 of at most 9 bytes, a negative number stands for so many zeros.
"""

import base64
import binascii
import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from steelyard.core.command import Completed, ServerAddress
from steelyard.core.errors import InputError, MeasurementError
from steelyard.core.experiment import RedisWork, Workload
from steelyard.core.measurement import Second
from steelyard.core.units import MS_PER_S
from steelyard.gateways.redis import socket_path
from steelyard.systems.protocol import RunRequest
from steelyard.systems.redis.redis_benchmark import (
    Printed,
    Step,
    credentials,
    refuse_password,
    tls_files,
)
from steelyard.systems.redis.settings import COMMANDS, DATA, NUMBER, OTHER_NAMES

_V2: Final = 0x1C849313
_V2_COMPRESSED: Final = 0x1C849314
_OUTER: Final = struct.Struct(">ii")
_HEADER: Final = struct.Struct(">iiiiqqd")
_MOST_BYTES: Final = 64 << 20  # a guess: far above what 5 digits over an hour take
_MOST_DIGITS: Final = 5
_LEB_BYTES: Final = 8  # of seven bits; a ninth has eight


def steps_of(text: str) -> tuple[Step, ...]:
    """Return how many values lie at or below the largest value of each used bucket.

    Args:
        text: Base64 of the compressed encoding.

    Raises:
        ValueError: It is none.
    """
    payload, digits, lowest = _unpacked(text)
    largest = 2 * 10**digits
    half_bits = max(math.ceil(math.log2(largest)), 1) - 1
    unit_bits = int(math.log2(lowest))
    steps, total, place = [], 0, 0
    for number in _numbers(payload):
        if number < 0:
            place -= number
            continue
        if number:
            total += number
            steps.append(Step(latency_us=_top(place, half_bits, unit_bits), requests=total))
        place += 1
    return tuple(steps)


def _unpacked(text: str) -> tuple[bytes, int, int]:
    """Return the counters, the number of significant digits and the lowest value told apart."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = _OUTER.unpack_from(packed)
        inflating = zlib.decompressobj()
        plain = inflating.decompress(packed[_OUTER.size : _OUTER.size + length], _MOST_BYTES)
        inner, payload_length, offset, digits, lowest, _, _ = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise ValueError(f"no compressed HdrHistogram: {error}") from error
    known = (cookie, inner) == (_V2_COMPRESSED, _V2) and offset == 0
    if not known or not 0 <= digits <= _MOST_DIGITS or lowest < 1:
        raise ValueError("no HdrHistogram of encoding V2")
    payload = plain[_HEADER.size : _HEADER.size + payload_length]
    if len(payload) != payload_length:
        raise ValueError("an HdrHistogram that is cut off")
    return payload, digits, lowest


def _numbers(payload: bytes) -> Iterator[int]:
    value = shift = count = 0
    for byte in payload:
        if count == _LEB_BYTES:
            value |= byte << shift
        else:
            value |= (byte & 0x7F) << shift
            if byte & 0x80:
                shift, count = shift + 7, count + 1
                continue
        yield (value >> 1) ^ -(value & 1)
        value = shift = count = 0
    if count:
        raise ValueError("an HdrHistogram whose last number is cut off")


def _top(place: int, half_bits: int, unit_bits: int) -> int:
    """Return the largest value that counts in a bucket."""
    bucket, within = (place >> half_bits) - 1, place & ((1 << half_bits) - 1)
    if bucket < 0:
        bucket = 0
    else:
        within += 1 << half_bits
    bits = bucket + unit_bits
    if bits > 52:
        raise ValueError("an HdrHistogram with more counters than it has values")
    return ((within + 1) << bits) - 1


# Whether it would choose ten keys for one command is not documented.
_COMMANDS: Final = {name: words for name, words in COMMANDS.items() if name != "mset"}
BUILTINS: Final = (*_COMMANDS, *OTHER_NAMES)
FIRST_KEY: Final = 10**11  # its numbers have no leading zeros: so all have 12 digits
# `cat` makes a pipe that the account of the generator owns; the exit status is memtier's.
_SHELL: Final = (
    "exec 4>&1; "
    'status=$({ { "$@" --out-file=/dev/null --json-out-file=/dev/stdout; echo $? >&3; }'
    " | cat >&4; } 3>&1); "
    'exit "$status"'
)
# In turns nobody reads what it prints while it runs, and a full pipe would stop it; the last words
# of one that failed are kept.
_SHELL_IN_TURNS: Final = (
    "exec 4>&2; "
    'status=$({ { "$@" --out-file=/dev/null 2>&1 >/dev/null 3>&-; echo $? >&3; }'
    " | tail -c 4000 >&4; } 3>&1); "
    'exit "$status"'
)
_OWN_FLAGS: Final = {
    **dict.fromkeys(("-s", "--server", "-h", "--host", "-p", "--port", "-u", "--uri"), "target"),
    **dict.fromkeys(("-S", "--unix-socket", "--tls", "--cacert", "--cert", "--key"), "target"),
    **dict.fromkeys(("--select-db", "--cluster-mode", "-P", "--protocol"), "target"),
    **dict.fromkeys(("-a", "--authenticate"), "nothing: secrets are never arguments"),
    **dict.fromkeys(("-c", "--clients"), "loads.clients"),
    **dict.fromkeys(("-t", "--threads"), "loads.threads"),
    **dict.fromkeys(("--pipeline",), "loads.pipeline"),
    **dict.fromkeys(("-n", "--requests", "--test-time"), "measure.slice"),
    **dict.fromkeys(("-d", "--data-size"), "workloads[].value_bytes"),
    **dict.fromkeys(("--key-prefix", "--key-minimum", "--key-maximum"), "workloads[].keys"),
    **dict.fromkeys(("--ratio",), "workloads[].read_share"),
    **dict.fromkeys(("--command", "--command-ratio"), "workloads[].command"),
    **dict.fromkeys(("-x", "--run-count", "-D", "--debug"), "nothing: one run is read at a time"),
    **dict.fromkeys(("-o", "--out-file", "--json-out-file"), "nothing: its output is read"),
    **dict.fromkeys(("--rate-limiting",), "nothing: its rate is no open loop"),
    **dict.fromkeys(("--help", "-v", "--version", "--show-config"), "nothing: it measures no run"),
}


def refuse_own_flags(flags: Sequence[str]) -> None:
    """Raise for generator flags that the experiment file decides.

    Raises:
        InputError: One of the flags is set elsewhere.
    """
    for flag in flags:
        word = flag.split("=", maxsplit=1)[0]
        short = flag[:2] if flag[:1] == "-" and flag[:2] != "--" else ""
        # getopt_long takes the beginning of a long flag for it: `--comm` is `--command`.
        is_long = word.startswith("--") and word != "--"
        meant = next((own for own in _OWN_FLAGS if is_long and own.startswith(word)), short)
        name = word if word in _OWN_FLAGS else meant
        if name in _OWN_FLAGS:
            raise InputError(
                f"the memtier_benchmark flag {name} is set by Steelyard",
                hint=f"Set it in the experiment file: {_OWN_FLAGS[name]}.",
            )


def environment(address: ServerAddress) -> Mapping[str, str]:
    """Return the environment for an address: nothing, because memtier_benchmark reads none of it.

    Raises:
        PreflightError: The server asks for a password.
    """
    refuse_password(address, "memtier_benchmark")
    return {}


def command_line(program: str, request: RunRequest, *, dbnum: int) -> tuple[str, ...]:
    """Return the command line of one process of a run; its JSON is its standard output.

    In turns it has no output: it ends by a signal, and tells nothing then.

    Raises:
        InputError: The workload cannot be asked of memtier_benchmark.
    """
    shell = _SHELL_IN_TURNS if request.in_turns else _SHELL
    return ("/bin/sh", "-c", shell, "sh", program, *run_arguments(request, dbnum=dbnum))


def run_arguments(request: RunRequest, *, dbnum: int) -> tuple[str, ...]:
    """Return memtier_benchmark's arguments for one process of a run.

    Raises:
        InputError: The load or the workload cannot be asked of it.
    """
    load, work = request.load, request.workload.redis or RedisWork()
    if load.clients % load.threads:
        raise InputError(
            f"memtier_benchmark cannot divide {load.clients} clients among {load.threads} threads",
            hint="Its threads have equally many: choose numbers of clients that are multiples.",
        )
    if load.is_open:
        raise InputError(
            "memtier_benchmark has no open loop: its rate limit counts latency from the sending",
            hint="Leave out the rate.",
        )
    return (
        *_address_arguments(request.address),
        f"--select-db={dbnum}",
        f"--threads={load.threads}",
        f"--clients={load.clients // load.threads}",  # of each thread
        f"--pipeline={load.pipeline}",
        f"--test-time={request.seconds}",
        f"--data-size={work.space.value_bytes}",
        "--random-data",  # else every value is the letter x, which compresses
        "--distinct-client-seed",  # else all clients ask for the same keys at the same time
        "--randomize",
        f"--key-minimum={work.space.first}",
        f"--key-maximum={work.space.first + work.space.keys - 1}",
        "--hide-histogram",
        *_work_arguments(request.workload, work),
        *request.flags,
    )


def _address_arguments(address: ServerAddress) -> list[str]:
    who = credentials(address)
    login = [f"--authenticate={who[0]}:{who[1]}"] if who is not None else []
    socket = socket_path(address)
    if address.inside is None and socket is not None:
        return [f"--unix-socket={socket}", *login]
    host, port = address.inside or (address.host, address.port)
    files = tls_files(address)
    tls = [] if files is None else ["--tls", *(f"--{name}={path}" for name, path in files)]
    return [f"--server={host}", f"--port={port}", *login, *tls]


def _work_arguments(workload: Workload, work: RedisWork) -> list[str]:
    """Return what is asked: memtier's own mix of SET and GET, or a command."""
    name = OTHER_NAMES.get(workload.builtin or "", workload.builtin)
    reads = {"get": 1.0, "set": 0.0}.get(name or "") if work.read_share is None else work.read_share
    if reads is not None:
        share = Fraction(reads).limit_denominator(1000)
        ratio = f"--ratio={share.denominator - share.numerator}:{share.numerator}"
        return ["--key-prefix=key:", "--key-pattern=R:R", ratio]
    command = work.command or _COMMANDS.get(name or "", ())
    if not command:
        raise InputError(
            f"memtier_benchmark has no test {workload.builtin!r}",
            hint=f"It has {', '.join(BUILTINS)}; any other is a `command:`.",
        )
    prefixes = {word.removesuffix(NUMBER) for word in command if NUMBER in word}
    if len(prefixes) > 1 or any(NUMBER in prefix for prefix in prefixes):
        raise InputError(
            "memtier_benchmark has one kind of key in a command, which ends in its number",
            hint=f"Use one word PREFIX{NUMBER}, or redis-benchmark.",
        )
    words = ["__key__" if NUMBER in word else word for word in command]
    prefix = next(iter(prefixes), "key:")
    return [f"--key-prefix={prefix}", f"--command={_line(words)}", "--command-key-pattern=R"]


def _line(words: Sequence[str]) -> str:
    """Return words as memtier takes them apart again: blanks divide, quotes keep together."""
    plain = [word for word in words if word and not set(word) & set(" \t\n\"'\\")]
    if len(plain) != len(words):
        raise InputError(
            "a command of memtier_benchmark has words with blanks, quotes or backslashes",
            hint="Use words without them, or redis-benchmark.",
        )
    return " ".join(DATA if word == DATA else word for word in words)


def parse(completed: Completed) -> Printed:
    """Return what one process measured.

    Raises:
        MeasurementError: It failed, or its JSON is not understood.
    """
    if not completed.succeeded:
        raise MeasurementError(
            f"memtier_benchmark exited with {completed.exit_status}: {_complaint(completed)}"
        )
    try:
        stats = json.loads(completed.stdout)["ALL STATS"]
        return _Stats(runtime=stats["Runtime"], totals=stats["Totals"]).printed()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise MeasurementError(
            f"the JSON of memtier_benchmark is not understood ({type(error).__name__}: {error});"
            f" it said: {_complaint(completed)}",
            hint="It is in the campaign's raw/ directory; please report it.",
        ) from error


def _complaint(completed: Completed) -> str:
    """Return the last lines of what it told the operator, without its progress."""
    lines = [line.rsplit("\r", maxsplit=1)[-1] for line in completed.stderr.split("\n")]
    told = [line for line in lines if line.strip() and not line.startswith("[RUN #")]
    return "\n".join(told[-3:]) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stats:
    """The parts of the JSON that are read; every access may fail."""

    runtime: Mapping[str, object]
    totals: Mapping[str, object]

    def printed(self) -> Printed:
        requests = _number(self.totals["Count"])
        seconds = _number(self.runtime["Total duration"]) / MS_PER_S
        if self.runtime.get("Time unit", "MILLISECONDS") != "MILLISECONDS" or seconds <= 0.0:
            raise ValueError("it has no duration")
        errors = _number(self.totals.get("Connection Errors", 0))
        if errors:
            raise ValueError(f"{errors:.0f} connections failed")
        series = self._series(seconds)
        latencies = _mapping(self.totals["Percentile Latencies"])
        text = _mapping(latencies["Histogram log format"])["Compressed Histogram"]
        timed = [second for second in series if second.latency_mean_s is not None]
        total_s = sum(second.transactions * (second.latency_mean_s or 0.0) for second in timed)
        weight = sum(second.transactions for second in timed)
        return Printed(
            test="Totals",
            requests=int(requests),
            seconds=seconds,
            mean_s=total_s / weight if weight else None,
            longest_s=_number(self.totals["Max Latency"]) / MS_PER_S,
            series=series,
            steps=steps_of(str(text)),
        )

    def _series(self, seconds: float) -> tuple[Second, ...]:
        """Return the requests of every second of the run; one that is not listed had none."""
        listed = {int(at): _mapping(one) for at, one in _mapping(self.totals["Time-Serie"]).items()}
        whole = min(max(listed, default=0) + 1, int(seconds) + 1)
        return tuple(_second(at, listed.get(at, {}), seconds) for at in range(whole))


def _second(at: int, told: Mapping[str, object], whole_s: float) -> Second:
    count = _number(told.get("Count", 0))
    mean_ms = _number(told.get("Average Latency", 0))
    end_s = max(min(at + 1.0, whole_s), at + 1e-3)  # the last second is not whole
    return Second(
        end_s=round(end_s, 6),
        transactions=count,
        seconds=round(end_s - at, 6),
        latency_mean_s=mean_ms / MS_PER_S if count > 0 and mean_ms > 0 else None,
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise ValueError(f"{value!r} is no count")
    return float(value)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} has no entries")
    return value
