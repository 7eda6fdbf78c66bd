// RUN: cuesta-opt %s --split-input-file -p materialize-views

// Strides cannot say a reshape of a transpose, nor a flip: copies.
// CHECK:      func.func @main
// CHECK-NEXT:   %r = loops.nest (%0 : 32) outs(%1: tensor<32xf32>) {
// CHECK-NEXT:     %2 = loops.load %x[%0 mod 4, %0 floordiv 4]
// CHECK-NEXT:     loops.store %2, %1[%0]
// CHECK-NEXT:   }
// CHECK-NEXT:   %f = loops.nest (%0 : 8, %1 : 4) outs(%2: tensor<8x4xf32>) {
// CHECK-NEXT:     %3 = loops.load %x[%1, -%0 + 7]
// CHECK-NEXT:     loops.store %3, %2[%0, %1]
// CHECK-NEXT:   }
// CHECK-NEXT:   %m = loops.extern pure "aten.mm.default"(%f, %w)
// CHECK-NEXT:   func.return %r, %m
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %w : tensor<4x3xf32>) -> (tensor<32xf32>, tensor<8x3xf32>) {
  %r = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<4x8xf32> to tensor<32xf32>
  %f = loops.view %x by (d0, d1) -> (d1, 7 - d0) : tensor<4x8xf32> to tensor<8x4xf32>
  %m = loops.extern pure "aten.mm.default"(%f, %w) : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  func.return %r, %m : tensor<32xf32>, tensor<8x3xf32>
}

// -----

// The strides that the type says, in memory of its own: a copy into them.
// CHECK:      func.func @main
// CHECK-NEXT:   %v = loops.nest (%0 : 4, %1 : 8) outs(%2: tensor<4x8xf32, #aten.layout<strides = [1, 4]>>) {
// CHECK-NEXT:     %3 = loops.load %x[%0, %1]
// CHECK-NEXT:     loops.store %3, %2[%0, %1] : tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %v : tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32, #aten.layout<strides = [1, 4]>> {
  %v = loops.view %x by (d0, d1) -> (d0, d1) : tensor<4x8xf32> to tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
  func.return %v : tensor<4x8xf32, #aten.layout<strides = [1, 4]>>
}

// -----

// Near miss: views with the strides of their types stay (a transpose, a slice, an expand). So does one that nobody uses.
// CHECK:      func.func @main
// CHECK-NEXT:   %t = loops.view %x by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %m = loops.extern pure "aten.mm.default"(%t, %w)
// CHECK-NEXT:   %s = loops.view %x by (d0, d1) -> (d0, d1 * 3 + 2)
// CHECK-NEXT:   %e = loops.view %x by (d0, d1, d2) -> (d1, d2)
// CHECK-NEXT:   %unused = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<4x8xf32> to tensor<32xf32>
// CHECK-NEXT:   func.return %m, %s, %e : tensor<8x3xf32>, tensor<4x2xf32, #aten.layout<strides = [8, 3]>>, tensor<5x4x8xf32, #aten.layout<strides = [0, 8, 1]>>
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>, %w : tensor<4x3xf32>) -> (tensor<8x3xf32>, tensor<4x2xf32, #aten.layout<strides = [8, 3]>>, tensor<5x4x8xf32, #aten.layout<strides = [0, 8, 1]>>) {
  %t = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %m = loops.extern pure "aten.mm.default"(%t, %w) : (tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %s = loops.view %x by (d0, d1) -> (d0, d1 * 3 + 2) : tensor<4x8xf32> to tensor<4x2xf32, #aten.layout<strides = [8, 3]>>
  %e = loops.view %x by (d0, d1, d2) -> (d1, d2) : tensor<4x8xf32> to tensor<5x4x8xf32, #aten.layout<strides = [0, 8, 1]>>
  %unused = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<4x8xf32> to tensor<32xf32>
  func.return %m, %s, %e : tensor<8x3xf32>, tensor<4x2xf32, #aten.layout<strides = [8, 3]>>, tensor<5x4x8xf32, #aten.layout<strides = [0, 8, 1]>>
}

// -----

// A copy of a view that stays reads what the view reads.
// CHECK:      func.func @main
// CHECK-NEXT:   %t = loops.view %x by (d0, d1) -> (d1, d0)
// CHECK-NEXT:   %f = loops.nest (%0 : 8, %1 : 4) outs(%2: tensor<8x4xf32>) {
// CHECK-NEXT:     %3 = loops.load %x[%1, -%0 + 7]
// CHECK-NEXT:     loops.store %3, %2[%0, %1]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %t, %f : tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<8x4xf32>
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<8x4xf32>) {
  %t = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %f = loops.view %t by (d0, d1) -> (7 - d0, d1) : tensor<8x4xf32, #aten.layout<strides = [1, 8]>> to tensor<8x4xf32>
  func.return %t, %f : tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<8x4xf32>
}

// -----

// Nobody can tell whether strides of symbols leave gaps: the caller gets a clone, which is laid out as its type says. The
// library call reads the copy.
// CHECK:      func.func @main
// CHECK-NEXT:   %r = loops.nest (%0 : s0, %1 : s1 * 4) outs(%2: tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>>) {
// CHECK-NEXT:     %3 = loops.load %x[-%0 + s0 - 1, %1]
// CHECK-NEXT:     loops.store %3, %2[%0, %1]
// CHECK-NEXT:   }
// CHECK-NEXT:   %0 = loops.extern pure "aten.clone.default"(%r) : {{.*}} -> tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4], strides = [(s0 * s1 * 4) floordiv s0, 1]>>
// CHECK-NEXT:   %s = loops.extern pure "aten.relu.default"(%r)
// CHECK-NEXT:   func.return %0, %s
// CHECK-NEXT: }
func.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>>) -> (tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4], strides = [(s0 * s1 * 4) floordiv s0, 1]>>, tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>>) attributes {sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>} {
  %r = loops.view %x by (d0, d1)[s0] -> (s0 - 1 - d0, d1) : tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>> to tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4], strides = [(s0 * s1 * 4) floordiv s0, 1]>>
  %s = loops.extern pure "aten.relu.default"(%r) : (tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4], strides = [(s0 * s1 * 4) floordiv s0, 1]>>) -> tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>>
  func.return %r, %s : tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4], strides = [(s0 * s1 * 4) floordiv s0, 1]>>, tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 4]>>
}
