"""The connection to a Ray cluster: who is there, whether all nodes have the same software, and users' modules for them.

Nothing here waits without an end: Ray itself would, for a cluster that does not answer.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iclab.config import Code, InputError, reason_of
from iclab.lab.events import Alive
from iclab.lab.executors.ray_worker import difference, installed, versions

ANSWER = 5.0
"""Seconds in which a machine accepts a connection."""
CONNECT = 60.0
"""Seconds in which a cluster lets a driver in."""
NODE_ANSWER = 300.0
"""Seconds in which a node says what is installed there; its first process may have to start."""


class Cluster:
    """A connection, made when it is first needed.

    ``local`` starts nodes on this machine, which end with this process. Other addresses are those of `ray.init`:
    ``HOST:PORT`` of the head, or ``auto``, the cluster that this machine belongs to.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        if not isinstance(address, str) or not address.strip():
            raise InputError(f"ray = {address!r}: must be local, auto, or HOST:PORT of a cluster")
        if address.startswith("ray://"):
            why = "join this machine to the cluster (`ray start --address HOST:PORT --num-cpus 0`), then give auto"
            raise InputError(f"ray = {address}: Ray's client is not supported; {why}")
        self.address, self._workers = address, workers
        self._modules: dict[str, bytes] = {}
        self._mine = False

    def connect(self, code: Iterable[Code]) -> None:
        """Connect, with the user's modules for all nodes, and refuse nodes with other software."""
        ray = _ray()
        modules = modules_of(code)
        if self._mine and modules != self._modules:
            self.close()
        if not ray.is_initialized():
            self._knock()
            self._connect(ray, modules)
            self._modules, self._mine = modules, True
        if not self.alive().workers:
            raise InputError(f"ray = {self.address}: no node of the cluster has a core to spare for work")
        self._check_nodes(ray)

    def _connect(self, ray: Any, modules: dict[str, bytes]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        how: dict[str, Any] = {"address": self.address, "log_to_driver": False, "logging_level": "ERROR"}
        if self.address == "local":
            how |= {"num_cpus": self._workers, "include_dashboard": False}
        folder = Path(tempfile.mkdtemp(prefix="iclab-modules-"))
        ray._private.worker._worker_logs_enabled = False  # else it says on standard output which workers died
        main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGTERM) if main else None
        try:
            for name, text in modules.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(text)
            ray.init(**how, runtime_env={"working_dir": str(folder)} if modules else None)
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"ray = {self.address}: cannot connect ({reason_of(error)})") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if before is not None:
                signal.signal(signal.SIGTERM, before)  # Ray puts its own in its place

    def _knock(self) -> None:
        """Refuse an address where no cluster answers."""
        if self.address == "local":
            return
        nobody = InputError(f"ray = {self.address}: no Ray cluster answers; `ray start --head` starts one")
        host, _, port = self.address.rpartition(":")
        if self.address != "auto":
            if not host or not port.isdigit():
                raise InputError(f"ray = {self.address}: must be local, auto, or HOST:PORT of a cluster")
            try:
                socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
            except (OSError, OverflowError):
                raise nobody from None
        # Something listens there. A process that can be killed finds out whether it is Ray.
        script = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"
        try:
            told = subprocess.run(
                [sys.executable, "-c", script, self.address], capture_output=True, text=True, timeout=CONNECT
            )
        except subprocess.TimeoutExpired:
            raise nobody from None
        if told.returncode:
            lines = [line for line in told.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if "Error" in line.partition(":")[0]] or lines[-1:]
            raise InputError(f"ray = {self.address}: cannot connect ({' '.join(errors[-1:])})")

    def _check_nodes(self, ray: Any) -> None:
        """Refuse a node whose software is not that of this process."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ask = ray.remote(num_cpus=0, max_retries=3)(installed)
        names = {node["NodeID"]: _name(node) for node in ray.nodes() if node["Alive"]}
        answers = {
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(id_, soft=False)).remote(): name
            for id_, name in names.items()
        }
        _, silent = ray.wait(list(answers), num_returns=len(answers), timeout=NODE_ANSWER)
        for answer, name in answers.items():
            if answer in silent:
                raise InputError(f"ray = {self.address}: node {name} does not answer")
            try:
                wrong = difference(versions(), ray.get(answer))
            except ray.exceptions.RayTaskError as error:
                last = [line for line in str(error).splitlines() if line.strip()][-1]
                wrong = f"cannot run iclab ({last.strip()}); install the same there"
            except ray.exceptions.RayError:
                continue  # it died since
            if wrong:
                raise InputError(f"ray = {self.address}: node {name} {wrong}")

    def alive(self) -> Alive:
        """Return how many nodes there are, and how many cells they can run at the same time."""
        nodes = [node for node in _ray().nodes() if node["Alive"]]
        cores = int(sum(node["Resources"].get("CPU", 0.0) for node in nodes))
        return Alive(len(nodes), cores if self._workers is None else min(cores, self._workers))

    def memory(self) -> int | None:
        """Return the bytes that a cell may take at most: those that the largest node with a core has for work."""
        nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"] and node["Resources"].get("CPU")]
        return int(max((node["memory"] for node in nodes if "memory" in node), default=0)) or None

    def close(self) -> None:
        """Leave the cluster; one that is local ends."""
        if self._mine:
            _ray().shutdown()
        self._mine = False


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        how = "install it with pip install 'iclab[ray]'"
        raise InputError(f"ray: is not installed here ({error}); {how}") from None
    return ray


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def modules_of(code: Iterable[Code]) -> dict[str, bytes]:
    """Return the user's files that some code needs, by their place on the path of modules."""
    found: dict[str, bytes] = {}
    for item in code:
        for name, file in item.files().items():
            if file.name == "__init__.py":
                name += ".__init__"
            found[f"{name.replace('.', '/')}.py"] = file.read_bytes()
    return dict(sorted(found.items()))
