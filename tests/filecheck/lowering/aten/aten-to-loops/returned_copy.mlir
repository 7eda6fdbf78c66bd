// A result that equals an operand, of an op that is no view, gets memory of its own: it may be an output or be saved for
// a backward pass, and the caller may write to the input in between. Running statistics in evaluation are such results.
// RUN: cuesta-opt %s -p aten-to-loops | filecheck %s

// CHECK:      func.func @main(%x: tensor<4x3xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>)
// CHECK:      %new_mean = loops.nest (%{{.*}} : 3)
// CHECK-NEXT:   %{{.*}} = loops.load %mean[
// CHECK:      %new_variance = loops.nest (%{{.*}} : 3)
// CHECK-NEXT:   %{{.*}} = loops.load %variance[
// CHECK:      func.return %new_mean, %new_variance
func.func @main(%x: tensor<4x3xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>) {
  %y, %m, %s, %new_mean, %new_variance = aten._native_batch_norm_legit_functional.default(%x, none, none, %mean, %variance, false, 0.1, 1.0e-05)
    : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<4x3xf32>, tensor<0xf32>, tensor<0xf32>, tensor<3xf32>, tensor<3xf32>)
  func.return %new_mean, %new_variance : tensor<3xf32>, tensor<3xf32>
}
