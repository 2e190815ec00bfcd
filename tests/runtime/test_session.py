"""The configuration of JAX, and its restoration."""

import jax
import jax.numpy as jnp
import pytest

from zigp.runtime import session


@pytest.mark.slow
@pytest.mark.parametrize(("full", "kept"), [(0.0, 0), (1.0, 1)])
def test_compiled_programs_are_cleared_only_if_they_fill_the_process(full, kept, monkeypatch):
    twice = jax.jit(lambda x: 2.0 * x)
    twice(jnp.ones(3))
    assert twice._cache_size() == 1
    monkeypatch.setattr(session, "_FULL", full)
    session.make_room()
    assert twice._cache_size() == kept


def test_a_session_restores_the_precision():
    with jax.enable_x64(False):
        with session.session():
            assert jnp.zeros(1).dtype == jnp.float64
        assert jnp.zeros(1).dtype == jnp.float32
