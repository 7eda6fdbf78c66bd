// RUN: cuesta-opt %s -p "jam-parts" --split-input-file
// A plain concatenation: nothing is shared.

// CHECK:      %y = loops.nest (%i : 4, %j : 32) outs
// CHECK:      func.return
func.func @main(%a : tensor<4x16xf32>, %b : tensor<4x16xf32>) -> tensor<4x32xf32> {
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %b[%i, %j - 16] if %second else %zero : tensor<4x16xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<4x16xf32>
    loops.store %w, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y : tensor<4x32xf32>
}

// -----
// Parts of different sizes.

// CHECK:      %y = loops.nest (%i : 4, %j : 32) outs
// CHECK:      func.return
func.func @main(%a : tensor<4x19xf32>) -> tensor<4x32xf32> {
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 19 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %a[%i, %j - 19] if %second else %zero : tensor<4x19xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<4x19xf32>
    loops.store %w, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y : tensor<4x32xf32>
}

// -----
// Parts that are shorter than vectors, on a processor.

// CHECK:      %y = loops.nest (%i : 4, %j : 8) outs
// CHECK:      func.return
func.func @main(%a : tensor<4x4xf32>) -> tensor<4x8xf32> {
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 4 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %a[%i, %j - 4] if %second else %zero : tensor<4x4xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<4x4xf32>
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}

// -----
// Parts that read other elements of one tensor: halves that change places.

// CHECK:      %y = loops.nest (%i : 4, %j : 32) outs
// CHECK:      func.return
func.func @main(%a : tensor<4x32xf32>) -> tensor<4x32xf32> {
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %a[%i, %j - 16] if %second else %zero : tensor<4x32xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j + 16] if %first else %v : tensor<4x32xf32>
    loops.store %w, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y : tensor<4x32xf32>
}

// -----
// A size that only a call knows: where the parts are is not known either.

// CHECK:      %y = loops.nest (%i : 4, %j : s0 * 2) outs
// CHECK:      func.return
func.func @main(%a : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>) -> tensor<4x?xf32, #aten.layout<sizes = [4, s0 * 2]>> attributes {sym.symbols = #sym.symbols<s0 in [2, 40]>} {
  %y = loops.nest (%i : 4, %j : s0 * 2) outs(%o : tensor<4x?xf32, #aten.layout<sizes = [4, s0 * 2]>>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = loops.index [s0] : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %a[%i, %j - s0] if %second else %zero : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<4x?xf32, #aten.layout<sizes = [4, s0]>>
    loops.store %w, %o[%i, %j] : tensor<4x?xf32, #aten.layout<sizes = [4, s0 * 2]>>
  }
  func.return %y : tensor<4x?xf32, #aten.layout<sizes = [4, s0 * 2]>>
}

// -----
// Without an element.

// CHECK:      %y = loops.nest (%i : 0, %j : 32) outs
// CHECK:      func.return
func.func @main(%a : tensor<0x16xf32>) -> tensor<0x32xf32> {
  %y = loops.nest (%i : 0, %j : 32) outs(%o : tensor<0x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %a[%i, %j - 16] if %second else %zero : tensor<0x16xf32>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<0x16xf32>
    loops.store %w, %o[%i, %j] : tensor<0x32xf32>
  }
  func.return %y : tensor<0x32xf32>
}

// -----
// What is read is read by another one before: it is computed by itself, and read once.

// CHECK:      %e = loops.nest (%i : 4, %j : 16) outs
// CHECK:      %z = loops.nest (%i : 4) outs
// CHECK:      %y = loops.nest (%i : 4, %j : 16) outs
// CHECK-NOT:    elem.exp
// CHECK-COUNT-1: loops.load %e
// CHECK-NOT:    loops.load
// CHECK:      func.return
func.func @main(%x : tensor<4x16xf32>) -> (tensor<4x32xf32>, tensor<4xf32>) {
  %e = loops.nest (%i : 4, %j : 16) outs(%o : tensor<4x16xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x16xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<4x16xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 16) {
      %a = loops.load %e[%i, %j] : tensor<4x16xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 32) outs(%o : tensor<4x32xf32>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 16 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %e[%i, %j - 16] if %second else %zero : tensor<4x16xf32>
    %v1 = elem.neg %v : f32
    %first = elem.lt %n, %half : i64
    %w = loops.load %e[%i, %j] if %first else %zero : tensor<4x16xf32>
    %q = elem.select %first, %w, %v1 : f32
    loops.store %q, %o[%i, %j] : tensor<4x32xf32>
  }
  func.return %y, %z : tensor<4x32xf32>, tensor<4xf32>
}
