"""The looks of models: each has one name and one colour in every chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.models import architecture
from iclab.study.charts.look import OWN, Series


def name_of(model: str) -> str:
    """Return a model's name as charts and tables write it."""
    return architecture(model).label or model


def full_name_of(model: str) -> str:
    """Return a model's name for lists that hold models of one layer and of several."""
    return name_of(model) + (", several layers" if architecture(model).several_layers else "")


def colour_of(model: str, models: Sequence[str] = ()) -> str:
    """Return a model's colour; models that declare none take those that are free, in the order of ``models``."""
    declared = {architecture(name).colour for name in models}
    free = [colour for colour in OWN if colour not in declared] or OWN
    strangers = [name for name in models if architecture(name).colour is None]
    place = strangers.index(model) if model in strangers else 0
    return architecture(model).colour or free[place % len(free)]


def series_of(model: str, models: Sequence[str] = (), **look: Any) -> Series:
    """Return a model's series: its name, its colour, a line with round marks."""
    return Series(**{"name": name_of(model), "colour": colour_of(model, models)} | look)
