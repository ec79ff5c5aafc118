"""Reports: results and published numbers in, tables and pages out. Nothing here loads a model."""
