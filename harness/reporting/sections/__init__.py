"""The sections of a report, each from its data to its page."""
