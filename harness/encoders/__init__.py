"""Students, heads and frozen teachers."""
