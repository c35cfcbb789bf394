"""The report: one page where the papers meet their measurement, made from a store and nothing else."""

from iclab.report.content import Content
from iclab.report.page import write

__all__ = ["Content", "write"]
