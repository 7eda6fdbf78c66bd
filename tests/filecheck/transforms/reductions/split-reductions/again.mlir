// RUN: cuesta-opt %s --machine "processors=4" -p "split-reductions{target=cuda}" --split-input-file

// Every part finds the greatest of the rows' results again, and so does who puts the parts together and keeps it for
// what comes after.
// CHECK:      loops.nest (%{{.*}} : 8) outs(%{{.*}}: tensor<8xf32>) {
// CHECK:        loops.reduce maximum (%{{.*}} : 64) {
// CHECK:        loops.reduce sum (%{{.*}} : 4096) {
// CHECK:      loops.nest () outs(
// CHECK:        loops.reduce maximum (%{{.*}} : 64) {
// CHECK:        loops.reduce sum (%{{.*}} : 8) {
// CHECK:      loops.nest (%{{.*}} : 64, %{{.*}} : 512) outs(%{{.*}}: tensor<64x512xf32>) schedule #loops.schedule<reversed = 1> {
// CHECK-NOT:    loops.reduce
func.func @main(%x : tensor<64x512xf32>, %g : tensor<64xf32>) -> tensor<64x512xf32> {
  %y = loops.nest () outs(%o : tensor<64x512xf32>) schedule #loops.schedule<part = 4096> {
    %m = loops.reduce maximum (%i : 64) {
      %a = loops.load %g[%i] : tensor<64xf32>
      loops.yield %a : f32
    } : f32
    %half = elem.constant 0.5 : f32
    %h = elem.mul %m, %half : f32
    %s = loops.reduce sum (%i : 64, %j : 512) {
      %a = loops.load %x[%i, %j] : tensor<64x512xf32>
      %d = elem.sub %a, %h : f32
      %e = elem.exp %d : f32
      loops.yield %e : f32
    } : f32
    loops.for (%i : 64, %j : 512) {
      %a = loops.load %x[%i, %j] : tensor<64x512xf32>
      %d = elem.sub %a, %h : f32
      %e = elem.exp %d : f32
      %r = elem.div %e, %s : f32
      loops.store %r, %o[%i, %j] : tensor<64x512xf32>
    }
  }
  func.return %y : tensor<64x512xf32>
}
