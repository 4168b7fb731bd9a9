//! The filter against an independent statement of its rules, on every architecture and in every mode.
//!
//! What is refused is written down here once more, from the contract and by name; the numbers come from
//! linux-raw-sys's own files. The library's table is used by no expectation.

mod interpreter;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use interpreter::{Data, Fault, check, run};
use linux_raw_sys::ptrace::sock_filter;
use oarbank_agent::bpf::Listing;
use oarbank_agent::seccomp::call::Verdict;
use oarbank_agent::seccomp::filter::{MODES, TABLES, calls, program};
use oarbank_agent::seccomp::{Architecture, Mode, assemble};

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const EACCES: u32 = 0x0005_000d;
const ENOSYS: u32 = 0x0005_0026;

/// Refused whatever the arguments.
const REFUSED: &str = "
    io_uring_enter io_uring_register io_uring_setup
    unshare setns
    fsopen fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr mount umount2 pivot_root chroot
    swapon swapoff quotactl quotactl_fd name_to_handle_at open_by_handle_at
    file_setattr
    pidfd_getfd kcmp process_madvise process_mrelease process_vm_readv process_vm_writev ptrace migrate_pages move_pages
    shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    listen
    adjtimex clock_adjtime clock_settime settimeofday sethostname setdomainname syslog reboot vhangup acct iopl ioperm
    kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms
    bpf perf_event_open userfaultfd fanotify_init fanotify_mark lookup_dcookie lsm_set_self_attr
    add_key request_key keyctl
    _sysctl afs_syscall epoll_ctl_old epoll_wait_old getpmsg nfsservctl putpmsg security tuxcall uselib vserver";

/// As if the kernel did not have it.
const ABSENT: &str = "clone3";

/// Allowed whatever the arguments. A call that is in no list has not been judged and fails the proof.
const ALLOWED: &str = "
    access cachestat chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
    faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
    file_getattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents
    getdents64 getxattr getxattrat lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr
    lseek lsetxattr lstat mkdir mkdirat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev
    pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename renameat renameat2 rmdir
    sendfile setxattr setxattrat splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee
    truncate umask unlink unlinkat ustat utime utimensat utimes vmsplice write writev
    listmount statmount sysfs
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup
    io_submit pipe pipe2 poll ppoll pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime
    timerfd_settime
    brk get_mempolicy madvise map_shadow_stack mbind membarrier memfd_secret mincore mlock mlock2 mlockall mmap
    mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
    riscv_flush_icache set_mempolicy set_mempolicy_home_node
    arch_prctl execve execveat exit exit_group fork get_robust_list get_thread_area getpgid getpgrp getpid
    getppid getsid gettid modify_ldt personality pidfd_open prctl restart_syscall rseq set_robust_list
    set_thread_area set_tid_address setpgid setsid uretprobe vfork wait4 waitid
    futex futex_requeue futex_wait futex_waitv futex_wake
    alarm kill pause pidfd_send_signal rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
    rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack tgkill tkill
    getpriority getrlimit getrusage ioprio_get ioprio_set sched_get_priority_max sched_get_priority_min
    sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
    sched_setattr sched_setparam sched_setscheduler sched_yield setpriority setrlimit
    clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time timer_create
    timer_delete timer_getoverrun timer_gettime timer_settime times
    accept accept4 bind connect getpeername getsockname getsockopt recvfrom recvmmsg recvmsg shutdown
    capget capset getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid setfsuid setgid setgroups
    setregid setresgid setresuid setreuid setuid
    landlock_add_rule landlock_create_ruleset landlock_restrict_self lsm_get_self_attr lsm_list_modules seccomp
    getcpu getrandom riscv_hwprobe sysinfo uname";

/// The answer to a call that has one whatever its arguments, if its name is in a list above.
fn by_name(name: &str) -> Option<u32> {
    let is = |list: &str| list.split_whitespace().any(|other| other == name);
    match (is(REFUSED), is(ABSENT), is(ALLOWED)) {
        (true, false, false) => Some(EPERM),
        (false, true, false) => Some(ENOSYS),
        (false, false, true) => Some(ALLOW),
        (false, false, false) => None,
        _ => panic!("{name} is in two lists"),
    }
}

