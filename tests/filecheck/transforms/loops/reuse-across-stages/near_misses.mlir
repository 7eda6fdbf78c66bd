// RUN: cuesta-opt %s --split-input-file -p reuse-across-stages,dce

// Cheap: a negation is not worth a store and a load.
// CHECK:     loops.nest (%i : 3) outs(%o: tensor<3x8xf32>) {
func.func @main(%x : tensor<3x8xf32>) -> tensor<3x8xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3x8xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<3x8xf32>
      %e = elem.neg %a : f32
      loops.yield %e : f32
    } : f32
    loops.for (%k : 8) {
      %b = loops.load %x[%i, %k] : tensor<3x8xf32>
      %f = elem.neg %b : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[%i, %k] : tensor<3x8xf32>
    }
  }
  func.return %y : tensor<3x8xf32>
}

// -----

// Other sizes: the second stage walks half of the row.
// CHECK:     loops.nest (%i : 3) outs(%o: tensor<3x4xf32>) {
func.func @main(%x : tensor<3x8xf32>) -> tensor<3x4xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3x4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<3x8xf32>
      %e = elem.exp %a : f32
      loops.yield %e : f32
    } : f32
    loops.for (%k : 4) {
      %b = loops.load %x[%i, %k] : tensor<3x8xf32>
      %f = elem.exp %b : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[%i, %k] : tensor<3x4xf32>
    }
  }
  func.return %y : tensor<3x4xf32>
}

// -----

// Two constants that differ: exp(x + 1) is not exp(x + 2).
// CHECK:     loops.nest (%i : 3) outs(%o: tensor<3x8xf32>) {
func.func @main(%x : tensor<3x8xf32>) -> tensor<3x8xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3x8xf32>) {
    %one = elem.constant 1.0 : f32
    %two = elem.constant 2.0 : f32
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<3x8xf32>
      %c = elem.add %a, %one : f32
      %e = elem.exp %c : f32
      loops.yield %e : f32
    } : f32
    loops.for (%k : 8) {
      %b = loops.load %x[%i, %k] : tensor<3x8xf32>
      %c = elem.add %b, %two : f32
      %f = elem.exp %c : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[%i, %k] : tensor<3x8xf32>
    }
  }
  func.return %y : tensor<3x8xf32>
}

// -----

// The row is read across: what is kept would not lie together.
// CHECK:     loops.nest (%i : 3) outs(%o: tensor<8x3xf32>) {
func.func @main(%x : tensor<8x3xf32>) -> tensor<8x3xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<8x3xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %a = loops.load %x[%j, %i] : tensor<8x3xf32>
      %e = elem.exp %a : f32
      loops.yield %e : f32
    } : f32
    loops.for (%k : 8) {
      %b = loops.load %x[%k, %i] : tensor<8x3xf32>
      %f = elem.exp %b : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[%k, %i] : tensor<8x3xf32>
    }
  }
  func.return %y : tensor<8x3xf32>
}

// -----

// No points: nothing is kept, nothing breaks.
// CHECK:     loops.nest () outs(%o: tensor<f32>) {
func.func @main(%x : tensor<f32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum () {
      %a = loops.load %x[] : tensor<f32>
      %e = elem.exp %a : f32
      loops.yield %e : f32
    } : f32
    loops.for () {
      %b = loops.load %x[] : tensor<f32>
      %f = elem.exp %b : f32
      %d = elem.div %f, %s : f32
      loops.store %d, %o[] : tensor<f32>
    }
  }
  func.return %y : tensor<f32>
}
