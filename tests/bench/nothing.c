/* A program that ends at once. */
#include <asm/unistd.h>

#if defined(__x86_64__)
__asm__(".globl _start\n_start: mov $231, %eax\n xor %edi, %edi\n syscall");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x8, 94\n mov x0, 0\n svc 0");
#endif
