// RUN: cuesta-opt %s --split-input-file -p fuse-nests

// A consumer of a row's sum becomes a further stage; what the reduction gave is forwarded, not read back.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.load %x[%i, %1]
// CHECK-NEXT:       %3 = elem.div %2, %s
// CHECK-NEXT:       loops.store %3, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %u = loops.load %a[%i] : tensor<4xf32>
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %w = elem.div %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %y : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// A pointwise consumer joins the last loop, where that walks its points; a reduction has to wait for all of them, and
// reads back from memory.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y, %z = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>, %1: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.sub %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:       %2 = elem.exp %w
// CHECK-NEXT:       loops.store %2, %0[(%i * 8 + %j) floordiv 8, (%i * 8 + %j) mod 8]
// CHECK-NEXT:     }
// CHECK-NEXT:     %2 = loops.reduce sum (%3 : 8) {
// CHECK-NEXT:       %4 = loops.load %0[%i, %3]
// CHECK-NEXT:       loops.yield %4
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %2, %1[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y, %z
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%k : 32) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %a[%k floordiv 8, %k mod 8] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%k floordiv 8, %k mod 8] : tensor<4x8xf32>
  }
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 8) {
      %v = loops.load %y[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y, %z : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>
}

// -----

// The neighbour in the row is there only when the whole row is: a stage of its own.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %s = loops.reduce maximum (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       %w = elem.sub %v, %s
// CHECK-NEXT:       loops.store %w, %o[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.load %o[%i, %1]
// CHECK-NEXT:       %3 = loops.load %o[%i, -%1 + 7]
// CHECK-NEXT:       %4 = elem.mul %2, %3
// CHECK-NEXT:       loops.store %4, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %a[%i, %j] : tensor<4x8xf32>
    %u = loops.load %a[%i, 7 - %j] : tensor<4x8xf32>
    %w = elem.mul %v, %u : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Near misses: another row's sum; sums of columns; a gather.
// CHECK:      func.func @main
// CHECK-NEXT:   %a = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %s = loops.reduce sum (%j : 4) {
// CHECK-NEXT:       %v = loops.load %x[%i, %j]
// CHECK-NEXT:       loops.yield %v
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %s, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   %y = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %u = loops.load %a[-%i + 3]
// CHECK-NEXT:     loops.store %u, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %z = loops.nest (%i : 4, %j : 4) outs(%o: tensor<4x4xf32>) {
// CHECK-NEXT:     %u = loops.load %a[%j]
// CHECK-NEXT:     loops.store %u, %o[%i, %j]
// CHECK-NEXT:   }
// CHECK-NEXT:   %w = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %n = loops.load %k[%i]
// CHECK-NEXT:     %m = loops.bound %n, 4 : i64
// CHECK-NEXT:     %u = loops.load %a[%m]
// CHECK-NEXT:     loops.store %u, %o[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y, %z, %w
// CHECK-NEXT: }
func.func @main(%x : tensor<4x4xf32>, %k : tensor<4xi64>) -> (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %x[%i, %j] : tensor<4x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %u = loops.load %a[3 - %i] : tensor<4xf32>
    loops.store %u, %o[%i, %j] : tensor<4x4xf32>
  }
  %z = loops.nest (%i : 4, %j : 4) outs(%o : tensor<4x4xf32>) {
    %u = loops.load %a[%j] : tensor<4xf32>
    loops.store %u, %o[%i, %j] : tensor<4x4xf32>
  }
  %w = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %n = loops.load %k[%i] : tensor<4xi64>
    %m = loops.bound %n, 4 : i64
    %u = loops.load %a[%m] : tensor<4xf32>
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y, %z, %w : tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}

// -----

// A gather within the row: the other index is the row, so the same point stored whatever is read.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %0: tensor<4xf32>) {
// CHECK:          loops.for (%j : 8) {
// CHECK:            loops.store %w, %o[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:     %1 = loops.load %k[%i]
// CHECK-NEXT:     %2 = loops.bound %1, 8 : i64
// CHECK-NEXT:     %3 = loops.load %o[%i, %2]
// CHECK-NEXT:     loops.store %3, %0[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
func.func @main(%x : tensor<4x8xf32>, %k : tensor<4xi64>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %n = loops.load %k[%i] : tensor<4xi64>
    %m = loops.bound %n, 8 : i64
    %u = loops.load %a[%i, %m] : tensor<4x8xf32>
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Near miss: a gather of another row.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>) {
// CHECK-NEXT:     %n = loops.load %k[%i]
// CHECK-NEXT:     %m = loops.bound %n, 4 : i64
// CHECK-NEXT:     %u = loops.load %a[%m, %i]
func.func @main(%x : tensor<4x8xf32>, %k : tensor<4xi64>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %a = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
  }
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %n = loops.load %k[%i] : tensor<4xi64>
    %m = loops.bound %n, 4 : i64
    %u = loops.load %a[%m, %i] : tensor<4x8xf32>
    loops.store %u, %o[%i] : tensor<4xf32>
  }
  func.return %a, %y : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Not the leading axis: a column's maximum is subtracted in column order, and each column added up at its own point.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %z = loops.nest (%i : 8) outs(%o: tensor<4x8xf32>, %0: tensor<8xf32>) {
