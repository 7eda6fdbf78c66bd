// RUN: cuesta-opt %s -p "sum-columns-with-rows"

// Near miss: a processor has caches for that.
// CHECK-NOT:  loops.scan
func.func @main(%g : tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 512) outs(%o : tensor<512x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<512x1024xf32>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 512) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<512x1024xf32>, tensor<1024xf32>
}

