"""The report as Markdown, LaTeX and CSV."""
