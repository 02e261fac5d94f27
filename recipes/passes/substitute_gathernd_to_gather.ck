# SPDX-License-Identifier: Apache-2.0
# Done: gather_nd of rows  ==  gather along axis 0

graph main(%x: f32[3,4]) -> %y {
  %i = const i64[5,1] [[0],[0],[1],[2],[2]]
  %z = GatherNd(%x, %i)
  %y = Exp(%z)
}

rules {
  passes(substitute_gathernd_to_gather)
  order(Gather, Exp)
}
