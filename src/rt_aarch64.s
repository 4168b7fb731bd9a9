# What the compiler calls for copies, fills and comparisons: eight bytes at a time, then one. Unaligned accesses to normal
# memory are fine (Linux leaves SCTLR_EL1.A clear). tests/memory.rs runs these against the standard library.

.globl memcpy
memcpy:
    mov x3, x0
2:  cmp x2, #8
    b.lo 3f
    ldr x4, [x1], #8
    str x4, [x3], #8
    sub x2, x2, #8
    b 2b
3:  cbz x2, 4f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 3b
4:  ret

.globl memmove
memmove:
    sub x3, x0, x1
    cmp x3, x2
    b.hs memcpy
    // The target starts inside the source: from the end.
    add x3, x0, x2
    add x1, x1, x2
2:  cbz x2, 3f
    ldrb w4, [x1, #-1]!
    strb w4, [x3, #-1]!
    sub x2, x2, #1
    b 2b
3:  ret

.globl memset
memset:
    mov x3, x0
2:  cbz x2, 3f
    strb w1, [x3], #1
    sub x2, x2, #1
    b 2b
3:  ret

.globl memcmp
memcmp:
.globl bcmp
bcmp:
2:  cbz x2, 3f
    ldrb w3, [x0], #1
    ldrb w4, [x1], #1
    sub x2, x2, #1
    subs w3, w3, w4
    b.eq 2b
    mov w0, w3
    ret
3:  mov w0, #0
    ret

.globl strlen
strlen:
    mov x1, x0
2:  ldrb w2, [x1], #1
    cbnz w2, 2b
    sub x0, x1, x0
    sub x0, x0, #1
    ret
