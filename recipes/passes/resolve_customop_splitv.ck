# SPDX-License-Identifier: Apache-2.0
# Done: split_v(x, sizes, axis), custom == split_v(x, sizes, axis), with constant sizes and axis as int32.

graph main(%x: f32[6,2], %n: i32[3]) -> %a, %b, %c {
  %sizes = const i32[3] [1, 3, -1]
  %axis = const i32[] 0
  %a, %b, %c = Opaque(%x, %sizes, %axis) {code: "CUSTOM", custom_code: "SplitV"} : f32[1,2], f32[3,2], f32[2,2]
}

rules {
  passes(resolve_customop_splitv)
  order(SplitV)
}
