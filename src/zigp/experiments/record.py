"""The record of an experiment: scores of every fit, and the predictions behind them."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import pandas as pd

_KEYS = ("model", "setting", "split", "fold", "restart")
_COLUMNS = (
    *_KEYS,
    *("row", "output", "y", "mean", "sd", "prob_on", "nlpd", "crps", "covered90", "pit"),
)
_PACKAGES = ("zigp", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn")


@dataclass
class Record:
    """Rows of scores, and the predictions that they follow from."""

    experiment: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=lambda: _environment())
    fast: bool = False
    _predictions: list[pd.DataFrame] = field(default_factory=list)

    def add(
        self,
        scores: Mapping[str, float | str],
        predictions: dict[str, Any],
        *,
        model: str,
        setting: str = "",
        split: str = "",
        fold: int | None = None,
        restart: int | None = None,
        elbo: float | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Add the scores of one fit, and its predictions as columns."""
        keys = {
            "model": model,
            "setting": setting,
            "split": split,
            "fold": fold,
            "restart": restart,
        }
        found = {  # as JSON can hold it
            name: score if isinstance(score, str) or np.isfinite(score) else None
            for name, score in scores.items()
        }
        row = keys | {"elbo": elbo} | found | {"seconds": seconds}
        self.rows.append(row)
        self._predictions.append(pd.DataFrame(keys | predictions).reindex(columns=_COLUMNS))
        return row

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what an earlier run wrote into a folder."""
        try:
            results = json.loads((folder / "results.json").read_text())
            where, table = results["environment"], pd.read_csv(folder / "predictions.csv.gz")
            return cls(results["experiment"], results["rows"], where, where["fast"], [table])
        except (KeyError, EOFError, ValueError) as error:
            raise ValueError(
                f"{folder} does not hold the results of a finished run ({error}). Run it again "
                "with --force, or choose another folder."
            ) from error

    def means(self) -> pd.DataFrame:
        """Return the mean scores of every model, setting and split."""
        keys = [
            name
            for name in ("split", "setting", "model", "output")
            if any(row.get(name) for row in self.rows)
        ]
        table = pd.DataFrame(self.rows).drop(columns=["fold", "restart"])
        return table.groupby(keys, sort=False).mean(numeric_only=True).dropna(axis=1, how="all")

    def predictions(self) -> pd.DataFrame:
        """Return all predictions so far."""
        # Columns that do not apply are left out, so that pandas does not guess their type.
        parts = [part.dropna(axis=1, how="all") for part in self._predictions]
        table = pd.concat(parts, ignore_index=True).reindex(columns=_COLUMNS)
        return table.astype(dict.fromkeys(("fold", "restart", "row"), "Int64"))

    def write(self, out: Path) -> None:
        """Write results.json and predictions.csv.gz into a folder."""
        results = {
            "experiment": self.experiment,
            "rows": self.rows,
            "environment": self.environment | {"fast": self.fast},
        }
        self.predictions().to_csv(
            out / "predictions.csv.gz",
            index=False,
            float_format="%.7g",
            compression={"method": "gzip", "compresslevel": 4, "mtime": 0},
        )
        # Written last and at once: the file exists only for finished runs.
        unfinished = out / "results.json.part"
        unfinished.write_text(json.dumps(results, indent=1) + "\n")
        unfinished.replace(out / "results.json")


def _environment() -> dict[str, Any]:
    """Return versions and machine, as far as numbers may depend on them."""
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "device": jax.devices()[0].device_kind,
    }


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def timed(fit: Callable[..., Any], *data: Any) -> float:
    """Fit a model to data, and return the seconds that it took."""
    start = time.perf_counter()
    fit(*data)
    return time.perf_counter() - start
