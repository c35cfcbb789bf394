"""The report: one HTML page with the claims, figures and tables of all experiments, made from a store."""

from iclab.report.content import Content
from iclab.report.page import write

__all__ = ["Content", "write"]
