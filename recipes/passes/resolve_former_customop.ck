# SPDX-License-Identifier: Apache-2.0
# Done: broadcast_to(x, shape), custom == broadcast_to(x, shape).

graph main(%u: f32[1,3]) -> %z {
  %z/operand = const i32[2] [2, 3]
  %z = Opaque(%u, %z/operand) {code: "CUSTOM", custom_code: "BroadcastTo"} : f32[2,3]
}

rules {
  passes(resolve_former_customop)
  order(BroadcastTo)
}
