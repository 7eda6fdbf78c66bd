// loops.nest, loops.load, loops.store: every point of the domain reads one element and stores one.
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x8xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}
// -----
// loops.reduce, loops.yield: the sum of each row; the body gives what one point adds.
func.func @main(%x : tensor<4x8xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
// -----
// loops.for: a stage over each row, after a reduction of it.
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %m = loops.reduce maximum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%k : 8) {
      %b = loops.load %x[%i, %k] : tensor<4x8xf32>
      %c = elem.sub %b, %m : f32
      loops.store %c, %o[%i, %k] : tensor<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}
// -----
// loops.scan, loops.running: a cumulative sum along each row.
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    loops.scan (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<4x8xf32>
      %s = loops.running sum %a : f32
      loops.store %s, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  func.return %y : tensor<4x8xf32>
}
// -----
// loops.combine, loops.bound: a scatter. The indices come from data, so they are checked when the program runs.
func.func @main(%x : tensor<6xf32>, %k : tensor<6xi64>) -> tensor<3xf32> {
  %y = loops.nest () outs(%o : tensor<3xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.for (%i : 3) {
      loops.store %zero, %o[%i] : tensor<3xf32>
    }
    loops.scan (%j : 6) {
      %n = loops.load %k[%j] : tensor<6xi64>
      %b = loops.bound %n, 3 : i64
      %a = loops.load %x[%j] : tensor<6xf32>
      loops.combine sum %a, %o[%b] : tensor<3xf32>
    }
  }
  func.return %y : tensor<3xf32>
}
// -----
// loops.atomic: the same without an order: any point may change any element of what the nest `updates`.
func.func @main(%x : tensor<6xf32>) -> tensor<3xf32> {
  %f = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %one = elem.constant 1.0 : f32
    loops.store %one, %o[%i] : tensor<3xf32>
  }
  %y = loops.nest (%i : 6) outs(%o : tensor<3xf32>) updates(%f) {
    %a = loops.load %x[%i] : tensor<6xf32>
    loops.atomic sum %a, %o[%i mod 3] : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}
// -----
// loops.index: `torch.arange(0, 8, 2)`; an index expression becomes data.
func.func @main() -> tensor<4xi64> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xi64>) {
    %n = loops.index [%i * 2] : i64
    loops.store %n, %o[%i] : tensor<4xi64>
  }
  func.return %y : tensor<4xi64>
}
// -----
// loops.view: a transpose; nothing is computed, and a returned view is memory of the caller's with other strides.
func.func @main(%x : tensor<4x8xf32>) -> tensor<8x4xf32, #aten.layout<strides = [1, 8]>> {
  %y = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  func.return %y : tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
}
// -----
// loops.extern: a product that stays a library's.
func.func @main(%x : tensor<4x8xf32>, %w : tensor<8x2xf32>) -> tensor<4x2xf32> {
  %y = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}
// -----
// loops.meet: the four points of a row share their sums, and each goes on with the sum of the row.
func.func @main(%x : tensor<4x32xf32>) -> tensor<4x32xf32> {
  %y, %t = loops.nest (%i : 4, %p : 4) outs(%o : tensor<4x32xf32>, %u : tensor<4x4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %u[%i, %p] : tensor<4x4xf32>
    loops.meet last 1
    %v = loops.reduce sum (%k : 4) {
      %a = loops.load %u[%i, %k] : tensor<4x4xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %p * 8 + %j] : tensor<4x32xf32>
      %b = elem.sub %a, %v : f32
      loops.store %b, %o[%i, %p * 8 + %j] : tensor<4x32xf32>
    }
  }
  func.return %y : tensor<4x32xf32>
}
// -----
// loops.fold, loops.carry: log Σ exp of each row in one walk, ten elements at a time: the greatest so far, and the sum less that.
func.func @main(%x : tensor<6x70xf32>) -> tensor<6xf32> {
  %y = loops.nest (%i : 6) outs(%o : tensor<6xf32>) {
    %low = elem.constant -inf : f32
    %zero = elem.constant 0.0 : f32
    %m, %l = loops.fold (%c : 7) from (%low, %zero) carries (%mm : f32, %ll : f32) {
      %t = loops.reduce maximum (%j : 10) {
        %a = loops.load %x[%i, %c * 10 + %j] : tensor<6x70xf32>
        loops.yield %a : f32
      } : f32
      %m1 = elem.maximum %mm, %t : f32
      %d = elem.sub %mm, %m1 : f32
      %f = elem.exp %d : f32
      %s = loops.reduce sum (%j : 10) {
        %a = loops.load %x[%i, %c * 10 + %j] : tensor<6x70xf32>
        %b = elem.sub %a, %m1 : f32
        %e = elem.exp %b : f32
        loops.yield %e : f32
      } : f32
      %q = elem.mul %ll, %f : f32
      %l1 = elem.add %q, %s : f32
      loops.carry %m1, %l1 : f32, f32
    } : f32, f32
    %g = elem.log %l : f32
    %r = elem.add %g, %m : f32
    loops.store %r, %o[%i] : tensor<6xf32>
  }
  func.return %y : tensor<6xf32>
}
// -----
// loops.words: pairs of neighbours of bf16 as integers of 32 bits, in the same memory.
func.func @main(%x : tensor<4x8xbf16>) -> tensor<4x4xi32> {
  %w = loops.words %x along 1 : tensor<4x8xbf16> to tensor<4x4xi32>
  %y = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xi32>) {
    %a = loops.load %w[%i, %j] : tensor<4x4xi32>
    loops.store %a, %o[%i, %j] : tensor<4x4xi32>
  }
  func.return %y : tensor<4x4xi32>
}
// -----
// loops.join: two nests write one tensor, each its own rows. At the level `host` both are places in one buffer.
func.func @main(%x : tensor<6x8xf32>) -> tensor<6x8xf32> {
  %h = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %a = loops.load %x[%i, %j] : tensor<6x8xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x8xf32>
  }
  %t = loops.nest (%i : 2, %j : 8) outs(%o : tensor<2x8xf32>) {
    %a = loops.load %x[%i + 4, %j] : tensor<6x8xf32>
    %b = elem.sin %a : f32
    loops.store %b, %o[%i, %j] : tensor<2x8xf32>
  }
  %y = loops.join %h, %t along 0 : tensor<4x8xf32>, tensor<2x8xf32> to tensor<6x8xf32>
  func.return %y : tensor<6x8xf32>
}
