"""The training loop shared by all methods."""
