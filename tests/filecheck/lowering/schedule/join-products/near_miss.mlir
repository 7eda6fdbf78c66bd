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
