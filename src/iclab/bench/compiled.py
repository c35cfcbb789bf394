"""The ordinary loop under torch.compile, in a process of its own that may be ended at any time.

python -m iclab.bench.compiled < task.json        # training, steps, threads and times; prints the seconds, or why not
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

from iclab.bench.loops import torch_loop
from iclab.engines import Training


def obstacle() -> str:
    """Say what torch.compile lacks here; '' if nothing."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    return "" if any(map(shutil.which, names)) else f"no C++ compiler ({', '.join(names)})"


def compiled_loop(training: Training, steps: int, threads: int, times: int, wait: float) -> tuple[float | None, str]:
    """Time the compiled loop; return the seconds, or none and the reason. Compiling may take ``wait`` seconds."""
    if reason := obstacle():
        return None, reason
    task = {"training": training.model_dump(mode="json"), "steps": steps, "threads": threads, "times": times}
    command = [sys.executable, "-m", "iclab.bench.compiled"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            answer, _ = process.communicate(json.dumps(task), timeout=wait)
        except subprocess.TimeoutExpired:
            return None, f"not ready after {wait:.0f} s"
        finally:
            if process.poll() is None:  # it, and the C++ compilers it started
                os.killpg(process.pid, signal.SIGKILL)
    try:
        found = json.loads(answer.splitlines()[-1])
    except (IndexError, ValueError):
        return None, f"ended with code {process.returncode}"
    return found["seconds"], found["reason"]


def main() -> None:
    """Read a task from standard input, and print the time in seconds, or the reason why there is none."""
    task = json.load(sys.stdin)
    training = Training.model_validate(task.pop("training"))
    found: dict[str, float | str | None] = {"seconds": None, "reason": ""}
    try:
        found["seconds"] = torch_loop(training, **task, compiled=True)
    except Exception as error:  # torch has many kinds
        found["reason"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:100]}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
