# SPDX-License-Identifier: Apache-2.0
# Refused: %z does not restore the reduced axis

graph main(%x: f32[1,6,4]) -> %z {
  %y = Mean(%x, [2])
  %a = Add(%y, 0.001)
  %r = Sqrt(%a)
  %z = Reshape(%r, [6, 1, 1])
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("%z: expected the shape [1,6,1], got [6,1,1]")
}
