"""What a user's code raises, in one line that says where: the model, the step or "in evaluation", and the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from iclab.config import InputError, what_was_raised
from iclab.models import Model


class Located(InputError):  # noqa: N818 (an InputError)
    """An error whose line says already what it is about. What a user's code raised is its ``__cause__``."""


@contextmanager
def naming(model: Model, place: str | Callable[[], str]) -> Iterator[None]:
    """Turn what a user's code raises inside into one line that names the model and the place, as it is by then."""
    try:
        yield
    except Located:
        raise
    except Exception as error:  # a user's code may raise anything
        where = f"model = {model.label}, {place if isinstance(place, str) else place()}"
        if isinstance(error, InputError):
            raise Located(f"{where}: {error}") from error.__cause__ or error
        if model.is_users:
            raise Located(f"{where}: {what_was_raised(error)}") from error
        raise  # a mistake of ours


def in_words(seeds: Sequence[int]) -> str:
    """Return ``seed 3``, ``seeds 0 to 7`` or ``seeds 0, 2, 5``."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"
