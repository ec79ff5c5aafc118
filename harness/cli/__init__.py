"""The command line: one file a command; it parses, calls harness.api and prints."""
