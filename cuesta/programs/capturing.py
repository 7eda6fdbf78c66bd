"""`cuesta.lower`: what `torch.compile` captures of a function, as programs to look at, and to take on by hand."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cuesta.backend import BoxedFunction, Compilers, compiled_by
from cuesta.lowering.capture.stack_traces import NO_LINE
from cuesta.options import Options
from cuesta.programs.header import Header
from cuesta.programs.inputs_of import copies_of
from cuesta.programs.kept_inputs import address_of, weights_among
from cuesta.programs.stages import Call, Program, Sources, StageError, in_force
from cuesta.record import CompileRecord

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Lowered:
    """The graphs that one call of a function gave: one, or with `training` a forward and a backward pass."""

    graphs: tuple[Program, ...]

    @property
    def forward(self) -> Program:
        """The program at the level `aten`: of the only graph, or the forward pass."""
        return self.graphs[0]

    @property
    def backward(self) -> Program:
        """The backward pass at the level `aten`. Errors: StageError when nothing was captured for training."""
        if len(self.graphs) < 2:
            raise StageError("there is no backward pass: cuesta.lower(…, training=True) captures one")
        return self.graphs[1]

    @property
    def aten(self) -> Program:
        """The program as it was captured: one op for each call of ATen."""
        return self.forward.aten

    @property
    def loops(self) -> Program:
        """The program where `loops` begins: before anything is fused."""
        return self.forward.loops

    @property
    def kernel(self) -> Program:
        """The program where `kernel` begins: it has schedules."""
        return self.forward.kernel

    @property
    def host(self) -> Program:
        """The program where `host` is complete: buffers are in their places."""
        return self.forward.host

    @property
    def source(self) -> Sources:
        """The texts that are generated: the wrapper, LLVM IR, Triton."""
        return self.forward.source

    def until(self, stage: str) -> Program:
        """The program after a stage. Errors: StageError for one that there is not."""
        return self.forward.until(stage)

    def __str__(self) -> str:
        return "\n".join(map(str, self.graphs))


def lower(
    fn: Callable[..., Any], *inputs: Any, options: Mapping[str, Any] | None = None, training: bool = False
) -> Lowered:
    """Captures one call of a function, or a module, and gives the program that `torch.compile(fn, backend="cuesta")`
    would begin with, in stages. Nothing is lowered or compiled until somebody asks.

        >>> import torch, cuesta
        >>> lowered = cuesta.lower(torch.nn.functional.softplus, torch.zeros(3))
        >>> lowered.loops.level, lowered.kernel.remaining[:2]
        ('loops', ('narrow-reductions', 'turn-scans'))
        >>> lowered.kernel.compile()(torch.zeros(3))
        (tensor([0.6931, 0.6931, 0.6931]),)

    `options` are those of `torch.compile`. With `training` the call is differentiated, as if by
    `fn(*inputs).sum().backward()`, but no gradient is added to anything: then there is a backward pass too. Sizes are
    numbers, those of the inputs; weights are arguments of the programs, and remembered.
    Errors: OptionError, CuestaError; StageError when the function breaks into several graphs, gives none, or a graph
    that would run in eager; what the function itself raises.
    """
    compilers = captured_calls(fn, inputs, options=options, training=training)
    if compilers.refused is not None:
        raise StageError(f"cuesta would run this in eager: {compilers.refused}") from compilers.refused
    graphs = tuple(one.program() for one in compilers.found if one.arguments is not None)
    if not graphs:
        raise StageError("nothing was captured: the function computes nothing with tensors")
    if training and len(graphs) < 2:
        raise StageError("there is no backward pass: no result requires a gradient")
    return Lowered(graphs)


def captured_calls(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    training: bool = False,
    fullgraph: bool = True,
) -> Captors:
    """Every graph of one call of a function, which eager runs: what would be compiled, and with which arguments.

    Errors: StageError when it is not one graph, with `fullgraph`; OptionError; what the function itself raises.
    """
    captors = Captors(Options.parse(None, options), (inputs, kwargs or {}))
    _call(fn, inputs, kwargs or {}, captors, training, fullgraph)
    return captors


def _call(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    captors: Captors,
    training: bool,
    fullgraph: bool,
) -> None:
    from torch._dynamo.exc import BackendCompilerFailed, Unsupported
    from torch.utils._pytree import tree_leaves

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        captors.weights |= weights_among(gm, example_inputs)
        return compiled_by(captors, gm, example_inputs)

    try:
        compiled = torch.compile(_of_own_code(fn), backend=backend, fullgraph=fullgraph, dynamic=False)
        with torch.set_grad_enabled(training):
            results = compiled(*inputs, **kwargs)
        if training:
            roots = [one for one in tree_leaves(results) if isinstance(one, torch.Tensor) and one.requires_grad]
            if roots:
                ones = [torch.ones_like(one) for one in roots]
                torch.autograd.grad(roots, _wanted(roots), ones, allow_unused=True)
    except Unsupported as error:
        said = str(error).strip()
        context = re.search(r"Developer debug context: (.*)", said)
        why = said.partition("\n")[0] + (f": {context[1]}" if context else "")
        raise StageError(f"the function is no single graph: {why}") from error
    except BackendCompilerFailed as error:
        raise error.inner_exception from None


def _wanted(roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """All that a gradient of the roots would be added to: parameters, and inputs that require one."""
    found: dict[int, torch.Tensor] = {}
    pending, seen = [one.grad_fn for one in roots], set[Any]()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            found[id(variable)] = variable
        pending += [one for one, _ in node.next_functions]
    return list(found.values())


def _of_own_code(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called by one with code of its own: Dynamo counts by the code how often something was compiled."""

    def call(*inputs: Any, **named: Any) -> Any:
        return fn(*inputs, **named)

    code = call.__code__.replace(co_filename=NO_LINE)
    return types.FunctionType(code, call.__globals__, call.__name__, None, call.__closure__)


