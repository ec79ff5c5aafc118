"""Sphinx's configuration; `make docs` builds the pages into docs/_build and fails on any warning."""

from harness import __version__

project = "sentence-harness"
author = "The harness contributors"
version = release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"sentence-harness {version}"
html_show_copyright = False
# nothing on a page is loaded from elsewhere, so that it opens from disk
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
