"""How zigp borrows JAX: 64-bit inside a call, one BLAS thread, and everything put back after."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from threadpoolctl import threadpool_limits

__all__ = ["entry_point", "make_room", "session", "surroundings"]

_lock = threading.Lock()
_users = 0
_limits: threadpool_limits | None = None
# What computes: training, the moments before it, and where inducing points are placed.
_PACKAGES = ("zigp", "jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
_FULL = 0.5  # of the memory maps that a process may have


@contextmanager
def session() -> Iterator[None]:
    """Everything zigp computes happens inside this context.

    64-bit types are enabled for this thread alone. BLAS runs single-threaded meanwhile: its
    waiting threads take the cores from XLA's and double the time of a gradient on two cores.
    Products of float32 matrices keep all their digits, which GPUs would otherwise round to ten
    bits.
    """
    global _users, _limits
    with _lock:
        _users += 1
        if _users == 1:
            _limits = threadpool_limits(limits=1, user_api="blas")
    try:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None


def entry_point[**P, T](method: Callable[P, T]) -> Callable[P, T]:
    """A public method that computes: runs inside a session."""

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with session():
            return method(*args, **kwargs)

    return wrapped


def make_room() -> None:
    """Forget compiled programs once they hold half of the memory maps that Linux allows a process.

    Each has several of them, and jaxlib crashes where it can get no more: after some hours of fits
    that all differ in shape.
    """
    try:
        with Path("/proc/self/maps").open("rb") as maps:
            held = sum(1 for _ in maps)
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):  # not Linux
        return
    if held > _FULL * allowed:
        jax.clear_caches()


def surroundings() -> dict[str, Any]:
    """The versions, flags and devices that the bits of a result depend on."""
    return {
        **{name: version(name) for name in _PACKAGES},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
        "platform": jax.default_backend(),
        "device": jax.devices()[0].device_kind,
        "processes": jax.process_count(),
    }
