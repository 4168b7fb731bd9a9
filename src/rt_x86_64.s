# What the compiler calls for copies, fills and comparisons. `rep movsb` and `rep stosb` are fast from Ivy Bridge
# (2012) on; the direction flag is clear by the ABI. tests/memory.rs runs these against the standard library.

.globl memcpy
memcpy:
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret

.globl memmove
memmove:
    mov rax, rdi
    mov rcx, rdx
    mov r8, rdi
    sub r8, rsi
    cmp r8, rdx
    jb 2f
    rep movsb
    ret
2:  # The target starts inside the source: from the end.
    lea rdi, [rdi + rdx - 1]
    lea rsi, [rsi + rdx - 1]
    std
    rep movsb
    cld
    ret

.globl memset
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret

.globl memcmp
memcmp:
.globl bcmp
bcmp:
    mov rcx, rdx
    xor eax, eax
    test rcx, rcx
    jz 2f
    repe cmpsb
    je 2f
    movzx eax, byte ptr [rdi - 1]
    movzx ecx, byte ptr [rsi - 1]
    sub eax, ecx
2:
    ret

.globl strlen
strlen:
    xor eax, eax
2:
    cmp byte ptr [rdi + rax], 0
    je 3f
    inc rax
    jmp 2b
3:
    ret
