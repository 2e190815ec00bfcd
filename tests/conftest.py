"""Shapes are checked where they are declared; JAX computes in 64 bits, as in every entry point."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

CORE = (
    "batch",
    "inducing",
    "kernels",
    "latent",
    "likelihoods",
    "predictive",
    "quadrature",
    "signal",
    "special",
)
install_import_hook([f"zigp.{name}" for name in CORE], "beartype.beartype")


@pytest.fixture(autouse=True)
def _in_session():
    from zigp.runtime import session

    with session():
        yield


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Each holds several memory maps, of which Linux allows a process 65,530 in all."""
    yield
    import jax

    jax.clear_caches()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Where the paper's data are: $ZIGP_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("ZIGP_DATA", beside))
    if not path.is_dir():
        pytest.skip(f"the paper's data are not here: {path} does not exist (set ZIGP_DATA)")
    return path
