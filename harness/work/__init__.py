"""Executors: how the runs of a plan are distributed."""
