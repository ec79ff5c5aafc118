"""The papers' printed numbers and claims, recomputed."""
