"""Real sentences: where they come from, what encodes them, triggers, and tables of vectors for prompts."""

from iclab.text.encoders import BUILT_IN, Encoder, encoder
from iclab.text.sentences import Sentences
from iclab.text.sources import ROTTEN_TOMATOES, Corpus, read
from iclab.text.triggers import OTHERS, TRIGGER, contains, insert

__all__ = [
    "BUILT_IN",
    "OTHERS",
    "ROTTEN_TOMATOES",
    "TRIGGER",
    "Corpus",
    "Encoder",
    "Sentences",
    "contains",
    "encoder",
    "insert",
    "read",
]
