"""Commands that read the files of a case, and command lines with odd words and options."""

from collections.abc import Iterator
from pathlib import Path

from zigp.cli.app import loaded

from .damage import TEXT, spoiled
from .material import Dice, cube, hauls, odd_text, put_model, rain

_SMALL = "--steps 1 --quiet --out m.zigp"
_PREDICT = "predict {model} {data} --out {out}"
_EVALUATE = "evaluate {data} --target rain_mm {roles} --models zero --cv 2"
_REPORT = "report {model} --data {data} --quick --out r.html"
_DRAWS = "simulate --model {model} --data {data} --draws 2 --out p.csv"
_FIT = "fit {data} --target rain_mm --inputs lat,lon,hour --inducing 3"
# Of what reads a table, a lattice or a model: quick commands and others, and what to fill in.
_COMMANDS = {
    "table": {
        "quick": (_PREDICT, _PREDICT, f"{_PREDICT} --chunk-rows 5", _EVALUATE, _EVALUATE),
        "other": (f"{_FIT} --model gp {_SMALL}", f"{_FIT} {_SMALL}", _REPORT, _DRAWS),
        "out": ("p.csv", "p.csv", "p.csv.gz", "p.tsv", "p.parquet", "-"),
        "roles": (
            "--inputs lat,lon,hour", "--space lat,lon --time hour", "--inputs lat,lon --time hour",
            "--inputs lat --category lon --time hour", "--inputs lat,lon --exposure hour", "",
        ),
        "model": ("ready",) * 6 + ("plain", "class", "hurdle", "network", "hauls", "hauls"),
    },
    "lattice": {
        "quick": (_PREDICT, _EVALUATE),
        "other": (f"fit {{data}} --target rain_mm {{roles}} --model gp {_SMALL}",),
        "out": ("p.nc", "p.zarr", "p.csv", "-"),
        "roles": ("", "", "--time time", "--space time,x", "--exposure area", "--inputs x"),
        "model": ("ready", "cube", "cube", "cube", "class", "hurdle"),
    },
    "model": {
        "quick": ("info {model}", "info {model} --json", _PREDICT, _PREDICT),
        "other": (_REPORT, _DRAWS),
        "out": ("p.csv",),
        "roles": ("",),
    },
}  # fmt: skip


def command_for(rng: Dice, kind: str, path: Path) -> list[str]:
    """Return a command that reads a table, a lattice or a model, with what else it needs."""
    of = _COMMANDS[kind]
    data, model = "data.csv", path.name
    if kind != "model":
        data, model = model, put_model(path.parent, rng.choice(of["model"][: rng.quick or None]))
    command = rng.choice(of["quick" if rng.quick or rng.random() < 0.85 else "other"])
    out, roles = rng.choice(of["out"]), rng.choice(of["roles"])
    return command.format(data=data, model=model, out=out, roles=roles).split()


# -- odd words ------------------------------------------------------------------------------------

_NUMBERS = (
    "0", "-1", "1", "2", "-0", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 30, "9" * 5000,
    "99999999999", "2147483648", "18446744073709551616", "", " ", "x", "１", "0x10", "1e3", "1_0",
    "true", "None",
)  # fmt: skip
_COLUMNS = (
    "lat", "lon", "hour", "rain_mm", "lat,lon", "lon,lat", "lat,lat", "lat,lon,hour", ",", ",,lat",
    "nowhere", " lat , lon ", "hour,rain_mm", "depth", "gear",
)  # fmt: skip
_PATHS = (
    "rain.csv", "hauls.csv", "ready.zigp", "cube.nc", "nowhere.csv", ".", "..", "/", "", "-", "~",
    "folder", "/dev/null", "a/b/c.csv", "rain.csv/x", "x" * 300, "a\nb.csv", "p.csv", "p.zigp",
    "\udcff.csv", "$(touch x)", "../" * 40 + "nowhere/p.csv", "p.nc", "p.zarr", "p.parquet",
    "r.html",
)  # fmt: skip
_COUNTS = ("0", "-1", "2", "x", "1000000000000", "9" * 30)
_VALUES = {  # of options; others get numbers
    **dict.fromkeys(("space", "time", "inputs", "category", "gate-inputs", "exposure"), _COLUMNS),
    **dict.fromkeys(("data", "from", "config", "out"), _PATHS),
    **dict.fromkeys(("draws", "hours", "stations"), _COUNTS),
    "target": (*_COLUMNS, "rain_mm", "rain_mm", "rain_mm", "catch"),
    "model": ("zigp", "gp", "hurdle", "ready.zigp", "svm", ""),
    "models": ("zero", "gp", "zero,zero", "", ",", "tree", "zero,tree"),
    "likelihood": ("auto", "zip", "zinb", "gaussian", "gated", "poisson"),
    "kernel": ("matern12", "linear", "rbf"),
    "inducing": (
        *_NUMBERS, "lat=2", "lat,lon=2,hour=3", "space=2,time=2", "=3", "lat=", "lat=-1", "lat=²",
        "a=1,a=2", ",=,",
    ),
    "dtype": ("float32", "float64", "float16", "int"),
    "level": (*_NUMBERS, "0.5"),
    "prefix": ("p_", "", "../", "a\nb", "lat", "\x1b[31m"),
    "method": ("natural", "adam", "newton", ""),
    "passes": ("0", "-1", "1", "0.5", "nan", "inf", "1e400", "x", ""),
    "divide": ("data", "one", "all", ""),
}  # fmt: skip
# Left out: what takes long, prints a traceback on request, or waits for other processes.
_LEFT_OUT = ("steps", "debug", "coordinator", "process-id")
_UNKNOWN = (["--colour", "red"], ["--\u202eemit"], ["-x"], ["--"], ["--no-stream"])
_SOUND = {
    "fit": f"fit rain.csv --target rain_mm {_SMALL}",
    "predict": "predict ready.zigp rain.csv --out p.csv",
    "evaluate": "evaluate rain.csv --target rain_mm --models zero --cv 2",
    "simulate": "simulate --stations 2 --hours 2 --out p.csv",
    "draws": "simulate --model ready.zigp --data rain.csv --draws 2 --out p.csv",
    "info": "info ready.zigp",
    "report": "report ready.zigp --data rain.csv --quick --out r.html",
}
# Commands that would take long, with something that ends them before they begin.
_ENDED = (
    "demo --seed -1", "demo --seed x", "demo --out rain.csv", "demo --out rain.csv/x", "demo more",
    "demo --out", "demo --nothing", "reproduce", "reproduce moon --out r", "reproduce toy",
    "reproduce toy --out r --force --resume", "reproduce toy --data-dir folder --out r",
    "reproduce jura --data-dir nowhere --out r", "reproduce all --data-dir rain.csv --out r --fast",
    "reproduce precipitation --data-dir folder --out r", "reproduce toy toy --out r",
    "reproduce toy --data-dir folder --out rain.csv",
)  # fmt: skip


