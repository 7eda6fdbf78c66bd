// RUN: cuesta-opt %s -p "join-points-and-parts{target=cuda}" --split-input-file

// A mean of squares, and what its backward pass reads.
// CHECK:      loops.nest (%[[P:.*]] : 16) outs(%{{.*}}: tensor<16xf32>, %{{.*}}: tensor<128x1024xf32>) {
// CHECK:        loops.reduce sum (%{{.*}} : 8192) {
// CHECK:        loops.for (%[[J:.*]] : 8192) {
// CHECK-NEXT:     loops.load %x[%[[P]] * 8 + (%[[J]] floordiv 1024), %[[J]] mod 1024]
// CHECK:          loops.store %{{.*}}[%[[P]] * 8 + (%[[J]] floordiv 1024), %[[J]] mod 1024]
// CHECK-NOT:  loops.nest
// CHECK:      func.return
func.func @main(%x : tensor<128x1024xf32>) -> (tensor<16xf32>, tensor<128x1024xf32>) {
  %t = loops.nest (%p : 16) outs(%o : tensor<16xf32>) {
    %s = loops.reduce sum (%j : 8192) {
      %a = loops.load %x[(%p * 8192 + %j) floordiv 1024, (%p * 8192 + %j) mod 1024] : tensor<128x1024xf32>
      %b = elem.mul %a, %a : f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%p] : tensor<16xf32>
  }
  %y = loops.nest (%i : 128, %k : 1024) outs(%o : tensor<128x1024xf32>) {
    %a = loops.load %x[%i, %k] : tensor<128x1024xf32>
    %c = elem.constant 2.0 : f32
    %b = elem.mul %a, %c : f32
    loops.store %b, %o[%i, %k] : tensor<128x1024xf32>
  }
  func.return %t, %y : tensor<16xf32>, tensor<128x1024xf32>
}

// -----
// It may stand before; a last part need not be full.
// CHECK:      loops.nest (%[[P:.*]] : 5) outs(%{{.*}}: tensor<5xf32>, %{{.*}}: tensor<40000xf32>) {
// CHECK:        loops.for (%[[J:.*]] : 8192) {
// CHECK:          %[[N:.*]] = loops.index [%[[P]] * 8192 + %[[J]]] : i32
// CHECK:          %[[M:.*]] = elem.lt %[[N]], %{{.*}} : i32
// CHECK:          loops.load %x[%[[P]] * 8192 + %[[J]]] if %[[M]] else
// CHECK:          loops.store %{{.*}}[%[[P]] * 8192 + %[[J]]] if %[[M]]
// CHECK-NOT:  loops.nest
// CHECK:      func.return
func.func @main(%x : tensor<40000xf32>) -> (tensor<5xf32>, tensor<40000xf32>) {
  %y = loops.nest (%i : 40000) outs(%o : tensor<40000xf32>) {
    %a = loops.load %x[%i] : tensor<40000xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<40000xf32>
  }
  %t = loops.nest (%p : 5) outs(%o : tensor<5xf32>) {
    %s = loops.reduce sum (%j : 8192) {
      %n = loops.index [%p * 8192 + %j] : i32
      %l = elem.constant 40000 : i32
      %m = elem.lt %n, %l : i32
      %z = elem.constant 0.0 : f32
      %a = loops.load %x[%p * 8192 + %j] if %m else %z : tensor<40000xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<5xf32>
  }
  func.return %t, %y : tensor<5xf32>, tensor<40000xf32>
}

// -----
// What lies channels last is walked as it lies.
// CHECK:      loops.nest (%[[P:.*]] : 8) outs(
// CHECK:        loops.for (%[[J:.*]] : 4096) {
// CHECK-NEXT:     loops.load %x[%[[J]] mod 8, %[[P]] * 512 + (%[[J]] floordiv 8)]
// CHECK-NOT:  loops.nest
// CHECK:      func.return
func.func @main(%x : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>) -> (tensor<8xf32>, tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>) {
  %t = loops.nest (%p : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce maximum (%j : 4096) {
      %a = loops.load %x[(%p * 4096 + %j) mod 8, (%p * 4096 + %j) floordiv 8] : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<8xf32>
  }
  %y = loops.nest (%i : 8, %k : 4096) outs(%o : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>) {
    %a = loops.load %x[%i, %k] : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %k] : tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
  }
  func.return %t, %y : tensor<8xf32>, tensor<8x4096xf32, #aten.layout<strides = [1, 8]>>
}

// -----
// Parts that do not stay in registers are stored as they are summed, where there are enough of them; the last one need
// not be full.
// CHECK:      loops.nest (%[[P:.*]] : 6) outs(%{{.*}}: tensor<6xf32>, %{{.*}}: tensor<60000xf32>) {
// CHECK:        loops.reduce sum (%[[J:.*]] : 10240) {
// CHECK:          loops.load %x[%[[P]] * 10240 + %[[J]]] if
// CHECK:          loops.load %x[%[[P]] * 10240 + %[[J]]] if %[[M:.*]] else
// CHECK:          loops.store %{{.*}}[%[[P]] * 10240 + %[[J]]] if %[[M]]
// CHECK:          loops.yield
// CHECK-NOT:  loops.for
// CHECK-NOT:  loops.nest
// CHECK:      func.return
builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 3>} {
func.func @main(%x : tensor<60000xf32>) -> (tensor<6xf32>, tensor<60000xf32>) {
  %y = loops.nest (%i : 60000) outs(%o : tensor<60000xf32>) {
    %a = loops.load %x[%i] : tensor<60000xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<60000xf32>
  }
  %t = loops.nest (%p : 6) outs(%o : tensor<6xf32>) {
    %s = loops.reduce sum (%j : 10240) {
      %n = loops.index [%p * 10240 + %j] : i32
      %l = elem.constant 60000 : i32
      %m = elem.lt %n, %l : i32
      %z = elem.constant 0.0 : f32
      %a = loops.load %x[%p * 10240 + %j] if %m else %z : tensor<60000xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%p] : tensor<6xf32>
  }
  func.return %t, %y : tensor<6xf32>, tensor<60000xf32>
}
}