/// The answer to a call that is in no list.
fn by_arguments(name: &str, mode: Mode, args: &[u64; 6]) -> u32 {
    let low = |argument: usize| args[argument] as u32;
    let unless = |refused: bool| if refused { EPERM } else { ALLOW };
    match name {
        "socket" => {
            let (kind, protocol) = (low(1) % 16, low(2));
            unless(!match low(0) {
                1 => mode.broker && [1, 2, 5].contains(&kind),
                2 | 10 => mode.tcp && kind == 1 && [0, 6].contains(&protocol),
                _ => false,
            })
        }
        "socketpair" => unless(low(0) != 1 || ![1, 5].contains(&(low(1) % 16))),
        // CLONE_PARENT, and the eight namespace flags: time, mount, cgroup, uts, ipc, user, pid, net.
        "clone" => {
            let flags = [7, 15, 17, 25, 26, 27, 28, 29, 30];
            unless(flags.iter().any(|bit| low(0) >> bit & 1 == 1))
        }
        // The terminal; inode flags, verity, encryption and FAT attributes; btrfs and bcachefs, but for clones.
        "ioctl" => unless(match low(1) {
            0x5412 | 0x541c | 0x5423 => true,
            0x4008_6602 | 0x4004_6602 | 0x401c_5820 | 0x4080_6685 | 0x4004_7211 | 0x4008_7602 => {
                true
            }
            0x800c_6613 | 0xc050_6617 | 0xc040_6618 | 0xc040_6619 => true,
            0x4004_9409 | 0x4020_940d | 0xc018_9436 => false,
            cmd => [0x94, 0xbc].contains(&(cmd >> 8 & 0xff)),
        }),
        "prlimit64" => unless(low(0) != 0 && args[2] != 0),
        "mknod" => unless([2, 6].contains(&(low(1) >> 12 & 15))),
        "mknodat" => unless([2, 6].contains(&(low(2) >> 12 & 15))),
        "memfd_create" if mode.exec_rw || low(1) & 8 != 0 => ALLOW,
        "memfd_create" => EACCES,
        "sendto" | "sendmmsg" => unless(low(3) >> 29 & 1 == 1),
        "sendmsg" => unless(low(2) >> 29 & 1 == 1),
        "setsockopt" => unless(match low(1) {
            0 => (35..=48).contains(&low(2)),
            6 => low(2) == 31,
            41 => [20, 27].contains(&low(2)) || (42..=48).contains(&low(2)),
            _ => false,
        }),
        _ => panic!("no rule says what becomes of {name}"),
    }
}

/// The `arch` of the architecture's calls, from `include/uapi/linux/audit.h`: 64 bit, little-endian, the ELF machine.
fn audit_arch(architecture: Architecture) -> u32 {
    0xc000_0000
        | match architecture {
            Architecture::X86_64 => 62,
            Architecture::Aarch64 => 183,
            Architecture::Riscv64 => 243,
        }
}

/// Name and number of every call of an architecture, from the files of the linux-raw-sys that is linked in.
fn numbers(architecture: Architecture) -> BTreeMap<u32, String> {
    let folder = match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::Aarch64 => "aarch64",
        Architecture::Riscv64 => "riscv64",
    };
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--offline",
            "--locked",
            // Without it cargo wants packages that only other systems need, and that nothing has fetched.
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo metadata runs");
    let text = String::from_utf8(metadata.stdout).expect("text");
    let manifest = text
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/linux-raw-sys-"))
        .expect("linux-raw-sys is a dependency");
    let file = PathBuf::from(manifest)
        .with_file_name("src")
        .join(folder)
        .join("general.rs");
    let constants =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let numbers: BTreeMap<u32, String> = constants
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pub const __NR_")?
                .strip_suffix(';')?
                .split_once(": u32 = ")
        })
        .map(|(name, number)| (number.parse().expect("a number"), name.to_owned()))
        .collect();
    assert!(numbers.len() > 300);
    numbers
}

/// Every architecture and mode with its filter and the numbers of its calls.
fn for_each_filter(
    mut test: impl FnMut(Architecture, Mode, &[sock_filter], &BTreeMap<u32, String>),
) {
    for architecture in Architecture::ALL {
        let numbers = numbers(architecture);
        for index in 0..MODES {
            let mode = Mode::from_index(index);
            test(
                architecture,
                mode,
                assemble(architecture, mode).as_slice(),
                &numbers,
            );
        }
    }
}

