// RUN: cuesta-opt %s --split-input-file -p kernel-to-host

// Results that arguments are to hold are copied into them when all is done; the caller gets the others.
kernel.func @negate(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %o[%i] : f32
}
// CHECK:      host.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>) attributes {aten.writes_to = [1 : i64]} {
// CHECK-NEXT:   %n = host.alloc : tensor<4xf32>
// CHECK-NEXT:   host.launch @negate(%x, %n)
// CHECK-NEXT:   host.extern "aten.copy_.default"(%y, %n)
// CHECK-NEXT:   host.return %n
func.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {aten.writes_to = [1]} {
  %n = kernel.launch @negate(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %n, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

// Values are those from before: two arguments change places, one by another name. One that gets what it holds is left
// alone. Nothing else is returned.
// CHECK:      host.func @main
// CHECK-NEXT:   %v = host.reinterpret %x offset 0
// CHECK-NEXT:   %0 = host.extern "aten.clone.default"(%y)
// CHECK-NEXT:   %1 = host.extern "aten.clone.default"(%v)
// CHECK-NEXT:   host.extern "aten.copy_.default"(%x, %0)
// CHECK-NEXT:   host.extern "aten.copy_.default"(%y, %1)
// CHECK-NEXT:   host.return{{$}}
func.func @main(%x : tensor<2x2xf32>, %y : tensor<2x2xf32>, %z : tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32, #aten.layout<strides = [1, 2]>>, tensor<4xf32>) attributes {aten.writes_to = [0, 1, 2]} {
  %v = loops.view %x by (d0, d1) -> (d1, d0) : tensor<2x2xf32> to tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
  func.return %y, %v, %z : tensor<2x2xf32>, tensor<2x2xf32, #aten.layout<strides = [1, 2]>>, tensor<4xf32>
}
