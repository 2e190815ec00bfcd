"""The rooms of the package, and who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "zigp"
ROOMS = (
    "runtime",
    "math",
    "gp",
    "models",
    "training",
    "data",
    "diagnostics",
    "estimators",
    "plots",
    "report",
    "datasets",
    "experiments",
    "cli",
)
PUBLIC = {"special": "math", "kernels": "gp"}  # short names that users import, and their rooms
MODULES = {
    ".".join(path.with_suffix("").relative_to(PACKAGE.parent).parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= full if full <= MODULES.keys() else full | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in MODULES and name != "zigp"}


def test_every_module_belongs_to_a_room():
    names = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix != ".typed"}
    assert names - {"__pycache__", "__init__"} == {*ROOMS, *PUBLIC}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_those_before_it(room):
    allowed = {*ROOMS[: ROOMS.index(room) + 1]}
    wrong = {
        (str(path.relative_to(PACKAGE)), name)
        for path in (PACKAGE / room).rglob("*.py")
        for name in imported(path)
        if name.split(".")[1] not in allowed
    }
    assert wrong == set()


def test_no_module_imports_itself_through_others():
    graph = {name: imported(path) - {name} for name, path in MODULES.items() if name != "zigp"}
    while free := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in free}
    assert graph == {}


def test_the_picture_shows_the_rooms_in_their_order():
    import architecture

    assert tuple(room for row in architecture.ROWS.values() for room in row) == ROOMS
