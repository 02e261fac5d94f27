# SPDX-License-Identifier: Apache-2.0
# Done: only those blocks of four weights are stored that are not all zero.

graph main(%x: f32[2,8]) -> %y {
  %w = const f32[2,8] [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.5, 0.0]
  %y = FullyConnected(%x, %w, none)
}

rules {
  passes(sparsify_tensor)
  settings(
    sparsify_tensor: "w", sparsify_block_size: "4", sparsify_block_map: "1", sparsify_traversal_order: "0,1,2"
  )
  order(FullyConnected)
}
