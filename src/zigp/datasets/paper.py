"""The data of the paper's experiments, from a folder or from where their authors published them.

A loader looks in the given folder or in $ZIGP_DATA. Without either it downloads the original once,
verifies its checksum and keeps it in the user's cache.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pooch
from scipy.io import loadmat

_ZERO_INFLATED = (  # at this commit
    "https://raw.githubusercontent.com/hegdepashupati/zero-inflated-gp/"
    "fbf0199410f312546bcaa4b143655d909627a9d2/data"
)
_NETWORKS = (
    "https://raw.githubusercontent.com/hegdepashupati/gprn-svi/"
    "d1ce57221386975af87740db2c97734602bdf34c/data"
)
# Files as their authors published them, with SHA-256 checksums, and the cache of downloads.
ORIGINALS = pooch.create(
    pooch.os_cache("zigp"),
    base_url="",
    registry={
        "pptr.pickle": "5dc4e3775f9cd2ebfeb1a93c670c4b20080fb3d5c6083d254163b54acd0d3d13",
        "toydata.mat": "b88e8826ace319ac82f03a2b9d64101a598f8385587a2fa6dc534201f7740948",
        "train.csv": "c3c504369e9c45c1f6d01a835c7da463ee149c92c68e0f6f6b6d6ac153806f4d",
        "test.csv": "9d4cfdcffb1716e232fb07c9d4f600ed9a185ec6cd770eb56b57b14246912ec4",
    },
    urls={
        "pptr.pickle": f"{_ZERO_INFLATED}/pptr.pickle",
        "toydata.mat": f"{_ZERO_INFLATED}/toydata.mat",
        "train.csv": f"{_NETWORKS}/train.csv",
        "test.csv": f"{_NETWORKS}/test.csv",
    },
)

Folder = str | os.PathLike[str] | None


def load_precipitation(data_dir: Folder = None) -> pd.DataFrame:
    """Load hourly rain at 105 Finnish stations over 1,080 hours.

    89.8 % of the readings are exactly zero. Measured by the Finnish Meteorological Institute (open
    data, CC BY 4.0). The paper's folds are drawn from the rows in this order.

    Parameters
    ----------
    data_dir : str or path, optional
        Folder with the data. By default $ZIGP_DATA; without it the data are downloaded.

    Returns
    -------
    DataFrame
        The columns `lat`, `lon`, `hour` and `rain_mm`.

    Examples
    --------
    >>> round((load_precipitation()["rain_mm"] == 0).mean(), 3)  # downloaded, or in $ZIGP_DATA
    np.float64(0.898)
    """
    names = ("precipitation.csv.gz", "precipitation.csv")
    columns = ["lat", "lon", "hour", "rain_mm"]
    return _load(data_dir, names, columns, "pptr.pickle", _read_precipitation)


def load_toy(data_dir: Folder = None) -> pd.DataFrame:
    """Load the paper's one-dimensional signal.

    Parameters
    ----------
    data_dir : str or path, optional
        Folder with the data. By default $ZIGP_DATA; without it the data are downloaded.

    Returns
    -------
    DataFrame
        The columns `x`, noisy `y`, and the true `f` with stretches of zeros.

    Examples
    --------
    >>> len(load_toy())
    450
    """
    return _load(data_dir, ("toy.csv",), ["x", "y", "f"], "toydata.mat", _read_toy)


def load_jura(data_dir: Folder = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load cadmium, nickel and zinc in the soil of the Swiss Jura, published by P. Goovaerts.

    Parameters
    ----------
    data_dir : str or path, optional
        Folder with the data. By default $ZIGP_DATA; without it the data are downloaded.

    Returns
    -------
    train, test : DataFrame
        259 training and 100 test sites: the columns `x` and `y` in km, `cd`, `ni` and `zn` in ppm.

    Examples
    --------
    >>> [len(part) for part in load_jura()]
    [259, 100]
    """
    columns = ["x", "y", "cd", "ni", "zn"]
    train, test = (
        _load(data_dir, (f"jura_{part}.csv",), columns, f"{part}.csv", pd.read_csv)
        for part in ("train", "test")
    )
    return train, test


def _load(
    data_dir: Folder,
    names: tuple[str, ...],
    columns: list[str],
    original: str,
    read: Callable[[Path], pd.DataFrame],
) -> pd.DataFrame:
    """Read a table by one of its names in the folder, or its original from there or a download."""
    folder = data_dir or os.environ.get("ZIGP_DATA")
    if folder is None:
        try:
            return read(Path(ORIGINALS.fetch(original)))
        except OSError as error:
            raise ConnectionError(
                f"{original} could not be downloaded from {ORIGINALS.get_url(original)}. Fetch it "
                "by other means into a folder, and give that as the data folder."
            ) from error
    for name in names:
        if (path := Path(folder) / name).is_file():
            table = pd.read_csv(path)
            if missing := [column for column in columns if column not in table]:
                found = ", ".join(map(str, table))
                raise ValueError(f"{path} has no column {', '.join(missing)}; it has {found}.")
            return table
    if (path := Path(folder) / original).is_file():
        if pooch.file_hash(str(path)) != ORIGINALS.registry[original]:
            raise ValueError(
                f"{path} is not the file that its authors published: its SHA-256 checksum differs "
                f"from {ORIGINALS.registry[original]}. Delete it and fetch it again."
            )
        return read(path)
    raise FileNotFoundError(
        f"{folder} holds none of {', '.join((*names, original))}. Choose another data folder, "
        f"or none at all to download {original}."
    )


_ARRAYS = (
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
)


class _ArraysOnly(pickle.Unpickler):
    """An unpickler of NumPy arrays in plain containers, which runs nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # its name in older versions
        if (module, name) not in _ARRAYS:
            raise pickle.UnpicklingError(
                f"The file refers to {module}.{name}, which no array needs, and is not loaded."
            )
        return super().find_class(module, name)


def _read_precipitation(path: Path) -> pd.DataFrame:
    with path.open("rb") as file:
        parts = _ArraysOnly(file, encoding="latin1").load()
    X = np.concatenate([parts["Xtrain"], parts["Xtest"]])
    y = np.concatenate([np.ravel(parts["Ytrain"]), np.ravel(parts["Ytest"])])
    table = pd.DataFrame(X, columns=["lat", "lon", "hour"])
    return table.assign(hour=table["hour"].astype(int), rain_mm=y)


def _read_toy(path: Path) -> pd.DataFrame:
    parts = loadmat(path)
    return pd.DataFrame({name: np.ravel(parts[name]) for name in ("x", "y", "f")})
