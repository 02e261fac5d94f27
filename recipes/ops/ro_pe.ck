# SPDX-License-Identifier: Apache-2.0
# Rotary position embedding: pairs of elements rotated by table angles (circle only).

graph main(%x: f32[1,1,2,4]) -> %y {
  %sin = const f32[1,1,1,4] uniform(-1, 1)
  %cos = const f32[1,1,1,4] uniform(-1, 1)
  %y = RoPE(%x, %sin, %cos)
}
