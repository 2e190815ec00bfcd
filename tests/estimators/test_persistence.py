"""A model file gives back the fitted estimator to the bit, and any other file is refused."""

import os
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save as safetensors
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from small_models import ESTIMATORS, SMALL, X, Y, fitted, questions

import zigp
from zigp.estimators import persistence


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A fitted model and its file."""
    path = tmp_path_factory.mktemp("saved") / "rain.zigp"
    fitted("plain").save(path)
    return fitted("plain"), path


# The others take long to compile.
@pytest.mark.parametrize(
    "name",
    [n if n == "plain" else pytest.param(n, marks=pytest.mark.slow) for n in ESTIMATORS],
)
def test_a_loaded_model_gives_the_same_bits(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp")
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    for method, more in questions(model):
        seed = {"random_state": 0} if method in ("sample", "aggregate") else {}
        answers = [getattr(one, method)(X[:3], **more, **seed) for one in (again, model)]
        np.testing.assert_array_equal(*answers)
    again.save(tmp_path / "again.zigp")
    assert (tmp_path / "again.zigp").read_bytes() == (tmp_path / "m.zigp").read_bytes()


def test_a_loaded_model_can_be_trained_on(saved):
    model, path = saved
    again = zigp.load(path).set_params(warm_start=True, steps=30).fit(X, Y)
    assert again.elbo(X, Y) > model.elbo(X, Y)


def test_a_loaded_model_checks_the_names_of_columns(saved):
    with pytest.raises(ValueError, match="feature names"):
        zigp.load(saved[1]).predict(X[["hour", "east"]])


def test_the_header_can_be_read_without_loading_the_model(saved):
    header = persistence.read_header(saved[1])
    assert header["format"] == persistence.FORMAT
    assert header["estimator"] == "SparseGPRegressor"
    assert header["columns"] == ["east", "hour"]
    assert header["trained"]["rows"] == 60
    assert header["trained"]["bound"] == pytest.approx(saved[0].bounds_[-1])


@pytest.mark.slow
def test_settings_that_a_file_cannot_hold_return_to_their_defaults(tmp_path):
    own = {"schedule": lambda done: 1.0 - done, "random_state": np.random.RandomState(3)}
    model = zigp.SparseGPRegressor(**SMALL, **own).fit(X, Y)
    model.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp")
    assert (again.schedule, again.random_state) == ("cosine", 0)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_unfitted_and_foreign_estimators_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        zigp.SparseGPRegressor().save(tmp_path / "m.zigp")
    with pytest.raises(TypeError, match="Only zigp's own estimators"):
        persistence.save(LinearRegression(), tmp_path / "m.zigp")
    assert not list(tmp_path.iterdir())


# -- other files, which test_hostile.py has more of ----------------------------------------------


def test_every_shorter_file_is_refused(saved, tmp_path):
    raw, path = saved[1].read_bytes(), tmp_path / "part.zigp"
    for kept in range(0, len(raw), max(len(raw) // 200, 1)):
        path.write_bytes(raw[:kept])
        message = "cut short or changed" if kept > 40 else "part"
        with pytest.raises(ValueError, match=message):
            zigp.load(path)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"rain", b"PK\x03\x04" + bytes(200), bytes(4096)),
        safetensors({"w": np.ones(3)}, metadata={"made": "elsewhere"}),
    ],
)
def test_files_that_are_no_models_are_refused(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match="is not a zigp model"):
        zigp.load(tmp_path / "other")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no devices to read from")
def test_a_device_file_is_refused_as_a_model():
    with pytest.raises(ValueError, match="is not a"):
        zigp.load("/dev/zero")


@pytest.mark.slow
def test_settings_may_be_numpy_scalars_and_pandas_indexes(tmp_path):
    model = zigp.ZeroInflatedGPRegressor(
        steps=np.int64(2), n_inducing=np.int64(4), inputs=X.columns, resolution=np.float64(0.1)
    ).fit(X, Y)
    model.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp").set_params(warm_start=True)
    assert again.inputs == ["east", "hour"]
    assert again.set_params(inputs=X.columns).fit(X, Y).elbo(X, Y) > model.elbo(X, Y)


def test_saving_keeps_permissions_and_follows_links(saved, tmp_path):
    path, plain, link = (tmp_path / name for name in ("m.zigp", "plain", "link"))
    saved[0].save(path)
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o600)
    link.symlink_to(path)
    saved[0].save(link)
    assert path.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()


def test_a_failed_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    saved[0].save(tmp_path / "m.zigp")
    full = OSError("No space left on device")
    monkeypatch.setattr(os, "replace", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space left"):
        saved[0].set_params(random_state=1).save(tmp_path / "m.zigp")
    assert (tmp_path / "m.zigp").read_bytes() == saved[1].read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["m.zigp"]
