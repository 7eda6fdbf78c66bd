// RUN: cuesta-opt %s --machine "processors=4" -p "sum-columns-with-rows{target=cuda}" --split-input-file

// Columns of what another nest reads by rows are reduced there, 16 rows of a block one after the other.
// CHECK:      loops.nest (%{{.*}} : 32) outs(%{{.*}}: tensor<512x1024xf32>, %{{.*}}: tensor<32x1024xf32>) {
// CHECK:        loops.scan (%{{.*}} : 16) {
// CHECK:          loops.reduce sum (%{{.*}} : 1024) {
// CHECK:          loops.combine maximum
// CHECK:      loops.nest (%j : 1024) outs(%o: tensor<1024xf32>) {
// CHECK:        loops.reduce maximum (%{{.*}} : 32) {
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

// -----
// Near miss: the columns of another tensor.
// CHECK-NOT:  loops.scan
func.func @main(%g : tensor<512x1024xf32>, %h : tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 512) outs(%o : tensor<512x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      loops.store %s, %o[%i, %j] : tensor<512x1024xf32>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 512) {
      %a = loops.load %h[%i, %j] : tensor<512x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<512x1024xf32>, tensor<1024xf32>
}

// -----
// How many rows there are is not known; or there are none.
// CHECK-NOT:  loops.scan
func.func @main(%g : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>) -> (tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>, tensor<1024xf32>) attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>} {
  %y = loops.nest (%i : s0) outs(%o : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : s0) {
      %a = loops.load %g[%i, %j] : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<?x1024xf32, #aten.layout<sizes = [s0, 1024]>>, tensor<1024xf32>
}

// -----
// CHECK-NOT:  loops.scan
func.func @main(%g : tensor<0x1024xf32>) -> (tensor<0x1024xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 0) outs(%o : tensor<0x1024xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<0x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 1024) {
      %a = loops.load %g[%i, %j] : tensor<0x1024xf32>
      %b = elem.sub %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<0x1024xf32>
    }
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce maximum (%i : 0) {
      %a = loops.load %g[%i, %j] : tensor<0x1024xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<0x1024xf32>, tensor<1024xf32>
}


// -----

// Near miss: across is the other way round; who took a "row" would read single elements.
// CHECK-NOT:  loops.scan
func.func @main(%g : tensor<1024x16384xf32>) -> (tensor<16384xf32>, tensor<1024xf32>) {
  %y = loops.nest (%i : 16384) outs(%o : tensor<16384xf32>) {
    %s = loops.reduce sum (%j : 1024) {
      %a = loops.load %g[%j, %i] : tensor<1024x16384xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<16384xf32>
  }
  %z = loops.nest (%j : 1024) outs(%o : tensor<1024xf32>) {
    %s = loops.reduce sum (%i : 16384) {
      %a = loops.load %g[%j, %i] : tensor<1024x16384xf32>
      %b = loops.load %y[%i] : tensor<16384xf32>
      %c = elem.mul %a, %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%j] : tensor<1024xf32>
  }
  func.return %y, %z : tensor<16384xf32>, tensor<1024xf32>
}
