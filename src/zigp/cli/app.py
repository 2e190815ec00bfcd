"""The `zigp` command: its subcommands, signals, warnings and errors."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from zigp.cli.messages import on_one_line, sentence
from zigp.runtime.interrupts import StopRequest

# Each is a function in the module of the same name, which begins its docstring with this sentence.
COMMANDS = {
    "fit": "Fit a model to a table or a lattice.",
    "predict": "Predict at the rows of a table or the cells of a lattice.",
    "evaluate": "Compare models by their predictions of held-out rows.",
    "simulate": "Simulate rain at stations, or draw from a model.",
    "info": "Describe a model file.",
    "report": "Write a report on a model and its data.",
    "demo": "Fit, score and draw simulated rain.",
    "reproduce": "Run the paper's experiments.",
}


class OnDemand(TyperGroup):
    """Commands whose modules are imported when they are run, so that --help answers at once."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and loaded(str(name)), rest


def loaded(name: str) -> Any:
    """Return a command with its options, from its module."""
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(getattr(import_module(f"zigp.cli.{name}"), name))
    return typer.main.get_command(single)


app = typer.Typer(
    cls=OnDemand,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _listed() -> None:
    """Stand for a command in the help."""


for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(_listed)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"zigp {version('zigp')}")
        raise typer.Exit


@app.callback()
def zigp(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Zero-inflated Gaussian processes: regression where most observations are exactly zero."""


def main() -> None:
    """Run the `zigp` command. Errors are one sentence on stderr, never a traceback."""
    _cache_compiled_programs()
    try:
        with _signals_raise(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except StopRequest as stop:
        print("Interrupted.", file=sys.stderr)
        sys.exit(stop.code)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(sentence(error))


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Raise Ctrl-C and requests to end as an error, so that no file is left half-written.

    Ignored signals stay ignored: under nohup a command continues when its terminal closes.
    """

    def stop(number: int, frame: object) -> None:
        raise StopRequest(128 + number)

    ending = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {
        number: signal.signal(number, stop)
        for number in ending
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning on one line, without the place in the code that it comes from."""
    print(on_one_line(str(message)), file=sys.stderr)


def _cache_compiled_programs() -> None:
    """Keep compiled programs between runs, unless JAX has been told where.

    Not those of `reproduce`: jaxlib has crashed in writing them from processes that compile much.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and "reproduce" not in sys.argv[1:2]:
        import pooch

        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(pooch.os_cache("zigp") / "compiled")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
