# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: shape [4] broadcasts %n of [?,1]

graph main(%x: f32[?,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %n = Reshape(%x, [-1,1])
  %a = Add(%n, [1.0,2.0,3.0,4.0])
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  unchanged()
  refused("broadcasts %n of [?,1]")
}
