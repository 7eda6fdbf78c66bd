"""A seed's random program. Each statement is run in eager as it is drawn, so that nearly all are ones eager accepts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from tests.fuzz.calls.case import SIZE_NAMES, Case
from tests.fuzz.calls.evidence import REFUSALS, is_known_leaf
from tests.fuzz.calls.exclusions import random_values
from tests.fuzz.calls.outcomes import Raised, outcome
from tests.fuzz.calls.rows import THEMES, VIEWS
from tests.fuzz.calls.scope import names
from tests.fuzz.expressions import MAKERS, Value

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 17)
MOST_ELEMENTS, LARGEST = 600, 1e4
DTYPES = ("float32",) * 6 + ("float64", "bfloat16", "float16", "int64", "int32", "bool", "complex64", "int8", "uint8")
BYTES = ("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2", "int8", "int8", "uint8", "float32", "bfloat16")
HOLE = re.compile(r"\{([a-z]+)(\d?)\}")


def case_of(seed: int) -> Case:
    """The program of a seed: the same wherever and whenever it is drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        return _Drawing(seed).case()


@dataclass(slots=True)
class _Pool:
    """The values so far, as eager computed them."""

    values: list[Value]
    numbers: list[str]
    scope: dict[str, Any]

    def of(self, fits: Callable[[Value], bool]) -> list[Value]:
        return [value for value in self.values if fits(value)]


def _real(value: Value) -> bool:
    return value.tensor.dtype.is_floating_point and value.tensor.dtype.itemsize > 1


def _number(value: Value) -> bool:
    return not value.tensor.dtype.is_complex and value.tensor.dtype != torch.bool and value.tensor.dtype.itemsize > 1


