"""`MapAttr`, an index map: where each element of one index space lies in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cuesta.dialects.core.interning import Interned
from cuesta.dialects.sym.expr import Dim, IndexExpr, dim, format_expr, substitute, symbols_of
from cuesta.dialects.sym.simplify import SymbolRanges, simplify

MapData: TypeAlias = "tuple[int, tuple[IndexExpr, ...]]"


@irdl_attr_definition
class MapAttr(Data[MapData]):
    """`#sym.map<(d0, d1)[s0] -> (d0 * s0 + d1)>`. Interned: equal maps made by `get` are one object."""

    name = "sym.map"

    num_dims: int
    results: tuple[IndexExpr, ...]

    def __init__(self, data: MapData):
        super().__init__(data)
        object.__setattr__(self, "num_dims", data[0])
        object.__setattr__(self, "results", data[1])
        for e in data[1]:
            if not isinstance(e, int) and e.dims and max(e.dims) >= data[0]:
                raise ValueError(f"{e} uses a dimension beyond the {data[0]} of its map")

    @classmethod
    def new(cls, params: MapData) -> MapAttr:
        """The map of this data."""
        return cls.get(*params)

    @classmethod
    def get(cls, num_dims: int, results: Sequence[IndexExpr]) -> MapAttr:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The map that takes d_0 … d_(num_dims - 1) to `results`."""
        data = (num_dims, tuple(results))
        reference = _maps.find(data)
        if reference is not None and (found := reference()) is not None:
            return found
        return _maps.add(data, cls(data))

    @classmethod
    def identity(cls, n: int) -> MapAttr:
        """(d0, …) -> (d0, …)"""
        return cls.get(n, [dim(k) for k in range(n)])

    @property
    def is_identity(self) -> bool:
        """Whether result k is d_k, for all dimensions."""
        return len(self.results) == self.num_dims and all(e is dim(k) for k, e in enumerate(self.results))

    def apply(self, indices: Sequence[IndexExpr]) -> tuple[IndexExpr, ...]:
        """The results at a point: d_k is `indices[k]`. Errors: ValueError unless there is one index per dimension."""
        if len(indices) != self.num_dims:
            raise ValueError(f"{self} applied to {len(indices)} indices")
        return tuple([substitute(e, indices) for e in self.results])

    def compose(self, inner: MapAttr) -> MapAttr:
        """The map self ∘ inner, from the dimensions of `inner` to the results of `self`."""
        return MapAttr.get(inner.num_dims, self.apply(inner.results))

    def simplified(self, sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None = None) -> MapAttr:
        """The same map on the index space `sizes`, in simpler words."""
        results = [simplify(e, sizes, symbol_ranges) for e in self.results]
        return MapAttr.get(self.num_dims, results)

    def with_symbols(self, values: Mapping[str, IndexExpr]) -> MapAttr:
        """The map with symbols replaced."""
        return MapAttr.get(self.num_dims, [substitute(e, None, values) for e in self.results])

    def permutation(self) -> tuple[int, ...] | None:
        """The p with result k = d_p[k], when the results are the dimensions, each once."""
        found: list[int] = []
        for e in self.results:
            if isinstance(e, int) or e.constant or len(e.terms) != 1 or e.terms[0][1] != 1:
                return None
            atoms = e.terms[0][0].atoms
            if len(atoms) != 1 or not isinstance(atoms[0], Dim):
                return None
            found.append(atoms[0].index)
        return tuple(found) if sorted(found) == list(range(self.num_dims)) else None

    def symbols(self) -> tuple[str, ...]:
        """The symbols that occur, sorted."""
        return tuple(sorted({name for e in self.results for name in symbols_of(e)}))

    @property
    def text(self) -> str:
        """`(d0, d1)[s0] -> (d0 * s0 + d1)`"""
        dims = ", ".join([f"d{k}" for k in range(self.num_dims)])
        names = self.symbols()
        symbols = f"[{', '.join(names)}]" if names else ""
        return f"({dims}){symbols} -> ({', '.join([format_expr(e) for e in self.results])})"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MapData:
        """Reads the part between the angle brackets, and those."""
        from cuesta.dialects.sym.syntax import parse_map

        with parser.in_angle_brackets():
            return parse_map(parser).data

    def print_parameter(self, printer: Printer) -> None:
        """Prints what `parse_parameter` reads."""
        printer.print_string(f"<{self.text}>")


_maps = Interned[MapData, MapAttr]()
