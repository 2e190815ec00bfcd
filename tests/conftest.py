"""Shapes are checked where they are declared; JAX computes in 64 bits, as in every entry point."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

CORE = (
    "gp.batch",
    "gp.inducing",
    "gp.kernels",
    "gp.latent",
    "math",
    "models.distributions",
    "models.likelihoods",
    "models.signal",
)
install_import_hook([f"zigp.{name}" for name in CORE], "beartype.beartype")


# Files of slow tests that compute much, or whose subject is rounding, memory or processes: programs
# are compiled as for use there. The others compile much and compute little.
AS_FOR_USE = {
    f"test_{name}"
    for name in (
        "calibration",
        "checkpoints",
        "cli",
        "cli_files",
        "determinism",
        "devices",
        "docs",
        "estimators",
        "examples",
        "experiments",
        "families",
        "interrupted_commands",
        "interruptions",
        "peers",
        "processes",
        "projection",
        "readme",
        "repeated",
        "report",
        "special",
        "streams",
        "training",
        "trouble",
    )
}


def pytest_configure(config):
    """Everyday tests compile much and compute little: XLA optimises little, here and in processes.

    Some slow tests, and those of a user who has chosen XLA's flags, are compiled as for use.
    Programs that one process compiled serve the next from a folder of this run: what the user's own
    fits left neither helps nor grows. The processes that run tests keep theirs in memory.
    """
    import jax

    if not hasattr(config, "workerinput"):  # workers inherit the environment
        kept = tempfile.TemporaryDirectory(prefix="zigp-tests-")
        config.add_cleanup(kept.cleanup)
        os.environ["ZIGP_TESTS_RUN"] = kept.name
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(kept.name) / "programs")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        if config.option.markexpr.startswith("not slow") and "XLA_FLAGS" not in os.environ:
            os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_compilation_cache_dir", None)
    # What a shell starts in the background ignores Ctrl-C: tests that press it have it heeded.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Run files that take long first, so that no process is left alone with one in the end."""
    items.sort(key=lambda item: item.module.__name__ not in AS_FOR_USE)


@pytest.fixture(autouse=True)
def _in_session():
    from zigp.runtime.session import session

    with session():
        yield


_made: dict[str, bool] = {}  # how programs are compiled in this process


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs(request):
    """How they are made, and that there is room: Linux allows a process 65,530 memory maps."""
    import jax

    from zigp.runtime.session import make_room

    quick = "JAX_DISABLE_MOST_OPTIMIZATIONS" in os.environ or (
        "XLA_FLAGS" not in os.environ and request.module.__name__ not in AS_FOR_USE
    )
    if _made.get("quick") != quick:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", quick)
        _made["quick"] = quick
    yield
    make_room()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Where the paper's data are: $ZIGP_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("ZIGP_DATA", beside))
    if not path.is_dir():
        pytest.skip(f"the paper's data are not here: {path} does not exist (set ZIGP_DATA)")
    return path
