// RUN: cuesta-opt %s -p share-slices --split-input-file

// Two halves of a tensor; what both read in whole stays.
// CHECK:      %[[P:.*]] = loops.view %x by (d0, d1) -> (d0, d1) : tensor<16x8xf32> to tensor<8x8xf32>
// CHECK-NEXT: loops.nest
// CHECK-NEXT:   loops.load %[[P]][%{{.*}}, %{{.*}}] : tensor<8x8xf32>
// CHECK-NEXT:   loops.load %w[%{{.*}}] : tensor<8xf32>
// CHECK:      %[[Q:.*]] = loops.view %x by (d0, d1) -> (d0 + 8, d1) : tensor<16x8xf32> to tensor<8x8xf32>
// CHECK-NEXT: loops.nest
// CHECK-NEXT:   loops.load %[[Q]][%{{.*}}, %{{.*}}] : tensor<8x8xf32>
func.func @main(%x : tensor<16x8xf32>, %w : tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = loops.nest (%i : 8, %j : 8) outs(%o : tensor<8x8xf32>) {
    %u = loops.load %x[%i, %j] : tensor<16x8xf32>
    %v = loops.load %w[%j] : tensor<8xf32>
    %y = elem.mul %u, %v : f32
    loops.store %y, %o[%i, %j] : tensor<8x8xf32>
  }
  %b = loops.nest (%i : 8, %j : 8) outs(%o : tensor<8x8xf32>) {
    %u = loops.load %x[%i + 8, %j] : tensor<16x8xf32>
    %v = loops.load %w[%j] : tensor<8xf32>
    %y = elem.mul %u, %v : f32
    loops.store %y, %o[%i, %j] : tensor<8x8xf32>
  }
  func.return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----
// Steps of a recurrence, the columns of a wider tensor, and neighbours that are read together: a window keeps its width.
// CHECK:      loops.view %x by (d0, d1) -> (d0, d1 + 16) : tensor<3x64xf32> to tensor<1x17xf32, #aten.layout<strides = [64, 1]>>
// CHECK:      loops.view %x by (d0, d1) -> (d0 + 2, d1 + 32) : tensor<3x64xf32> to tensor<1x17xf32, #aten.layout<strides = [64, 1]>>
func.func @main(%x : tensor<3x64xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %a = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
    %u = loops.load %x[0, %i + 16] : tensor<3x64xf32>
    %v = loops.load %x[0, %i + 17] : tensor<3x64xf32>
    %y = elem.sub %u, %v : f32
    loops.store %y, %o[%i] : tensor<16xf32>
  }
  %b = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
    %u = loops.load %x[2, %i + 32] : tensor<3x64xf32>
    %v = loops.load %x[2, %i + 33] : tensor<3x64xf32>
    %y = elem.sub %u, %v : f32
    loops.store %y, %o[%i] : tensor<16xf32>
  }
  func.return %a, %b : tensor<16xf32>, tensor<16xf32>
}

// -----
// A part of one tensor, and all of another, which lies alike.
// CHECK-NOT:  loops.view %y
// CHECK:      loops.view %x by (d0) -> (d0 + 4) : tensor<12xf32> to tensor<8xf32>
func.func @main(%x : tensor<12xf32>, %y : tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%i : 8) {
      %u = loops.load %y[%i] : tensor<8xf32>
      loops.yield %u : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  %b = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%i : 8) {
      %u = loops.load %x[%i + 4] : tensor<12xf32>
      loops.yield %u : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %a, %b : tensor<f32>, tensor<f32>
}
