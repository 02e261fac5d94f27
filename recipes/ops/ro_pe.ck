# SPDX-License-Identifier: Apache-2.0
# Pairs of elements turned by the angles of their tables (circle only).

graph main(%x: f32[1,1,2,4]) -> %y {
  %sin = const f32[1,1,1,4] uniform(-1, 1)
  %cos = const f32[1,1,1,4] uniform(-1, 1)
  %y = RoPE(%x, %sin, %cos)
}
