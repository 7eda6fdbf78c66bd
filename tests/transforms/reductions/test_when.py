"""What is chosen for nests that reduce, on a GPU; nothing is computed."""

from __future__ import annotations

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE
from cuesta.transforms.reductions.when import choose_part_on_gpu
from tests.support.text import parse


def group_norm(channels: int, layout: str) -> dict[str, int]:
    """The choice for a norm of 256 groups of so many of 16 channels, of 65536 points."""
    images, width = 16 * channels, 512 // channels
    x = f'tensor<{images}x16x128x{width}xf32, #aten.layout<{layout}device = "cuda:0">>'
    at = f"%n, %g * {channels} + %c, %h, %w"
    body = f"%a = loops.load %x[{at}] : {x}"
    text = f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%n : {images}, %g : {16 // channels}) outs(%o : {x}) {{
        %s = loops.reduce sum (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          loops.yield %a : f32
        }} : f32
        %k = elem.constant 1.52587890625e-05 : f32
        %m = elem.mul %s, %k : f32
        %q = loops.reduce sum (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          %d = elem.sub %a, %m : f32
          %e = elem.mul %d, %d : f32
          loops.yield %e : f32
        }} : f32
        %v = elem.rsqrt %q : f32
        loops.for (%c : {channels}, %h : 128, %w : {width}) {{
          {body}
          %d = elem.sub %a, %m : f32
          %e = elem.mul %d, %v : f32
          loops.store %e, %o[{at}] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""
    (nest,) = (op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp))
    return choose_part_on_gpu(nest, REFERENCE)


def last(width: int) -> str:
    """The layout of images of 128 x `width` points, channels last."""
    return f"strides = [{2048 * width}, 1, {16 * width}, 16], "


def test_groups_that_share_sectors_are_taken_in_parts() -> None:
    """Two groups of four f32 lie in a sector, of which each program would read the half."""
    assert "part" in group_norm(4, last(128)) and "cooperative" not in group_norm(4, last(128))
    assert group_norm(8, last(64)) == {}, "a group has sectors of its own"
