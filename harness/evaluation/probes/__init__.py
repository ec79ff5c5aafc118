"""Probes: linear classifiers on frozen vectors, many trained at a time."""
