// RUN: cuesta-opt %s -p "spread-scans{target=cuda}" --split-input-file
// ROUNDTRIP

// CHECK:      %y = loops.nest (%j : 20, %i : 60) outs(%o: tensor<90x20xf32>) updates(%f) {
// CHECK-NEXT:   %n = loops.load %k[%i] : tensor<60xi64>
// CHECK-NEXT:   %r = loops.bound %n, 90 : i64
// CHECK-NEXT:   %a = loops.load %x[%i, %j] : tensor<60x20xf32>
// CHECK-NEXT:   loops.atomic sum %a, %o[%r, %j] : tensor<90x20xf32>
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
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
// Near misses: the last assignment wins; there is no atomic product, and no atomic maximum of floats.
// CHECK-NOT:  loops.atomic
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine assign %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// CHECK-NOT:  loops.atomic
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine prod %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// CHECK-NOT:  loops.atomic
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine maximum %a, %o[%r, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// Two scans come one after the other.
// CHECK-NOT:  loops.atomic
func.func @main(%x : tensor<60x20xf32>, %k : tensor<60xi64>) -> tensor<90x20xf32> {
  %f = loops.nest (%j : 20, %i : 90) outs(%o : tensor<90x20xf32>) {
    %zero = elem.constant 0.0 : f32
    loops.store %zero, %o[%i, %j] : tensor<90x20xf32>
  }
  %y = loops.nest (%j : 20) outs(%o : tensor<90x20xf32>) updates(%f) {
    loops.scan (%i : 60) {
      %n = loops.load %k[%i] : tensor<60xi64>
      %r = loops.bound %n, 90 : i64
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine sum %a, %o[%r, %j] : tensor<90x20xf32>
    }
    loops.scan (%i : 60) {
      %a = loops.load %x[%i, %j] : tensor<60x20xf32>
      loops.combine sum %a, %o[%i, %j] : tensor<90x20xf32>
    }
  }
  func.return %y : tensor<90x20xf32>
}

// -----
// Rank 0, and changes further in.
// CHECK:      loops.nest (%i : 3) outs(%o: tensor<i32>) updates(%f) {
// CHECK-NEXT:   loops.for (%l : 4) {
// CHECK:          loops.atomic sum %a, %o[] : tensor<i32>
func.func @main(%x : tensor<3x4xi32>) -> tensor<i32> {
  %f = loops.nest () outs(%o : tensor<i32>) {
    %zero = elem.constant 0 : i32
    loops.store %zero, %o[] : tensor<i32>
  }
  %y = loops.nest () outs(%o : tensor<i32>) updates(%f) {
    loops.scan (%i : 3) {
      loops.for (%l : 4) {
        %a = loops.load %x[%i, %l] : tensor<3x4xi32>
        loops.combine sum %a, %o[] : tensor<i32>
      }
    }
  }
  func.return %y : tensor<i32>
}

// -----
// No points.
// CHECK:      loops.nest (%i : s0) outs(%o: tensor<2xi64>) updates(%f) {
func.func @main(%x : tensor<?xi64, #aten.layout<sizes = [s0]>>) -> tensor<2xi64> attributes {sym.symbols = #sym.symbols<s0 in [0, inf]>} {
  %f = loops.nest (%i : 2) outs(%o : tensor<2xi64>) {
    %zero = elem.constant 0 : i64
    loops.store %zero, %o[%i] : tensor<2xi64>
  }
  %y = loops.nest () outs(%o : tensor<2xi64>) updates(%f) {
    loops.scan (%i : s0) {
      %a = loops.load %x[%i] : tensor<?xi64, #aten.layout<sizes = [s0]>>
      loops.combine minimum %a, %o[1] : tensor<2xi64>
    }
  }
  func.return %y : tensor<2xi64>
}
