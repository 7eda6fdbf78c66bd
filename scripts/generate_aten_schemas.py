"""Writes dialects/aten/schemas.json, the table of ATen schemas that the text tools read in place of torch.

Run it after moving to a new torch, look at the diff, and commit both:

    python scripts/generate_aten_schemas.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import torch
import torch._prims

OUTPUT = Path(__file__).resolve().parent.parent / "dialects" / "aten" / "schemas.json"

# Overloads that write to an input, and that AOTAutograd or a decomposition may all the same leave in a graph; or that
# `accumulate-in-place` calls.
MUTATING = (
    "aten::addmm_",
    "aten::addmm.dtype_out",
    "aten::baddbmm_",
    "aten::baddbmm.dtype_out",
    "aten::copy_",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
    "aten::resize_",
    "aten::set_.source_Tensor",
    "aten::zero_",
    "aten::_foreach_copy_",
)

OF_LIBRARIES = ("mkldnn::_linear_pointwise",)
"""Overloads outside of ATen that `choose-libraries` calls."""


def qualified_name(schema: torch._C.FunctionSchema) -> str:
    """The dispatcher's name: `aten::add.Tensor`, `aten::relu`."""
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def overload_name(schema: torch._C.FunctionSchema) -> str:
    """Our name of an overload: `aten.add.Tensor` in the aten namespace, `prims::iota.default` in any other."""
    namespace, name = schema.name.split("::")
    separator = "." if namespace == "aten" else "::"
    return f"{namespace}{separator}{name}.{schema.overload_name or 'default'}"


def signature(schema: torch._C.FunctionSchema) -> str:
    """The schema's text without its name. Defaults of enumerations, which torch prints as integers, get names."""
    text = str(schema).partition("(")[2]
    text = re.sub(r"(ScalarType\??) (\w+)=4\b", r"\1 \2=torch.int64", text)
    text = re.sub(r"(MemoryFormat\??) (\w+)=0\b", r"\1 \2=torch.contiguous_format", text)
    text = re.sub(r"(\d)\.(?=[,)])", r"\1.0", text)
    leftover = re.search(r"(ScalarType|MemoryFormat|Layout)\?? \w+=\d", text)
    assert leftover is None, f"give this enumeration default its name: {schema}"
    return "(" + re.sub(r"\d\.\d{15,}(e-?\d+)?", lambda match: repr(float(match.group())), text)


LATE = {"prims::fma.default": "(Tensor a, Tensor b, Tensor c) -> Tensor"}
"""Overloads that Dynamo registers when it first needs them."""


def has_own_class(schema: torch._C.FunctionSchema) -> bool:
    """Composite overloads are always decomposed before a backend sees them, so they do without an op class."""
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(qualified_name(schema), "CompositeImplicitAutograd")
    return schema.name.startswith("aten::") and not composite


def overload(schema: torch._C.FunctionSchema) -> torch._ops.OpOverload:
    """The overload that a schema belongs to."""
    namespace, name = schema.name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), name), schema.overload_name or "default")


def table() -> dict[str, object]:
    """Everything the file says, sorted by name."""
    dispatched = set(torch._C._dispatch_get_all_op_names())
    schemas = [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if (schema.name.startswith(("aten::", "prims::")) or qualified_name(schema) in OF_LIBRARIES)
        and qualified_name(schema) in dispatched
        and (not schema.is_mutable or qualified_name(schema) in MUTATING)
        and not schema.name.startswith("aten::_test")
        and "__torch__" not in str(schema)
        and "Dict(" not in str(schema)
    ]
    schemas.sort(key=overload_name)
    return {
        "torch": torch.__version__.partition("+")[0],
        "random": [
            overload_name(schema) for schema in schemas if torch.Tag.nondeterministic_seeded in overload(schema).tags
        ],
        "operations": {overload_name(schema): signature(schema) for schema in schemas if has_own_class(schema)},
        "calls": dict(
            sorted((LATE | {overload_name(one): signature(one) for one in schemas if not has_own_class(one)}).items())
        ),
    }


def main() -> int:
    """Writes the table, or compares it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is out of date")
    arguments = parser.parse_args()
    text = json.dumps(table(), indent=0, ensure_ascii=True) + "\n"
    if arguments.check:
        return 0 if OUTPUT.read_text() == text else 1
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
