"""The outcome of an experiment: rows, verdicts, table and figure, all from the store."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from iclab.description import InputError
from iclab.experiments import style
from iclab.experiments.experiment import Experiment
from iclab.experiments.settings import Settings
from iclab.lab import Store
from iclab.probes import Row

# Fixed, so that the same rows give the same bytes.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    experiment: Experiment[Any]
    settings: Settings
    rows: list[Row]
    claims: list[dict[str, Any]]
    complete: bool
    """Whether every cell was there."""

    @classmethod
    def of(cls, experiment: Experiment[Any], settings: Settings, store: Store) -> Outcome:
        """Collect rows and judge the claims."""
        rows = experiment.rows(settings, store)
        if not rows:
            raise InputError(
                f"store = {store.path}: holds nothing for {experiment.id} with these settings; "
                f"run `iclab run {experiment.id}` first"
            )
        claims = [claim.verdict(rows) for claim in experiment.claims(settings)]
        complete = all(store.has(condition.cell) for condition in experiment.conditions(settings))
        return cls(experiment, settings, rows, claims, complete)

    def write(self, out: Path) -> Path:
        """Write figure, rows and verdicts below ``out``; return the figure to open."""
        folder = out / self.experiment.id
        figure = self.experiment.draw(self.rows, self.settings)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with mpl.rc_context(style.RC):
                for kind, metadata in _METADATA.items():
                    figure.savefig(folder / f"{self.experiment.id}.{kind}", metadata=metadata)
            with (folder / "rows.csv").open("w", newline="") as file:
                columns = list(dict.fromkeys(name for row in self.rows for name in row))
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(self.rows)
            about = {"settings": self.settings.model_dump(mode="json"), "claims": self.claims}
            (folder / "claims.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise InputError(f"out = {out}: cannot be written ({error.strerror})") from None
        return folder / f"{self.experiment.id}.png"
