// RUN: cuesta-opt %s --split-input-file -p materialize-views

// Memory in which elements overlap cannot be written to by a nest: one of each is copied, and seen again by strides.
func.func @main(%x : tensor<8xf32>) -> tensor<4x8xf32, #aten.layout<strides = [0, 1]>> {
  %v = loops.view %x by (d0, d1) -> (7 - d1) : tensor<8xf32> to tensor<4x8xf32, #aten.layout<strides = [0, 1]>>
  func.return %v : tensor<4x8xf32, #aten.layout<strides = [0, 1]>>
}

// -----

func.func @main(%x : tensor<8xf32>) -> tensor<4xf32, #aten.layout<strides = [2]>> {
  %v = loops.view %x by (d0) -> (7 - d0) : tensor<8xf32> to tensor<4xf32, #aten.layout<strides = [2]>>
  func.return %v : tensor<4xf32, #aten.layout<strides = [2]>>
}
