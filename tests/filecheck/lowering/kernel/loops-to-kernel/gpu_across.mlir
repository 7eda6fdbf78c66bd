// RUN: cuesta-opt %s --machine "processors=4" -p "loops-to-kernel{target=cuda}" --split-input-file

// A short axis across: a rectangle, as large as a square would be.
// CHECK:     kernel.for (%{{.*}} to {{.*}} lanes 4) {
// CHECK:       kernel.for (%{{.*}} lanes 256 dim 1) {
// CHECK:         kernel.load %x[%{{.*}}] {{.*}}: vector<4x256xf32>
func.func @main(%x : tensor<1000x3xf32>) -> tensor<3x1000xf32> {
  %y = loops.nest (%i : 3, %j : 1000) outs(%o : tensor<3x1000xf32>) {
    %a = loops.load %x[%j, %i] : tensor<1000x3xf32>
    loops.store %a, %o[%i, %j] : tensor<3x1000xf32>
  }
  func.return %y : tensor<3x1000xf32>
}

// -----

// Small windows of what lies channels last, written channels first: tiles of channels and places.
// CHECK:     kernel.for (%{{.*}} lanes 16) {
// CHECK:       kernel.for (%{{.*}} lanes 64 dim 1) {
// CHECK:         kernel.reduce maximum
// CHECK:           kernel.load %x[{{.*}} : vector<16x64xf32>
func.func @main(%x : tensor<1x40x18x66xf32, #aten.layout<strides = [47520, 1, 2640, 40]>>) -> tensor<1x40x9x33xf32> {
  %y = loops.nest (%n : 1, %c : 40, %i : 9, %j : 33) outs(%o : tensor<1x40x9x33xf32>) {
    %m = loops.reduce maximum (%k : 2, %l : 2) {
      %a = loops.load %x[%n, %c, %i * 2 + %k, %j * 2 + %l] : tensor<1x40x18x66xf32, #aten.layout<strides = [47520, 1, 2640, 40]>>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%n, %c, %i, %j] : tensor<1x40x9x33xf32>
  }
  func.return %y : tensor<1x40x9x33xf32>
}

// -----

// Columns of a short axis that is not the last keep lanes along it.
// CHECK:     kernel.for (%{{.*}} lanes 512) {
// CHECK:       kernel.load %x[{{.*}} : vector<512x8xf32>
func.func @main(%x : tensor<16x256x84xf32>) -> tensor<84x16xf32> {
  %y = loops.nest (%c : 84, %p : 16) outs(%o : tensor<84x16xf32>) {
    %s = loops.reduce sum (%k : 256) {
      %a = loops.load %x[%p, %k, %c] : tensor<16x256x84xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%c, %p] : tensor<84x16xf32>
  }
  func.return %y : tensor<84x16xf32>
}
