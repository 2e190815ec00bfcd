"""Models that users would pick otherwise, if installed: pip install 'zigp[peers]'."""

from importlib.util import find_spec
from typing import Any

# Names in the tables, and the packages they come from.
PEERS = {"LightGBM": "lightgbm", "scikit-lego": "sklego"}


def installed_peers() -> dict[str, Any]:
    """Return regressors of the installed packages, by name.

    Their settings were chosen on training rows alone (benchmarks/tune_precipitation.py).
    """
    found: dict[str, Any] = {}
    if find_spec(PEERS["LightGBM"]):
        from lightgbm import LGBMRegressor

        found["LightGBM"] = LGBMRegressor(
            objective="tweedie",
            tweedie_variance_power=1.7,
            num_leaves=127,
            n_estimators=500,
            random_state=0,
            verbose=-1,
        )
    if find_spec(PEERS["scikit-lego"]):
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
        from sklego.meta import ZeroInflatedRegressor

        forest = {"min_samples_leaf": 3, "n_jobs": -1, "random_state": 0}
        found["scikit-lego"] = ZeroInflatedRegressor(
            RandomForestClassifier(**forest), RandomForestRegressor(**forest)
        )
    return found
