//! The refused and the checked calls: the table that an auditor reads first.
//!
//! One call a line: name, number on x86_64, aarch64 and riscv64 (`NONE`: the architecture lacks it),
//! then the answer and the reason. What stays allowed on purpose is listed in [`super::allowed`];
//! a number in neither table is one that this filter does not know and answers ENOSYS.
//! Sources: the kernel's `arch/x86/entry/syscalls/syscall_64.tbl` and `scripts/syscall.tbl` (Linux 6.17),
//! held against linux-raw-sys by a test.

use super::call::{Answer::*, Call, Check, Group, NONE};

/// Every group of calls that are refused whatever their arguments.
pub const REFUSED: &[Group] = &[
    ASYNC,
    NAMESPACES,
    MOUNTS,
    FILE_ATTRIBUTES,
    PROCESSES,
    LOCAL_IPC,
    SOCKETS,
    HOST,
    KERNEL,
    OBSOLETE,
];

const ASYNC: Group = Group {
    name: "async",
    reason: "io_uring: opens, connects and sends without the calls that this filter looks at",
    calls: &[
        Call::refused(
            "io_uring_enter",
            [426, 426, 426],
            Eperm,
            "submits unfiltered operations",
        ),
        Call::refused(
            "io_uring_register",
            [427, 427, 427],
            Eperm,
            "registers files and buffers for unfiltered operations",
        ),
        Call::refused(
            "io_uring_setup",
            [425, 425, 425],
            Eperm,
            "opens, connects and listens without the filtered calls",
        ),
    ],
};

const NAMESPACES: Group = Group {
    name: "namespaces",
    reason: "New or other namespaces: the kernel behind them was not judged",
    calls: &[
        Call::refused(
            "clone3",
            [435, 435, 435],
            Enosys,
            "flags in memory, which no filter can read; libc falls back to clone",
        ),
        Call::refused(
            "setns",
            [308, 268, 268],
            Eperm,
            "enters a namespace of another process",
        ),
        Call::refused(
            "unshare",
            [272, 97, 97],
            Eperm,
            "new namespaces, with every capability inside a user namespace",
        ),
    ],
};

const MOUNTS: Group = Group {
    name: "mounts",
    reason: "The mount family: changes what a path means, or reaches files past Landlock",
    calls: &[
        Call::refused("chroot", [161, 51, 51], Eperm, "changes the root"),
        Call::refused(
            "fsconfig",
            [431, 431, 431],
            Eperm,
            "configures a new file system",
        ),
        Call::refused(
            "fsmount",
            [432, 432, 432],
            Eperm,
            "mounts a new file system",
        ),
        Call::refused("fsopen", [430, 430, 430], Eperm, "opens a new file system"),
        Call::refused(
            "fspick",
            [433, 433, 433],
            Eperm,
            "reconfigures a mounted file system",
        ),
        Call::refused("mount", [165, 40, 40], Eperm, "mounts"),
        Call::refused(
            "mount_setattr",
            [442, 442, 442],
            Eperm,
            "changes mount attributes",
        ),
        Call::refused("move_mount", [429, 429, 429], Eperm, "moves a mount"),
        Call::refused(
            "name_to_handle_at",
            [303, 264, 264],
            Eperm,
            "makes handles for open_by_handle_at",
        ),
        Call::refused(
            "open_by_handle_at",
            [304, 265, 265],
            Eperm,
            "opens by inode, without a path",
        ),
        Call::refused("open_tree", [428, 428, 428], Eperm, "clones a mount tree"),
        Call::refused(
            "open_tree_attr",
            [467, 467, 467],
            Eperm,
            "clones a mount tree with other attributes",
        ),
        Call::refused(
            "pivot_root",
            [155, 41, 41],
            Eperm,
            "changes the root of the mount namespace",
        ),
        Call::refused("quotactl", [179, 60, 60], Eperm, "changes quotas"),
        Call::refused("quotactl_fd", [443, 443, 443], Eperm, "changes quotas"),
        Call::refused(
            "swapoff",
            [168, 225, 225],
            Eperm,
            "takes swap away from the host",
        ),
        Call::refused(
            "swapon",
            [167, 224, 224],
            Eperm,
            "gives a file to the host as swap",
        ),
        Call::refused("umount2", [166, 39, 39], Eperm, "unmounts"),
    ],
};

const FILE_ATTRIBUTES: Group = Group {
    name: "file attributes",
    reason: "Inode flags by path: no Landlock right covers them",
    calls: &[Call::refused(
        "file_setattr",
        [469, 469, 469],
        Eperm,
        "sets inode flags and project ids by path on any file of the same owner",
    )],
};

