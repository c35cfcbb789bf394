"""The playground: one page that trains one-layer models in the browser, with the same counters and equations."""

from iclab.playground.building import render, write

__all__ = ["render", "write"]