// CHECK:          loops.for (%j : 4) {
// CHECK:            loops.store %w, %o[%j, %i]
// CHECK-NEXT:     }
// CHECK-NEXT:     %1 = loops.reduce sum (%2 : 4) {
// CHECK-NEXT:       %3 = loops.load %o[%2, %i]
// CHECK-NEXT:       loops.yield %3
// CHECK-NEXT:     } : f32
// CHECK-NEXT:     loops.store %1, %0[%i]
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %z
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %a = loops.nest (%i : 8) outs(%o : tensor<4x8xf32>) {
    %s = loops.reduce maximum (%j : 4) {
      %v = loops.load %x[%j, %i] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 4) {
      %v = loops.load %x[%j, %i] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%j, %i] : tensor<4x8xf32>
    }
  }
  %z = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
    %s = loops.reduce sum (%j : 4) {
      %v = loops.load %a[%j, %i] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<8xf32>
  }
  func.return %a, %z : tensor<4x8xf32>, tensor<8xf32>
}

// -----

// A pointwise consumer is walked as the producer stores, in whatever order: batch norm and what follows it.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%c : 3) outs(%o: tensor<2x3x4xf32>, %0: tensor<2x3x4xf32>) {
// CHECK:          loops.for (%n : 2, %j : 4) {
// CHECK:            loops.store %w, %o[%n, %c, %j]
// CHECK-NEXT:       %1 = elem.neg %w : f32
// CHECK-NEXT:       loops.store %1, %0[%n, %c, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %y
func.func @main(%x : tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %a = loops.nest (%c : 3) outs(%o : tensor<2x3x4xf32>) {
    %s = loops.reduce sum (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
    }
  }
  %y = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o : tensor<2x3x4xf32>) {
    %v = loops.load %a[%n, %c, %j] : tensor<2x3x4xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
  }
  func.return %a, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// Near miss of that: the consumer reads the images in reverse order, and no point of the producer has both.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o: tensor<2x3x4xf32>) {
// CHECK-NEXT:     %v = loops.load %a[%n, -%c + 2, %j]
func.func @main(%x : tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %a = loops.nest (%c : 3) outs(%o : tensor<2x3x4xf32>) {
    %s = loops.reduce sum (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
    }
  }
  %y = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o : tensor<2x3x4xf32>) {
    %v = loops.load %a[%n, 2 - %c, %j] : tensor<2x3x4xf32>
    %w = elem.neg %v : f32
    loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
  }
  func.return %a, %y : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// The pointwise consumer of a channel's statistics and of what they are statistics of: it walks a channel as well.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%c : 3) outs(%o: tensor<3xf32>, %0: tensor<2x3x4xf32>) {
// CHECK:          loops.store %s, %o[%c]
// CHECK-NEXT:     loops.for (%1 : 2, %2 : 4) {
// CHECK-NEXT:       %3 = loops.load %x[%1, %c, %2]
// CHECK-NEXT:       %4 = elem.div %3, %s
// CHECK-NEXT:       loops.store %4, %0[%1, %c, %2]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
func.func @main(%x : tensor<2x3x4xf32>) -> (tensor<3xf32>, tensor<2x3x4xf32>) {
  %a = loops.nest (%c : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce sum (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<3xf32>
  }
  %y = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o : tensor<2x3x4xf32>) {
    %s = loops.load %a[%c] : tensor<3xf32>
    %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
    %w = elem.div %v, %s : f32
    loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
  }
  func.return %a, %y : tensor<3xf32>, tensor<2x3x4xf32>
}

// -----

// Near miss: it reads another tensor, so nothing is in the cache already.
// CHECK:      func.func @main
// CHECK:        %y = loops.nest (%n : 2, %c : 3, %j : 4)
func.func @main(%x : tensor<2x3x4xf32>, %z : tensor<2x3x4xf32>) -> (tensor<3xf32>, tensor<2x3x4xf32>) {
  %a = loops.nest (%c : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce sum (%n : 2, %j : 4) {
      %v = loops.load %x[%n, %c, %j] : tensor<2x3x4xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%c] : tensor<3xf32>
  }
  %y = loops.nest (%n : 2, %c : 3, %j : 4) outs(%o : tensor<2x3x4xf32>) {
    %s = loops.load %a[%c] : tensor<3xf32>
    %v = loops.load %z[%n, %c, %j] : tensor<2x3x4xf32>
    %w = elem.div %v, %s : f32
    loops.store %w, %o[%n, %c, %j] : tensor<2x3x4xf32>
  }
  func.return %a, %y : tensor<3xf32>, tensor<2x3x4xf32>
}

