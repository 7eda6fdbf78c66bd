// RUN: not cuesta-opt %s -p kernel-to-host

// CHECK:      refused.mlir:7  loops.view: a view that strides cannot say is left; materialize-views should have made it a copy
// CHECK:      got: tensor<4x8xf32>    stage: kernel-to-host
// CHECK-NEXT: repeat: cuesta-opt
func.func @main(%x : tensor<4x8xf32>) -> tensor<32xf32> {
  %r = loops.view %x by (d0) -> (d0 mod 4, d0 floordiv 4) : tensor<4x8xf32> to tensor<32xf32>
  func.return %r : tensor<32xf32>
}
