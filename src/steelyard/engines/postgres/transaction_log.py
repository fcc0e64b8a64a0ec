"""pgbench's log of every transaction (a simple reader, to be replaced)."""

import json
from collections import defaultdict
from dataclasses import dataclass, field

from steelyard.model.latency import LatencyWindow, RunLatency, ScriptLatency
from steelyard.stats.histogram import histogram_of, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """What the lines of a log hold."""

    scripts: tuple[str, ...]
    open_loop: bool
    retries: bool
    latency_limit_s: float | None
    sampled: float = 1.0


@dataclass(slots=True, kw_only=True)
class TransactionLog:
    """What the logs say."""

    form: LogForm
    ramp_s: float
    transactions: int = 0
    damaged: int = 0
    truncated: tuple[str, ...] = ()
    rows: list[tuple[float, int, int, int]] = field(default_factory=list)

    def run_latency(self, *, windows_s: float | None) -> RunLatency:
        """Return all transactions after the ramp."""
        counted = [row for row in self.rows if row[0] >= self.ramp_s]
        scripts = []
        for number, name in enumerate(self.form.scripts):
            own = [row[2] for row in counted if row[1] == number]
            if own:
                scripts.append(
                    ScriptLatency(
                        script=name, latency=to_text(histogram_of(own)), longest_s=max(own) / 1e6
                    )
                )
        windows = []
        if windows_s is not None:
            places = defaultdict(list)
            for row in counted:
                places[int(row[0] / windows_s)].append(row[2])
            windows = [
                LatencyWindow(
                    start_s=p * windows_s,
                    end_s=(p + 1) * windows_s,
                    latency=to_text(histogram_of(own)),
                )
                for p, own in sorted(places.items())
            ]
        lag = [row[3] for row in counted] if self.form.open_loop else []
        service = [row[2] - row[3] for row in counted] if self.form.open_loop else []
        return RunLatency(
            scripts=tuple(scripts),
            lag=to_text(histogram_of(lag)) if lag else "",
            service=to_text(histogram_of(service)) if service else "",
            sampled=self.form.sampled,
            windows=tuple(windows),
        )

    def seconds_text(self) -> str:
        """Return the counts by second and script."""
        seconds = defaultdict(list)
        for row in self.rows:
            seconds[int(row[0]), row[1]].append(row[2])
        return "".join(
            json.dumps(
                {"second": s, "script": self.form.scripts[n], "counts": to_text(histogram_of(v))}
            )
            + "\n"
            for (s, n), v in sorted(seconds.items())
        )


class LogReader:
    """Reads logs."""

    def __init__(self, form: LogForm, *, started_at: float, ramp_s: float) -> None:
        self._form, self._started_at, self._ramp_s = form, started_at, ramp_s
        self._texts: dict[str, bytes] = defaultdict(bytes)

    def feed(self, source: str, chunk: bytes) -> None:
        """Take bytes."""
        self._texts[source] += chunk

    def finish(self) -> TransactionLog:
        """Return all."""
        log = TransactionLog(form=self._form, ramp_s=self._ramp_s)
        for source, text in self._texts.items():
            *lines, rest = text.split(b"\n")
            if rest:
                log.truncated = (*log.truncated, source)
            for line in lines:
                words = line.split()
                try:
                    end = int(words[4]) + int(words[5]) / 1e6 - self._started_at
                    lag = int(words[6]) if self._form.open_loop else 0
                    log.rows.append((end, int(words[3]), int(words[2]), lag))
                    log.transactions += 1
                except (ValueError, IndexError):
                    log.damaged += words[2:3] not in ([b"skipped"], [b"failed"])
        return log