fn answer(program: &[sock_filter], data: &Data) -> u32 {
    run(program, data, |_| {})
        .expect("the program is total")
        .answer
}

/// A value with a clean and with a dirty high half.
fn halves(values: &[u32]) -> Vec<u64> {
    values
        .iter()
        .flat_map(|&low| [u64::from(low), u64::from(low) | 0xdead_beef_0000_0000])
        .collect()
}

/// Each bit alone, each beside the others, each with `beside`.
fn bits(beside: u32) -> Vec<u32> {
    let one = (0..32).map(|bit| 1_u32 << bit);
    one.flat_map(|bit| [bit, !bit, bit | beside])
        .chain([0, u32::MAX, beside])
        .collect()
}

/// Commands that the rules name.
const IOCTLS: [u32; 13] = [
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4080_6685,
    0x4004_7211,
    0x4008_7602,
    0x800c_6613,
    0xc050_6617,
    0xc040_6618,
    0xc040_6619,
    0x4004_9409,
    0x4020_940d,
    0xc018_9436,
];

/// The arguments to try for a call: all edges of those that the rules look at.
fn edges(name: &str) -> Vec<[u64; 6]> {
    let mut tried = vec![
        [0; 6],
        [u64::MAX; 6],
        [0xdead_beef_0000_0000; 6],
        [1; 6],
        [0xffff_ffff; 6],
    ];
    let mut vary = |position: usize, values: &[u64]| {
        for rest in [0, u64::MAX] {
            tried.extend(values.iter().map(|&value| {
                let mut args = [rest; 6];
                args[position] = value;
                args
            }));
        }
    };
    match name {
        "socket" | "socketpair" => {
            const PROTOCOLS: [u64; 11] = [0, 1, 5, 6, 7, 17, 132, 136, 255, 256, 262];
            let kinds = || {
                (0..16).flat_map(|kind| [0, 0x800, 0x8_0000, 0x8_0800].map(|flags| kind | flags))
            };
            for family in (0..=46).chain([0x101, 0x8000_0001, 0xffff_ffff]) {
                for kind in kinds() {
                    tried.extend(PROTOCOLS.map(|protocol| [family, kind, protocol, 0, 0, 0]));
                }
            }
            // Rubbish in the high halves, one at a time and all at once; a protocol that is TCP in its low bits.
            const DIRT: u64 = 0xdead_beef_0000_0000;
            for family in [1, 2, 10, 16] {
                for kind in kinds() {
                    for protocol in [0, 6, 262, 0x1_0006] {
                        tried.push([family | DIRT, kind, protocol, 0, 0, 0]);
                        tried.push([family, kind | DIRT, protocol, 0, 0, 0]);
                        tried.push([family, kind, protocol | DIRT, 0, 0, 0]);
                        tried.push([family | DIRT, kind | DIRT, protocol | DIRT, 0, 0, 0]);
                    }
                }
            }
        }
        "clone" => vary(0, &halves(&bits(17))),
        "ioctl" => {
            let named = IOCTLS
                .into_iter()
                .flat_map(|cmd| [cmd, cmd - 1, cmd + 1, cmd ^ 0x100, cmd ^ (1 << 31)]);
            let near = (0x5400..0x5500)
                .chain(bits(0x5412))
                .chain(bits(0x541c))
                .chain(named)
                .chain((0..=0xffff).step_by(0x33))
                .chain(
                    (0x9400..0x9500)
                        .chain(0xbc00..0xbd00)
                        .flat_map(|cmd| [cmd, cmd | 0x5000_0000]),
                );
            vary(1, &halves(&near.collect::<Vec<_>>()));
        }
        "prlimit64" => {
            let pointers = [
                0,
                1,
                0x1_0000_0000,
                0xffff_ffff,
                0xffff_ffff_0000_0000,
                u64::MAX,
            ];
            for pid in halves(&bits(0)) {
                tried.extend(pointers.map(|new| [pid, 7, new, 0, 0, 0]));
            }
        }
        "mknod" | "mknodat" => {
            let modes: Vec<u32> = (0..16)
                .flat_map(|kind| [0, 0o777, 0xffff_0000].map(|other| kind << 12 | other))
                .collect();
            vary(1, &halves(&modes));
            vary(2, &halves(&modes));
        }
        "memfd_create" => vary(1, &halves(&bits(8))),
        "sendto" | "sendmmsg" => vary(3, &halves(&bits(0x4000))),
        "sendmsg" => vary(2, &halves(&bits(0x4000))),
        "setsockopt" => {
            for level in halves(
                &(0..20)
                    .chain([41, 132, 255, 256, 262, 0x1_0006, 0x8000_0006])
                    .collect::<Vec<_>>(),
            ) {
                tried.extend(
                    halves(&(0..64).collect::<Vec<_>>())
                        .iter()
                        .map(|&option| [3, level, option, 0, 4, 0]),
                );
            }
        }
        _ => {}
    }
    tried
}

