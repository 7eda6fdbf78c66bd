// RUN: cuesta-opt %s -p link-pieces
builtin.module @piece_0 {
  kernel.func @relu_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8]> {
    %p = kernel.program_id 0
    %a = kernel.load %x[%p] : f32
    %b = elem.neg %a : f32
    kernel.store %b, %y[%p] : f32
  }
  host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
    %y = host.alloc : tensor<8xf32>
    host.launch @relu_0(%x, %y) : tensor<8xf32>, tensor<8xf32>
    host.return %y : tensor<8xf32>
  }
}
host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
  %y = host.call @piece_0(%x) last [0] : (tensor<8xf32>) -> (tensor<8xf32>)
  host.return %y : tensor<8xf32>
}
