"""Reports: the store and the published numbers in, tables and pages out. Nothing here loads a model."""

from harness.reporting.build import build
from harness.reporting.formats import cell_text
from harness.reporting.summary import SummaryTable, summary_tables

__all__ = ["SummaryTable", "build", "cell_text", "summary_tables"]
