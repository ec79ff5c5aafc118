"""Vega, Vega-Lite and Vega-Embed as one script beside the pages, so that charts need no network."""

from __future__ import annotations

from importlib.metadata import version

from harness.caches import keep_text, kept_text

_NOTICE = (
    "/* Vega, Vega-Lite, Vega-Embed and the libraries that they use. Copyright (c) University of Washington "
    "Interactive Data Lab and contributors; BSD 3-Clause License (D3: ISC License, Mike Bostock). */\n"
)
#: ends a whole file
_END = "/* end of the bundle */\n"


def vega_script() -> str:
    """The libraries as a script that defines `vegaEmbed`; from the cache, where it is kept for each version."""
    name = f"vega-{version('vl-convert-python')}.js"
    kept = kept_text(f"charts/{name}")
    if kept and kept.endswith(_END):
        return kept
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    safe = bundle.replace("</script", "<\\/script")  # one file holds it inside of a page
    script = f"{_NOTICE}(() => {{\n{safe}\n}})();\n{_END}"
    keep_text(f"charts/{name}", script)
    return script
