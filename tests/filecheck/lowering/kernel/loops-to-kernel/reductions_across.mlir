// RUN: cuesta-opt %s -p "loops-to-kernel" --split-input-file

// What is reduced lies along the axis of the rows: eight of them side by side, the lanes on what is reduced. The joined
// axis of 48 is two again, since only then memory lies along one.
// CHECK:      schedule #kernel.schedule<grid = [6], {{.*}}> {
// CHECK:        kernel.for (%{{.*}} = 0 to 8 lanes 8) {
// CHECK-NEXT:     %s = kernel.reduce sum (%k = 0 to 20 lanes 8 dim 1) {
// CHECK-NEXT:       kernel.load %x[%k * 48 + {{.*}}] : vector<8x8xf32>
// CHECK:          kernel.for (%k = 0 to 20 lanes 8 dim 1) {
// CHECK:            kernel.store {{.*}} : vector<8x8xf32>
func.func @main(%x : tensor<8x6x20xf32, #aten.layout<strides = [1, 8, 48]>>) -> tensor<48x20xf32> {
  %y = loops.nest (%p : 48) outs(%o : tensor<48x20xf32>) {
    %s = loops.reduce sum (%k : 20) {
      %a = loops.load %x[%p floordiv 6, %p mod 6, %k] : tensor<8x6x20xf32, #aten.layout<strides = [1, 8, 48]>>
      loops.yield %a : f32
    } : f32
    loops.for (%k : 20) {
      %a = loops.load %x[%p floordiv 6, %p mod 6, %k] : tensor<8x6x20xf32, #aten.layout<strides = [1, 8, 48]>>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%p, %k] : tensor<48x20xf32>
    }
  }
  func.return %y : tensor<48x20xf32>
}

// -----
// The result lies along another parallel axis: that one has the lanes, around serial loops.
// CHECK:      kernel.for (%n = {{.*}} lanes 8) {
// CHECK-NEXT:   kernel.for (%w = {{.*}} lanes 8 dim 1) {
// CHECK-NEXT:     %s = kernel.reduce sum (%c = 0 to 6) {
// CHECK:          kernel.for (%c = 0 to 6) {
// CHECK:            kernel.store {{.*}} : vector<8x8xf32>
func.func @main(%x : tensor<10x6x20xf32, #aten.layout<strides = [1, 10, 60]>>) -> tensor<10x6x20xf32> {
  %y = loops.nest (%n : 10, %w : 20) outs(%o : tensor<10x6x20xf32>) {
    %s = loops.reduce sum (%c : 6) {
      %a = loops.load %x[%n, %c, %w] : tensor<10x6x20xf32, #aten.layout<strides = [1, 10, 60]>>
      loops.yield %a : f32
    } : f32
    loops.for (%c : 6) {
      %a = loops.load %x[%n, %c, %w] : tensor<10x6x20xf32, #aten.layout<strides = [1, 10, 60]>>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%n, %c, %w] : tensor<10x6x20xf32>
    }
  }
  func.return %y : tensor<10x6x20xf32>
}

// -----
// A reduction that remembers a place has more than one value for a row: no rows side by side.
// CHECK:     kernel.reduce argmax
// CHECK-NOT: dim 1
// CHECK:     func.func @main
func.func @main(%x : tensor<8x20xf32, #aten.layout<strides = [1, 8]>>) -> (tensor<8xi64>, tensor<8x20xf32>) {
  %y, %z = loops.nest (%i : 8) outs(%o : tensor<8xi64>, %q : tensor<8x20xf32>) {
    %m, %s = loops.reduce argmax (%k : 20) {
      %a = loops.load %x[%i, %k] : tensor<8x20xf32, #aten.layout<strides = [1, 8]>>
      loops.yield %a : f32
    } : f32, i64
    loops.store %s, %o[%i] : tensor<8xi64>
    loops.for (%k : 20) {
      %a = loops.load %x[%i, %k] : tensor<8x20xf32, #aten.layout<strides = [1, 8]>>
      %b = elem.sub %a, %m : f32
      loops.store %b, %q[%i, %k] : tensor<8x20xf32>
    }
  }
  func.return %y, %z : tensor<8xi64>, tensor<8x20xf32>
}

// -----
// A joined axis along which something is contiguous stays one.
// CHECK:     kernel.for (%p = 0 to 48 lanes 8)
// CHECK-NOT: dim 1
func.func @main(%x : tensor<8x6xf32, #aten.layout<strides = [1, 8]>>, %z : tensor<20x48xf32>) -> tensor<48xf32> {
  %y = loops.nest (%p : 48) outs(%o : tensor<48xf32>) {
    %b = loops.load %x[%p floordiv 6, %p mod 6] : tensor<8x6xf32, #aten.layout<strides = [1, 8]>>
    %s = loops.reduce sum (%k : 20) {
      %a = loops.load %z[%k, %p] : tensor<20x48xf32>
      %c = elem.mul %a, %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%p] : tensor<48xf32>
  }
  func.return %y : tensor<48xf32>
}