/// The arguments to try by name; those of a call that nobody knows stand under the empty name.
fn all_edges() -> BTreeMap<String, Vec<[u64; 6]>> {
    let names = Architecture::ALL
        .into_iter()
        .flat_map(|architecture| numbers(architecture).into_values());
    names
        .chain([String::new()])
        .map(|name| (name.clone(), edges(&name)))
        .collect()
}

#[test]
fn every_number_is_answered_by_the_rules() {
    let edges = all_edges();
    for_each_filter(|architecture, mode, program, numbers| {
        for nr in 0..=569 {
            let name = numbers.get(&nr).map_or("", String::as_str);
            let fixed = if name.is_empty() {
                Some(ENOSYS)
            } else {
                by_name(name)
            };
            for &args in &edges[name] {
                let data = Data {
                    nr,
                    arch: audit_arch(architecture),
                    args,
                };
                let expected = fixed.unwrap_or_else(|| by_arguments(name, mode, &args));
                assert_eq!(
                    answer(program, &data),
                    expected,
                    "{architecture:?} {mode:?} {name} {data:x?}"
                );
            }
        }
    });
}

#[test]
fn every_rule_is_about_a_call_that_exists() {
    let known: BTreeSet<String> = Architecture::ALL
        .into_iter()
        .flat_map(|a| numbers(a).into_values())
        .collect();
    for name in [REFUSED, ABSENT, ALLOWED]
        .into_iter()
        .flat_map(str::split_whitespace)
    {
        assert!(known.contains(name), "{name}");
    }
}

#[test]
fn other_call_tables_are_refused() {
    for_each_filter(|architecture, mode, program, _| {
        let x32 = if architecture == Architecture::X86_64 {
            EPERM
        } else {
            ENOSYS
        };
        for nr in (0..600).chain([0x3fff_ffff, 0x7fff_ffff]) {
            for args in [[0; 6], [1; 6], [u64::MAX; 6]] {
                let data = Data {
                    nr: nr | 0x4000_0000,
                    arch: audit_arch(architecture),
                    args,
                };
                assert_eq!(
                    answer(program, &data),
                    x32,
                    "{architecture:?} {mode:?} {data:x?}"
                );
            }
        }
        for (nr, expected) in [(0x3fff_ffff, ENOSYS), (0x8000_0000, x32), (u32::MAX, x32)] {
            let data = Data {
                nr,
                arch: audit_arch(architecture),
                args: [0; 6],
            };
            assert_eq!(answer(program, &data), expected, "{architecture:?} {nr:x}");
        }
        // i386, ARM, big-endian AArch64, s390x, RISC-V 32, none, and one bit off.
        let others = [
            0x4000_0003,
            0x4000_0028,
            0x8000_00b7,
            0x8000_0016,
            0x4000_00f3,
            0,
            u32::MAX,
        ];
        let others = others.into_iter().chain(Architecture::ALL.map(audit_arch));
        let near = (0..32).map(|bit| audit_arch(architecture) ^ 1 << bit);
        for arch in others
            .chain(near)
            .filter(|&arch| arch != audit_arch(architecture))
        {
            for nr in (0..600).chain([0x4000_0000, u32::MAX]) {
                let data = Data {
                    nr,
                    arch,
                    args: [0; 6],
                };
                assert_eq!(answer(program, &data), KILL, "{architecture:?} {data:x?}");
            }
        }
    });
}

