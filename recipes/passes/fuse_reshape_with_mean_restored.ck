# SPDX-License-Identifier: Apache-2.0
# Done: a reduction whose result gets the reduced dimensions back, as in models that come from StableHLO.

graph main(%x: f32[?,3,4]) -> %y {
  %b = Mean(%x, [2])
  %c = Reshape(%b, [-1, 3, 1])
  %y = Sub(%x, %c)
}

rules {
  passes(fuse_reshape_with_mean)
  order(Mean, Sub)
}
