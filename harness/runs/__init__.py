"""Execution: from a plan of runs to their results."""
