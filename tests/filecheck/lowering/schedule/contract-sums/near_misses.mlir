// RUN: cuesta-opt %s -p "contract-sums" --split-input-file

// Near miss: a processor.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<64x40xbf16>, %b : tensor<48x40xbf16>) -> tensor<64x48xbf16> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xbf16>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xbf16>
      %w = loops.load %b[%j, %k] : tensor<48x40xbf16>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<64x48xbf16>
  }
  func.return %y : tensor<64x48xbf16>
}

// -----

// Near miss: f32, which matrix units round to TF32.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<64x40xf32, #aten.layout<device = "cuda:0">>, %b : tensor<48x40xf32, #aten.layout<device = "cuda:0">>) -> tensor<64x48xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xf32, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%j, %k] : tensor<48x40xf32, #aten.layout<device = "cuda:0">>
      %p = elem.mul %x, %w : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: a vector has no columns.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x48xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%k] : tensor<40xbf16, #aten.layout<device = "cuda:0">>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: eight rows.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<8x40xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<8x48xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 8, %j : 48) outs(%o : tensor<8x48xbf16, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<8x40xbf16, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%j, %k] : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<8x48xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<8x48xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: a schedule of its own.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x48xbf16, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<lanes = 64> {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%j, %k] : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %r = elem.convert %s : f32 to bf16
    loops.store %r, %o[%i, %j] : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x48xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: a sum that is kept in f32, which matrix units do not add up as exactly.
// CHECK-NOT: columns
// CHECK: func.return
func.func @main(%a : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>) -> tensor<64x48xf32, #aten.layout<device = "cuda:0">> {
  %y = loops.nest (%i : 64, %j : 48) outs(%o : tensor<64x48xf32, #aten.layout<device = "cuda:0">>) {
    %s = loops.reduce sum (%k : 40) {
      %x = loops.load %a[%i, %k] : tensor<64x40xbf16, #aten.layout<device = "cuda:0">>
      %w = loops.load %b[%j, %k] : tensor<48x40xbf16, #aten.layout<device = "cuda:0">>
      %xf = elem.convert %x : bf16 to f32
      %wf = elem.convert %w : bf16 to f32
      %p = elem.mul %xf, %wf : f32
      loops.yield %p : f32
    } : f32
    %c = elem.constant 2.0 : f32
    %t = elem.mul %s, %c : f32
    loops.store %t, %o[%i, %j] : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<64x48xf32, #aten.layout<device = "cuda:0">>
}
