// RUN: cuesta-opt %s -p "choose-parts{target=cuda}"

// The text says its machine: 4 processors.
// CHECK:      builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 8, processors = 4>} {
// CHECK:      outs(%o: tensor<f32>) schedule #loops.schedule<part = 2048> {
builtin.module attributes {cuesta.machine = #cuesta.machine<processors = 4>} {
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
}
