"""Files: what comes back is what was saved, to the bit, and what is not ours is told so."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save_file

import zigp
from zigp.estimators import persistence
from zigp.gp.kernels import Matern32, Periodic
from zigp.runtime.digest import digest

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


# What takes long to compile. A network comes back from its file in test_network too.
LONG = ("classes", "gated", "groups", "hurdle", "network", "zinb")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in ESTIMATORS],
)
def test_predictions_are_equal_to_the_bit(name, tmp_path):
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


def test_a_loaded_model_knows_its_columns(saved):
    with pytest.raises(ValueError, match="feature names"):
        zigp.load(saved[1]).predict(X[["hour", "east"]])


def test_the_header_can_be_read_without_the_model(saved):
    header = persistence.read_header(saved[1])
    assert header["format"] == persistence.FORMAT
    assert header["estimator"] == "SparseGPRegressor"
    assert header["columns"] == ["east", "hour"]
    assert header["trained"]["rows"] == 60
    assert header["trained"]["bound"] == pytest.approx(saved[0].bounds_[-1])


@pytest.mark.slow
def test_settings_that_cannot_be_kept_are_the_default_again(tmp_path):
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
    """The same file with another header, and a digest that agrees with it."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    outer = json.loads(raw[8 : 8 + length])
    header = json.loads(outer["__metadata__"]["zigp"])
    change(header, outer)
    header["digest"] = digest(header, load_tensors(raw))
    outer["__metadata__"]["zigp"] = json.dumps(header)
    text = json.dumps(outer, separators=(",", ":")).encode()
    out.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])
    return out


def test_a_newer_format_asks_for_a_newer_library(saved, tmp_path):
    def newer(header, outer):
        header["format"], header["library"] = persistence.FORMAT + 1, "9.9"

    path = rewritten(saved[1], tmp_path / "new.zigp", newer)
    with pytest.raises(ValueError, match=r"has format 2, written by zigp 9\.9.*newer zigp"):
        zigp.load(path)


@pytest.mark.parametrize("kept", [40, 200, -1])
def test_a_truncated_file_is_told_so(saved, tmp_path, kept):
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
def test_other_files_are_told_so(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a zigp model"):
        zigp.load(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no devices to read from")
def test_what_has_no_end_is_no_model():
    with pytest.raises(ValueError, match="is not a zigp model"):
        persistence.load("/dev/zero")


def test_other_safetensors_are_told_so(tmp_path):
    save_file({"w": np.ones(3)}, tmp_path / "w.safetensors", metadata={"made": "elsewhere"})
    with pytest.raises(ValueError, match="is not a zigp model"):
        zigp.load(tmp_path / "w.safetensors")


def test_a_header_that_claims_more_than_the_file_holds_is_refused(saved, tmp_path):
    def claim(header, outer):
        last = max(
            (k for k in outer if k != "__metadata__"), key=lambda k: outer[k]["data_offsets"]
        )
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
def test_only_our_own_classes_are_built(saved, tmp_path, change, message):
    path = rewritten(saved[1], tmp_path / "bad.zigp", lambda header, _: change(header["content"]))
    with pytest.raises(ValueError, match=rf"bad\.zigp is damaged: .*{message}"):
        zigp.load(path)


def test_damaged_offsets_are_told(saved, tmp_path):
    def offsets(header, outer):
        outer["0"]["data_offsets"] = []

    path = rewritten(saved[1], tmp_path / "bad.zigp", offsets)
    with pytest.raises(ValueError, match=r"bad\.zigp is damaged: its header cannot be read"):
        zigp.load(path)


@pytest.mark.slow
def test_settings_may_be_numpy_and_pandas(tmp_path):
    model = zigp.ZeroInflatedGPRegressor(
        steps=np.int64(2), n_inducing=np.int64(4), inputs=X.columns, resolution=np.float64(0.1)
    ).fit(X, Y)
    model.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp").set_params(warm_start=True)
    assert again.inputs == ["east", "hour"]
    assert again.set_params(inputs=X.columns).fit(X, Y).elbo(X, Y) > model.elbo(X, Y)


def test_permissions_stay_as_they_were(saved, tmp_path):
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


def test_a_write_that_fails_leaves_the_old_file(saved, tmp_path, monkeypatch):
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
