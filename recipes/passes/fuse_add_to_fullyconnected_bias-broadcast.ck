# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: broadcasting with its shape [1,1] may change the shape [8] of %n

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,8] gaussian(0, 1)
  %n = Reshape(%x, [8])
  %a = Add(%n, [[0.5]])
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  unchanged()
  refused("broadcasting with its shape [1,1] may change the shape [8] of %n")
}