KINDS: dict[str, Callable[[Value], bool]] = {
    "f": _real,
    "n": _number,
    "e": lambda value: value.exact and _real(value),
    "i": lambda value: value.exact and value.tensor.dtype == torch.int64,
    "b": lambda value: value.tensor.dtype == torch.bool,
    "c": lambda value: value.tensor.dtype.is_complex,
    "h": lambda value: value.tensor.dtype in (torch.float16, torch.bfloat16),
    "t": lambda value: True,
    "l": lambda value: _real(value) and is_known_leaf(value.tensor),
    "q": lambda value: value.exact and value.tensor.dtype in (torch.float8_e4m3fn, torch.float8_e5m2),
    "s": lambda value: value.exact and value.tensor.dtype in (torch.int8, torch.uint8),
    "d": lambda value: type(value.tensor).__name__ == "DTensor",
}


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.made = Case(seed=seed)
        self.pool = _Pool([], [], names())
        self.count = 0
        self.random: set[str] = set()
        """Values that random numbers went into."""

    def case(self) -> Case:
        rng, case = self.rng, self.made
        case.backward = rng.choice(["", "", "", "all", "all", "all", "first", "twice", "odd"])
        self.subclass = rng.choices(["", "Pair", "distributed", "Weight", "Joined"], [83, 7, 4, 3, 3])[0]
        self.bytes = rng.random() < 0.15
        """Whether most inputs are of 8 bits, and statements are about such."""
        # Eager's views of DTensors without elements do not end (`view_groups` of torch/distributed/tensor).
        self.sizes = [size for size in SIZES if size or self.subclass != "distributed"]
        sizes = tuple(rng.choice(self.sizes) for _ in SIZE_NAMES)
        case.calls = [sizes]
        self.shares = not (self.subclass or self.bytes) and rng.random() < 0.07
        """Whether inputs are windows of a vector, in other places in other calls."""
        changing = self.shares or rng.random() < 0.3
        self._inputs(dict(zip(SIZE_NAMES, sizes, strict=True)), changing)
        case.captures = rng.random() < 0.15
        themes = rng.sample(sorted(THEMES), 3) + ["breaks"] * case.captures + ["shapes", "writes of sizes"] * changing
        themes += ["bytes", "quantised"] * self.bytes
        themes = [theme if theme != "meshes" else "write" for theme in themes]
        themes += ["meshes"] * 2 * (self.subclass == "distributed")
        if not any(value.tensor.dtype.is_complex for value in self.pool.values):
            themes = [theme if theme != "complex" else "write" for theme in themes]
        for _ in range(rng.choice([2, 3, 4, 6, 8, 12])):
            if not self._statement(themes):
                break
        self._results()
        if case.backward and isinstance(self._run(sizes), Raised) and rng.random() < 0.9:
            # Most often a value that the backward pass needs was written to.
            case.backward = ""
            case.inputs = [re.sub(r"\.requires_grad_\(\)", "", line) for line in case.inputs]
        if changing:
            self._other_sizes(sizes)
        may_be = case.arguments and not (self.subclass or case.captures or {"s", "k"} & {*case.arguments})
        case.packaged = bool(may_be) and case.backward != "twice" and rng.random() < 0.06
        return case

    def _run(self, sizes: tuple[int, ...]) -> Any:
        make, program = self.made.functions()
        return outcome(program, make, sizes, self.made.backward)

    # --- Inputs

    def _inputs(self, sizes: dict[str, int], changing: bool) -> None:
        rng, case = self.rng, self.made
        self.own_sizes = [rng.choice(SIZE_NAMES) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3]))]
        if self.shares:
            self._windows()
        else:
            for name in "xyzu"[: rng.choice([1, 2, 2, 3, 3, 4])]:
                self._input(name)
        if rng.random() < 0.15:
            gradient = ".requires_grad_()" if case.backward else ""
            of = ", ".join([*self.own_sizes][-1:])
            case.inputs.append(
                f"s = State(w=numbers(1, torch.float32, {of}){gradient}, b=numbers(2, torch.float32, {of}))"
            )
            case.arguments.append("s")
            if rng.random() < 0.3:
                case.inputs.append("s.again = s.w")
        if rng.random() < 0.15:
            case.inputs.append(f"k = {rng.choice(['0.5', '3', '1', 'a', 'b + 1', '2.0'])}")
            case.arguments.append("k")
            self.pool.numbers.append("k")
        if changing:
            for name in case.arguments:
                if len(self.own_sizes) and rng.random() < 0.3 and name in "xyzu":
                    case.inputs.append(f"{name} = dynamic({name}, {rng.randint(0, len(self.own_sizes) - 1)})")
            case.settings["dynamic"] = rng.choice([None, None, True])
        scope: dict[str, Any] = names() | sizes
        for line in list(case.inputs):
            try:
                exec(line, scope)
            except (*REFUSALS, NameError):
                case.inputs.remove(line)  # such as a view of too small a base
                name = line.partition(" ")[0]
                if name not in scope:
                    case.arguments = [one for one in case.arguments if one != name]
                    case.owners = [one for one in case.owners if one != name]
        for name in case.arguments:
            self.pool.scope[name] = scope[name]
            if name == "w":
                self.pool.values += [Value(f"w[{k}]", scope[name][k], True) for k in (0, 1, len(scope[name]) - 1)]
            elif name == "s":
                self.pool.values += [Value("s.w", scope["s"].w, True), Value("s.b", scope["s"].b, True)]
                if hasattr(scope["s"], "again"):
                    self.pool.values.append(Value("s.again", scope["s"].again, True))
            elif isinstance(scope[name], Tensor):
                self.pool.values.append(Value(name, scope[name], True))

    def _windows(self) -> None:
        """Inputs that are parts of a vector, or copies, as the numbers of a call say, in steps that these say as well;
        sometimes a list of many.
        """
        rng, case = self.rng, self.made
        own = ", ".join(str(rng.choice([1, 2, 2, 3])) for _ in range(rng.choice([1, 2, 2])))
        kind = rng.choice(["float32", "float32", "int64", "complex64", "bfloat16"])
        case.inputs.append(f"base = numbers({rng.randint(0, 99)}, torch.{kind}, {rng.choice([12, 14, 20])})")
        case.owners.append("base")

        def place() -> str:
            return rng.choice([*SIZE_NAMES, f"{rng.choice(SIZE_NAMES)} * 2", "0", "3"])

        for name in "xyzu"[: rng.choice([2, 2, 3, 4])]:
            of = rng.choice(["base", "base", "base", f"(base if {rng.choice(SIZE_NAMES)} % 2 else base.clone())"])
            made = f"window({of}, {place()}, {own})"
            if rng.random() < 0.3:
                sizes = [rng.choice([*SIZE_NAMES, "2"]) for _ in own.split(", ")]
                steps = [rng.choice([*SIZE_NAMES, "0", "1", "2"]) for _ in sizes[1:]] + ["1"]
                made = f"strided({of}, {place()}, ({', '.join(sizes)},), ({', '.join(steps)},))"
            case.inputs.append(f"{name} = {made}")
            case.arguments.append(name)
        if rng.random() < 0.3:
            count = rng.choice([3, 17, 40])
            of = f"base if (k + {place()}) % 3 else base.clone()"
            case.inputs.append(f"w = [window({of}, k * {place()}, {own}) for k in range({count})]")
            case.arguments.append("w")

    def _input(self, name: str) -> None:
        rng, case = self.rng, self.made
        own = self.own_sizes if rng.random() < 0.7 else self.own_sizes[rng.randint(0, len(self.own_sizes)) :]
        some = BYTES if self.bytes else DTYPES if name != "x" else ("float32",) * 4 + ("complex64",)
        dtype = f"torch.{rng.choice(some)}"
        earlier = [one for one in case.arguments if one != "s"]
        seed = rng.randint(0, 99)
        inexact = "float" in dtype or "complex" in dtype
        gradient = ".requires_grad_()" if case.backward and inexact and rng.random() < 0.5 else ""

        def made(*of: str, kind: str = dtype) -> str:
            return f"numbers({', '.join([str(seed), kind, *of])})"

        how = rng.choices(
            [
                "plain",
                "transposed",
                "strided",
                "negated",
                "conjugated",
                "expanded",
                "part",
                "alias",
                "overlap",
                "same",
                "odd",
            ],
            [8, 2, 2, 1, 1, 1, 3, 2, 1, 1, 1],
        )[0]
        if self.subclass:
            place = rng.choice(["None", "0"]) if own else "None"
            pair = f"Pair({made(*own)}, {made(*own)} + 1)"
            wrapped = {
                "Pair": pair if rng.random() < 0.8 else f"Pair({pair}, Pair({made(*own)} + 2, {made(*own)} + 3))",
                "distributed": f"distributed({made(*own)}, {place})",
                "Weight": f"Weight({made(*own, kind='torch.int8')} - 3, numbers(7, torch.float32))",
                "Joined": f"Joined({made(*own)}, {made(*[rng.choice(SIZE_NAMES)][: len(own)], *own[1:])} + 1)",
            }[self.subclass]
            whole = self.subclass == "distributed" or rng.random() < 0.7
            whole = whole and not (self.subclass == "Joined" and not own)  # what has no rows is not joined
            own_gradient = gradient if not (whole and self.subclass == "Weight") else ""
            text = f"{name} = {wrapped if whole else made(*own)}{own_gradient}"
        elif how == "transposed" and len(own) > 1:
            text = f"{name} = {made(*own[:-2], own[-1], own[-2])}.transpose(-1, -2)"
        elif how == "strided":
            text = f"{name} = {made(*own, '2')}[..., 1]"
        elif how == "odd":
            text = f"{name} = odd({made(*own)}){gradient}"
        elif how == "negated" and dtype != "torch.bool" and "float8" not in dtype:  # whose negative eager has nowhere
            text = f"{name} = torch._neg_view({made(*own)})"
        elif how == "conjugated" and "complex" in dtype:
            text = f"{name} = {made(*own)}.conj(){rng.choice(['', '', '.imag'])}"
        elif how == "expanded" and own:
            text = f"{name} = {made('1', *own[1:])}.expand({', '.join(own)})"
        elif how in ("part", "overlap") and own:
            base = f"base_{name}"
            outside = gradient if rng.random() < 0.5 else ""
            case.inputs.append(f"{base} = {made(f'{own[0]} + 2', *own[1:])}{outside}")
            case.owners.append(base)
            if how == "overlap" and not outside:
                strides = ", ".join(["1"] * len(own))
                text = f"{name} = {base}.as_strided(({', '.join(own)},), ({strides},), {rng.randint(0, 1)})"
            else:
                text = f"{name} = {base}[{rng.choice(['1:-1', ':-2', '2:'])}]{'' if outside else gradient}"
        elif how in ("alias", "same") and earlier:
            of = rng.choice([*earlier, *case.owners])
            view = rng.choice(
                ["[1:]", "[:-1]", ".view(-1)", ".detach()", "[...]", ".T", "[0]", ".view_as({of})", ".flatten()[1:]"]
            )
            text = f"{name} = {of}{view.format(of=of) if how == 'alias' else ''}"
        else:
            text = f"{name} = {made(*own)}{gradient}"
        case.inputs.append(text)
        case.arguments.append(name)

    # --- Statements

    def _statement(self, themes: list[str]) -> bool:
        """One more statement; False if it is one that eager refuses, which is kept as the last."""
        for _ in range(40):
            if self.rng.random() < 0.4:
                drawn = self.rng.choice(MAKERS)(self.rng, self.pool.values)
                row = None if drawn is None else (f"{self._name()} = {drawn[0]}", drawn[1])
            else:
                drawn = self.rng.choice(THEMES[self.rng.choice(themes)])
                # Memory that is exchanged is none of what a subclass is made of: eager's own result is no subclass's.
                row = None if self.subclass and ".set_(" in drawn else self._filled(drawn)
            if row is None:
                continue
            if self._tried(*row):
                self.random |= random_values(row[0])
                return True
            if self.rng.random() < 0.004:
                self.made.statements += row[0].split("\n")
                return False
        return True

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _filled(self, row: str) -> tuple[str, bool] | None:
        """A row with its holes filled, and whether what it makes is exact."""
        rng, first = self.rng, None
        exact = row.startswith("!")
        filled: dict[str, str] = {}
        chosen: list[Value] = []
        for kind, number in HOLE.findall(row):
            if kind + number in filled:
                continue
            if kind in KINDS:
                fitting = self.pool.of(KINDS[kind])
                alike = [value for value in fitting if first is not None and value.tensor.shape == first.tensor.shape]
                others = [value for value in alike if value.name not in filled.values()]
                fitting = (others or alike or fitting) if rng.random() < 0.7 else fitting
                if not fitting:
                    return None
                value = fitting[-1 - min(rng.choice([0, 0, 1, 1, 2, 3, 4, 5, 6]), len(fitting) - 1)]
                first = first or value
                chosen.append(value)
                filled[kind + number] = value.name
            elif kind == "out":
                filled[kind + number] = self._name()
            elif kind == "k":
                filled[kind] = str(rng.randint(0, 4))
            elif kind == "w":
                filled[kind] = rng.choice([*self.pool.numbers * 3, "0.5", "2", "-1.5"])
        if first is not None:
            axis = rng.randint(0, max(first.tensor.dim() - 1, 0))
            size = first.tensor.shape[axis] if first.tensor.dim() else 1
            low = rng.randint(0, max(size - 1, 0))
            filled |= {"axis": str(axis), "low": str(low), "high": str(rng.randint(low + 1, max(size, low + 1)))}
        text = HOLE.sub(lambda hole: filled.get(hole[1] + hole[2], ""), row.lstrip("!"))
        return text, exact and all(value.exact for value in chosen)

    def _tried(self, text: str, exact: bool) -> bool:
        """Runs a statement on the values so far, and keeps it; False if eager refuses it, or numbers get large."""
        scope = dict(self.pool.scope)
        before = {value.name: value.tensor._version for value in self.pool.values}
        try:
            exec(text, scope)
        except REFUSALS:
            return False
        fresh = [name for name in scope if re.fullmatch(r"v\d+", name) and name not in self.pool.scope]
        for name in fresh:
            value = scope[name]
            if isinstance(value, Tensor) and not _is_moderate(value):
                return False
        self.pool.scope |= {name: scope[name] for name in fresh}
        self.made.statements += text.split("\n")
        # Whatever shares memory with what was written to holds what was written.
        written = {
            _memory(v) for v in self.pool.values if v.tensor._version != before[v.name] or f"{v.name}.data" in text
        }
        if not exact and written:
            self.pool.values = [
                Value(v.name, v.tensor, v.exact and _memory(v) not in written) for v in self.pool.values
            ]
        for name in fresh:
            if isinstance(scope[name], Tensor):
                integral = not (scope[name].dtype.is_floating_point or scope[name].dtype.is_complex)
                self.pool.values.append(Value(name, scope[name], exact or integral))
        return True

    # --- Results and sizes

    def _results(self) -> None:
        rng, found = self.rng, list[str]()
        own = [value.name for value in self.pool.values if value.name.startswith("v")]
        everything = [value.name for value in self.pool.values]
        unread = [name for name in own if not any(re.search(rf"(?<!^){name}\b", one) for one in self.made.statements)]
        # PyTorch drops random numbers that nobody reads, and the generator's state with them.
        found += [name for name in own if name in self.random]
        found += rng.sample(unread, min(len(unread), rng.choice([1, 2, 2, 3])))
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            kind = rng.random()
            if kind < 0.5 and own:
                found.append(rng.choice(own))
            elif kind < 0.65 and everything:
                found.append(rng.choice(everything))
            elif kind < 0.9:
                row = self._filled(rng.choice(VIEWS))
                try:
                    if row and isinstance(eval(row[0], dict(self.pool.scope)), Tensor):
                        found.append(row[0])
                except REFUSALS:
                    continue
            elif everything:
                found.append(
                    rng.choice([f"{everything[0]}.shape", f"{everything[0]}.dim()", "None", "3", *self.pool.numbers])
                )
        inner = ", ".join(found)
        shapes = [f"({inner},)" if inner else "()", f"[{inner}]"]
        if len(found) == 1:
            shapes.append(found[0])
        if len(found) > 1:
            shapes.append(f"{{'first': {found[0]}, 'rest': ({', '.join(found[1:])},)}}")
        self.made.results = rng.choice(shapes)

    def _other_sizes(self, sizes: tuple[int, ...]) -> None:
        """More calls, most of them such as eager accepts; the sizes it was drawn with may come again."""
        for _ in range(self.rng.randint(1, 2)):
            for _ in range(6):
                other = tuple(size if self.rng.random() < 0.4 else self.rng.choice(self.sizes) for size in sizes)
                if other not in self.made.calls and (
                    not isinstance(self._run(other), Raised) or self.rng.random() < 0.02
                ):
                    self.made.calls.append(other)
                    break


def _plain(tensor: Tensor) -> Tensor:
    """A tensor, or the first of the plain ones that a subclass is made of."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return tensor
    wrapped: Any = tensor
    return _plain(getattr(tensor, wrapped.__tensor_flatten__()[0][0]))


def _memory(value: Value) -> int:
    return _plain(value.tensor).untyped_storage()._cdata


def _is_moderate(value: Tensor) -> bool:
    if value.numel() > MOST_ELEMENTS:
        return False
    if type(value).__name__ == "DTensor":
        return value.numel() > 0  # eager's views of others do not end (`view_groups` of torch/distributed/tensor)
    plain = _plain(value).detach()
    if plain.dtype.itemsize == 1 or not (plain.dtype.is_floating_point or plain.dtype.is_complex):
        return True
    return bool((plain.abs() < LARGEST).all())
