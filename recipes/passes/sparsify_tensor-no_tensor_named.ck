# SPDX-License-Identifier: Apache-2.0
# Left alone: no constant is named, so none is stored sparse.

graph main(%x: f32[2,4]) -> %y {
  %w = const f32[2,4] [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.5]
  %y = FullyConnected(%x, %w, none)
}

rules {
  passes(sparsify_tensor)
  unchanged()
}
