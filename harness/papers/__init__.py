"""The papers as data: their tables, figures, published numbers, needed runs and claims."""
