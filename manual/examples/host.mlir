// host.func, host.alloc, host.launch, host.extern, host.free, host.return: a product of the library, a kernel of ours, and the memory of both.
kernel.func @negate_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %y[%p] : f32
}
host.func @main(%x : tensor<4x8xf32>, %w : tensor<8x2xf32>) -> (tensor<4x2xf32>) {
  %m = host.extern pure "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  host.free %x, %w : tensor<4x8xf32>, tensor<8x2xf32>
  %y = host.alloc : tensor<4x2xf32>
  host.launch @negate_0(%m, %y) : tensor<4x2xf32>, tensor<4x2xf32>
  host.free %m : tensor<4x2xf32>
  host.return %y : tensor<4x2xf32>
}
// -----
// host.reinterpret: the last row of a tensor, in the same memory.
host.func @main(%x : tensor<4x8xf32>) -> (tensor<8xf32>) {
  %y = host.reinterpret %x offset 24 : tensor<4x8xf32> to tensor<8xf32>
  host.return %y : tensor<8xf32>
}
// -----
// host.place: two buffers that live between kernels share one allocation.
kernel.func @negate_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %y[%p] : f32
}
host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
  %arena = host.alloc : tensor<128xui8>
  %a = host.place %arena at 0 : tensor<128xui8> to tensor<8xf32>
  %b = host.place %arena at 64 : tensor<128xui8> to tensor<8xf32>
  host.launch @negate_0(%x, %a) : tensor<8xf32>, tensor<8xf32>
  host.launch @negate_0(%a, %b) : tensor<8xf32>, tensor<8xf32>
  %y = host.alloc : tensor<8xf32>
  host.launch @negate_0(%b, %y) : tensor<8xf32>, tensor<8xf32>
  host.return %y : tensor<8xf32>
}
// -----
// host.call, host.eager, host.bind, host.check: a graph in pieces. How many elements are not zero only the data knows, so eager runs `nonzero`, and its size becomes a symbol.
builtin.module @piece_0 {
  func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
    %y = aten.relu.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
    func.return %y : tensor<8xf32>
  }
}
host.func @main(%x : tensor<8xf32>) -> (!sym.int<u0>, tensor<?x1xi64, #aten.layout<sizes = [u0, 1]>>) attributes {sym.symbols = #sym.symbols<u0 in [0, 8]>} {
  %y = host.call @piece_0(%x) last [0] : (tensor<8xf32>) -> (tensor<8xf32>)
  %v = host.eager "aten.nonzero.default"(%y) : (tensor<8xf32>) -> !host.object
  host.bind u0 = %v size 0 : !host.object
  %z = host.check "aten.nonzero.default" %v : !host.object to tensor<?x1xi64, #aten.layout<sizes = [u0, 1]>>
  host.free %v, %y : !host.object, tensor<8xf32>
  %n = sym.value : !sym.int<u0>
  host.return %n, %z : !sym.int<u0>, tensor<?x1xi64, #aten.layout<sizes = [u0, 1]>>
}
// -----
// host.function, host.operator: a part of the program, and an operator, as values for an operator that calls what it is given.
builtin.module @piece_0 {
  func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {
    %y = aten.relu.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
    func.return %y : tensor<8xf32>
  }
}
host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
  %f = host.function single @piece_0() : ()
  %g = host.operator "aten.relu.default"
  %p = host.eager "builtins.tuple"([%f, %g, %x]) : (!host.object, !host.object, tensor<8xf32>) -> !host.object
  %o = host.eager "operator.getitem"(%p, 2) : (!host.object) -> !host.object
  %y = host.check "operator.getitem" %o : !host.object to tensor<8xf32>
  host.return %y : tensor<8xf32>
}
