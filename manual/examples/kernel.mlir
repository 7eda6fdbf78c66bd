// kernel.func, kernel.launch, kernel.program_id, kernel.for, kernel.load, kernel.store: each program of the grid does one row, eight lanes at a time.
kernel.func @negate_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 20 lanes 8) {
    %a = kernel.load %x[%p * 20 + %j] : vector<8xf32>
    %b = elem.neg %a : vector<8xf32>
    kernel.store %b, %y[%p * 20 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<4x20xf32>) -> tensor<4x20xf32> {
  %y = kernel.launch @negate_0(%x) : (tensor<4x20xf32>) -> (tensor<4x20xf32>)
  func.return %y : tensor<4x20xf32>
}
// -----
// kernel.reduce, kernel.yield, kernel.broadcast: a row less its largest element. The reduction has lanes, so it gives a scalar, which the lanes below take by a broadcast.
kernel.func @shift_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %m = kernel.reduce maximum (%j = 0 to 16 lanes 8) {
    %a = kernel.load %x[%p * 16 + %j] : vector<8xf32>
    kernel.yield %a : vector<8xf32>
  } : f32
  %v = kernel.broadcast %m : f32 to vector<8xf32>
  kernel.for (%k = 0 to 16 lanes 8) {
    %b = kernel.load %x[%p * 16 + %k] : vector<8xf32>
    %c = elem.sub %b, %v : vector<8xf32>
    kernel.store %c, %y[%p * 16 + %k] : vector<8xf32>
  }
}
func.func @main(%x : tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = kernel.launch @shift_0(%x) : (tensor<4x16xf32>) -> (tensor<4x16xf32>)
  func.return %y : tensor<4x16xf32>
}
// -----
// kernel.scan, kernel.running: a cumulative sum; lane k holds the sum up to the k-th point.
kernel.func @cumsum_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  kernel.scan (%j = 0 to 16 lanes 8) {
    %a = kernel.load %x[%p * 16 + %j] : vector<8xf32>
    %s = kernel.running sum %a : vector<8xf32>
    kernel.store %s, %y[%p * 16 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = kernel.launch @cumsum_0(%x) : (tensor<4x16xf32>) -> (tensor<4x16xf32>)
  func.return %y : tensor<4x16xf32>
}
// -----
// kernel.combine, kernel.bound: rows of %x are added to rows of the result that data names.
kernel.func @scatter_0(%x : !kernel.ptr<f32>, %k : !kernel.ptr<i64>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = []> {
  %zero = elem.constant 0.0 : f32
  kernel.for (%i = 0 to 24) {
    kernel.store %zero, %y[%i] : f32
  }
  kernel.scan (%j = 0 to 6) {
    %n = kernel.load %k[%j] : i64
    %b = kernel.bound %n, 3 : i64
    kernel.for (%d = 0 to 8 lanes 8) {
      %a = kernel.load %x[%j * 8 + %d] : vector<8xf32>
      kernel.combine sum %a, %y[%b * 8 + %d] : vector<8xf32>
    }
  }
}
func.func @main(%x : tensor<6x8xf32>, %k : tensor<6xi64>) -> tensor<3x8xf32> {
  %y = kernel.launch @scatter_0(%x, %k) : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<3x8xf32>)
  func.return %y : tensor<3x8xf32>
}
// -----
// kernel.atomic: any program may change any element of what the kernel `updates`, which another kernel wrote.
kernel.func @start_0() outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3], target = cuda> {
  %p = kernel.program_id 0
  %one = elem.constant 1.0 : f32
  kernel.store %one, %y[%p] : f32
}
kernel.func @add_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) updates 1 schedule #kernel.schedule<grid = [6], target = cuda> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.atomic sum %a, %y[%p mod 3] : f32
}
func.func @main(%x : tensor<6xf32>) -> tensor<3xf32> {
  %f = kernel.launch @start_0() : () -> (tensor<3xf32>)
  %y = kernel.launch @add_0(%x, %f) : (tensor<6xf32>, tensor<3xf32>) -> (tensor<3xf32>)
  func.return %y : tensor<3xf32>
}
// -----
// kernel.contract, kernel.factors: a tile of a product of matrices; `tl.dot` on a GPU.
kernel.func @product_0(%x : !kernel.ptr<f16>, %w : !kernel.ptr<f16>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2], target = cuda> {
  %p = kernel.program_id 0
  kernel.for (%i = %p * 4 to min(%p * 4 + 4, 7) lanes 4) {
    kernel.for (%j = 0 to 5 lanes 8 dim 1) {
      %s = kernel.contract (%k = 0 to 6 lanes 4 dim 2) {
        %a = kernel.load %x[%i * 6 + %k] : vector<4x1x4xf16>
        %b = kernel.load %w[%j + %k * 5] : vector<1x8x4xf16>
        kernel.factors %a, %b : vector<4x1x4xf16>, vector<1x8x4xf16>
      } : vector<4x8xf32>
      kernel.store %s, %y[%i * 5 + %j] : vector<4x8xf32>
    }
  }
}
func.func @main(%x : tensor<7x6xf16>, %w : tensor<6x5xf16>) -> tensor<7x5xf32> {
  %y = kernel.launch @product_0(%x, %w) : (tensor<7x6xf16>, tensor<6x5xf16>) -> (tensor<7x5xf32>)
  func.return %y : tensor<7x5xf32>
}
// -----
// kernel.fold, kernel.carry: log Σ exp of a row in one pass, four elements at a time: the maximum so far, and the sum less that.
kernel.func @logsumexp_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3], target = cuda> {
  %p = kernel.program_id 0
  %m0 = elem.constant -inf : f32
  %s0 = elem.constant 0.0 : f32
  %m, %s = kernel.fold (%c = 0 to 5) from (%m0, %s0) carries (%a : f32, %b : f32) {
    %t = kernel.reduce maximum (%j = %c * 4 to %c * 4 + 4 lanes 4) {
      %v = kernel.load %x[%p * 20 + %j] : vector<4xf32>
      kernel.yield %v : vector<4xf32>
    } : f32
    %m1 = elem.maximum %a, %t : f32
    %mv = kernel.broadcast %m1 : f32 to vector<4xf32>
    %u = kernel.reduce sum (%j = %c * 4 to %c * 4 + 4 lanes 4) {
      %v = kernel.load %x[%p * 20 + %j] : vector<4xf32>
      %d = elem.sub %v, %mv : vector<4xf32>
      %e = elem.exp %d : vector<4xf32>
      kernel.yield %e : vector<4xf32>
    } : f32
    %d = elem.sub %a, %m1 : f32
    %f = elem.exp %d : f32
    %g = elem.mul %b, %f : f32
    %s1 = elem.add %g, %u : f32
    kernel.carry %m1, %s1 : f32, f32
  } : f32, f32
  %l = elem.log %s : f32
  %r = elem.add %m, %l : f32
  kernel.store %r, %y[%p] : f32
}
func.func @main(%x : tensor<3x20xf32>) -> tensor<3xf32> {
  %y = kernel.launch @logsumexp_0(%x) : (tensor<3x20xf32>) -> (tensor<3xf32>)
  func.return %y : tensor<3xf32>
}
// -----
// kernel.index, kernel.within, kernel.local: an index as data, kept in scratch memory; a program from a text is checked where it cannot be proved to stay in bounds.
kernel.func @places_0() outs(%y : !kernel.ptr<i64>) schedule #kernel.schedule<grid = [4]> {
  %p = kernel.program_id 0
  %kept = kernel.local 8 : !kernel.ptr<i64>
  kernel.for (%j = 0 to 8 lanes 8) {
    %n = kernel.index [%p * 100 + %j] : vector<8xi64>
    kernel.store %n, %kept[%j] : vector<8xi64>
  }
  kernel.for (%j = 0 to 8 lanes 8) {
    %n = kernel.load %kept[%j] : vector<8xi64>
    kernel.within [%p * 8 + %j], 32, "kernel.store of %y"
    kernel.store %n, %y[%p * 8 + %j] : vector<8xi64>
  }
}
func.func @main() -> tensor<4x8xi64> {
  %y = kernel.launch @places_0() : () -> (tensor<4x8xi64>)
  func.return %y : tensor<4x8xi64>
}
// -----
// kernel.meet: the four programs of a row share their sums; %n counts those that have come.
kernel.func @zeros_0() outs(%n : !kernel.ptr<i32>) schedule #kernel.schedule<grid = [20]> {
  %p = kernel.program_id 0
  %zero = elem.constant 0 : i32
  kernel.store %zero, %n[%p] : i32
}
kernel.func @share_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>, %t : !kernel.ptr<f32>, %n : !kernel.ptr<i32>) updates 1 schedule #kernel.schedule<grid = [4, 4], target = cuda> {
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  %s = kernel.reduce sum (%j = 0 to 8 lanes 8) {
    %a = kernel.load %x[%p * 32 + %q * 8 + %j] : vector<8xf32>
    kernel.yield %a : vector<8xf32>
  } : f32
  kernel.store %s, %t[%p * 4 + %q] : f32
  kernel.meet %n last 1
  %u = kernel.reduce sum (%k = 0 to 4 lanes 4) {
    %a = kernel.load %t[%p * 4 + %k] : vector<4xf32>
    kernel.yield %a : vector<4xf32>
  } : f32
  %v = kernel.broadcast %u : f32 to vector<8xf32>
  kernel.for (%j = 0 to 8 lanes 8) {
    %a = kernel.load %x[%p * 32 + %q * 8 + %j] : vector<8xf32>
    %b = elem.sub %a, %v : vector<8xf32>
    kernel.store %b, %y[%p * 32 + %q * 8 + %j] : vector<8xf32>
  }
}
func.func @main(%x : tensor<4x32xf32>) -> tensor<4x32xf32> {
  %n = kernel.launch @zeros_0() : () -> (tensor<20xi32>)
  %y, %t, %m = kernel.launch @share_0(%x, %n) : (tensor<4x32xf32>, tensor<20xi32>) -> (tensor<4x32xf32>, tensor<16xf32>, tensor<20xi32>)
  func.return %y : tensor<4x32xf32>
}
// -----
// kernel.pick: one launch for two tensors; a program's coordinate along the first axis of the grid says which is its own.
kernel.func @negate_0(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%u : !kernel.ptr<f32>, %v : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2, 3], target = cuda> {
  %from = kernel.pick 0 of %x, %y : !kernel.ptr<f32>
  %to = kernel.pick 0 of %u, %v : !kernel.ptr<f32>
  %p = kernel.program_id 1
  %a = kernel.load %from[%p] : f32
  %b = elem.neg %a : f32
  kernel.store %b, %to[%p] : f32
}
func.func @main(%x : tensor<3xf32>, %y : tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %u, %v = kernel.launch @negate_0(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  func.return %u, %v : tensor<3xf32>, tensor<3xf32>
}
