"""Which mutants there are: cosmic-ray's, less those that could not matter."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from . import ROOT

# One replacement of each arithmetic sign. The others of cosmic-ray (shifts, bits, remainders) only
# raise on floating-point numbers: every test would catch them, which says nothing of the tests.
OPERATORS = (
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_Mul_Div",
    "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_Pow_Mul",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_Lt_Gt",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_LtE_Gt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_Gt_Lt",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_NotEq_Gt",
    "ReplaceComparisonOperator_NotEq_Lt",
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
)


@dataclass(frozen=True)
class Mutant:
    """One change of one line: the so-many-th place where an operator of cosmic-ray applies."""

    room: str
    operator: str
    occurrence: int
    start: tuple[int, int]
    end: tuple[int, int]
    place: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """What it is known by: the function and the change, not the number of the line."""
        return f"{self.room}.{self.place}: {self.before} → {self.after}"


def mutants_of(room: str) -> list[Mutant]:
    """All of a room, in the order of the lines."""
    return sorted(_of_room(room), key=lambda mutant: mutant.start)


def sampled(mutants: list[Mutant], share: float, seed: int = 0) -> list[Mutant]:
    """This share of them, the same at every time."""
    count = round(share * len(mutants))
    chosen = set(random.Random(seed).sample(range(len(mutants)), count))
    return [mutant for i, mutant in enumerate(mutants) if i in chosen]


def source_of(room: str) -> str:
    return (ROOT / "src" / "zigp" / f"{room}.py").read_text()


def _of_room(room: str) -> Iterator[Mutant]:
    source = source_of(room)
    program = _stripped(source)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = (
            (node, *position)
            for node in ast_nodes(get_ast(source))
            for position in operator.mutation_positions(node)
        )
        for occurrence, (node, start, end) in enumerate(places):
            changed = mutate_code(source, operator, occurrence)
            if _declares(node) or _stripped(changed) in (program, None):
                continue
            if "not not" in changed:  # as without the first one, which is a mutant already
                continue
            before, after = _change(source, changed, node)
            yield Mutant(room, name, occurrence, start, end, _place(node), before, after)


def _declares(node) -> bool:
    """A star that parts arguments, the marks of properties and abstract methods: none computes."""
    marks = ("@abstractmethod", "@property")
    return node.parent.type == "parameters" or node.get_code().strip() in marks


def _stripped(source: str) -> str | None:
    """The program without annotations, which nothing evaluates; None if it is no program."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def _change(source: str, changed: str, node) -> tuple[str, str]:
    """The line that differs, before and after."""
    if node.type == "decorator":
        return node.get_code().strip(), "(nothing)"
    lines = zip(source.splitlines(), changed.splitlines(), strict=True)
    before, after = next(pair for pair in lines if pair[0] != pair[1])
    return before.strip(), _tidied(after.strip())


def _tidied(line: str) -> str:
    """Without the spaces that cosmic-ray leaves before what it puts in."""
    return re.sub(r"(?<=[(\[:]) (?=\d)|(?<=\*\*) (?=\d)", "", re.sub(r"  +", " ", line))


def _place(node) -> str:
    """The function or class around it, or that a decorator decorates, with those around that."""
    names, inner = [], None
    while node is not None:
        if node.type in ("funcdef", "classdef"):
            names.append(node.name.value)
        elif node.type == "decorated" and inner is not node.children[-1]:
            names.append(node.children[-1].name.value)
        node, inner = node.parent, node
    return ".".join(reversed(names)) or "(module)"
