"""Command lines and files of options that nobody meant."""

from __future__ import annotations

from pathlib import Path

from .material import Dice, cube, hauls, odd_text, put_model, rain

__all__ = ["command_line", "toml"]

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
_OPTIONS = {
    "--target": (*_COLUMNS, "rain_mm", "rain_mm", "rain_mm", "catch"),
    "--space": _COLUMNS,
    "--time": _COLUMNS,
    "--inputs": _COLUMNS,
    "--category": _COLUMNS,
    "--gate-inputs": _COLUMNS,
    "--exposure": _COLUMNS,
    "--model": ("zigp", "gp", "hurdle", "ready.zigp", "svm", ""),
    "--models": ("zero", "gp", "zero,zero", "", ",", "tree", "zero,tree"),
    "--likelihood": ("auto", "zip", "zinb", "gaussian", "gated", "poisson"),
    "--kernel": ("matern12", "linear", "rbf"),
    "--inducing": (
        *_NUMBERS, "lat=2", "lat,lon=2,hour=3", "space=2,time=2", "=3", "lat=", "lat=-1", "lat=²",
        "a=1,a=2", ",=,",
    ),
    "--max-seconds": _NUMBERS,
    "--batch-size": _NUMBERS,
    "--seed": _NUMBERS,
    "--dtype": ("float32", "float64", "float16", "int"),
    "--device": ("cpu", "gpu", "tpu"),
    "--level": (*_NUMBERS, "0.5"),
    "--below": _NUMBERS,
    "--prefix": ("p_", "", "../", "a\nb", "lat", "\x1b[31m"),
    "--chunk-rows": _NUMBERS,
    "--cv": _NUMBERS,
    "--resolution": _NUMBERS,
    "--draws": ("0", "-1", "2", "x", "1000000000000", "9" * 30),
    "--hours": ("0", "-1", "2", "x", "1000000000000", "9" * 30),
    "--stations": ("0", "-1", "2", "x", "1000000000000", "9" * 30),
    "--data": _PATHS,
    "--from": _PATHS,
    "--config": _PATHS,
    "--out": _PATHS,
    "--quick": (),
    "--quiet": (),
    "--force": (),
    "--json": (),
    "--cv-random": (),
    "--write-config": (),
    "--resume": (),
    "--checkpoint-seconds": (*_NUMBERS, "1e-300"),
    "--method": ("natural", "adam", "newton", ""),
    "--stream": (),
    "--no-stream": (),
    "--passes": ("0", "-1", "1", "0.5", "nan", "inf", "1e400", "x", ""),
    "--divide": ("data", "one", "all", ""),
    "--distributed": (),
    "--num-processes": _NUMBERS,  # never with the two that belong to it: nobody else would come
    "--colour": ("red",),
    "--\u202eemit": (),
    "-x": (),
    "--": (),
}  # fmt: skip
_SOUND = {
    "fit": "fit rain.csv --target rain_mm --steps 1 --quiet --out m.zigp",
    "predict": "predict ready.zigp rain.csv --out p.csv",
    "evaluate": "evaluate rain.csv --target rain_mm --models zero --cv 2",
    "simulate": "simulate --stations 2 --hours 2 --out p.csv",
    "draws": "simulate --model ready.zigp --data rain.csv --draws 2 --out p.csv",
    "info": "info ready.zigp",
    "report": "report ready.zigp --data rain.csv --quick --out r.html",
}
_QUICK = ("predict", "evaluate", "simulate", "info")
_OF_COMMAND = {
    "fit": "target space time inputs category gate-inputs exposure model likelihood kernel "
    "inducing max-seconds batch-size seed dtype device from config write-config force out resume "
    "checkpoint-seconds method stream no-stream passes divide distributed "
    "num-processes",
    "predict": "level below prefix chunk-rows device force quiet out",
    "evaluate": "target space time inputs category gate-inputs exposure models cv cv-random "
    "resolution likelihood kernel inducing max-seconds batch-size seed dtype device json config "
    "quiet",
    "simulate": "model data draws stations hours seed force out",
    "draws": "model data draws seed force out",
    "info": "json",
    "report": "data out target space time quick device force quiet",
}


