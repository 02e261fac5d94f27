# SPDX-License-Identifier: Apache-2.0
# Refused: the number of rows is unknown

graph main(%x: f32[?,4]) -> %y {
  %i = const i64[2,1] [[0],[1]]
  %z = GatherNd(%x, %i)
  %y = Exp(%z)
}

rules {
  passes(substitute_gathernd_to_gather)
  unchanged()
  refused("expected indices of the rows of %x")
}
