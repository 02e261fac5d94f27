# SPDX-License-Identifier: Apache-2.0
# Refused: an index has two coordinates

graph main(%x: f32[3,4]) -> %y {
  %i = const i64[2,2] [[0,1],[2,3]]
  %z = GatherNd(%x, %i)
  %y = Exp(%z)
}

rules {
  passes(substitute_gathernd_to_gather)
  unchanged()
  refused("expected indices of the rows of %x")
}
