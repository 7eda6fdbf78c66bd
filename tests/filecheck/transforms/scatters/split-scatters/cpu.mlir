// RUN: cuesta-opt %s -p "split-scatters" --split-input-file

// A large start is written by a nest of its own; the other takes over its memory, and keeps its order.
// CHECK:      %0 = loops.nest (%j : 300, %i : 90) outs(%1: tensor<90x300xf32>) {
// CHECK-NEXT:   %[[ZERO:.*]] = elem.constant 0.0 : f32
// CHECK-NEXT:   loops.store %[[ZERO]], %1[%i, %j] : tensor<90x300xf32>
// CHECK:      %y = loops.nest (%j : 300) outs(%o: tensor<90x300xf32>) updates(%0) {
// CHECK-NEXT:   loops.scan (%i : 60) {
// CHECK:          loops.combine sum %a, %o[%r, %j] : tensor<90x300xf32>
func.func @main(%x : tensor<60x300xf32>, %k : tensor<60xi64>) -> tensor<90x300xf32> {
  %y = loops.nest (%j : 300) outs(%o : tensor<90x300xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x300xf32>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x300xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x300xf32>
    }
  }
  func.return %y : tensor<90x300xf32>
}

// -----
// Near miss: a small one is there before another kernel would have begun.
// CHECK-NOT:  updates
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// Near miss: what it starts from depends on an out.
// CHECK-NOT:  updates
func.func @main(%x : tensor<64xf32>) -> (tensor<64x300xf32>, tensor<300xf32>) {
  %y, %z = loops.nest (%j : 300) outs(%o : tensor<64x300xf32>, %l : tensor<300xf32>) {
    %one = elem.constant 1.0 : f32
    loops.store %one, %l[%j] : tensor<300xf32>
    loops.for (%i : 64) {
      %a = loops.load %l[%j] : tensor<300xf32>
      loops.store %a, %o[%i, %j] : tensor<64x300xf32>
    }
    loops.scan (%i : 64) {
      %a = loops.load %x[%i] : tensor<64xf32>
      loops.combine sum %a, %o[%i, %j] : tensor<64x300xf32>
    }
  }
  func.return %y, %z : tensor<64x300xf32>, tensor<300xf32>
}

// -----
// Sizes that are known at run time only may be large. There may be no elements, and no points.
// CHECK:      loops.nest (%j : s0, %i : 90) outs(%{{.*}}: tensor<90x?xf32
// CHECK:      loops.nest (%j : s0) outs(%o: tensor<90x?xf32, #aten.layout<sizes = [90, s0]>>) updates(%0) {
func.func @main(%x : tensor<60x?xf32, #aten.layout<sizes = [60, s0]>>) -> tensor<90x?xf32, #aten.layout<sizes = [90, s0]>> attributes {sym.symbols = #sym.symbols<s0 in [0, inf]>} {
  %y = loops.nest (%j : s0) outs(%o : tensor<90x?xf32, #aten.layout<sizes = [90, s0]>>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x?xf32, #aten.layout<sizes = [90, s0]>>
    }
    loops.scan (%i : 60) {
      %a = loops.load %x[%i, %j] : tensor<60x?xf32, #aten.layout<sizes = [60, s0]>>
      loops.combine maximum %a, %o[%i, %j] : tensor<90x?xf32, #aten.layout<sizes = [90, s0]>>
    }
  }
  func.return %y : tensor<90x?xf32, #aten.layout<sizes = [90, s0]>>
}
