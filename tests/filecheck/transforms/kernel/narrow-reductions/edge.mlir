// RUN: cuesta-opt %s --split-input-file -p narrow-reductions | filecheck %s
// A loop that begins further on, or is of a size that only the call knows; an index that may be in no range at all.

// CHECK-LABEL: kernel.func @later
// CHECK: kernel.reduce sum (%{{.*}} = max(%{{.*}}, 2) to s0) {
// CHECK: kernel.reduce sum (%{{.*}} = 0 to s0) {
kernel.func @later(%x : !kernel.ptr<f32>, %n : !kernel.ptr<i64>, %end : !kernel.ptr<i64>) outs(%o : !kernel.ptr<f32>)
    symbols(s0) schedule #kernel.schedule<grid = []> {
  %first = kernel.load %end[0] : i64
  %a = kernel.bound %first, 7 : i64
  %from = kernel.index [%a] : i64
  %nothing = elem.constant 0.0 : f32
  %zero = elem.constant 0 : i64
  %s = kernel.reduce sum (%i = 2 to s0) {
    %here = kernel.index [%i] : i64
    %in = elem.ge %here, %from : i64
    %v = kernel.load %x[%i] if %in else %nothing : f32
    kernel.yield %v : f32
  } : f32
  %t = kernel.reduce sum (%i = 0 to s0) {
    %here = kernel.index [%i] : i64
    %in = elem.ge %here, %from : i64
    %name = kernel.load %n[%i] if %in else %zero : i64
    %row = kernel.bound %name, s0 - 3 : i64
    %v = kernel.load %x[%row] if %in else %nothing : f32
    kernel.yield %v : f32
  } : f32
  %u = elem.add %s, %t : f32
  kernel.store %u, %o[0] : f32
}
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>,
    %n : tensor<?xi64, #aten.layout<sizes = [s0], strides = [1]>>, %end : tensor<1xi64>) -> tensor<1xf32>
    attributes { sym.symbols = #sym.symbols<s0 in [3, 64]> } {
  %y = kernel.launch @later(%x, %n, %end) : (tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>,
    tensor<?xi64, #aten.layout<sizes = [s0], strides = [1]>>, tensor<1xi64>) -> tensor<1xf32>
  func.return %y : tensor<1xf32>
}