def _fill(folder: Path) -> None:
    rain().to_csv(folder / "rain.csv", index=False)
    hauls().to_csv(folder / "hauls.csv", index=False)
    cube().to_netcdf(folder / "cube.nc", engine="h5netcdf")
    put_model(folder)
    (folder / "folder").mkdir()


# What would take long, with something that ends it before it begins.
_ENDED = (
    "demo --seed -1", "demo --seed x", "demo --out rain.csv", "demo --out rain.csv/x", "demo more",
    "demo --out", "demo --nothing", "reproduce", "reproduce moon --out r", "reproduce toy",
    "reproduce toy --out r --force --resume", "reproduce toy --data-dir folder --out r",
    "reproduce jura --data-dir nowhere --out r", "reproduce all --data-dir rain.csv --out r --fast",
    "reproduce precipitation --data-dir folder --page p.md --out r", "reproduce toy toy --out r",
    "reproduce toy --data-dir folder --out rain.csv",
)  # fmt: skip


def command_line(rng: Dice, folder: Path) -> list[str]:
    _fill(folder)
    if rng.random() < 0.1:
        return rng.choice(_ENDED).split()
    command = rng.choice(_QUICK if rng.quick else tuple(_SOUND))
    typed = _SOUND[command].split()
    own = [f"--{name}" for name in _OF_COMMAND[command].split()]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        option = rng.choice(own if rng.random() < 0.85 else list(_OPTIONS))
        value = [rng.choice(_OPTIONS[option])] if _OPTIONS[option] else []
        typed += [option, *value]
    if rng.random() < 0.15:
        del typed[rng.randrange(len(typed))]
    if rng.random() < 0.15:
        typed.insert(rng.randrange(len(typed) + 1), odd_text(rng))
    if rng.random() < 0.1:
        typed[rng.randrange(len(typed))] = rng.choice(_PATHS)
    words = [word.replace("\0", "") for word in typed]
    return ["nothing", *words[1:]] if words[:1] in (["demo"], ["reproduce"]) else words


_VALUES = (
    "1", "-1", "0", "1.5", "nan", "inf", "-inf", "true", '"x"', '""', "[]", '["lat", "lon"]',
    "[1, [2, 3]]", "{}", "{ a = 1 }", '{ "lat,lon" = 2, hour = 3 }', "2020-01-01", "07:32:00",
    "1979-05-27T07:32:00Z", "0xff", "1e400", "9" * 30, "9" * 5000, '"\\u202e"', '"rain_mm"',
    "'''\na\nb'''", '"rain.csv"', '"folder"', "[" * 5000 + "]" * 5000, "{ a = { b = [1] } }",
    '"lat"', '"lat,lon"', "[true]", '[""]', '"1"', "1_000", "+1", "1e3",
)  # fmt: skip


def toml(rng: Dice, folder: Path) -> list[str]:
    _fill(folder)
    command = rng.choice(("fit",) * (not rng.quick) + ("evaluate",) * 3)
    apart = ("no-stream", "num-processes")  # no names in a file, or waits for others
    names = [n for n in _OF_COMMAND[command].split() if n not in apart]
    names += ["steps", "quiet", "debug", "help", "data", "out"]
    lines = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        name = (
            rng.choice(names)
            if rng.random() < 0.9
            else rng.choice(('"a b"', '""', "a.b", "колонка", "é"))
        )
        value = rng.choice(_VALUES)
        lines.append(rng.choice((f"{name} = {value}",) * 9 + (f"[{name}]\na = {value}",)))
    raw = "\n".join(lines).encode()
    if rng.random() < 0.15:
        from .tables import _BYTES

        raw = rng.choice(_BYTES)(rng, raw)
    (folder / "options.toml").write_bytes(raw)
    return [*_SOUND[command].split(), "--config", "options.toml"]
