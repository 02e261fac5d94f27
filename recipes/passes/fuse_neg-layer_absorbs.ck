# SPDX-License-Identifier: Apache-2.0
# Refused: the layer can absorb the factor -1, so it costs nothing.

graph main(%x: f32[2,3]) -> %y {
  %w = const f32[4,3] gaussian(0, 0.3)
  %a = FullyConnected(%x, %w, none)
  %m = Mul(%a, -1.0)
  %y = Add(%m, [1.0, 2.0, 3.0, 4.0])
}

rules {
  passes(fuse_neg)
  unchanged()
  refused("%m: the layer before it can absorb the factor -1")
}