class CapturedGraph:
    """One graph: its program before the first stage, and what it was first called with."""

    def __init__(self, kind: str, fx: str, module: ModuleOp, constants: Sequence[Any], captors: Captors) -> None:
        self.kind = kind
        self.fx = fx
        """The graph as text."""
        self.module = module
        self.constants = list(constants)
        self.captors = captors
        self.arguments: list[Any] | None = None
        """What `@main` was called with; None as long as nobody did."""
        self.addresses: list[int | None] = []
        self.identities: list[Any] = []

    @property
    def weights(self) -> frozenset[int]:
        """The positions of the arguments that are a model's own, or constants of the graph."""
        own = {at for at, value in enumerate(self.addresses) if value in self.captors.weights}
        count = len(self.addresses)
        return frozenset(own | set(range(count, count + len(self.constants))))

    def called(self, given: Sequence[Any]) -> None:
        """Takes down the arguments of the first call: copies, when the graph writes to some."""
        from cuesta.dialects.core.entry import entry_function, written_arguments

        self.addresses = list(map(address_of, given))
        self.identities = [*map(_identity, given), *(None for _ in self.constants)]
        kept = [one.detach() if isinstance(one, torch.Tensor) else one for one in given]
        writes = written_arguments(entry_function(self.module))
        self.arguments = [*(copies_of(kept) if writes else kept), *self.constants]

    def program(self) -> Program:
        """As an object of the API."""
        from cuesta.dialects.core.machine import state_machine
        from cuesta.machine import machine_for
        from cuesta.staging import stages_for

        options = self.captors.options
        with in_force(options):
            state_machine(self.module, machine_for(self.module))
            stages = stages_for(self.module, options)
        header = Header("import", 0, tuple(stage.name for stage in stages))
        given = self.captors.leaves
        keys = [_identity(one) for one in given]
        arguments = self.arguments or []
        sources = tuple(
            next((at for at, key in enumerate(keys) if key is not None and key == one), None) for one in self.identities
        )
        numbers = tuple(torch.Tensor if isinstance(one, torch.Tensor) else one for one in given)
        call = Call(numbers, sources, tuple(arguments))
        return Program(self.module, header, stages, options, call=call)


class Captors(Compilers):
    """In the place of the compilers: they take programs down, and let eager run the graphs."""

    def __init__(self, options: Options, inputs: Any) -> None:
        from torch.utils._pytree import tree_leaves

        super().__init__(options)
        self.leaves: list[Any] = tree_leaves(inputs)
        self.found: list[CapturedGraph] = []
        self.refused: Exception | None = None

    def compile(self, gm: torch.fx.GraphModule, record: CompileRecord) -> BoxedFunction:
        """Takes a graph down; what it gives runs it in eager."""
        from cuesta.compiler import imported_program
        from cuesta.finishing import make_boxed
        from cuesta.lowering.capture.fx_to_aten import UnsupportedGraphError
        from cuesta.lowering.capture.plan import complete_metadata
        from cuesta.targets.lookup import running_on

        complete_metadata(gm)
        fx = gm.print_readable(print_output=False)
        captured: CapturedGraph | None = None
        try:
            with running_on(self.options.target):
                imported = imported_program(gm, record)
            constants = [value for _, value in imported.constants]
            captured = CapturedGraph(record.kind, fx, imported.module, constants, self)
            self.found.append(captured)
        except UnsupportedGraphError as error:
            self.refused = error

        def call(args: list[Any]) -> Any:
            given = list(args)
            args.clear()
            if captured is not None and captured.arguments is None:
                captured.called(given)
            return gm.forward(*given)

        return make_boxed(call)

    def _captured(self, gm: torch.fx.GraphModule, record: CompileRecord) -> tuple[BoxedFunction, list[CompileRecord]]:
        return self.compile(gm, record), []


def _identity(value: Any) -> Any:
    """What tells a tensor from all others that are alive; None for what is no tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return (
        (value.data_ptr(), value.untyped_storage()._cdata, value.dtype, value.shape, value.stride())
        if (value.numel())
        else (id(value),)
    )


__all__ = ["Captors", "CapturedGraph", "Lowered", "captured_calls", "lower"]