// -----

// What a point stores besides its last loop does not keep a consumer from joining that loop.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %b, %y = loops.nest (%i : 4)
// CHECK:          loops.store %s, %p[%i]
// CHECK-NEXT:     loops.for (%j : 8) {
// CHECK:            loops.store %w, %o[%i, %j]
// CHECK-NEXT:       %1 = elem.exp %w
// CHECK-NEXT:       loops.store %1, %0[%i, %j]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
func.func @main(%x : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>) {
  %a, %b = loops.nest (%i : 4) outs(%o : tensor<4x8xf32>, %p : tensor<4xf32>) {
    %s = loops.reduce maximum (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      loops.yield %v : f32
    } : f32
    loops.for (%j : 8) {
      %v = loops.load %x[%i, %j] : tensor<4x8xf32>
      %w = elem.sub %v, %s : f32
      loops.store %w, %o[%i, %j] : tensor<4x8xf32>
    }
    loops.store %s, %p[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %v = loops.load %a[%i, %j] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %a, %b, %y : tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>
}

// -----

// What a consumer reads under a mask, just where it was stored, is chosen, not read back.
// CHECK:      func.func @main
// CHECK-NEXT:   %a, %y = loops.nest (%i : 4) outs(%o: tensor<4xf32>, %0: tensor<4x8xf32>) {
// CHECK-NEXT:     %v = loops.load %x[%i, 3]
// CHECK-NEXT:     %w = elem.exp %v
// CHECK-NEXT:     loops.store %w, %o[%i]
// CHECK-NEXT:     loops.for (%1 : 8) {
// CHECK-NEXT:       %2 = loops.index [%1]
// CHECK-NEXT:       %3 = elem.constant 3
// CHECK-NEXT:       %4 = elem.eq %2, %3
// CHECK-NEXT:       %5 = loops.load %x[%i, %1]
// CHECK-NEXT:       %6 = elem.select %4, %w, %5
// CHECK-NEXT:       loops.store %6, %0[%i, %1]
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y
// CHECK-NEXT: }
func.func @main(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i, 3] : tensor<4x8xf32>
    %w = elem.exp %v : f32
    loops.store %w, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {
    %n = loops.index [%j] : i64
    %three = elem.constant 3 : i64
    %c = elem.eq %n, %three : i64
    %v = loops.load %x[%i, %j] : tensor<4x8xf32>
    %u = loops.load %a[%i] if %c else %v : tensor<4xf32>
    loops.store %u, %o[%i, %j] : tensor<4x8xf32>
  }
  func.return %y : tensor<4x8xf32>
}

// -----

// Groups of what is one axis of the consumer: it goes through them as the producer's reduction does.
// CHECK:      func.func @main
// CHECK-NEXT:   %s, %y = loops.nest (%n : 2, %g : 3)
// CHECK-NEXT:     loops.reduce sum (%h : 2, %j : 4, %k : 5)
// CHECK:          loops.for (%{{.*}} : 2, %{{.*}} : 4, %{{.*}} : 5) {
// CHECK-NEXT:       loops.load %x[%n, %g * 2 + %{{.*}}, %{{.*}}, %{{.*}}]
func.func @main(%x : tensor<2x6x4x5xf32>) -> tensor<2x6x4x5xf32> {
  %s = loops.nest (%n : 2, %g : 3) outs(%o : tensor<2x3xf32>) {
    %m = loops.reduce sum (%h : 2, %j : 4, %k : 5) {
      %a = loops.load %x[%n, %g * 2 + %h, %j, %k] : tensor<2x6x4x5xf32>
      loops.yield %a : f32
    } : f32
    loops.store %m, %o[%n, %g] : tensor<2x3xf32>
  }
  %y = loops.nest (%n : 2, %c : 6, %j : 4, %k : 5) outs(%o : tensor<2x6x4x5xf32>) {
    %m = loops.load %s[%n, %c floordiv 2] : tensor<2x3xf32>
    %a = loops.load %x[%n, %c, %j, %k] : tensor<2x6x4x5xf32>
    %d = elem.sub %a, %m : f32
    loops.store %d, %o[%n, %c, %j, %k] : tensor<2x6x4x5xf32>
  }
  func.return %y : tensor<2x6x4x5xf32>
}
