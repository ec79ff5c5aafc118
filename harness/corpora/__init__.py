"""Corpora: sources of training data."""
