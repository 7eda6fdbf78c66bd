// RUN: cuesta-opt %s --split-input-file -p split-index-sets | filecheck %s
// Half of the points are padding: a loop of its own for the others is not worth it.

// CHECK-LABEL: kernel.func @half
// CHECK: kernel.for (%{{.*}} = 0 to 41) {
// CHECK: kernel.load {{.*}} if
// CHECK-NOT: kernel.for
kernel.func @half(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 19 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 41) {
    %r = kernel.index [%i] : i64
    %0 = elem.lt %r, %limit : i64
    %1 = kernel.load %x[%i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<19xf32>) -> tensor<41xf32> {
  %y = kernel.launch @half(%x) : (tensor<19xf32>) -> tensor<41xf32>
  func.return %y : tensor<41xf32>
}

// -----
// A condition that guards no load costs little, and two stores would not be written in place.

// CHECK-LABEL: kernel.func @selected
// CHECK: kernel.for (%{{.*}} = 0 to 40) {
// CHECK: elem.select
// CHECK-NOT: kernel.for
kernel.func @selected(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %limit = elem.constant 39 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 40) {
    %r = kernel.index [%i] : i64
    %0 = elem.lt %r, %limit : i64
    %1 = kernel.load %x[%i] : f32
    %2 = elem.select %0, %1, %nothing : f32
    kernel.store %2, %o[%i] : f32
  }
}
func.func @main(%x : tensor<40xf32>) -> tensor<40xf32> {
  %y = kernel.launch @selected(%x) : (tensor<40xf32>) -> tensor<40xf32>
  func.return %y : tensor<40xf32>
}

// -----
// A kernel for the GPU, whose masks cost nothing.

// CHECK-LABEL: kernel.func @gpu
// CHECK: kernel.for (%{{.*}} = 0 to 23) {
// CHECK-NOT: kernel.for
kernel.func @gpu(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [], target = cuda, warps = 1, index = 32> {
  %limit = elem.constant 20 : i64
  %nothing = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 23) {
    %r = kernel.index [%i] : i64
    %0 = elem.lt %r, %limit : i64
    %1 = kernel.load %x[%i] if %0 else %nothing : f32
    kernel.store %1, %o[%i] : f32
  }
}
func.func @main(%x : tensor<20xf32>) -> tensor<23xf32> {
  %y = kernel.launch @gpu(%x) : (tensor<20xf32>) -> tensor<23xf32>
  func.return %y : tensor<23xf32>
}
