// RUN: not cuesta-opt %s -p kernel-to-host

// CHECK: host.func: kernel-to-host takes a func.func @main
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  host.return %x : tensor<4xf32>
}
