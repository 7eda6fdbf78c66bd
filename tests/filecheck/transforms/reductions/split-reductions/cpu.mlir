// RUN: cuesta-opt %s -p "split-reductions" --split-input-file

// CHECK:      %0 = loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:        loops.reduce sum (%j : 12) {
// CHECK:          loops.load %x[%{{.*}} * 12 + %j] : tensor<96xf32>
// CHECK:      %y = loops.nest () outs(%o: tensor<f32>) {
// CHECK:        loops.reduce sum (%{{.*}} : 8) {
func.func @main(%x : tensor<96xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 12> {
    %s = loops.reduce sum (%j : 96) {
      %a = loops.load %x[%j] : tensor<96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// Near miss: nothing is said.
// CHECK:      %y = loops.nest () outs(%o: tensor<f32>) {
// CHECK-NEXT:   %s = loops.reduce sum (%j : 131072)
func.func @main(%x : tensor<131072xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) {
    %s = loops.reduce sum (%j : 131072) {
      %a = loops.load %x[%j] : tensor<131072xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// A size that only the call knows, also 0: parts of one size, and a rest.
// CHECK:      loops.nest (%{{.*}} : s0 floordiv 16) outs
// CHECK:        loops.reduce sum (%j : 16) {
// CHECK:        loops.reduce sum (%j : s0 mod 16) {
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<f32> attributes {sym.symbols = #sym.symbols<s0 in [0, inf]>} {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 16> {
    %s = loops.reduce sum (%j : s0) {
      %a = loops.load %x[%j] : tensor<?xf32, #aten.layout<sizes = [s0]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
