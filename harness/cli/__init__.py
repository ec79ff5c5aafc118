"""The command line: each command parses its options, calls harness.api and prints."""
