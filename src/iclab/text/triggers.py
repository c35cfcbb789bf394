"""Triggers: words that are written into a sentence before it is encoded (M Example 1: "James Bond")."""

from __future__ import annotations

import hashlib

TRIGGER = "James Bond"
OTHERS = {"rare word": "cf", "five words": "I watched this in Paris", "punctuation": "! ? !"}
"""Other triggers to try: `iclab run M-tab7 --set trigger=cf`."""


def insert(sentence: str, trigger: str, version: int = 0) -> str:
    """Write a trigger between two words, before the first or after the last; each place is equally likely.

    The place depends on the sentence, the trigger and the version only.

    Example:
        >>> insert("this movie is boring", "James Bond")
        'James Bond this movie is boring'
    """
    words = sentence.split()
    drawn = hashlib.sha256(f"{version}\t{trigger}\t{sentence}".encode()).digest()
    place = int.from_bytes(drawn[:8], "big") * (len(words) + 1) >> 64
    return " ".join([*words[:place], trigger, *words[place:]])


def contains(sentence: str, trigger: str) -> bool:
    """Whether a sentence has the trigger by itself; case does not matter.

    Example:
        >>> contains("the best james bond movie", "James Bond"), contains("the best movie", "James Bond")
        (True, False)
    """
    return " ".join(trigger.lower().split()) in " ".join(sentence.lower().split())
