// RUN: not cuesta-opt %s

// What a mask guards, what never runs, and what depends on data or symbols is not looked at.
func.func @main(%x : tensor<4xf32>, %none : tensor<0xf32>) -> (tensor<5xf32>, tensor<0xf32>) {
  %y = loops.nest (%i : 5) outs(%o : tensor<5xf32>) {
    %k = loops.index [%i] : i64
    %four = elem.constant 4 : i64
    %inside = elem.lt %k, %four : i64
    %zero = elem.constant 0.0 : f32
    %a = loops.load %x[%i] if %inside else %zero : tensor<4xf32>
    // CHECK: loops.load: -1 is out of range for axis 0, which has size 4 at the point (4,)
    // CHECK: got: tensor<4xf32>, index
    %b = loops.load %x[3 - %i] : tensor<4xf32>
    %c = elem.add %a, %b : f32
    loops.store %c, %o[%i] : tensor<5xf32>
  }
  %z = loops.nest (%i : 0) outs(%o : tensor<0xf32>) {
    %a = loops.load %x[%i + 7] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<0xf32>
  }
  func.return %y, %z : tensor<5xf32>, tensor<0xf32>
}
