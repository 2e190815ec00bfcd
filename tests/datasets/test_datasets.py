"""The simulated rain is what its docstring says; the paper's data come whole or not at all."""

import pickle
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pooch
import pytest
from scipy.io import savemat

from zigp.datasets import load_jura, load_precipitation, load_toy, paper, simulate_rain


@pytest.mark.parametrize("seed", [2018, 0, 1, 2, 3])
def test_simulated_rain(seed):
    rain = simulate_rain(seed=seed)
    assert rain.equals(simulate_rain(seed=seed))
    assert not rain.equals(simulate_rain(seed=seed + 1))
    assert list(rain) == ["lat", "lon", "hour", "rain_mm"]
    assert rain[["lat", "lon"]].drop_duplicates().shape[0] == 40
    assert rain["hour"].nunique() == 240
    assert 0.85 <= (rain["rain_mm"] == 0).mean() <= 0.90
    assert 0.95 < len(rain) / (40 * 240) < 0.98  # some are missing
    tenths = rain["rain_mm"].to_numpy() * 10
    np.testing.assert_allclose(tenths, tenths.round(), atol=1e-9)
    assert rain["rain_mm"].min() == 0
    assert not rain.duplicated(["lat", "lon", "hour"]).any()


def test_storms_move():
    """The rain of one hour resembles that of the next more than that of ten hours later."""
    rain = simulate_rain().pivot_table(index=["lat", "lon"], columns="hour", values="rain_mm")
    wet = (rain.fillna(0) > 0).astype(float).to_numpy()
    soon, late = (np.corrcoef(wet[:, :-lag].ravel(), wet[:, lag:].ravel())[0, 1] for lag in (1, 10))
    assert soon > 0.5 > 0.2 > late


# -- the paper's data -------------------------------------------------------------------------


@pytest.fixture
def rain_pickle(tmp_path):
    """A pickle of the original's make: four float64 arrays in a dict."""
    rng, sizes = np.random.default_rng(0), {"train": 7, "test": 4}
    parts = {f"X{name}": rng.integers(60, 70, (n, 3)) * 1.0 for name, n in sizes.items()}
    parts |= {f"Y{name}": rng.random((n, 1)) for name, n in sizes.items()}
    path = tmp_path / "pptr.pickle"
    # As an older NumPy wrote it: the module had another name then.
    path.write_bytes(pickle.dumps(parts, protocol=3).replace(b"numpy._core", b"numpy.core"))
    return path, parts


@pytest.fixture
def register(tmp_path, monkeypatch):
    """Make a file the only original that there is, at an address."""

    def make(path: Path, host: str = "http://127.0.0.1") -> None:
        known = {path.name: pooch.file_hash(str(path))}
        registry = pooch.create(tmp_path / "cache", f"{host}/", registry=known)
        monkeypatch.setattr(paper, "ORIGINALS", registry)

    return make


@pytest.fixture
def served(tmp_path):
    """A folder, and its address on loopback."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()  # and wait for it


def test_an_original_is_downloaded_once(rain_pickle, served, register, monkeypatch):
    (path, parts), (folder, host) = rain_pickle, served
    register(path, host)
    monkeypatch.delenv("ZIGP_DATA", raising=False)
    source = Path(shutil.copy(path, folder))
    first = load_precipitation()
    source.unlink()
    assert load_precipitation().equals(first)
    both = np.concatenate([parts["Xtrain"], parts["Xtest"]])
    np.testing.assert_array_equal(first[["lat", "lon", "hour"]], both)
    np.testing.assert_array_equal(first["rain_mm"], np.r_[parts["Ytrain"], parts["Ytest"]][:, 0])


def test_a_changed_original_is_refused_and_a_missing_one_reported(
    rain_pickle, served, register, monkeypatch
):
    (path, _), (folder, host) = rain_pickle, served
    register(path, host)
    monkeypatch.delenv("ZIGP_DATA", raising=False)
    with pytest.raises(ConnectionError, match="give that as the data folder"):
        load_precipitation()
    (folder / path.name).write_bytes(path.read_bytes() + b"!")
    with pytest.raises(ValueError, match="hash"):
        load_precipitation()
    with pytest.raises(ValueError, match="not the file that its authors published"):
        load_precipitation(folder)


class Hostile:
    def __reduce__(self):
        return pytest.fail, ("The pickle was run.",)


def test_a_pickle_that_names_anything_but_arrays_is_not_run(tmp_path):
    path = tmp_path / "pptr.pickle"
    path.write_bytes(pickle.dumps({"Xtrain": Hostile()}))
    with pytest.raises(pickle.UnpicklingError, match="which no array needs"):
        paper._read_precipitation(path)


def test_loaders_read_originals_from_a_folder(rain_pickle, register, tmp_path, monkeypatch):
    register(rain_pickle[0])
    assert len(load_precipitation(tmp_path)) == 11
    monkeypatch.setenv("ZIGP_DATA", str(tmp_path))
    assert len(load_precipitation()) == 11
    x = np.linspace(0, 1, 5)[:, None]
    savemat(tmp_path / "toydata.mat", {"x": x, "y": 2 * x, "f": 0 * x})
    register(tmp_path / "toydata.mat")
    np.testing.assert_array_equal(load_toy(tmp_path), np.column_stack([x, 2 * x, 0 * x]))


def test_a_folder_without_the_data_or_with_other_columns_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds none of jura_train.csv, train.csv"):
        load_jura(tmp_path)
    (tmp_path / "toy.csv").write_text("x,value\n1,2\n")
    with pytest.raises(ValueError, match=r"toy.csv has no column y, f; it has x, value"):
        load_toy(tmp_path)


def test_the_data_are_what_their_description_says(data_dir):
    rain = load_precipitation(data_dir)
    assert len(rain) == 113_015
    assert len(rain[["lat", "lon"]].drop_duplicates()) == 105
    assert (rain["hour"].min(), rain["hour"].max()) == (4368, 5447)
    assert (rain["rain_mm"] == 0).mean() == pytest.approx(0.8979, abs=1e-4)
    train, test = load_jura(data_dir)
    assert (len(train), len(test)) == (259, 100)
    assert list(load_toy(data_dir)) == ["x", "y", "f"]
