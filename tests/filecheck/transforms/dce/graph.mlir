// RUN: cuesta-opt %s --split-input-file -p dce

// What nobody reads goes, and with it what only that read.
// CHECK:      func.func @main
// CHECK-NEXT:   func.return %x
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %b = loops.view %a by (d0) -> (3 - d0) : tensor<4xf32> to tensor<4xf32>
  %c = loops.extern pure "aten.cumsum.default"(%b, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %n = aten.literal 1 : !aten.literal
  func.return %x : tensor<4xf32>
}

// -----

// Near miss: a call that does something else besides giving its result, such as to draw from the stream of random numbers.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i]
// CHECK-NEXT:     loops.store %v, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = loops.extern "aten.rand_like.default"(%a)
// CHECK-NEXT:   %c = loops.extern "aten.rand_like.default"(%x)
// CHECK-NEXT:   func.return %c
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  %b = loops.extern "aten.rand_like.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = loops.extern "aten.rand_like.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

// Near miss: eager raises IndexError, so a nest that may do that stays, with the outs that it has to have.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b = loops.nest (%i : 2) outs(%o: tensor<2xf32>, %p: tensor<2xf32>) {
// CHECK-NEXT:     %v = loops.load %k[%i]
// CHECK-NEXT:     %w = loops.bound %v, 4 : i64
// CHECK-NEXT:     %u = loops.load %x[%w]
// CHECK-NEXT:     %t = elem.exp %u
// CHECK-NEXT:     loops.store %u, %o[%i]
// CHECK-NEXT:     loops.store %t, %p[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %x
// CHECK-NEXT: }
func.func @main(%x : tensor<4xf32>, %k : tensor<2xi64>) -> tensor<4xf32> {
  %a, %b = loops.nest (%i : 2) outs(%o : tensor<2xf32>, %p : tensor<2xf32>) {
    %v = loops.load %k[%i] : tensor<2xi64>
    %w = loops.bound %v, 4 : i64
    %u = loops.load %x[%w] : tensor<4xf32>
    %t = elem.exp %u : f32
    loops.store %u, %o[%i] : tensor<2xf32>
    loops.store %t, %p[%i] : tensor<2xf32>
  }
  func.return %x : tensor<4xf32>
}

// -----

// Symbols and no elements: dead is dead.
// CHECK:      func.func @main
// CHECK-NEXT:   %n = sym.value : !sym.int<s0 * 2>
// CHECK-NEXT:   func.return %n
// CHECK-NEXT: }
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>, %e : tensor<0xf32>) -> !sym.int<s0 * 2> attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %a = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0]>>) {
    %v = loops.load %x[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    loops.store %v, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
  }
  %b = loops.nest (%i : 0) outs(%o : tensor<0xf32>) {
    %v = loops.load %e[%i] : tensor<0xf32>
    loops.store %v, %o[%i] : tensor<0xf32>
  }
  %m = sym.value : !sym.int<s0 * 3>
  %n = sym.value : !sym.int<s0 * 2>
  func.return %n : !sym.int<s0 * 2>
}
