// RUN: cuesta-opt %s -p "split-reductions{target=cuda}" --split-input-file

// A last part that is not full.
// CHECK:      loops.nest (%{{.*}} : 7) outs(%{{.*}}: tensor<7xf32>) {
// CHECK:        loops.reduce sum (%j : 16) {
// CHECK:      loops.reduce sum (%{{.*}} : 7) {
func.func @main(%x : tensor<100xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 16> {
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%j] : tensor<100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near miss: nothing is said.
// CHECK:      loops.reduce sum (%j : 65536)
func.func @main(%x : tensor<65536xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 65536) {
      %a = loops.load %x[%j] : tensor<65536xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----

// An axis of one point lies nowhere: the others are one run of neighbours, and parts are pieces of it.
// CHECK:      loops.nest (%{{.*}} : 3, %{{.*}} : 1, %{{.*}} : 8)
// CHECK:        loops.reduce sum (%{{.*}} : 64) {
func.func @main(%x : tensor<3x16x32xf32>) -> tensor<3xf32> {
  %y = loops.nest (%i : 3) outs(%o : tensor<3xf32>) schedule #loops.schedule<part = 64> {
    %s = loops.reduce sum (%j : 1, %k : 16, %l : 32) {
      %a = loops.load %x[%i, %k, %l] : tensor<3x16x32xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}

// -----

// An extreme and its place: parts give theirs, numbered as in the whole; the least of the places that have the extreme.
// CHECK:      loops.nest (%[[P:.*]] : 7) outs(%{{.*}}: tensor<7xf32>, %{{.*}}: tensor<7xi64>) {
// CHECK:        %{{.*}}, %[[K:.*]] = loops.reduce argmax (%{{.*}} : 16) {
// CHECK:        %[[F:.*]] = loops.index [%[[P]] * 16] : i64
// CHECK:        elem.add %[[F]], %[[K]] : i64
// CHECK:      loops.reduce maximum (%{{.*}} : 7) {
// CHECK:      loops.reduce minimum (%{{.*}} : 7) {
// CHECK:        elem.select %{{.*}}, %{{.*}}, %{{.*}} : i64
func.func @main(%x : tensor<100xf32>) -> tensor<i64> {
  %y = loops.nest () outs(%o : tensor<i64>) schedule #loops.schedule<part = 16> {
    %v, %i = loops.reduce argmax (%j : 100) {
      %a = loops.load %x[%j] : tensor<100xf32>
      loops.yield %a : f32
    } : f32, i64
    loops.store %i, %o[] : tensor<i64>
  }
  func.return %y : tensor<i64>
}
