/* What calls cost: prints the name and nanoseconds of each, one a line, the best of some rounds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define MEASURE(name, count, body)                                   \
    do {                                                             \
        double best = 1e18;                                          \
        for (int round = 0; round < 20; round++) {                   \
            double before = now();                                   \
            for (int i = 0; i < (count); i++) { body; }              \
            double each = (now() - before) / (count);                \
            if (each < best) best = each;                            \
        }                                                            \
        printf("%s %.1f\n", name, best);                             \
    } while (0)

int main(void)
{
    char byte;
    struct stat status;
    int zero = open("/dev/zero", O_RDONLY), pair[2], two[2];
    if (zero < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    MEASURE("getppid", 20000, syscall(SYS_getppid));
    MEASURE("read", 20000, if (read(zero, &byte, 1) != 1) return 1);
    MEASURE("stat", 5000, if (stat("/usr", &status)) return 1);
    MEASURE("open_close", 5000, int fd = open("/usr/bin/env", O_RDONLY); if (fd < 0 || close(fd)) return 1);
    MEASURE("socketpair", 2000, if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) || close(two[0]) || close(two[1])) return 1);
    MEASURE("sendto", 5000, if (sendto(pair[0], "x", 1, 0, 0, 0) != 1 || read(pair[1], &byte, 1) != 1) return 1);
    MEASURE("clone", 100, pid_t child = fork(); if (!child) _exit(0); if (child < 0 || waitpid(child, 0, 0) != child) return 1);
    return 0;
}
