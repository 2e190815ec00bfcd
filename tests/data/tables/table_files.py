"""Tables and lattices that are written to files, and the errors that reading them gives."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from zigp.data.tables import FileError, read, read_parts, writing

HDF5 = b"\x89HDF\r\n\x1a\n"
FRAME = pd.DataFrame(
    {
        "rain": [0.0, 0.1 + 0.2, np.nan, 1e-300],
        "count": [1, 2, 3, 4],
        "wet": [False, True, False, True],
        "seen": pd.array([True, None, False, None], dtype="boolean"),
        "place": ["Ås", "New York, NY", None, 'a "b"\nc; d'],
    }
)
KINDS = dict.fromkeys(FRAME, "number") | {"place": "category"}
LATTICE = xr.Dataset(
    {"rain": (("time", "x"), np.arange(6.0).reshape(3, 2) / 7)},
    {"time": pd.date_range("2020-01-01", periods=3, freq="h"), "x": [0.5, 1.5]},
)


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def written(
    path: Path | str, *frames: pd.DataFrame, force: bool = False, error: BaseException | None = None
) -> Path:
    """Write frames to a file, of which an error on the way leaves nothing."""
    with writing(path, force) as table:
        for frame in frames:
            table.add(frame)
        if error is not None:
            raise error
    return Path(path)


def error_of(path: Path) -> str:
    """Return the error about a file, which is the same when it is read whole and in parts."""
    errors = []
    for attempt in (lambda: read(path), lambda: list(read_parts(path, 2))):
        with pytest.raises(FileError) as error:
            attempt()
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert str(path) in errors[0]
    return errors[0]
