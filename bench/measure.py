"""CPU time and memory of another process, and facts about this machine, from /proc."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes, and the anonymous part of them (heap, stacks)."""

    resident: int
    anonymous: int


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of `pid`, in steps of 10 ms."""
    # The name in parentheses may contain spaces; utime and stime are fields 14 and 15 of the line.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def memory(pid: int) -> Memory:
    status = _kilobytes(Path(f"/proc/{pid}/status"))
    return Memory(resident=status["VmRSS"], anonymous=status["RssAnon"])


def _kilobytes(path: Path) -> dict[str, int]:
    """Return the `Name:   123 kB` lines of a file under /proc, in bytes."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1:] == ["kB"]}


def raise_file_limit() -> None:
    """Raise the limit on open files of this process and its later children to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def machine() -> dict[str, str]:
    """Return facts about this machine that help to interpret the results."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = cpus[0].partition(":")[2].strip() if cpus else platform.machine()
    total = _kilobytes(Path("/proc/meminfo"))["MemTotal"]
    return {
        "CPU": f"{len(os.sched_getaffinity(0))} cores, {model}",
        "load average at start": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "memory": f"{total / MIB / 1024:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Java": java_version(),
    }


def java_version() -> str:
    try:
        printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return f"not found ({error})"
    return printed.stderr.splitlines()[-2] if printed.stderr.count("\n") > 1 else printed.stderr.strip()
