"""Options that commands share, those of the estimators' settings, and files that hold options."""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from functools import wraps
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

DATA = "Table (CSV, gzipped or not, or Parquet) or lattice (NetCDF or Zarr)."
ANY_DATA = (
    "Table (CSV, gzipped or not, Parquet, or a folder of Parquet files) or lattice (NetCDF or "
    "Zarr). Parquet and Zarr may be at an address such as s3://bucket/rain."
)


# ---------------------------------------------------------------------------------------------
# Values


def _within(low: float, high: float, words: str) -> Callable[[float | None], float | None]:
    """Return a check that a number, if there is one, lies strictly between two others."""

    def checked(value: float | None) -> float | None:
        if value is not None and not low < value < high:
            raise typer.BadParameter(f"{value:g} is not {words}.")
        return value

    return checked


finite = _within(-inf, inf, "a finite number")
positive = _within(0, inf, "a positive number")
share = _within(0, 1, "strictly between 0 and 1")


def listed(names: str | None) -> list[str]:
    """Return the names in a text with commas between them."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


_SIZE = re.compile(r"([^=]+)=\s*(\d+)\s*(?:,|$)")


def sizes(text: str) -> int | dict[str, int]:
    """Read numbers of inducing points: 200, or one for each column group, lat,lon=50,hour=200.

    >>> sizes("200"), sizes("lat,lon=50,hour=200")
    (200, {'lat,lon': 50, 'hour': 200})
    """
    if text.strip().isdecimal():
        return int(text)
    if not (found := _SIZE.findall(text)) or _SIZE.sub("", text):
        raise typer.BadParameter(
            f"{text!r} is neither a number nor names with numbers, such as lat,lon=50,hour=200.",
            param_hint="--inducing",
        )
    return {name.strip(): int(size) for name, size in found}


# ---------------------------------------------------------------------------------------------
# Settings of estimators

# How settings are read from what was typed, by the first of their types; all others are text.
_READERS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": bool,
    "Sizes": sizes,
    "ColumnList": listed,
}


def options_of(estimators: Iterable[Any], *scopes: str) -> dict[str, Field]:
    """Return the settings of estimators that have an option, by the option's name."""
    return {
        one.metadata["option"].name or one.name: one
        for cls in estimators
        for one in fields(cls)
        if one.metadata["option"] and one.metadata["scope"] in scopes
    }


def default_of(setting: Field) -> Any:
    """Return the default of a setting on the command line."""
    default = setting.metadata["option"].default
    return setting.default if default is ... else default


def with_settings(estimators: Iterable[Any], *scopes: str) -> Callable[[Callable], Callable]:
    """Give a command the options of the settings of estimators.

    The command takes the values as one mapping, `settings`, by the names of the settings.
    """
    options = options_of(estimators, *scopes)

    def decorate(command: Callable) -> Callable:
        @wraps(command)
        def typed(**values: Any) -> Any:
            given = {one: values.pop(name) for name, one in options.items()}
            read = {s.name: v if v is None else _reader(s)(v) for s, v in given.items()}
            return command(**values, settings=read)

        own = inspect.signature(command, eval_str=True).parameters.values()
        explicit = [one.replace(kind=one.KEYWORD_ONLY) for one in own if one.name != "settings"]
        declared = [_parameter(name, one) for name, one in options.items()]
        typed.__signature__ = inspect.Signature([*explicit, *declared])  # type: ignore[attr-defined]
        typed.__annotations__ = {}
        return typed

    return decorate


def _reader(setting: Field) -> Any:
    return _READERS.get(str(setting.type).split(" | ")[0], str)


def _parameter(name: str, setting: Field) -> inspect.Parameter:
    """Return the parameter of a command from which typer makes the option of a setting."""
    option, default = setting.metadata["option"], default_of(setting)
    kind = _reader(setting) if isinstance(_reader(setting), type) else str
    if choices := option.choices or setting.metadata["choices"]:
        kind = Literal[tuple(choices)]
    typed = typer.Option(
        default,
        f"--{name.replace('_', '-')}",
        help=option.help or setting.metadata["description"],
        min=option.min,
        callback=positive if kind is float else None,
    )
    annotation = kind if default is not None else kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=typed, annotation=annotation
    )


# ---------------------------------------------------------------------------------------------
# Files of options


def _configured(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a file the defaults of this command."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # of its text, its numbers, or its depth
        raise typer.BadParameter(f"{path} is not TOML: {error}.") from None
    names = _by_name(context)
    found = {name.replace("-", "_"): _as_typed(value) for name, value in found.items()}
    if unknown := [name for name in found if name not in names]:
        raise typer.BadParameter(
            f"{path} sets {unknown[0]!r}, which is no option of this command. It has "
            f"{', '.join(sorted(names))}."
        )
    context.default_map = {names[name]: value for name, value in found.items()}
    return path


def _by_name(context: typer.Context) -> dict[str, str]:
    """Return the names of options and arguments by what they are called in a file."""
    names = [str(p.name) for p in context.command.params]
    return {n.rstrip("_"): n for n in names if n not in ("config", "write_config", "help")}


def _as_typed(value: Any) -> Any:
    """Return a value of a file as it would be typed: lists with commas, tables with = too."""
    if isinstance(value, dict):
        value = [f"{name}={size}" for name, size in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list) else value


def as_toml(context: typer.Context) -> str:
    """Return the options that a command was run with as a file for --config."""
    values = {called: context.params.get(name) for called, name in _by_name(context).items()}
    return "\n".join(
        f"{called} = {json.dumps(value, ensure_ascii=False, default=str)}"
        for called, value in values.items()
        if value is not None and called not in ("debug", "force", "out")
    )


def given(context: typer.Context) -> set[str]:
    """Return the names of the options that were typed, or set in a file."""
    source: Any = context.get_parameter_source
    return {name for name in context.params if source(name).name != "DEFAULT"}


def typed_words() -> list[str]:
    """Return the words of this command, as text that files can hold."""
    return [word.encode("utf-8", "replace").decode() for word in ("zigp", *sys.argv[1:])]


# ---------------------------------------------------------------------------------------------
# Options of several commands

Target = Annotated[str, typer.Option(help="Column to be explained.")]
Space = Annotated[str | None, typer.Option(help="Columns of places, such as lat,lon (then in km).")]
Time = Annotated[str | None, typer.Option(help="Column of times: numbers or dates.")]
Inputs = Annotated[str | None, typer.Option(help="Other input columns, such as depth,temp.")]
Category = Annotated[str | None, typer.Option(help="Columns of unordered levels, such as gear.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with options, named as here; command-line options override it.",
        callback=_configured,
        is_eager=True,
    ),
]
