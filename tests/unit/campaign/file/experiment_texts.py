"""Experiment files that the tests of this folder start from."""

from pathlib import Path

from steelyard.campaign.file.files import LoadedExperiment, Surroundings, load_text
from steelyard.core.wording import GIB, ExperimentFileError, Problem
from steelyard.tuning.profiles import MachineFacts

FACTS = MachineFacts(cpus=4.0, memory_bytes=16 * GIB, free_disk_bytes=200 * GIB)

# The canonical file of the design, but for the layer that this version refuses.
CANONICAL = """\
version: 1
name: huge pages and buffers
baseline: default
workloads:
  - {name: reads, builtin: select-only, scale: 100}
  - {name: writes, builtin: simple-update, scale: 100}
  - name: orders
    prepare: [orders.sql]                 # schema and data, run once, part of the prepared state
    scripts: [{file: new-order.sql, weight: 9}, {file: report.sql, weight: 1}]
load:
  clients: [1, 10, 50]
  threads: auto                           # min(clients, CPUs); or a list
  protocol: prepared
measure: {run_time: 5s, discard_start: 2s, warm_up: auto, reset: auto}
stop: {budget: 60m, detect: 3%, margin: 1%}    # or width: 1% instead of decide
seed: 20261121
configurations:
  default:
    target: {kind: local}                 # local | existing | kubernetes | rds | aurora
  buffers:
    extends: default
    postgres: {shared_buffers: 2GB}
  huge-pages:
    extends: buffers
    postgres: {huge_pages: "on"}
"""

SMALL = """\
version: 1
name: small
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default: {}
  other: {extends: default}
"""

# What the keys of `measure`, `stop`, a target and a store become is in the snapshots.
EVERY_KEY = """\
version: 1
name: every key
description: What each key becomes
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: [2, 4], threads: [2, 4], protocol: extended}
sustain: 15m
seed: 1
measure:
  {run_time: 10s, discard_start: 0, warm_up: 1m, reset: block, switch: restart, prewarm: true,
   machine_limits: off, max_other_load: 30 %, log_sampling: 10%, runs_per_start: 12}
stop: {budget: 1h30m, width: 1%, margin: 0.005}
configurations:
  default:
    target:
      burst_lasts: 30m
      store: {latency: 2ms, iops: 900, bandwidth: 48MB, burst_iops: 3000, burst_credits: 30000,
              block_size: 64KiB, size: 4GiB}
  other:
    extends: default
    protocol: simple
    postgres: {autovacuum: off, jit: true, wal_compression: false, random_page_cost: 1.10,
               unix_socket_permissions: 0700, work_mem: 8MB, pg_stat_statements.track: all}
"""
IN_TURNS = """\
version: 1
name: turns
design: alternating
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
measure: {turn: 500ms, turn_discard: 200ms, reconnects: 3, max_other_load: ignore, log: keep}
stop: {detect: 0.4}
gate: slower > 3%, faster > 10%
configurations:
  default: {}
  other: {target: {store: {}}}
"""
CALIBRATED = """\
version: 1
name: calibrated
design: one-by-one
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
measure: {calibration: {}, log: off, switch: reprovision, runs_per_start: 3}
configurations:
  default: {}
  other: {}
"""
KEPT = (CANONICAL, SMALL, EVERY_KEY, IN_TURNS, CALIBRATED)


def write_scripts(folder: Path) -> Path:
    """Write the script files of the canonical experiment and return their folder."""
    for name in ("orders.sql", "new-order.sql", "report.sql"):
        (folder / name).write_text(f"SELECT 1; -- {name}\n", encoding="utf-8")
    return folder


def load(text: str, base: Path = Path("/nonexistent"), *overrides: str) -> LoadedExperiment:
    """Return the experiment of a text, with the facts of a made-up machine."""
    return load_text(text, "test.yaml", Surroundings(base=base, facts=FACTS), overrides)


def problems_of(
    text: str, *overrides: str, base: Path = Path("/nonexistent")
) -> tuple[Problem, ...]:
    """Return the problems of a text; none when it loads."""
    try:
        load(text, base, *overrides)
    except ExperimentFileError as error:
        return error.problems
    return ()


def only_problem(text: str, *overrides: str) -> str:
    """Return the one problem of a text, as it is printed."""
    problems = problems_of(text, *overrides)
    assert len(problems) == 1, [problem.located("test.yaml") for problem in problems]
    return problems[0].located("test.yaml")


def with_line(line: str, after: str = "seed: 1\n") -> str:
    """Return the small experiment with a line put in."""
    assert after in SMALL
    return SMALL.replace(after, f"{after}{line}\n")


def with_other(configuration: str) -> str:
    """Return the small experiment with its second configuration replaced."""
    return SMALL.replace("  other: {extends: default}\n", f"  other: {configuration}\n")


def with_workload(workload: str) -> str:
    """Return the small experiment with its workload replaced."""
    return SMALL.replace("{name: reads, builtin: select-only, scale: 1}", workload)
