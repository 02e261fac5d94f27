# SPDX-License-Identifier: Apache-2.0
# Done: the scale of an attention moves before the product and the Transpose, to the layer that can fold it.

graph main(%x: f32[1,5,4], %k: f32[1,2,3,5]) -> %y {
  %w = const f32[6,4] gaussian(0, 0.3)
  %q = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %h = Reshape(%q, [1,5,2,3])
  %t = Transpose(%h, [0,2,1,3])
  %m = BatchMatMul(%t, %k)
  %y = Mul(%m, 0.5773)
}

rules {
  passes(forward_number, forward_batchnorm, fuse_mul_with_fullyconnected)
  order(FullyConnected, Reshape, Transpose, BatchMatMul)
}
