"""What `fuse-nests` asks of a nest again and again, remembered: its reads, its cost, the values that it stores."""

from __future__ import annotations

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.surgery import producers_of
from cuesta.transforms.fusion.cost import Cost, body_cost
from cuesta.transforms.fusion.inline import stored_values
from cuesta.transforms.views.lanes import transposes

Sites = dict[SSAValue, list[loops.LoadOp]]
"""The loads of a nest by the tensor that they read."""
Values = dict[SSAValue, SSAValue]
"""The value that a pointwise nest stores at each point, by result."""


@struct
class Moving:
    """Of a producer whose body is about to move: its reads and cost, and the tensor and the value of the load."""

    sites: Sites
    cost: Cost
    source: SSAValue
    loaded: SSAValue


class Facts:
    """The facts about nests, each found when it is asked for.

    Requires: `forget` or `moved` is called when a nest's body changes.
    """

    def __init__(self) -> None:
        self._sites: dict[loops.NestOp, Sites] = {}
        self._costs: dict[loops.NestOp, Cost] = {}
        self._values: dict[loops.NestOp, Values | str] = {}
        self._transposing: dict[loops.NestOp, bool] = {}

    def sites(self, nest: loops.NestOp) -> Sites:
        """The tensors that a nest reads from outside, with its loads of each. Not to be changed."""
        found = self._sites.get(nest)
        # When a producer was merged with another nest, its results are new values.
        if found is None or any(loads[0].source is not source for source, loads in found.items()):
            found = self._sites[nest] = producers_of(nest)
        return found

    def cost(self, nest: loops.NestOp) -> Cost:
        """What the nest's body costs."""
        found = self._costs.get(nest)
        if found is None:
            found = self._costs[nest] = body_cost(nest)
        return found

    def transposes(self, nest: loops.NestOp, ranges: sym.SymbolRanges) -> bool:
        """Whether a nest without long loops reads across what it writes along."""
        found = self._transposing.get(nest)
        if found is None:
            found = self._transposing[nest] = transposes(nest, ranges)
        return found

    def values(self, nest: loops.NestOp) -> Values | str:
        """The values of a pointwise nest, or why it is not one that can be computed elsewhere."""
        found = self._values.get(nest)
        if found is None or (isinstance(found, dict) and any(result not in found for result in nest.results)):
            found = self._values[nest] = stored_values(nest)
        return found

    def forget(self, nest: loops.NestOp) -> None:
        """The nest's body has changed."""
        self._sites.pop(nest, None)
        self._costs.pop(nest, None)
        self._values.pop(nest, None)
        self._transposing.pop(nest, None)

    def before_move(self, producer: loops.NestOp, consumer: loops.NestOp, load: loops.LoadOp) -> Moving:
        """The facts to remember while the producer's body moves to where the consumer's `load` is."""
        self.values(consumer)
        return Moving(self.sites(producer), self.cost(producer), load.source, load.result)

    def moved(self, consumer: loops.NestOp, load: loops.LoadOp, moving: Moving, value: SSAValue) -> None:
        """A dying producer's body has taken the place of the consumer's `load`, and `value` that of what it gave.

        Cost: that of the smaller of the two.
        """
        source, cost, old = moving.source, moving.cost, self.cost(consumer)
        own = self._sites.pop(consumer)
        self._transposing.pop(consumer, None)
        own[source].remove(load)
        if not own[source]:
            del own[source]
        small, large = sorted((moving.sites, own), key=len)
        for tensor, loads in small.items():
            large.setdefault(tensor, []).extend(loads)
        self._sites[consumer] = large
        self._costs[consumer] = Cost(
            old.arithmetic + cost.arithmetic, old.loads + cost.loads - 1, old.ops + cost.ops - 3
        )
        values = self._values[consumer]
        if isinstance(values, dict):
            self._values[consumer] = {
                result: value if stored is moving.loaded else stored for result, stored in values.items()
            }
