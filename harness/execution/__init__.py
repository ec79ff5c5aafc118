"""From a plan of runs to their results."""
