"""Trackers: what runs report, recorded by other tools. Each works in a process of its own, beside the runs."""
