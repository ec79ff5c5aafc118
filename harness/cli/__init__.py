"""The command line: one file a command group; it parses, calls and prints."""
