"""Vega specifications as pictures and as JavaScript, without a browser."""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import sha256
from typing import Any

_IDS = re.compile(r'(?<=id=")(clip|gradient_)\d+(?=")|(?<=url\(#)(clip|gradient_)\d+(?=\))')


def svg(spec: dict[str, Any]) -> str:
    """The picture as SVG: the same text for the same specification, with ids that are its own on a page."""
    import vl_convert

    drawn = vl_convert.vega_to_svg(spec, allowed_base_urls=[])
    own = sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    names: dict[str, str] = {}
    return _IDS.sub(lambda found: names.setdefault(found[0], f"c{own}-{len(names)}"), drawn)


def png(spec: dict[str, Any], scale: float) -> bytes:
    """The picture as PNG, `scale` dots to a pixel of the specification."""
    import vl_convert

    return vl_convert.vega_to_png(spec, scale=scale, allowed_base_urls=[])


def pdf(spec: dict[str, Any]) -> bytes:
    """The picture as PDF, in vectors."""
    import vl_convert

    return vl_convert.vega_to_pdf(spec, allowed_base_urls=[])


@cache
def javascript() -> str:
    """Vega and what sets a chart into a page, as one script that loads nothing from elsewhere."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
