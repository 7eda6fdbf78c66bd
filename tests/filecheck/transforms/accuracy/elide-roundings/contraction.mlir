// RUN: cuesta-opt %s -p elide-roundings

// The factors of a contraction keep the type that matrix units take; what comes after the sum does not need it.
// CHECK:     %[[A:.*]] = elem.convert %{{.*}} : f32 to f16
// CHECK-NEXT: elem.convert %[[A]] : f16 to f32
// CHECK:     elem.mul
// CHECK:     %[[S:.*]] = elem.neg %s
// CHECK:     loops.store %[[S]]
func.func @main(%x : tensor<20x32xf32>, %w : tensor<32x24xf16>) -> tensor<20x24xf32> {
  %y = loops.nest (%i : 20, %j : 24) outs(%o : tensor<20x24xf32>) schedule #loops.schedule<rows = 16, columns = 16, depth = 32> {
    %s = loops.reduce sum (%k : 32) {
      %a = loops.load %x[%i, %k] : tensor<20x32xf32>
      %b = elem.exp %a : f32
      %c = elem.convert %b : f32 to f16
      %d = elem.convert %c : f16 to f32
      %e = loops.load %w[%k, %j] : tensor<32x24xf16>
      %f = elem.convert %e : f16 to f32
      %g = elem.mul %d, %f : f32
      loops.yield %g : f32
    } : f32
    %t = elem.neg %s : f32
    %u = elem.convert %t : f32 to f16
    %v = elem.convert %u : f16 to f32
    loops.store %v, %o[%i, %j] : tensor<20x24xf32>
  }
  func.return %y : tensor<20x24xf32>
}
