"""Charts of the site as Vega-Lite specifications: plain dictionaries that a page draws with a
bundled library.
"""
