"""Numbers over seeds: groups of runs, their summaries and comparisons."""
