"""How much memory this machine has left, and whether it ran out of it."""

from __future__ import annotations

import os
from pathlib import Path

VMSTAT = Path("/proc/vmstat")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def kills() -> int | None:
    """Return how many processes the system has killed for want of memory since its start; None if it does not say."""
    return _number(VMSTAT, "oom_kill")


def available() -> int | None:
    """Return the bytes that a process could still use, by the machine and by the limit of its container, if any."""
    free = _number(MEMINFO, "MemAvailable:")
    found = [free * 1024] if free is not None else []
    try:
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        reclaimable = _number(CGROUP / "memory.stat", "inactive_file") or 0
        found.append(max(limit - used + reclaimable, 0))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        pass
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # macOS tells only the total
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def shown_bytes(size: float) -> str:
    """Return a number of bytes as people say it.

    >>> shown_bytes(0), shown_bytes(5_300), shown_bytes(64e9), shown_bytes(8e33)
    ('0 B', '5.3 kB', '64 GB', '8e+18 PB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} PB"


def _number(file: Path, name: str) -> int | None:
    """Return the number behind a name in one of the kernel's lists."""
    try:
        lines = (line.split() for line in file.read_text().splitlines())
        return next((int(words[1]) for words in lines if words and words[0] == name), None)
    except (OSError, ValueError, IndexError):
        return None
