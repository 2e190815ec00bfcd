"""The options that commands share, and the file that can hold them."""

from __future__ import annotations

import json
import tomllib
from enum import StrEnum
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Config",
    "Device",
    "Divided",
    "Dtype",
    "Kernel",
    "Likelihood",
    "Method",
    "ModelName",
    "as_toml",
    "command_of",
    "finite",
    "given",
    "listed",
    "place",
    "positive",
    "share",
    "sizes",
    "use_device",
]


class ModelName(StrEnum):
    zigp = "zigp"
    hurdle = "hurdle"
    gp = "gp"


class Likelihood(StrEnum):
    auto = "auto"
    gated = "gated"
    gaussian = "gaussian"
    hurdle_lognormal = "hurdle_lognormal"
    hurdle_gamma = "hurdle_gamma"
    zip = "zip"
    zinb = "zinb"


class Kernel(StrEnum):
    matern12 = "matern12"
    matern32 = "matern32"
    matern52 = "matern52"
    squared_exponential = "squared_exponential"
    linear = "linear"


class Method(StrEnum):
    auto = "auto"
    adam = "adam"
    natural = "natural"


class Divided(StrEnum):
    one = "one"
    data = "data"


class Dtype(StrEnum):
    float64 = "float64"
    float32 = "float32"


class Device(StrEnum):
    auto = "auto"
    cpu = "cpu"
    gpu = "gpu"


_NOT_KEPT = ("config", "write_config", "help")


def _configured(context: typer.Context, path: Path | None) -> Path | None:
    """Options of a file become the defaults of this command; those typed go before them."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # of its text, its numbers, or its depth
        raise typer.BadParameter(f"{path} is not TOML: {error}.") from None
    known = _by_name(context)
    values = {}
    for name, value in found.items():
        if (named := name.replace("-", "_")) not in known:
            raise typer.BadParameter(
                f"{path} sets {name!r}, which is no option of this command. It has "
                f"{', '.join(sorted(known))}."
            )
        values[known[named]] = _as_typed(value)
    context.default_map = dict(context.default_map or {}) | values
    return path


def _by_name(context: typer.Context) -> dict[str, str]:
    """What options and arguments are called in a file, and inside."""
    names = [str(p.name) for p in context.command.params if p.name not in _NOT_KEPT]
    return {name.rstrip("_"): name for name in names}


def _as_typed(value: Any) -> Any:
    """A value of the file as it would be typed: lists with commas, tables with = too."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={size}" for name, size in value.items())
    return value


Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with options, named as here; those typed go before it.",
        callback=_configured,
        is_eager=True,
    ),
]


def as_toml(context: typer.Context) -> str:
    """What a command was run with, for --config to read."""
    lines = []
    for called, name in _by_name(context).items():
        value = context.params.get(name)
        if value is None or name in ("debug", "force", "out"):
            continue
        plain = value if isinstance(value, (bool, int, float)) else str(value)
        lines.append(f"{called} = {json.dumps(plain, ensure_ascii=False)}")
    return "\n".join(lines)


def given(context: typer.Context) -> set[str]:
    """The options that were typed, or set in a file."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name != "DEFAULT"}


def command_of(context: typer.Context) -> list[str]:
    """The command as it could be typed again: what was given on the command line."""
    words = ["zigp", str(context.info_name)]
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if str(param.name) not in given(context):
            continue
        if param.param_type_name == "option":
            words.append(param.opts[0])
        if value is not True:
            words.append(str(value))
    return [word.encode("utf-8", "replace").decode() for word in words]  # as text that can be kept


def finite(value: float | None) -> float | None:
    """A number, if there is one, that is neither infinite nor NaN."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def positive(value: float | None) -> float | None:
    """A number, if there is one, above zero."""
    if value is not None and not 0 < value < inf:
        raise typer.BadParameter(f"{value:g} is not a positive number.")
    return value


def share(value: float) -> float:
    """A number between 0 and 1."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} does not lie strictly between 0 and 1.")
    return value


def listed(names: str | None) -> list[str]:
    """Column names that were typed with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()] if names else []


def place(typed: str) -> Path | str:
    """Where data are: a path, or an address, which a path would not be the same as.

    >>> place("s3://bucket/rain")
    's3://bucket/rain'
    """
    return typed if "://" in typed else Path(typed)


def sizes(text: str | None) -> int | dict[str, int] | None:
    """Numbers of inducing points: 200, or one for each group of columns, lat,lon=50,hour=200.

    >>> sizes("200"), sizes("lat,lon=50,hour=200")
    (200, {'lat,lon': 50, 'hour': 200})
    """
    if not text:
        return None
    found, name = {}, ""
    for part in text.split(","):
        name = f"{name},{part}" if name else part
        if "=" in name:
            group, _, count = name.rpartition("=")
            if not count.strip().isdigit():
                break
            found[group.strip()] = int(count)
            name = ""
    if name.strip().isdigit() and not found:
        return int(name)
    if name or not found:
        raise typer.BadParameter(
            f"{text!r} is neither a number nor names with numbers, such as lat,lon=50,hour=200.",
            param_hint="--inducing",
        )
    return found


def use_device(device: Device) -> None:
    """Compute on the CPU or a GPU of this process from here on."""
    if device == Device.auto:
        return
    import jax

    try:
        jax.config.update("jax_default_device", jax.local_devices(backend=device.value)[0])
    except RuntimeError:
        raise ValueError(
            "JAX finds no GPU here. Leave --device out, or install JAX for your GPU: "
            "pip install 'jax[cuda12]'."
        ) from None