#[test]
fn what_needs_no_argument_is_answered_by_the_number() {
    let edges = all_edges();
    for_each_filter(|architecture, mode, program, numbers| {
        for nr in 0..=569 {
            let name = numbers.get(&nr).map_or("", String::as_str);
            let data = Data {
                nr,
                arch: audit_arch(architecture),
                args: [0; 6],
            };
            let by_number = run(program, &data, |_| {}).expect("total").by_number;
            let fixed = name.is_empty() || by_name(name).is_some() || {
                let mut answers = edges[name]
                    .iter()
                    .map(|args| by_arguments(name, mode, args));
                let first = answers.next();
                answers.all(|answer| Some(answer) == first)
            };
            assert_eq!(by_number, fixed, "{architecture:?} {mode:?} {nr} {name}");
        }
    });
}

#[test]
fn the_programs_are_ones_that_the_kernel_takes_and_have_no_dead_code() {
    let edges = all_edges();
    for_each_filter(|architecture, mode, code, numbers| {
        assert_eq!(check(code), Ok(()), "{architecture:?} {mode:?}");
        let mut reached = vec![false; code.len()];
        for (nr, arch) in (0..=569)
            .chain([0x4000_0000])
            .map(|nr| (nr, audit_arch(architecture)))
            .chain([(0, 0)])
        {
            for &args in &edges[numbers.get(&nr).map_or("", String::as_str)] {
                run(code, &Data { nr, arch, args }, |at| reached[at] = true).expect("total");
            }
        }
        // EACCES is memfd_create's answer, which exec_rw leaves no use for.
        let dead: Vec<usize> = (0..code.len()).filter(|&at| !reached[at]).collect();
        assert_eq!(
            dead.len(),
            usize::from(mode.exec_rw),
            "{architecture:?} {mode:?}: {dead:?}"
        );
        assert!(dead.iter().all(|&at| code[at].k == EACCES));
    });
}

#[test]
fn the_table_has_every_call_once_in_order_and_with_a_reason() {
    for architecture in Architecture::ALL {
        let mut known = numbers(architecture);
        for call in calls() {
            if let Some(number) = call.number(architecture) {
                assert_eq!(
                    known.remove(&(number as u32)).as_deref(),
                    Some(call.name),
                    "{architecture:?}"
                );
            }
        }
        assert!(known.is_empty(), "{architecture:?}: {known:?}");
    }
    for group in TABLES.iter().flat_map(|table| table.iter()) {
        assert!(
            group.calls.is_sorted_by_key(|call| call.name),
            "{}",
            group.name
        );
        assert!(!group.reason.is_empty(), "{}", group.name);
        for call in group.calls {
            assert_eq!(
                call.reason.is_empty(),
                call.verdict == Verdict::Allow,
                "{}",
                call.name
            );
        }
    }
}

#[test]
fn what_is_installed_is_what_is_proved() {
    for index in 0..MODES {
        let mode = Mode::from_index(index);
        let assembled = assemble(Architecture::NATIVE, mode);
        let fields = |code: &[sock_filter]| -> Vec<_> {
            code.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect()
        };
        assert_eq!(fields(program(mode)), fields(assembled.as_slice()));
    }
}

/// The listing of a program.
fn listing(code: &[sock_filter], numbers: &BTreeMap<u32, String>) -> String {
    let name = |number: u32| numbers.get(&number).map(String::as_str);
    let listing = Listing::new(code, &name);
    listing.lines().map(|line| format!("{line}\n")).collect()
}

