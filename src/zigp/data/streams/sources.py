"""The check of rows read from any source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zigp.data.tables.errors import FileError


def check_rows(rows: np.ndarray, place: str, names: Sequence[str]) -> None:
    """Refuse missing inputs and infinite values; the target, in the last column, may be missing."""
    if np.isfinite(rows).all():
        return
    for name, values in zip(names, rows.T, strict=True):
        if name != names[-1] and np.isnan(values).any():
            raise FileError(
                f"{place}, column {name!r}: some values are missing. Fill them in, or leave out "
                "these rows or the column."
            )
        if np.isinf(values).any():
            raise FileError(
                f"{place}, column {name!r}: some values are infinite. "
                + ("Make them missing (NaN)" if name == names[-1] else "Correct them")
                + ", or leave out these rows."
            )
