"""What is run in containers to watch them: bash alone, which starts no program.

A program started in a control group with a CPU quota costs its server more than what it reads is
worth: a turn of the loop uses 0.4 ms of CPU, the start of one `cat` alone 1 ms (measured).
"""

import shlex
from collections.abc import Sequence
from typing import Final

BOOT: Final = "/proc/sys/kernel/random/boot_id"  # tells kernels apart
# Files of a control group in both versions; what is absent is passed over.
_OF_GROUP: Final = (
    *("cpu.stat", "cpuacct.usage", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    *("cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("memory.current", "memory.usage_in_bytes", "memory.stat"),
    *("io.stat", "blkio.throttle.io_service_bytes_recursive"),
)
_OF_NODE: Final = (
    *("/proc/stat", "/proc/uptime", BOOT, "/proc/meminfo", "/proc/vmstat", "/proc/diskstats"),
    *("/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"),
    "/proc/self/mountinfo",
)
_OF_GENERATOR: Final = ("/proc/stat", "/proc/uptime", BOOT)

# `name:N` are the first N lines of a file. mapfile reads in large pieces, `read` byte by byte.
_HEAD: Final = r"""exec 2>/dev/null
LC_ALL=C; IFS=$'\n'; shopt -s nullglob
show() {
  local f l n
  for f do
    n=${f##*:}; if [[ $n == *[!0-9]* ]]; then n=0; else f=${f%:*}; fi
    l=(); mapfile -t -n "$n" l <"$f"
    ((${#l[@]})) && out+=$'\n'"$m file $f"$'\n'"${l[*]}"$'\n'
  done
}
# state parent group: what of a process's stat comes after its name; see proc_pid_stat(5)
look() {
  local s=(); mapfile -t -n 1 s <"$1/stat"; s=${s[0]}
  called=${s#*\(}; called=${called%)*}; s=${s##*) }; s=${s#* }
  parent=${s%% *}; s=${s#* }; group=${s%% *}
}
# What this costs: all that was started with it, in its process group.
look "/proc/$$"; mine=$group; own=()
"""
_OWN: Final = r"""
for d in /proc/[0-9]*; do look "$d"; [[ $group == "$mine" ]] && own+=("$d/schedstat"); done
"""
# The control groups of this container; of the tree it mostly sees its own alone, as the root.
_GROUPS: Final = r"""
mapfile -t lines </proc/self/cgroup
for l in "${lines[@]}"; do
  c=${l#*:}; p=${c#*:}; c=${c%%:*}; c=${c#name=}
  if [[ $c ]]; then roots=("/sys/fs/cgroup/$c"); else roots=(/sys/fs/cgroup{,/unified}); fi
  for d in "${roots[@]}"; do
    [[ $p != / && -d $d$p ]] && d=$d$p
    [[ -e $d/cgroup.procs ]] && show "${of_group[@]/#/$d/}" "$d"/hugetlb.*.{current,usage_in_bytes}
  done
done
"""
# The first process of a server is one whose parent is none of it.
_SERVER: Final = r"""
declare -A names parents; servers=" postgres redis-server valkey-server "
for d in /proc/[0-9]*; do
  look "$d"; [[ $group == "$mine" ]] && own+=("$d/schedstat")
  d=${d#/proc/}; names[$d]=$called; parents[$d]=$parent
done
for d in "${!names[@]}"; do
  n=${names[$d]}
  [[ $servers == *" $n "* && ${names[${parents[$d]}]-} != "$n" ]] && pid=$d
done
if [[ $pid ]]; then
  out+=$'\n'"$m number pid $pid"$'\n'
  cd -P "/proc/$pid/cwd" && data=$PWD && out+=$'\n'"$m directory data"$'\n'"$PWD"$'\n'
  cd -P pg_wal && out+=$'\n'"$m directory wal"$'\n'"$PWD"$'\n'
fi
show /sys/dev/block/*/partition /sys/devices/system/node/node[0-9]*/cpulist
"""
# Once, when the run is over; `stat` is the only program that is started.
_LEVELS: Final = r"""
if [[ $pid ]]; then
  show "/proc/$pid/maps" "/proc/$pid/smaps_rollup"
  s=$(stat -f -c '%S %b %a' "$data") && out+=$'\n'"$m file space"$'\n'"$s"$'\n'
fi
"""
_TELL: Final = r"""
show "${own[@]}"
printf '%s\n%s end\n' "$out" "$m"
"""
# A pipe that nobody writes to is a sleep without a program. Whoever watches says now and then that
# it is still there: else the loop ends, also where nobody told it that the connection was lost.
_LOOP: Final = r"""
trap 'SECONDS=0' USR1
exec {{nap}}<> <(:)
while out= && ((SECONDS < {lease_s})); do
  show {files} "${{own[@]}}"
  printf '%s\n%s number pid %s\n\n%s end\n' "$out" "$m" "$$" "$m" || exit
  read -r -t 1 -u "$nap"
done
exit 0
"""


def server_script(mark: str, *, at_end: bool, ending: int | None = None) -> str:
    """Return what prints the account of a server's container, and of its node.

    Args:
        mark: Parts what is printed; see `gateways.fetched`.
        at_end: With what is read at the end of a run alone: memory map, free disk.
        ending: Process id of a loop that is ended first.
    """
    return "".join(
        (
            _begin(mark, ending),
            _GROUPS,
            _SERVER,
            _LEVELS if at_end else "",
            f"show {' '.join(_OF_NODE)}",
            _TELL,
        )
    )


def generator_script(mark: str) -> str:
    """Return what prints the account of a generator's container."""
    files = " ".join(_OF_GENERATOR)
    return f"{_begin(mark)}{_OWN}{_GROUPS}show {files}{_TELL}"


def loop_script(mark: str, files: Sequence[str], *, lease_s: int) -> str:
    """Return what prints some files once a second, until nobody renews the lease.

    Args:
        mark: Parts what is printed.
        files: By path; ``path:N`` for the first N lines.
        lease_s: How long it lasts without a SIGUSR1.
    """
    named = " ".join(map(shlex.quote, files))
    return f"{_HEAD}{_OWN}m={mark}{_LOOP.format(files=named, lease_s=lease_s)}"


def renewal(pid: int) -> str:
    """Return what tells a loop that it is still wanted."""
    return f"kill -USR1 {pid}"


def _begin(mark: str, ending: int | None = None) -> str:
    end = "" if ending is None else f"kill {ending}\n"
    return f"{_HEAD}{end}m={mark}; out=; of_group=({' '.join(_OF_GROUP)})"