/// The program that a listing says: its lines read again, by its labels alone.
fn read_back(listing: &str) -> Vec<(u16, u8, u8, u32)> {
    let lines: Vec<(&str, &str)> = listing.lines().map(|line| line.split_at(14)).collect();
    let label = |name: &str| {
        let mut found = (0..lines.len()).filter(|&at| lines[at].0.trim_end() == format!("{name}:"));
        let at = found.next().unwrap_or_else(|| panic!("no label {name}"));
        assert_eq!(found.next(), None, "two labels {name}");
        at
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).expect("a number"),
        None => text.parse().expect("a number"),
    };
    let line = |(at, &(_, line)): (usize, &(&str, &str))| {
        let distance = |name: &str| match name {
            "next" => 0,
            name => label(name) - at - 1,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["A", "=", word] => {
                let offset = match word.split_once("(args[") {
                    None => u32::from(word == "arch") * 4,
                    Some((half, argument)) => {
                        16 + 8 * number(argument.trim_end_matches("])"))
                            + 4 * u32::from(half == "high")
                    }
                };
                (0x20, 0, 0, offset)
            }
            ["A", "&=", mask] => (0x54, 0, 0, number(mask)),
            ["goto", to] => (0x05, 0, 0, distance(to) as u32),
            ["return", answer] => {
                let answers = [
                    ("ALLOW", ALLOW),
                    ("KILL_PROCESS", KILL),
                    ("EPERM", EPERM),
                    ("EACCES", EACCES),
                    ("ENOSYS", ENOSYS),
                ];
                let answer = answers.iter().find(|(name, _)| *name == answer);
                (0x06, 0, 0, answer.expect("an answer").1)
            }
            ["if", "A", test, k, "goto", yes, "else", no, ..] => {
                let code = match test {
                    "==" => 0x15,
                    ">=" => 0x35,
                    "&" => 0x45,
                    other => panic!("{other}"),
                };
                (code, distance(yes) as u8, distance(no) as u8, number(k))
            }
            _ => panic!("{line}"),
        }
    };
    lines.iter().enumerate().map(line).collect()
}

#[test]
fn a_listing_says_the_program_and_where_each_check_is() {
    for_each_filter(|architecture, mode, code, numbers| {
        let listing = listing(code, numbers);
        let fields: Vec<_> = code.iter().map(|i| (i.code, i.jt, i.jf, i.k)).collect();
        assert_eq!(read_back(&listing), fields, "{architecture:?} {mode:?}");
        let lines: Vec<&str> = listing.lines().collect();
        // The label of the first load of an argument is the name of the call that comes there, of the first if several do.
        let mut labels = BTreeMap::new();
        for (&nr, name) in numbers {
            let mut first = None;
            let reached = |at: usize| {
                if code[at].code == 0x20 && code[at].k >= 16 {
                    first.get_or_insert(at);
                }
            };
            let arch = audit_arch(architecture);
            run(
                code,
                &Data {
                    nr,
                    arch,
                    args: [0; 6],
                },
                reached,
            )
            .expect("total");
            if let Some(at) = first {
                let (line, label) = (lines[at], labels.entry(at).or_insert(name));
                assert!(
                    line.starts_with(&format!("{label}: ")),
                    "{mode:?} {name}: {line}"
                );
            }
        }
        // A number that the search compares with stands beside its name.
        for (line, name) in lines.iter().filter_map(|line| line.split_once("   # ")) {
            let k = line
                .split_whitespace()
                .skip_while(|word| *word != "A")
                .nth(2);
            let k = k.and_then(|k| k.parse().ok()).expect("a number");
            assert_eq!(numbers[&k], name, "{line}");
        }
    });
}

#[test]
fn the_listings_are_the_golden_ones() {
    let numbers = numbers(Architecture::X86_64);
    for index in 0..MODES {
        let mode = Mode::from_index(index);
        let part = |set: bool, name: &'static str| if set { name } else { "" };
        let name = format!(
            "x86_64{}{}{}.txt",
            part(mode.tcp, "-tcp"),
            part(mode.broker, "-broker"),
            part(mode.exec_rw, "-exec_rw")
        );
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(&name);
        let now = listing(assemble(Architecture::X86_64, mode).as_slice(), &numbers);
        if std::env::var("OARBANK_BLESS").as_deref() == Ok("1") {
            fs::write(&file, &now).expect("a golden file");
        }
        let golden = fs::read_to_string(&file).unwrap_or_default();
        let differs = now
            .lines()
            .zip(golden.lines())
            .find(|(now, golden)| now != golden);
        assert!(
            now == golden,
            "{name} changed, first at {differs:?}. If the change is meant: OARBANK_BLESS=1 cargo test --test filter, and read the diff"
        );
    }
}

