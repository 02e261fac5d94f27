# SPDX-License-Identifier: Apache-2.0
# Done: batch_mat_mul_v2(x, y) == batch_matmul(x, y), with adj_x and adj_y from the options.

graph main(%x: f32[2,5,4,3], %y: f32[5,3,2]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "BatchMatMulV2",
    extra: {custom_options:
      array(u8, "YWRqX3gAYWRqX3kAVAADAxALAwEDAQAABGhoBiQB")}} : f32[2,5,4,2]
}

rules {
  passes(resolve_customop_batchmatmul)
  order(BatchMatMul)
}
