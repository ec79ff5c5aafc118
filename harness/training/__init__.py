"""The one training loop that all methods share."""
