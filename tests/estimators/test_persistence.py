"""A model file gives back the fitted estimator to the bit, and any other file is refused."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from fuzz.models import parts_of, signed
from safetensors.numpy import save_file

import zigp
from zigp.estimators import persistence
from zigp.gp.kernels import Matern32, Periodic

RNG = np.random.default_rng(0)
X = pd.DataFrame({"east": RNG.uniform(0, 9, 60), "hour": RNG.uniform(0, 48, 60)})
Y = np.where(X["east"] > 4, np.sin(X["hour"]) + 2.0, 0.0).round(1)
SMALL = {"steps": 2, "n_inducing": 4}
KERNEL = 0.5 * Periodic(24.0).on(1) + Matern32(3.0).on(0)

ESTIMATORS = {
    "plain": (zigp.SparseGPRegressor(**SMALL), Y),
    "gated": (zigp.ZeroInflatedGPRegressor(KERNEL, **SMALL), Y),
    "zinb": (zigp.ZeroInflatedGPRegressor(likelihood="zinb", exposure="east", **SMALL), Y.round()),
    "groups": (
        zigp.ZeroInflatedGPRegressor(
            column_groups={"place": "east", "time": "hour"},
            gate_inputs="hour",
            n_inducing={"place": 3, "time": 4},
            dtype="float32",
            steps=2,
        ),
        Y,
    ),
    "classes": (zigp.SparseGPClassifier(**SMALL), np.where(Y > 0, "wet", "dry")),
    "hurdle": (zigp.HurdleGPRegressor(**SMALL), Y),
    "network": (
        zigp.GPNetworkRegressor(1, n_restarts=2, latent_noise=True, y_transform="log", **SMALL),
        pd.DataFrame({"a": Y + 1.0, "b": np.where(Y > 2, np.nan, Y + 2.0)}),
    ),
}


def answers(model):
    mean = model.predict(X)
    if isinstance(model, zigp.SparseGPClassifier):
        return [mean, model.predict_proba(X)]
    return [mean, *model.predict(X, return_std=True), model.predict_quantiles(X).to_numpy(),
            model.sample(X.iloc[:5], 2, random_state=0)]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A fitted model and its file."""
    path = tmp_path_factory.mktemp("saved") / "rain.zigp"
    model = zigp.SparseGPRegressor(**SMALL).fit(X, Y)
    model.save(path)
    return model, path


# These take long to compile. test_network.py saves and loads a network every day.
LONG = ("classes", "gated", "groups", "hurdle", "network", "zinb")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in ESTIMATORS],
)
def test_a_loaded_model_predicts_the_same_bits(name, tmp_path):
    model, y = ESTIMATORS[name]
    model.fit(X, y)
    model.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp")
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    for ours, theirs in zip(answers(again), answers(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
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
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LinearRegression

    with pytest.raises(NotFittedError):
        zigp.SparseGPRegressor().save(tmp_path / "m.zigp")
    with pytest.raises(TypeError, match="Only zigp's own estimators"):
        persistence.save(LinearRegression(), tmp_path / "m.zigp")
    assert not list(tmp_path.iterdir())


# -- files that are not what they should be -------------------------------------------------------


def rewritten(path, out, change):
    """Write the same file with another header and a digest that agrees with it."""
    header, outer, data = parts_of(path.read_bytes())
    change(header, outer)
    out.write_bytes(signed(header, outer, data))
    return out


def test_a_file_of_a_newer_format_asks_for_a_newer_zigp(saved, tmp_path):
    def newer(header, outer):
        header["format"], header["library"] = persistence.FORMAT + 1, "9.9"

    path = rewritten(saved[1], tmp_path / "new.zigp", newer)
    with pytest.raises(ValueError, match=r"has format 2, written by zigp 9\.9.*newer zigp"):
        zigp.load(path)


@pytest.mark.parametrize("kept", [40, 200, -1])
def test_a_truncated_file_is_reported_as_cut_short(saved, tmp_path, kept):
    path = tmp_path / "part.zigp"
    path.write_bytes(saved[1].read_bytes()[:kept])
    with pytest.raises(ValueError, match="cut short or changed"):
        zigp.load(path)


def test_every_shorter_file_is_refused(saved, tmp_path):
    raw, path = saved[1].read_bytes(), tmp_path / "part.zigp"
    for kept in range(0, len(raw), max(len(raw) // 200, 1)):
        path.write_bytes(raw[:kept])
        with pytest.raises(ValueError, match=r"part\.zigp"):
            zigp.load(path)


@pytest.mark.parametrize("content", [b"", b"rain", b"PK\x03\x04" + bytes(200), bytes(4096)])
def test_files_that_are_no_models_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a zigp model"):
        zigp.load(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no devices to read from")
def test_a_device_file_is_refused_as_a_model():
    with pytest.raises(ValueError, match="is not a zigp model"):
        persistence.load("/dev/zero")


def test_safetensors_of_other_programs_are_refused(tmp_path):
    save_file({"w": np.ones(3)}, tmp_path / "w.safetensors", metadata={"made": "elsewhere"})
    with pytest.raises(ValueError, match="is not a zigp model"):
        zigp.load(tmp_path / "w.safetensors")


def test_a_header_that_claims_more_than_the_file_holds_is_refused(saved, tmp_path):
    def claim(header, outer):
        tensors = [name for name in outer if name != "__metadata__"]
        last = max(tensors, key=lambda name: outer[name]["data_offsets"])
        outer[last]["data_offsets"][1] += 8_000_000
        outer[last]["shape"] = [1_000_000]

    path = rewritten(saved[1], tmp_path / "more.zigp", claim)
    with pytest.raises(ValueError, match=r"should hold .* bytes by its own header"):
        zigp.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(estimator="os.system"), "no estimator 'os.system'"),
        (lambda content: content["learned"]["model_"].update({"is": "os.system"}), "no class"),
        (lambda content: content["learned"]["model_"]["with"].pop("latents"), "other fields"),
        (lambda content: content["learned"].update(y_scale_={"array": "999"}), "999"),
        (
            lambda content: content["learned"].update(y_scale_={"call": "print"}),
            "its content holds",
        ),
        (lambda content: content["settings"].update(colour="red"), "colour"),
        (lambda content: content["learned"].update(y_scale_={"float": "one"}), "one"),
        (lambda content: content["learned"].update(y_scale_={"dict": [[1]]}), "unpack"),
    ],
)
def test_files_with_unknown_classes_or_values_are_refused(saved, tmp_path, change, message):
    path = rewritten(saved[1], tmp_path / "bad.zigp", lambda header, _: change(header["content"]))
    with pytest.raises(ValueError, match=rf"bad\.zigp is damaged: .*{message}"):
        zigp.load(path)


def test_damaged_tensor_offsets_are_reported(saved, tmp_path):
    def empty_offsets(header, outer):
        outer["0"]["data_offsets"] = []

    path = rewritten(saved[1], tmp_path / "bad.zigp", empty_offsets)
    with pytest.raises(ValueError, match=r"bad\.zigp is damaged: its header cannot be read"):
        zigp.load(path)


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
    path = tmp_path / "m.zigp"
    saved[0].save(path)
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    saved[0].save(tmp_path / "link")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link").is_symlink()


def test_a_failed_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    model, path = saved[0], tmp_path / "m.zigp"
    model.save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        zigp.SparseGPRegressor(**SMALL, random_state=1).fit(X, Y).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.zigp"]
