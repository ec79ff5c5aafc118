"""Data of the reports: published numbers, the tables of each paper, and the templates. No code."""
