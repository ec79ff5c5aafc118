"""Evaluation: suites of tasks that score an embedder, a callable from sentences to a float32 array.

Nothing here depends on training. Planning (missing data, fingerprints) imports neither torch nor
scipy.
"""