def _options(command: str) -> Iterator[tuple[str, bool]]:
    """Yield the options of a command, without dashes, and whether each is a flag."""
    for option in loaded(command).params:
        name = option.opts[-1].removeprefix("--")
        if option.opts[-1] != name and name not in _LEFT_OUT:
            yield name, option.is_flag


def _fill(folder: Path) -> None:
    rain().to_csv(folder / "rain.csv", index=False)
    hauls().to_csv(folder / "hauls.csv", index=False)
    cube().to_netcdf(folder / "cube.nc", engine="h5netcdf")
    put_model(folder)
    (folder / "folder").mkdir()


def command_line(rng: Dice, folder: Path) -> list[str]:
    """Return a sound command with odd options and words put in, left out or changed."""
    _fill(folder)
    if rng.random() < 0.1:
        return rng.choice(_ENDED).split()
    quick = ("predict", "evaluate", "simulate", "info")
    words = _SOUND[rng.choice(quick if rng.quick else tuple(_SOUND))].split()
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        of = words[0] if rng.random() < 0.85 else rng.choice(("fit", "evaluate", "simulate"))
        name, is_flag = rng.choice(list(_options(of)))
        words += (
            [f"--{name}"] if is_flag else [f"--{name}", rng.choice(_VALUES.get(name, _NUMBERS))]
        )
    words += rng.choice(_UNKNOWN) if rng.random() < 0.05 else []
    if rng.random() < 0.15:
        del words[rng.randrange(len(words))]
    if rng.random() < 0.15:
        words.insert(rng.randrange(len(words) + 1), odd_text(rng))
    if rng.random() < 0.1:
        words[rng.randrange(len(words))] = rng.choice(_PATHS)
    words = [word.replace("\0", "") for word in words]
    return ["nothing", *words[1:]] if words[:1] in (["demo"], ["reproduce"]) else words


# -- files of options -----------------------------------------------------------------------------

_TOML = (
    "1", "-1", "0", "1.5", "nan", "inf", "-inf", "true", '"x"', '""', "[]", '["lat", "lon"]',
    "[1, [2, 3]]", "{}", "{ a = 1 }", '{ "lat,lon" = 2, hour = 3 }', "2020-01-01", "07:32:00",
    "1979-05-27T07:32:00Z", "0xff", "1e400", "9" * 30, "9" * 5000, '"\\u202e"', '"rain_mm"',
    "'''\na\nb'''", '"rain.csv"', '"folder"', "[" * 5000 + "]" * 5000, "{ a = { b = [1] } }",
    '"lat"', '"lat,lon"', "[true]", '[""]', '"1"', "1_000", "+1", "1e3",
)  # fmt: skip
_KEYS = ('"a b"', '""', "a.b", "колонка", "é", "steps", "debug", "help")


def toml(rng: Dice, folder: Path) -> list[str]:
    """Write a file of odd options for `fit` or `evaluate`."""
    _fill(folder)
    command = rng.choice(("fit",) * (not rng.quick) + ("evaluate",) * 3)
    names = [name for name, _ in _options(command) if name != "num-processes"] * 2
    some = range(rng.choice((1, 1, 2, 5)))
    lines = [f"{rng.choice((*names, *_KEYS))} = {rng.choice(_TOML)}" for _ in some]
    lines += [f"[{rng.choice(names)}]\na = 1"] * (rng.random() < 0.1)
    raw = "\n".join(lines).encode()
    raw = spoiled(rng, raw, TEXT) if rng.random() < 0.15 else raw
    (folder / "options.toml").write_bytes(raw)
    return [*_SOUND[command].split(), "--config", "options.toml"]
