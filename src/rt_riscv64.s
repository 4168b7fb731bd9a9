# What the compiler calls for copies, fills and comparisons, byte by byte: unaligned accesses may be emulated.
# tests/memory.rs runs these against the standard library.

.globl memcpy
memcpy:
    mv a3, a0
2:  beqz a2, 3f
    lbu a4, 0(a1)
    sb a4, 0(a3)
    addi a1, a1, 1
    addi a3, a3, 1
    addi a2, a2, -1
    j 2b
3:  ret

.globl memmove
memmove:
    sub a3, a0, a1
    bgeu a3, a2, memcpy
    # The target starts inside the source: from the end.
    add a3, a0, a2
    add a1, a1, a2
2:  beqz a2, 3f
    addi a1, a1, -1
    addi a3, a3, -1
    lbu a4, 0(a1)
    sb a4, 0(a3)
    addi a2, a2, -1
    j 2b
3:  ret

.globl memset
memset:
    mv a3, a0
2:  beqz a2, 3f
    sb a1, 0(a3)
    addi a3, a3, 1
    addi a2, a2, -1
    j 2b
3:  ret

.globl memcmp
memcmp:
.globl bcmp
bcmp:
2:  beqz a2, 3f
    lbu a3, 0(a0)
    lbu a4, 0(a1)
    addi a0, a0, 1
    addi a1, a1, 1
    addi a2, a2, -1
    beq a3, a4, 2b
    sub a0, a3, a4
    ret
3:  li a0, 0
    ret

.globl strlen
strlen:
    mv a1, a0
2:  lbu a2, 0(a1)
    addi a1, a1, 1
    bnez a2, 2b
    sub a0, a1, a0
    addi a0, a0, -1
    ret
