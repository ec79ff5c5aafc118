"""The papers' methods, one file each, found by entry point."""