const PROCESSES: Group = Group {
    name: "processes",
    reason: "Other processes: same user is all that the kernel asks for",
    calls: &[
        Call::refused(
            "kcmp",
            [312, 272, 272],
            Eperm,
            "compares kernel objects of other processes",
        ),
        Call::refused(
            "migrate_pages",
            [256, 238, 238],
            Eperm,
            "moves the memory of another process",
        ),
        Call::refused(
            "move_pages",
            [279, 239, 239],
            Eperm,
            "moves the memory of another process",
        ),
        Call::refused(
            "pidfd_getfd",
            [438, 438, 438],
            Eperm,
            "takes a descriptor out of another process",
        ),
        Call::refused(
            "process_madvise",
            [440, 440, 440],
            Eperm,
            "advises on the memory of another process",
        ),
        Call::refused(
            "process_mrelease",
            [448, 448, 448],
            Eperm,
            "reaps the memory of a dying process",
        ),
        Call::refused(
            "process_vm_readv",
            [310, 270, 270],
            Eperm,
            "reads the memory of another process",
        ),
        Call::refused(
            "process_vm_writev",
            [311, 271, 271],
            Eperm,
            "writes the memory of another process",
        ),
        Call::refused("ptrace", [101, 117, 117], Eperm, "controls another process"),
    ],
};

const LOCAL_IPC: Group = Group {
    name: "local ipc",
    reason: "SysV IPC and POSIX message queues: local IPC with anyone of the same user",
    calls: &[
        Call::refused(
            "mq_getsetattr",
            [245, 185, 185],
            Eperm,
            "POSIX message queues",
        ),
        Call::refused("mq_notify", [244, 184, 184], Eperm, "POSIX message queues"),
        Call::refused("mq_open", [240, 180, 180], Eperm, "POSIX message queues"),
        Call::refused(
            "mq_timedreceive",
            [243, 183, 183],
            Eperm,
            "POSIX message queues",
        ),
        Call::refused(
            "mq_timedsend",
            [242, 182, 182],
            Eperm,
            "POSIX message queues",
        ),
        Call::refused("mq_unlink", [241, 181, 181], Eperm, "POSIX message queues"),
        Call::refused("msgctl", [71, 187, 187], Eperm, "SysV messages"),
        Call::refused("msgget", [68, 186, 186], Eperm, "SysV messages"),
        Call::refused("msgrcv", [70, 188, 188], Eperm, "SysV messages"),
        Call::refused("msgsnd", [69, 189, 189], Eperm, "SysV messages"),
        Call::refused("semctl", [66, 191, 191], Eperm, "SysV semaphores"),
        Call::refused("semget", [64, 190, 190], Eperm, "SysV semaphores"),
        Call::refused("semop", [65, 193, 193], Eperm, "SysV semaphores"),
        Call::refused("semtimedop", [220, 192, 192], Eperm, "SysV semaphores"),
        Call::refused("shmat", [30, 196, 196], Eperm, "SysV shared memory"),
        Call::refused("shmctl", [31, 195, 195], Eperm, "SysV shared memory"),
        Call::refused("shmdt", [67, 197, 197], Eperm, "SysV shared memory"),
        Call::refused("shmget", [29, 194, 194], Eperm, "SysV shared memory"),
    ],
};

const SOCKETS: Group = Group {
    name: "sockets",
    reason: "Sockets that wait for others",
    calls: &[Call::refused(
        "listen",
        [50, 201, 201],
        Eperm,
        "a module never listens",
    )],
};

const HOST: Group = Group {
    name: "host",
    reason: "The host: clocks, names, logs, modules, hardware",
    calls: &[
        Call::refused("acct", [163, 89, 89], Eperm, "process accounting"),
        Call::refused("adjtimex", [159, 171, 171], Eperm, "the clock"),
        Call::refused("clock_adjtime", [305, 266, 266], Eperm, "the clock"),
        Call::refused("clock_settime", [227, 112, 112], Eperm, "the clock"),
        Call::refused(
            "create_module",
            [174, NONE, NONE],
            Eperm,
            "kernel modules (before Linux 2.6)",
        ),
        Call::refused("delete_module", [176, 106, 106], Eperm, "kernel modules"),
        Call::refused("finit_module", [313, 273, 273], Eperm, "kernel modules"),
        Call::refused(
            "get_kernel_syms",
            [177, NONE, NONE],
            Eperm,
            "kernel modules (before Linux 2.6)",
        ),
        Call::refused("init_module", [175, 105, 105], Eperm, "kernel modules"),
        Call::refused("ioperm", [173, NONE, NONE], Eperm, "I/O ports"),
        Call::refused("iopl", [172, NONE, NONE], Eperm, "I/O ports"),
        Call::refused(
            "kexec_file_load",
            [320, 294, 294],
            Eperm,
            "loads another kernel",
        ),
        Call::refused("kexec_load", [246, 104, 104], Eperm, "loads another kernel"),
        Call::refused(
            "query_module",
            [178, NONE, NONE],
            Eperm,
            "kernel modules (before Linux 2.6)",
        ),
        Call::refused("reboot", [169, 142, 142], Eperm, "stops the host"),
        Call::refused(
            "setdomainname",
            [171, 162, 162],
            Eperm,
            "the NIS domain name",
        ),
        Call::refused("sethostname", [170, 161, 161], Eperm, "the host name"),
        Call::refused("settimeofday", [164, 170, 170], Eperm, "the clock"),
        Call::refused("syslog", [103, 116, 116], Eperm, "the kernel log"),
        Call::refused("vhangup", [153, 58, 58], Eperm, "hangs up the terminal"),
    ],
};

