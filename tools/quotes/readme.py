"""README.md."""

from quotes.counts import count, judged
from quotes.pages import Quotes
from quotes.sources import below, claim, rows

flipped = rows("M-fig2", outlier_labels="flip", outlier_fraction=0.6)
QUOTES: Quotes = {
    "examples the errors are # and #": (flipped(model="mamba"), flipped(model="linear")),
    "adds less than # to Mamba's error": below(claim("M-worst.flip").highest()),
    "fail in # to # % of prompts": [
        100 * claim("M-kernel.distance2").at(graph) for graph in ("ring:3 of 12", "ring:2 of 6")
    ],
    "The papers make # claims": count(),
    "The quick edition judges #: # hold, # fail, # hold in direction but not in size, and # are undecided": (
        judged(),
        count("holds"),
        count("fails"),
        count("in direction"),
        count("undecided"),
    ),
}
SETTINGS = (r"    Run\(.*",)
