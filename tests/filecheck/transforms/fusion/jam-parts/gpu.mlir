// RUN: cuesta-opt %s -p "jam-parts" --split-input-file
// On a GPU the model of tilings is asked. Parts of four numbers lie beside each other: what is stored of a sector by one
// store is stored in whole by both.

// CHECK:      %y = loops.nest (%i : 4096, %j : 4) outs
// CHECK-COUNT-1: elem.sigmoid
// CHECK-NOT:    elem.sigmoid
// CHECK:      func.return
func.func @main(%x : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>, %g : tensor<4096x4xbf16, #aten.layout<device = "cuda:0">>) -> tensor<4096x8xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 4096, %j : 8) outs(%o : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>) {
    %zero = elem.constant 0.0 : bf16
    %none = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 4 : i64
    %second = elem.ge %n, %half : i64
    %a = loops.load %x[%i, %j - 4] if %second else %zero : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>
    %a1 = elem.convert %a : bf16 to f32
    %b = loops.load %x[%i, %j] if %second else %zero : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>
    %b1 = elem.convert %b : bf16 to f32
    %b2 = elem.sigmoid %b1 : f32
    %c = elem.mul %a1, %b2 : f32
    %h = loops.load %g[%i, %j - 4] if %second else %zero : tensor<4096x4xbf16, #aten.layout<device = "cuda:0">>
    %h1 = elem.convert %h : bf16 to f32
    %d = elem.mul %c, %h1 : f32
    %d1 = elem.select %second, %d, %none : f32
    %first = elem.lt %n, %half : i64
    %e = loops.load %x[%i, %j + 4] if %first else %zero : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>
    %e1 = elem.convert %e : bf16 to f32
    %e2 = elem.sigmoid %e1 : f32
    %k = loops.load %g[%i, %j] if %first else %zero : tensor<4096x4xbf16, #aten.layout<device = "cuda:0">>
    %k1 = elem.convert %k : bf16 to f32
    %f = elem.mul %e2, %k1 : f32
    %q = elem.select %first, %f, %d1 : f32
    %r = elem.convert %q : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4096x8xbf16, #aten.layout<device = "cuda:0">>
}

// -----
// A plain concatenation stays one.

// CHECK:      %y = loops.nest (%i : 4096, %j : 8) outs
// CHECK:      func.return
func.func @main(%a : tensor<4096x4xf32, #aten.layout<device = "cuda:0">>, %b : tensor<4096x4xf32, #aten.layout<device = "cuda:0">>) -> tensor<4096x8xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 4096, %j : 8) outs(%o : tensor<4096x8xf32, #aten.layout<device = "cuda:0">>) {
    %zero = elem.constant 0.0 : f32
    %n = loops.index [%j] : i64
    %half = elem.constant 4 : i64
    %second = elem.ge %n, %half : i64
    %v = loops.load %b[%i, %j - 4] if %second else %zero : tensor<4096x4xf32, #aten.layout<device = "cuda:0">>
    %first = elem.lt %n, %half : i64
    %w = loops.load %a[%i, %j] if %first else %v : tensor<4096x4xf32, #aten.layout<device = "cuda:0">>
    loops.store %w, %o[%i, %j] : tensor<4096x8xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<4096x8xf32, #aten.layout<device = "cuda:0">>
}
