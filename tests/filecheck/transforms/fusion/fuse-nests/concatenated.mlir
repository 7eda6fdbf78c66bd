// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// What is concatenated is computed where it lands: under masks its loads read no more than before.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%j : 12)
// CHECK:          loops.load %x[%j] if
// CHECK:          loops.load %b[%j] if
// CHECK:          elem.select
// CHECK-NEXT:     loops.store
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
func.func @main(%x : tensor<4xf32, #aten.layout<device = "cuda:0">>, %b : tensor<4xf32, #aten.layout<device = "cuda:0">>, %z : tensor<8xf32, #aten.layout<device = "cuda:0">>) -> tensor<12xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
    %w = elem.add %v, %u : f32
    loops.store %w, %o[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%j : 12) outs(%o : tensor<12xf32, #aten.layout<device = "cuda:0">>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4 : i64
    %l = elem.lt %k, %four : i64
    %r = elem.ge %k, %four : i64
    %p = elem.constant 0.5 : f32
    %q = loops.load %z[%j - 4] if %r else %p : tensor<8xf32, #aten.layout<device = "cuda:0">>
    %v = loops.load %a[%j] if %l else %q : tensor<4xf32, #aten.layout<device = "cuda:0">>
    loops.store %v, %o[%j] : tensor<12xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<12xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: a dear function would run at every point of the whole, three times as often.
// CHECK:      %a = loops.nest (%i : 4194304)
// CHECK:      %y = loops.nest (%j : 12582912)
func.func @main(%x : tensor<4194304xf32, #aten.layout<device = "cuda:0">>, %b : tensor<4194304xf32, #aten.layout<device = "cuda:0">>, %z : tensor<8388608xf32, #aten.layout<device = "cuda:0">>) -> tensor<12582912xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4194304) outs(%o : tensor<4194304xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i] : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%i] : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
    %w = elem.pow %v, %u : f32
    loops.store %w, %o[%i] : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%j : 12582912) outs(%o : tensor<12582912xf32, #aten.layout<device = "cuda:0">>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4194304 : i64
    %l = elem.lt %k, %four : i64
    %r = elem.ge %k, %four : i64
    %p = elem.constant 0.5 : f32
    %q = loops.load %z[%j - 4194304] if %r else %p : tensor<8388608xf32, #aten.layout<device = "cuda:0">>
    %v = loops.load %a[%j] if %l else %q : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
    loops.store %v, %o[%j] : tensor<12582912xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<12582912xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: the mask lets every third point read, and each element is read three times.
// CHECK:      %a = loops.nest (%i : 4)
// CHECK:      %y = loops.nest (%j : 3, %k : 4)
func.func @main(%x : tensor<4xf32, #aten.layout<device = "cuda:0">>, %b : tensor<4xf32, #aten.layout<device = "cuda:0">>) -> tensor<3x4xf32, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
    %u = loops.load %b[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
    %w = elem.add %v, %u : f32
    loops.store %w, %o[%i] : tensor<4xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%j : 3, %k : 4) outs(%o : tensor<3x4xf32, #aten.layout<device = "cuda:0">>) {
    %n = loops.index [%k] : i64
    %two = elem.constant 2 : i64
    %l = elem.lt %n, %two : i64
    %p = elem.constant 0.5 : f32
    %v = loops.load %a[%k] if %l else %p : tensor<4xf32, #aten.layout<device = "cuda:0">>
    loops.store %v, %o[%j, %k] : tensor<3x4xf32, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<3x4xf32, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: on a processor, where arithmetic counts.
// CHECK:      %a = loops.nest (%i : 4)
// CHECK:      %y = loops.nest (%j : 12)
func.func @main(%x : tensor<4xf32>, %b : tensor<4xf32>, %z : tensor<8xf32>) -> tensor<12xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    %u = loops.load %b[%i] : tensor<4xf32>
    %w = elem.add %v, %u : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%j : 12) outs(%o : tensor<12xf32>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4 : i64
    %l = elem.lt %k, %four : i64
    %r = elem.ge %k, %four : i64
    %p = elem.constant 0.5 : f32
    %q = loops.load %z[%j - 4] if %r else %p : tensor<8xf32>
    %v = loops.load %a[%j] if %l else %q : tensor<4xf32>
    loops.store %v, %o[%j] : tensor<12xf32>
  }
  func.return %y : tensor<12xf32>
}

// -----

// What is computed twice, as by a producer that was inlined at two reads, is computed once: `cse` sees to it.
// CHECK:      func.func @main
// CHECK-NEXT:   %y = loops.nest (%j : 8388608)
// CHECK-NOT:    loops.nest
func.func @main(%x : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>) -> tensor<8388608xbf16, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4194304) outs(%o : tensor<4194304xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i] : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.convert %v : bf16 to f32
    %s = elem.sigmoid %n : f32
    %u = loops.load %x[%i] : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %m = elem.convert %u : bf16 to f32
    %t = elem.sigmoid %m : f32
    %w = elem.mul %s, %t : f32
    loops.store %w, %o[%i] : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%j : 8388608) outs(%o : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4194304 : i64
    %l = elem.lt %k, %four : i64
    %r = elem.ge %k, %four : i64
    %p = elem.constant 0.5 : bf16
    %q = loops.load %b[%j - 4194304] if %r else %p : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.convert %q : bf16 to f32
    %v = loops.load %a[%j] if %l else %n : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
    %w = elem.convert %v : f32 to bf16
    loops.store %w, %o[%j] : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>
}

// -----

// Near miss: two dear functions.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4194304)
// CHECK:        %y = loops.nest (%j : 8388608)
func.func @main(%x : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>, %b : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>) -> tensor<8388608xbf16, #aten.layout<device = "cuda:0">> {
  %a = loops.nest (%i : 4194304) outs(%o : tensor<4194304xf32, #aten.layout<device = "cuda:0">>) {
    %v = loops.load %x[%i] : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.convert %v : bf16 to f32
    %s = elem.sigmoid %n : f32
    %u = loops.load %x[%i] : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %m = elem.convert %u : bf16 to f32
    %t = elem.tanh %m : f32
    %w = elem.mul %s, %t : f32
    loops.store %w, %o[%i] : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
  }
  %y = loops.nest (%j : 8388608) outs(%o : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>) {
    %k = loops.index [%j] : i64
    %four = elem.constant 4194304 : i64
    %l = elem.lt %k, %four : i64
    %r = elem.ge %k, %four : i64
    %p = elem.constant 0.5 : bf16
    %q = loops.load %b[%j - 4194304] if %r else %p : tensor<4194304xbf16, #aten.layout<device = "cuda:0">>
    %n = elem.convert %q : bf16 to f32
    %v = loops.load %a[%j] if %l else %n : tensor<4194304xf32, #aten.layout<device = "cuda:0">>
    %w = elem.convert %v : f32 to bf16
    loops.store %w, %o[%j] : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<8388608xbf16, #aten.layout<device = "cuda:0">>
}
