"""The configuration of JAX and BLAS during a call, and its restoration."""

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

_lock = threading.Lock()
_users = 0
_limits: threadpool_limits | None = None
# The packages that compute: training, initial moments, and the placement of inducing points.
_PACKAGES = ("zigp", "jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
_FULL = 0.5  # fraction of the memory maps that a process may have


@contextmanager
def session() -> Iterator[None]:
    """Configure JAX and BLAS for computations of zigp, and restore their configuration at the end.

    64-bit types are enabled for this thread only. BLAS is single-threaded: its waiting threads
    would take the cores from those of XLA, and a gradient on two cores would take twice as long.
    Products of float32 matrices keep full precision, which GPUs would reduce to ten bits.
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
    """Run a public method inside a session."""

    @wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with session():
            return method(*args, **kwargs)

    return wrapped


def make_room() -> None:
    """Clear compiled programs if they use half of the memory maps that Linux allows a process.

    With jaxlib 0.12.0.1 each small program holds 6 to 11 maps for as long as it is cached (1,000
    programs: 10,900 maps of 65,530), and compiling one more at the limit is a segmentation fault:
    after some hours of fits that all differ in shape.
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
    """Return the versions, flags and devices on which the bits of a result depend."""
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