#[test]
fn the_interpreter_runs_hand_made_programs() {
    let i = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let data = Data {
        nr: 7,
        arch: 9,
        args: [0x1111_2222_3333_4444, 0, 0, 0, 0, 0x5555_6666_7777_8888],
    };
    let answer = |program: &[sock_filter]| {
        run(program, &data, |_| {}).map(|outcome| (outcome.answer, outcome.by_number))
    };
    assert_eq!(answer(&[i(6, 0, 0, 5)]), Ok((5, true)));
    // Loads, by comparing what was loaded.
    for (offset, value, by_number) in [
        (0, 7, true),
        (4, 9, true),
        (16, 0x3333_4444, false),
        (20, 0x1111_2222, false),
        (56, 0x7777_8888, false),
        (60, 0x5555_6666, false),
    ] {
        let program = [
            i(0x20, 0, 0, offset),
            i(0x15, 0, 1, value),
            i(6, 0, 0, 1),
            i(6, 0, 0, 2),
        ];
        assert_eq!(answer(&program), Ok((1, by_number)), "{offset}");
    }
    // Jumps: equal, at least, any bit; both sides, and over an instruction.
    for (code, k, taken) in [
        (0x15, 7, true),
        (0x15, 6, false),
        (0x35, 7, true),
        (0x35, 6, true),
        (0x35, 8, false),
        (0x45, 4, true),
        (0x45, 8, false),
        (0x45, 0xc, true),
    ] {
        let program = [
            i(0x20, 0, 0, 0),
            i(code, 1, 0, k),
            i(6, 0, 0, 2),
            i(6, 0, 0, 1),
        ];
        assert_eq!(
            answer(&program),
            Ok((if taken { 1 } else { 2 }, true)),
            "{code:x} {k}"
        );
    }
    assert_eq!(
        answer(&[
            i(0x20, 0, 0, 0),
            i(0x54, 0, 0, 3),
            i(0x15, 0, 1, 3),
            i(6, 0, 0, 1),
            i(6, 0, 0, 2)
        ]),
        Ok((1, true))
    );
    assert_eq!(
        answer(&[i(5, 0, 0, 1), i(6, 0, 0, 2), i(6, 0, 0, 1)]),
        Ok((1, true))
    );
    // What is no filter.
    assert_eq!(answer(&[]), Err(Fault::End));
    assert_eq!(answer(&[i(0x20, 0, 0, 0)]), Err(Fault::End));
    assert_eq!(answer(&[i(5, 0, 0, 9), i(6, 0, 0, 1)]), Err(Fault::End));
    assert_eq!(
        answer(&[i(0x20, 0, 0, 64), i(6, 0, 0, 1)]),
        Err(Fault::Load(64))
    );
    assert_eq!(
        answer(&[i(0x20, 0, 0, 18), i(6, 0, 0, 1)]),
        Err(Fault::Load(18))
    );
    assert_eq!(
        answer(&[i(0x07, 0, 0, 0), i(6, 0, 0, 1)]),
        Err(Fault::Unknown(7))
    );
    // Also where no run comes by.
    assert_eq!(check(&[i(6, 0, 0, 5)]), Ok(()));
    assert_eq!(check(&[]), Err(Fault::End));
    assert_eq!(check(&[i(0x20, 0, 0, 0)]), Err(Fault::End));
    assert_eq!(check(&vec![i(6, 0, 0, 1); 4096]), Ok(()));
    assert_eq!(check(&vec![i(6, 0, 0, 1); 4097]), Err(Fault::End));
    for (hidden, fault) in [
        (i(5, 0, 0, 1), Fault::End),
        (i(5, 0, 0, u32::MAX), Fault::End),
        (i(0x15, 1, 0, 0), Fault::End),
        (i(0x35, 0, 1, 0), Fault::End),
        (i(0x45, 255, 255, 0), Fault::End),
        (i(0x20, 0, 0, 2), Fault::Load(2)),
        (i(0x20, 0, 0, 64), Fault::Load(64)),
        (i(0x30, 0, 0, 0), Fault::Unknown(0x30)),
    ] {
        let program = [i(5, 0, 0, 1), hidden, i(6, 0, 0, 1)];
        assert_eq!(answer(&program), Ok((1, true)));
        assert_eq!(
            check(&program),
            Err(fault),
            "{:x} {}",
            hidden.code,
            hidden.k
        );
    }
}
