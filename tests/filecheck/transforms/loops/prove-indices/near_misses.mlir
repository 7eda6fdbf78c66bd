// RUN: cuesta-opt %s -p "prove-indices{target=cuda}" --split-input-file

// Near misses: an index of a tensor's; arithmetic that may wrap around; a size that only the call knows; a divisor.
// CHECK-NOT: checked
func.func @main(%t : tensor<?xf32, #aten.layout<sizes = [s0]>>, %u : tensor<100xf32>, %x : tensor<100xi64>) -> tensor<100xf32> attributes {sym.symbols = #sym.symbols<s0 in [100, inf]>} {
  %y = loops.nest (%i : 100) outs(%o : tensor<100xf32>) {
    %d = loops.load %x[%i] : tensor<100xi64>
    %a = loops.bound %d, 100 : i64
    %au = loops.load %u[%a] : tensor<100xf32>
    %far = loops.index [%i] : i8
    %much = elem.constant 100 : i8
    %b0 = elem.add %far, %much : i8
    %b1 = elem.sub %b0, %much : i8
    %b = loops.bound %b1, 100 wrap : i8
    %bu = loops.load %u[%b] : tensor<100xf32>
    %e0 = loops.index [%i] : i64
    %e = loops.bound %e0, s0 : i64
    %et = loops.load %t[%e] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    %zero = elem.constant 0 : i64
    %f = loops.bound %zero, 1 divisor : i64
    %s0 = elem.add %au, %bu : f32
    %s = elem.add %s0, %et : f32
    loops.store %s, %o[%i] : tensor<100xf32>
  }
  func.return %y : tensor<100xf32>
}

// -----

// Near miss: one that is out of range at its last point.
// CHECK-NOT: checked
func.func @main(%u : tensor<101xf32>) -> tensor<100xf32> {
  %y = loops.nest (%i : 100) outs(%o : tensor<100xf32>) {
    %d = loops.index [%i + 1] : i64
    %a = loops.bound %d, 100 : i64
    %au = loops.load %u[%a] : tensor<101xf32>
    loops.store %au, %o[%i] : tensor<100xf32>
  }
  func.return %y : tensor<100xf32>
}
