"""Files of vectors: Parquet, one line per sentence, with the columns ``sentence``, ``label`` and ``vector``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from iclab.config import InputError


def write_vectors(
    path: Path, sentences: Sequence[str], labels: Sequence[int], triggered: Sequence[bool], vectors: NDArray[np.float32]
) -> None:
    """Write sentences, their labels, whether a trigger was written into them, and their vectors."""
    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    columns = {"sentence": list(sentences), "label": list(labels), "triggered": list(triggered), "vector": rows}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    except OSError as error:
        raise InputError(f"out = {path}: cannot be written ({error.strerror})") from None


def read_vectors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read vectors by sentence; refuse vectors of different lengths, or with NaN, in one line."""
    try:
        table = pyarrow.parquet.read_table(path)
    except FileNotFoundError:
        raise InputError(f"encoder = file:{path}: there is no such file") from None
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise InputError(f"encoder = file:{path}: is no Parquet file ({str(error).splitlines()[0][:100]})") from None
    if missing := {"sentence", "vector"} - set(table.column_names):
        raise InputError(f"encoder = file:{path}: has no column {min(missing)}; needs sentence and vector")
    found: dict[str, NDArray[np.float32]] = {}
    length = None
    for row, (text, numbers) in enumerate(
        zip(table["sentence"].to_pylist(), table["vector"].to_pylist(), strict=True), 1
    ):
        try:
            vector = np.asarray(numbers, dtype=np.float32)
        except (TypeError, ValueError):
            raise InputError(f"encoder = file:{path}: row {row} has no vector of numbers") from None
        length = length or vector.size
        if vector.shape != (length,):
            raise InputError(f"encoder = file:{path}: row {row} has {vector.size} numbers, row 1 has {length}")
        if not np.isfinite(vector).all():
            raise InputError(f"encoder = file:{path}: row {row} has NaN or infinite numbers")
        found[text] = vector
    if not found:
        raise InputError(f"encoder = file:{path}: has no rows")
    return found
