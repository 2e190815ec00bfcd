"""Check declared shapes, compute in 64 bits, and choose how JAX compiles programs in tests."""

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


# Slow tests in these files compute much, or test rounding, memory or processes: their programs are
# compiled as in use. Other tests compile much and compute little.
AS_IN_USE = {
    *("test_calibration", "test_checkpoints", "test_cli", "test_cli_files", "test_determinism"),
    *("test_devices", "test_docs", "test_estimators", "test_examples", "test_experiments"),
    *("test_families", "test_input", "test_interrupted_commands", "test_interruptions"),
    *("test_peers", "test_processes", "test_projection", "test_readme", "test_report"),
    *("test_special", "test_streams", "test_training"),
}


def pytest_configure(config):
    """Let XLA optimise little in everyday tests, unless the user has chosen its flags.

    Processes that tests start share compiled programs in a folder of this run, apart from those of
    the user's own fits. The processes that run tests keep their programs in memory.
    """
    import jax

    if not hasattr(config, "workerinput"):  # workers inherit the environment
        folder = tempfile.TemporaryDirectory(prefix="zigp-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["ZIGP_TESTS_RUN"] = folder.name
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(folder.name) / "programs")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        if config.option.markexpr.startswith("not slow") and "XLA_FLAGS" not in os.environ:
            os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_compilation_cache_dir", None)
    # A process that a shell starts in the background ignores Ctrl-C, which some tests press.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Run long files first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.module.__name__ not in AS_IN_USE)


@pytest.fixture(autouse=True)
def _in_session():
    from zigp.runtime.session import session

    with session():
        yield


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs(request):
    """Choose how the programs of a file are compiled, and make room: Linux allows a process
    65,530 memory maps.
    """
    import jax

    from zigp.runtime.session import make_room

    quick = "JAX_DISABLE_MOST_OPTIMIZATIONS" in os.environ or (
        "XLA_FLAGS" not in os.environ and request.module.__name__ not in AS_IN_USE
    )
    if jax.config.values["jax_disable_most_optimizations"] != quick:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", quick)
    yield
    make_room()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of the paper's data: $ZIGP_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("ZIGP_DATA", beside))
    if not path.is_dir():
        pytest.skip(f"the paper's data are missing: there is no {path} (set ZIGP_DATA)")
    return path
