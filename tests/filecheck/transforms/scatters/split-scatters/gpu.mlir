// RUN: cuesta-opt %s -p "split-scatters{target=cuda}" --split-input-file

// On a GPU every stage is a nest, however small: what is changed has to be there before.
// CHECK:      %0 = loops.nest (%j : 20, %i : 90) outs(%o: tensor<90x20xf32>) {
// CHECK:      %y = loops.nest (%j : 20) outs(%o: tensor<90x20xf32>) updates(%0) {
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
// Rank 0, and two changes one after the other.
// CHECK:      %0 = loops.nest () outs(%o: tensor<i32>) {
// CHECK:      %1 = loops.nest () outs(%o: tensor<i32>) updates(%0) {
// CHECK:      %y = loops.nest () outs(%o: tensor<i32>) updates(%1) {
func.func @main(%x : tensor<7xi32>) -> tensor<i32> {
  %y = loops.nest () outs(%o : tensor<i32>) {
    %zero = elem.constant 0 : i32
    loops.store %zero, %o[] : tensor<i32>
    loops.scan (%i : 7) {
      %a = loops.load %x[%i] : tensor<7xi32>
      loops.combine sum %a, %o[] : tensor<i32>
    }
    loops.scan (%i : 7) {
      %a = loops.load %x[%i] : tensor<7xi32>
      loops.combine maximum %a, %o[] : tensor<i32>
    }
  }
  func.return %y : tensor<i32>
}

// -----
// No points: the start stays what it is.
// CHECK:      loops.nest (%j : 0) outs(%o: tensor<90x0xf32>) updates(%0) {
func.func @main(%x : tensor<60x0xf32>, %k : tensor<60xi64>) -> tensor<90x0xf32> {
  %y = loops.nest (%j : 0) outs(%o : tensor<90x0xf32>) {
    loops.for (%i : 90) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i, %j] : tensor<90x0xf32>
    }
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x0xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x0xf32>
    }
  }
  func.return %y : tensor<90x0xf32>
}

// -----
// Near miss: a stage that stores one out and changes another cannot be told apart.
// CHECK-NOT:  updates
func.func @main(%x : tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %y, %z = loops.nest () outs(%o : tensor<7xf32>, %l : tensor<7xf32>) {
    loops.for (%i : 7) {
      %zero = elem.constant 0.0 : f32
      loops.store %zero, %o[%i] : tensor<7xf32>
    }
    loops.scan (%i : 7) {
      %a = loops.load %x[%i] : tensor<7xf32>
      loops.combine sum %a, %o[%i] : tensor<7xf32>
      loops.store %a, %l[%i] : tensor<7xf32>
    }
  }
  func.return %y, %z : tensor<7xf32>, tensor<7xf32>
}
