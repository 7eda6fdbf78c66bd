// RUN: not cuesta-opt %s -p "split-reductions" --split-input-file

// CHECK: its schedule says part = 7, but it cannot be split
func.func @main(%x : tensor<96xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 7> {
    %s = loops.reduce sum (%j : 96) {
      %a = loops.load %x[%j] : tensor<96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// CHECK: its schedule says cooperative = 1, but points meet on a GPU only
func.func @main(%x : tensor<96xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 8, cooperative = 1> {
    %s = loops.reduce sum (%j : 96) {
      %a = loops.load %x[%j] : tensor<96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// CHECK: its schedule says part = 8, but it cannot be split
func.func @main(%x : tensor<96xf32>) -> tensor<96xf32> {
  %y = loops.nest (%i : 96) outs(%o : tensor<96xf32>) schedule #loops.schedule<part = 8> {
    %a = loops.load %x[%i] : tensor<96xf32>
    loops.store %a, %o[%i] : tensor<96xf32>
  }
  func.return %y : tensor<96xf32>
}

// -----
// Parts are runs of neighbours in memory, and places are counted across.
// CHECK: its schedule says part = 8, but it cannot be split
func.func @main(%x : tensor<8x12xf32, #aten.layout<device = "cuda:0">>) -> tensor<i64, #aten.layout<device = "cuda:0">> {
  %y = loops.nest () outs(%o : tensor<i64, #aten.layout<device = "cuda:0">>) schedule #loops.schedule<part = 8> {
    %v, %i = loops.reduce argmax (%k : 12, %j : 8) {
      %a = loops.load %x[%j, %k] : tensor<8x12xf32, #aten.layout<device = "cuda:0">>
      loops.yield %a : f32
    } : f32, i64
    loops.store %i, %o[] : tensor<i64, #aten.layout<device = "cuda:0">>
  }
  func.return %y : tensor<i64, #aten.layout<device = "cuda:0">>
}

// -----
// What nobody would obey: choices of tiles, of nests that are taken apart, and names that there are not.
// CHECK: its schedule says lanes beside parts, whose nests have schedules of their own
func.func @main(%x : tensor<96xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 8, lanes = 16> {
    %s = loops.reduce sum (%j : 96) {
      %a = loops.load %x[%j] : tensor<96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// -----
// CHECK: its schedule says nonsense beside parts, whose nests have schedules of their own
func.func @main(%x : tensor<96xf32>) -> tensor<f32> {
  %y = loops.nest () outs(%o : tensor<f32>) schedule #loops.schedule<part = 8, nonsense = 4> {
    %s = loops.reduce sum (%j : 96) {
      %a = loops.load %x[%j] : tensor<96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
  }
  func.return %y : tensor<f32>
}
