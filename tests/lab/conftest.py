"""A Ray cluster for the tests that need one: three nodes on this machine, of one core each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Start three nodes, once for all tests; their address is ``cluster.address``."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'iclab[ray]'")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(**NODE)
    yield nodes
    nodes.shutdown()
