"""Vega, Vega-Lite and Vega-Embed as one script beside the pages, so that charts need no network."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context

from harness.caches import kept_text
from harness.sources import keep_text

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
    # in a process of its own: the bundler starts threads, which a process that is later forked must not have
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        bundle = pool.submit(_bundle).result()
    safe = bundle.replace("</script", "<\\/script")  # one file holds it inside of a page
    script = f"{_NOTICE}(() => {{\n{safe}\n}})();\n{_END}"
    keep_text(f"charts/{name}", script)
    return script


def _bundle() -> str:
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
