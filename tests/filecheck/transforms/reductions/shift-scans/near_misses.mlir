// RUN: cuesta-opt %s -p "shift-scans" --split-input-file

// Read by somebody else, too.
// CHECK: loops.scan (%j : 40)
func.func @main(%x : tensor<40xf32>) -> (tensor<41xf32>, tensor<40xf32>) {
  %t = loops.nest () outs(%o : tensor<40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%j] : tensor<40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%j] : tensor<40xf32>
    }
  }
  %y = loops.nest (%k : 41) outs(%o : tensor<41xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %t[%k - 1] if %c else %two : tensor<40xf32>
    loops.store %s, %o[%k] : tensor<41xf32>
  }
  func.return %y, %t : tensor<41xf32>, tensor<40xf32>
}

// -----

// A product, before whose first factor there is 1.
// CHECK: loops.scan (%j : 40)
func.func @main(%x : tensor<40xf32>) -> tensor<41xf32> {
  %t = loops.nest () outs(%o : tensor<40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%j] : tensor<40xf32>
      %r = loops.running prod %a : f32
      loops.store %r, %o[%j] : tensor<40xf32>
    }
  }
  %y = loops.nest (%k : 41) outs(%o : tensor<41xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %t[%k - 1] if %c else %two : tensor<40xf32>
    loops.store %s, %o[%k] : tensor<41xf32>
  }
  func.return %y : tensor<41xf32>
}

// -----

// Read backwards; and further back, not further on.
// CHECK: loops.scan (%j : 40)
// CHECK: loops.scan (%j : 40)
func.func @main(%x : tensor<40xf32>) -> (tensor<41xf32>, tensor<38xf32>) {
  %t = loops.nest () outs(%o : tensor<40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%j] : tensor<40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%j] : tensor<40xf32>
    }
  }
  %u = loops.nest () outs(%o : tensor<40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%j] : tensor<40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%j] : tensor<40xf32>
    }
  }
  %y = loops.nest (%k : 41) outs(%o : tensor<41xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %t[40 - %k] if %c else %two : tensor<40xf32>
    loops.store %s, %o[%k] : tensor<41xf32>
  }
  %z = loops.nest (%k : 38) outs(%o : tensor<38xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %u[%k + 2] if %c else %two : tensor<40xf32>
    loops.store %s, %o[%k] : tensor<38xf32>
  }
  func.return %y, %z : tensor<41xf32>, tensor<38xf32>
}

// -----

// A row of the reader that goes on behind the last sum; other rows; a row that reads the diagonal.
// CHECK: loops.scan (%j : 40)
// CHECK: loops.scan (%j : 40)
// CHECK: loops.scan (%j : 40)
func.func @main(%x : tensor<6x40xf32>) -> (tensor<6x50xf32>, tensor<4x41xf32>, tensor<6x41xf32>) {
  %t = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%i, %j] : tensor<6x40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %u = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%i, %j] : tensor<6x40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %v = loops.nest (%i : 6) outs(%o : tensor<6x40xf32>) {
    loops.scan (%j : 40) {
      %a = loops.load %x[%i, %j] : tensor<6x40xf32>
      %r = loops.running sum %a : f32
      loops.store %r, %o[%i, %j] : tensor<6x40xf32>
    }
  }
  %y = loops.nest (%i : 6, %k : 50) outs(%o : tensor<6x50xf32>) {
    %one = elem.constant 1 : i64
    %end = elem.constant 41 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %d = elem.lt %p, %end : i64
    %e = elem.and %c, %d : i1
    %s = loops.load %t[%i, %k - 1] if %e else %two : tensor<6x40xf32>
    loops.store %s, %o[%i, %k] : tensor<6x50xf32>
  }
  %z = loops.nest (%i : 4, %k : 41) outs(%o : tensor<4x41xf32>) {
    %one = elem.constant 1 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.ge %p, %one : i64
    %s = loops.load %u[%i, %k - 1] if %c else %two : tensor<6x40xf32>
    loops.store %s, %o[%i, %k] : tensor<4x41xf32>
  }
  %w = loops.nest (%i : 6, %k : 41) outs(%o : tensor<6x41xf32>) {
    %seven = elem.constant 7 : i64
    %two = elem.constant 2.0 : f32
    %p = loops.index [%k] : i64
    %c = elem.lt %p, %seven : i64
    %s = loops.load %v[%i, %i + 1] if %c else %two : tensor<6x40xf32>
    loops.store %s, %o[%i, %k] : tensor<6x41xf32>
  }
  func.return %y, %z, %w : tensor<6x50xf32>, tensor<4x41xf32>, tensor<6x41xf32>
}