const KERNEL: Group = Group {
    name: "kernel",
    reason: "Kernel doors with a history: programs, tracing, page faults, keys",
    calls: &[
        Call::refused("add_key", [248, 217, 217], Eperm, "keyrings"),
        Call::refused(
            "bpf",
            [321, 280, 280],
            Eperm,
            "loads programs into the kernel",
        ),
        Call::refused(
            "fanotify_init",
            [300, 262, 262],
            Eperm,
            "watches whole file systems",
        ),
        Call::refused(
            "fanotify_mark",
            [301, 263, 263],
            Eperm,
            "watches whole file systems",
        ),
        Call::refused("keyctl", [250, 219, 219], Eperm, "keyrings"),
        Call::refused(
            "lookup_dcookie",
            [212, 18, 18],
            Eperm,
            "profiling: paths by cookie",
        ),
        Call::refused(
            "lsm_set_self_attr",
            [460, 460, 460],
            Eperm,
            "changes the context of another security module, as writing /proc/self/attr would",
        ),
        Call::refused(
            "perf_event_open",
            [298, 241, 241],
            Eperm,
            "measures and traces the kernel and other processes",
        ),
        Call::refused("request_key", [249, 218, 218], Eperm, "keyrings"),
        Call::refused(
            "userfaultfd",
            [323, 282, 282],
            Eperm,
            "holds the kernel in a page fault",
        ),
    ],
};

const OBSOLETE: Group = Group {
    name: "obsolete",
    reason: "Numbers that no kernel with Landlock implements",
    calls: &[
        Call::refused(
            "_sysctl",
            [156, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "afs_syscall",
            [183, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "epoll_ctl_old",
            [214, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "epoll_wait_old",
            [215, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "getpmsg",
            [181, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "nfsservctl",
            [180, 42, 42],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "putpmsg",
            [182, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "security",
            [185, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "tuxcall",
            [184, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "uselib",
            [134, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
        Call::refused(
            "vserver",
            [236, NONE, NONE],
            Eperm,
            "not implemented by Linux",
        ),
    ],
};

/// The calls that are decided by their arguments, with what is allowed.
pub const CHECKED: &[Group] = &[Group {
    name: "checked arguments",
    reason: "Allowed or refused by arguments that the filter can read",
    calls: &[
        Call::checked(
            "clone",
            [56, 220, 220],
            Check::Clone,
            "no namespace flag and no CLONE_PARENT in the low half of the flags",
        ),
        Call::checked(
            "ioctl",
            [16, 29, 29],
            Check::Ioctl,
            "not what types into or takes the caller's terminal, changes inodes or directories opened for reading",
        ),
        Call::checked(
            "memfd_create",
            [319, 279, 279],
            Check::Memfd,
            "without exec_rw only with MFD_NOEXEC_SEAL: a written file must not be executed",
        ),
        Call::checked(
            "mknod",
            [133, NONE, NONE],
            Check::Mknod,
            "no character or block device",
        ),
        Call::checked(
            "mknodat",
            [259, 33, 33],
            Check::Mknodat,
            "no character or block device",
        ),
        Call::checked(
            "prlimit64",
            [302, 261, 261],
            Check::Prlimit,
            "only on oneself, or reading",
        ),
        Call::checked(
            "sendmmsg",
            [307, 269, 269],
            Check::Sendmmsg,
            "not MSG_FASTOPEN, which connects without the connect hook",
        ),
        Call::checked(
            "sendmsg",
            [46, 211, 211],
            Check::Sendmsg,
            "not MSG_FASTOPEN, which connects without the connect hook",
        ),
        Call::checked(
            "sendto",
            [44, 206, 206],
            Check::Sendto,
            "not MSG_FASTOPEN, which connects without the connect hook",
        ),
        Call::checked(
            "setsockopt",
            [54, 208, 208],
            Check::Setsockopt,
            "not TCP_ULP (another protocol past Landlock), no multicast groups",
        ),
        Call::checked(
            "socket",
            [41, 198, 198],
            Check::Socket,
            "unix with a broker; inet and inet6 streams of TCP with egress-allowlist",
        ),
        Call::checked(
            "socketpair",
            [53, 199, 199],
            Check::Socketpair,
            "unix, stream or seqpacket: a datagram pair may be re-addressed",
        ),
    ],
}];
