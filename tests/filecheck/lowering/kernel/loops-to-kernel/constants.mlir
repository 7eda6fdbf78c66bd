// RUN: cuesta-opt %s -p loops-to-kernel

// One constant for each value and type: `true` and 1 have the same attribute, 0.0 and -0.0 are equal in Python.
// CHECK:     elem.constant 1 : vector<4xi64>
// CHECK:     elem.constant true : vector<4xi1>
// CHECK:     elem.constant 0.0 : vector<4xf32>
// CHECK:     elem.constant -0.0 : vector<4xf32>
// CHECK-NOT: elem.constant
func.func @main(%k : tensor<4xi64>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %k[%i] : tensor<4xi64>
    %one = elem.constant 1 : i64
    %big = elem.ge %a, %one : i64
    %true = elem.constant true : i1
    %small = elem.xor %big, %true : i1
    %again = elem.constant 1 : i64
    %large = elem.gt %a, %again : i64
    %either = elem.or %small, %large : i1
    %b = loops.load %x[%i] : tensor<4xf32>
    %plus = elem.constant 0.0 : f32
    %minus = elem.constant -0.0 : f32
    %c = elem.copysign %b, %plus : f32
    %d = elem.copysign %b, %minus : f32
    %v = elem.select %either, %c, %d : f32
    loops.store %v, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
