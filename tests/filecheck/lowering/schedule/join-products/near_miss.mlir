// RUN: cuesta-opt %s -p join-products --split-input-file

// Somebody else reads the weights: they are stored anyhow.
// CHECK-COUNT-2: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%0 : 2, %1 : 24) outs(%3 : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.load %s[%0, %1, %6] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %8 = elem.convert %7 : bf16 to f32
      %9 = elem.mul %8, %4 : f32
      loops.yield %9 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      loops.yield %12 : f32
    } : f32
    loops.for (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.div %12, %6 : f32
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o, %p : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Somebody else reads the scores.
// CHECK-COUNT-2: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>, %v : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%0 : 2, %1 : 24) outs(%3 : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.load %s[%0, %1, %6] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %8 = elem.convert %7 : bf16 to f32
      %9 = elem.mul %8, %4 : f32
      loops.yield %9 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      loops.yield %12 : f32
    } : f32
    loops.for (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.div %12, %6 : f32
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o, %s : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// What the nest reads is no product.
// CHECK-COUNT-1: loops.extern pure "aten.bmm.default"
func.func @main(%s : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, %v : tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">> {
  %p = loops.nest (%0 : 2, %1 : 24) outs(%3 : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.load %s[%0, %1, %6] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %8 = elem.convert %7 : bf16 to f32
      %9 = elem.mul %8, %4 : f32
      loops.yield %9 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      loops.yield %12 : f32
    } : f32
    loops.for (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.div %12, %6 : f32
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %7] : tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16, #aten.layout<device = "cuda:0">>, tensor<2x40x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o : tensor<2x24x16xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// On a CPU there are no matrix units for it.
// CHECK-COUNT-2: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x24x16xbf16>, %k : tensor<2x16x40xbf16>, %v : tensor<2x40x16xbf16>) -> tensor<2x24x16xbf16> {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x24x16xbf16>, tensor<2x16x40xbf16>) -> tensor<2x24x40xbf16>
  %p = loops.nest (%0 : 2, %1 : 24) outs(%3 : tensor<2x24x40xbf16>) {
    %4 = elem.constant 0.25 : f32
    %5 = loops.reduce maximum (%6 : 40) {
      %7 = loops.load %s[%0, %1, %6] : tensor<2x24x40xbf16>
      %8 = elem.convert %7 : bf16 to f32
      %9 = elem.mul %8, %4 : f32
      loops.yield %9 : f32
    } : f32
    %6 = loops.reduce sum (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      loops.yield %12 : f32
    } : f32
    loops.for (%7 : 40) {
      %8 = loops.load %s[%0, %1, %7] : tensor<2x24x40xbf16>
      %9 = elem.convert %8 : bf16 to f32
      %10 = elem.mul %9, %4 : f32
      %11 = elem.sub %10, %5 : f32
      %12 = elem.exp %11 : f32
      %13 = elem.div %12, %6 : f32
      %14 = elem.convert %13 : f32 to bf16
      loops.store %14, %3[%0, %1, %7] : tensor<2x24x40xbf16>
    }
  }
  %o = loops.extern pure "aten.bmm.default"(%p, %v) : (tensor<2x24x40xbf16>, tensor<2x40x16xbf16>) -> tensor<2x24x16xbf16>
  func.return %o : tensor<2x24x16xbf16>
}

// -----

// Of what is made point by point somebody else reads a product, or what is between: neither product is joined.
// CHECK-COUNT-3: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %m[%h, %i] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
    %d = elem.sub %b, %c : f32
    %e = elem.exp %d : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %p by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %x = loops.extern pure "aten.bmm.default"(%t, %g) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.extern pure "aten.bmm.default"(%p, %w) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %x, %y, %s : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// CHECK-COUNT-3: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %m : tensor<2x64xf32, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %m[%h, %i] : tensor<2x64xf32, #aten.layout<device = "cuda:0">>
    %d = elem.sub %b, %c : f32
    %e = elem.exp %d : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.view %p by (d0, d1, d2) -> (d0, d2, d1) : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">> to tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>
  %x = loops.extern pure "aten.bmm.default"(%t, %g) : (tensor<2x64x64xbf16, #aten.layout<strides = [4096, 1, 64], device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  %y = loops.extern pure "aten.bmm.default"(%p, %w) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %x, %y, %p : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// A product stands between, as large as what it is made of: it would be computed within itself.
// CHECK-COUNT-3: loops.extern pure "aten.bmm.default"
func.func @main(%q : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, %k : tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>, %w : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, %g : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">> {
  %s = loops.extern pure "aten.bmm.default"(%q, %k) : (tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>, tensor<2x16x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %p = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %s[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %e = elem.exp %b : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %t = loops.extern pure "aten.bmm.default"(%p, %w) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  %n = loops.nest (%h : 2, %i : 64, %j : 64) outs(%r : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>) {
    %a = loops.load %t[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %b = elem.convert %a : bf16 to f32
    %c = loops.load %p[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
    %d = elem.convert %c : bf16 to f32
    %e = elem.mul %b, %d : f32
    %f = elem.convert %e : f32 to bf16
    loops.store %f, %r[%h, %i, %j] : tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>
  }
  %o = loops.extern pure "aten.bmm.default"(%n, %g) : (tensor<2x64x64xbf16, #aten.layout<device = "cuda:0">>, tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>) -> tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
  func.return %o : tensor<2x64x16xbf16, #aten.layout<device = "cuda:0">>
}
