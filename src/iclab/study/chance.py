"""How many verdicts are expected to be wrong by chance.

A 95 % interval misses the truth in at most 5 % of studies, so on a given side in at most 2.5 %. Now take a claim about
m points with one margin, for example "error < 0.01 at every α".

- A wrong *holds*. The claim is false, so the truth lies beyond the margin at one point at least. *holds* needs the
  intervals of all points, also of that one, on the good side: that interval misses its truth, on one given side. The
  probability is at most 0.025, however many points there are. The same is true with two margins, since the truth of
  that point lies beyond one of them; and of a wrong *in direction* whose direction is false.
- A wrong *fails*. The claim is true, so the truth of every point lies on the good side. *fails* needs one interval of
  the m beyond a margin: it misses its truth on the side of that margin. The probability is at most 0.025 m with one
  margin and 0.05 m with two. Points that share seeds miss together, which makes it smaller. The same is true of a wrong
  *in direction* whose size is right.

A claim is either true or false, so it can go wrong in one of the two ways only. Summing over claims bounds the expected
number of both kinds. The bounds are reached if every truth lies exactly at its margin; far from it, wrong verdicts are
rare. Claims judged until decided (`iclab.study.sequences`) keep the same bounds over all looks together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from iclab.probes import CONFIDENCE
from iclab.study.claims import DECIDED


@dataclass(frozen=True)
class WrongByChance:
    """Upper bounds of expected numbers of wrong verdicts, over repetitions of all experiments with new seeds."""

    judged: int
    """Claims judged by intervals, also those left undecided."""
    decided: int
    holds: float
    """Wrong *holds*."""
    fails: float
    """Wrong *fails*."""

    def record(self) -> dict[str, float]:
        """Return the numbers for a program."""
        return asdict(self)

    def sentences(self) -> str:
        """Return the numbers in words."""
        if not self.judged:
            return "No claim has been judged yet."
        return (
            f"Some of these verdicts may be wrong by chance, since they come from {100 * CONFIDENCE:g} % intervals. An "
            f"interval misses the truth on a given side in at most {50 * (1 - CONFIDENCE):g} % of repetitions. "
            f"{self.judged} claims were judged in this way, and {self.decided} of them decided: at most "
            f"{self.holds:.1f} wrong “holds” are expected, and at most {self.fails:.1f} wrong “fails” (a claim fails "
            "if any of its points does, so it has more chances). So many are expected only if every true value lies "
            "right at its margin, and fewer the farther away they lie."
        )


def wrong_by_chance(claims: Iterable[dict[str, Any]]) -> WrongByChance:
    """Bound the expected number of wrong verdicts, from the records of claims.

    Claims that were not run, and counts, whose intervals are no confidence intervals, do not matter.
    """
    judged = [claim for claim in claims if claim["verdict"] != "not run" and not claim["counts"]]
    side = (1 - CONFIDENCE) / 2
    chances = [
        max(1, sum(point["value"] is not None for point in claim["points"])) * max(1, len(claim["margins"]))
        for claim in judged
    ]
    return WrongByChance(
        judged=len(judged),
        decided=sum(claim["verdict"] in DECIDED for claim in judged),
        holds=side * len(judged),
        fails=sum(min(1.0, side * count) for count in chances),
    )
