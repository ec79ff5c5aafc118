"""The methods of the papers, one file each. They are found by entry point, never imported by name."""
