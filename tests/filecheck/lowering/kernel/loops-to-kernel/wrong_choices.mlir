// RUN: not cuesta-opt %s -p "loops-to-kernel{target=cuda}" --split-input-file

// CHECK: no scheduling choice is called warp; there are lanes, rows, along, joined, across, height, warps
func.func @main(%x : tensor<100xf32>) -> tensor<100xf32> {
  %y = loops.nest (%i : 100) outs(%o : tensor<100xf32>) schedule #loops.schedule<warp = 8> {
    %a = loops.load %x[%i] : tensor<100xf32>
    loops.store %a, %o[%i] : tensor<100xf32>
  }
  func.return %y : tensor<100xf32>
}
