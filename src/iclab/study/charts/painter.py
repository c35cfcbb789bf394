"""Draws charts as SVG, PNG and PDF; run as a script, it draws what it is asked for on standard input.

The script imports nothing of iclab, so that it starts in a moment: Vega's interpreter, which takes half a second to
start and does not let other threads run, can be ready in another process when the first chart is.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

KINDS = ("svg", "png", "pdf")
"""The files a figure is written to."""
FINER = 2.0
"""How many pixels of a PNG stand for one of the chart's."""
NOTHING: dict[str, Any] = {"data": {"values": [{}]}, "mark": "point"}


def svg_of(spec: dict[str, Any]) -> str:
    """Draw Vega-Lite as SVG."""
    import vl_convert

    return _renumbered(vl_convert.vegalite_to_svg(spec))


def files_of(spec: dict[str, Any]) -> dict[str, bytes]:
    """Draw Vega-Lite as files of every kind."""
    import vl_convert

    svg = svg_of(spec)
    png, pdf = vl_convert.svg_to_png(svg, scale=FINER), vl_convert.svg_to_pdf(svg)
    return dict(zip(KINDS, (svg.encode(), png, pdf), strict=True))


def _renumbered(svg: str) -> str:
    """Number clip paths from 0: Vega goes on counting from one drawing to the next."""
    names = list(dict.fromkeys(re.findall(r'id="(clip\d+)"', svg)))
    return re.sub(r"\bclip\d+\b", lambda found: f"clip{names.index(found[0])}", svg)


def main() -> None:
    """Draw what each line asks for, a specification and where the files go; answer with what went wrong, or nothing."""
    svg_of(NOTHING)  # starts the interpreter
    for line in sys.stdin:
        asked, problem = json.loads(line), ""
        try:
            for kind, content in files_of(asked["spec"]).items():
                Path(f"{asked['stem']}.{kind}").write_bytes(content)
        except Exception as error:
            problem = " ".join(f"{type(error).__name__}: {error}".splitlines()[:2])  # the rest is Vega's traceback
        print(json.dumps(problem), flush=True)


if __name__ == "__main__":
    main()
