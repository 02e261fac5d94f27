# SPDX-License-Identifier: Apache-2.0
# Done: GATHER of constants becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/params = const f32[2,3] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %r/indices = const i32[1] [1]
  %r = Gather(%r/params, %r/indices) : f32[1,3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_gather)
  order(Add)
}
