/*
 * The floors of the benchmark: programs without libc that do only the kernel's part of a launch.
 *
 * trampoline: execve and nothing else. -DRULES: the Landlock rules of the benchmark's policy, and a filter of five
 * instructions, or with -DFILTER="file" the instructions in that file. -DMORE="directory/": also a rule for each of the
 * directories 0, 1, ... in that one, as many as the first argument says. -DPOLICY="file": also the other calls that a launch
 * by a policy makes. -DRUN: as sandbox-run does it, in a third process, which a second one has looked at.
 */
#include <asm/unistd.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

static long call(long number, long a, long b, long c, long d)
{
    long answer;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    answer = x0;
#endif
    return answer;
}

#ifdef RULES
#define EXECUTE (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)
#define PROGRAM (EXECUTE | LANDLOCK_ACCESS_FS_READ_DIR)
#define DEVICE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

static const struct { const char *path; unsigned long access; } rules[] = {
    {WORK, ALL & ~LANDLOCK_ACCESS_FS_EXECUTE},
    {"/usr", PROGRAM}, {"/etc", PROGRAM}, {"/opt", PROGRAM}, {"/proc", PROGRAM}, {"/sys/devices/system/cpu", PROGRAM},
    {"/dev/null", DEVICE}, {"/dev/zero", DEVICE}, {"/dev/random", DEVICE}, {"/dev/urandom", DEVICE}, {"/dev/full", DEVICE},
    {EXE, EXECUTE},
};

static struct sock_filter filter[] = {
#ifdef FILTER
#include FILTER
#else
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ptrace, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#endif
};

#ifdef MORE
static void more(long ruleset, const char *count)
{
    static char path[] = MORE "0000";
    char *number = path + sizeof MORE - 1;
    unsigned long last = 0, i, j;

    for (; *count; count++)
        last = last * 10 + *count - '0';
    for (i = 0; i < last; i++) {
        struct landlock_path_beneath_attr rule = {EXECUTE | LANDLOCK_ACCESS_FS_READ_DIR, 0};
        char digits[4];
        unsigned long n = i, length = 0;
        do
            digits[length++] = '0' + n % 10;
        while (n /= 10);
        for (j = 0; j < length; j++)
            number[j] = digits[length - 1 - j];
        number[length] = 0;
        rule.parent_fd = call(__NR_openat, -100, (long)path, 010000000 | 02000000, 0);
        if (rule.parent_fd < 0 || call(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, (long)&rule, 0))
            call(__NR_exit_group, 124, 0, 0, 0);
        call(__NR_close, rule.parent_fd, 0, 0, 0);
    }
}
#endif

#ifdef POLICY
/* The descriptors, the policy, the ABI, the links of a merged /usr, the types of two files, the capabilities. */
static void others(void)
{
    static const char *const above[] = {"/lib/..", "/lib32/..", "/lib64/..", "/bin/..", "/sbin/.."};
    static char text[4096];
    unsigned header[2] = {0x20080522, 0}, sets[6];
    unsigned long i;
    long file;

    for (i = 0; i < 3; i++)
        call(__NR_fstat, i, (long)text, 0, 0);
    call(__NR_close_range, 3, ~0u, 4, 0);
    file = call(__NR_openat, -100, (long)POLICY, 02000000, 0);
    call(__NR_fstat, file, (long)text, 0, 0);
    if (call(__NR_read, file, (long)text, sizeof text, 0) <= 0)
        call(__NR_exit_group, 120, 0, 0, 0);
    for (i = 0; i < 3; i++)
        call(__NR_fstat, file, (long)text, 0, 0);
    call(__NR_close, file, 0, 0, 0);
    call(__NR_landlock_create_ruleset, 0, 0, 1, 0);
    for (i = 0; i < sizeof above / sizeof *above; i++)
        call(__NR_newfstatat, -100, (long)above[i], (long)text, 0);
    call(__NR_capget, (long)header, (long)sets, 0, 0);
    call(__NR_geteuid, 0, 0, 0, 0);
}
#endif

#ifdef RUN
static char text[4096];

/* /proc/PID/status, read. */
static void look_at(long pid)
{
    char path[32] = "/proc/", digits[20];
    unsigned long length = 0, at = 6;
    const char *rest;
    long file;

    do
        digits[length++] = '0' + pid % 10;
    while (pid /= 10);
    while (length)
        path[at++] = digits[--length];
    for (rest = "/status"; *rest; rest++)
        path[at++] = *rest;
    file = call(__NR_openat, -100, (long)path, 02000000, 0);
    if (call(__NR_read, file, (long)text, 2048, 0) <= 0)
        call(__NR_exit_group, 119, 0, 0, 0);
    call(__NR_close, file, 0, 0, 0);
}

/* Ends as a process of its own does. */
static void follow(long child)
{
    int status = 0;

    call(__NR_wait4, child, (long)&status, 0, 0);
    call(__NR_exit_group, status >> 8, 0, 0, 0);
}

static int told[2], go[2];

/* Comes back in the third process, whose rules are made. */
static void fork_twice(void)
{
    unsigned long number;
    long child;

    for (number = 4; number < 4 + sizeof rules / sizeof *rules; number++)
        call(__NR_close, number, 0, 0, 0);
    child = call(__NR_clone, 17, 0, 0, 0);
    if (child)
        follow(child);
    call(__NR_pipe2, (long)told, 02000000, 0, 0);
    call(__NR_pipe2, (long)go, 02000000, 0, 0);
    child = call(__NR_clone, 17, 0, 0, 0);
    if (child) {
        call(__NR_close, told[1], 0, 0, 0);
        call(__NR_close, go[0], 0, 0, 0);
        call(__NR_read, told[0], (long)text, 1, 0);
        look_at(child);
        call(__NR_write, go[1], (long)"1", 1, 0);
        call(__NR_read, told[0], (long)text, 1, 0);
        follow(child);
    }
    call(__NR_close, told[0], 0, 0, 0);
    call(__NR_close, go[1], 0, 0, 0);
    call(__NR_setsid, 0, 0, 0, 0);
}
#endif

static void confine(const char *count)
{
    struct { unsigned long fs, net, scoped; } attr = {ALL, 3, 3};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    unsigned long i;
    long ruleset;

#ifdef POLICY
    others();
#endif
    ruleset = call(__NR_landlock_create_ruleset, (long)&attr, sizeof attr, 0, 0);
    for (i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct landlock_path_beneath_attr rule = {rules[i].access, 0};
        rule.parent_fd = call(__NR_openat, -100, (long)rules[i].path, 010000000 | 02000000, 0);
        if (rule.parent_fd >= 0 && call(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, (long)&rule, 0))
            call(__NR_exit_group, 121, 0, 0, 0);
    }
#ifdef MORE
    more(ruleset, count);
#else
    (void)count;
#endif
#ifdef RUN
    fork_twice();
#endif
    if (call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) || call(__NR_landlock_restrict_self, ruleset, 0, 0, 0) ||
        call(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0))
        call(__NR_exit_group, 122, 0, 0, 0);
#ifdef RUN
    call(__NR_write, told[1], (long)"1", 1, 0);
    call(__NR_read, go[0], (long)text, 1, 0);
#endif
}
#endif

__attribute__((used)) void start(long *stack)
{
    char **argv = (char **)(stack + 1);
    char **envp = argv + *stack + 1;

#ifdef RULES
    confine(argv[1]);
#endif
#ifdef MORE
    argv++;
#endif
    call(__NR_execve, (long)argv[1], (long)(argv + 1), (long)envp, 0);
    call(__NR_exit_group, 123, 0, 0, 0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x0, sp\n bl start");
#endif
