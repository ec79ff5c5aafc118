"""Evaluation: suites of tasks that score an embedder, a callable from sentences to a float32 array.

Nothing here knows how an encoder was trained. Planning (what is missing, what is the fingerprint)
imports neither torch nor scipy.
"""
