//! The filter against the kernel: real calls, with arguments that do no harm.
//!
//! `tests/filter.rs` proves the program; here the kernel runs it.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use oarbank_agent::seccomp::Architecture;
use oarbank_agent::seccomp::call::{Answer, Verdict};
use oarbank_agent::seccomp::filter::calls;
use support::{Policy, Scene, as_each, as_root, assert_lines};

/// Bad numbers, descriptors and pointers, all at once.
const BAD: &str = "-1 -1 -1 -1 -1 -1";

/// Calls that are not tried, with the reason.
const NOT_TRIED: [(&str, &str); 10] = [
    (
        "rt_sigreturn",
        "restores registers from a frame that is not there",
    ),
    ("pause", "never returns"),
    ("fork", "the probe's other half would go on with the steps"),
    ("vfork", "as fork"),
    ("exit", "ends the probe"),
    ("restart_syscall", "returns whatever was interrupted"),
    ("exit_group", "ends the probe"),
    (
        "set_robust_list",
        "nothing to see, and the list is walked at the exit",
    ),
    (
        "uretprobe",
        "SIGILL when called by hand, and exempt from seccomp since Linux 6.14",
    ),
    ("uprobe", "as uretprobe"),
];

/// The number of `uprobe`, which the table does not know.
const UPROBE: usize = 336;

/// Allowed calls to which the kernel itself may answer as the filter would: here nothing can be told.
const OWN_REFUSALS: [(&str, &str); 7] = [
    ("futex", "ENOSYS: -1 is no operation"),
    ("get_thread_area", "ENOSYS: 32-bit programs only"),
    ("map_shadow_stack", "ENOSYS: not on every machine"),
    (
        "memfd_secret",
        "ENOSYS: where the kernel was started without",
    ),
    ("set_thread_area", "ENOSYS: 32-bit programs only"),
    ("setgroups", "EPERM: asks for a capability"),
    ("setsid", "EPERM: the probe leads its session"),
];

/// Refused calls to which the kernel answers EPERM itself, most before it looks at the arguments, when a user
/// makes them: the part as root is their control.
const PRIVILEGED: &str = "
    acct delete_module fanotify_init finit_module fsmount fsopen fspick init_module kexec_file_load kexec_load
    move_mount open_by_handle_at pivot_root reboot setdomainname sethostname swapoff syslog";

/// Calls that the filter refuses for an argument, with arguments that fail in the kernel or do no harm: the
/// answer outside, the answer inside of a policy that grants nothing.
const CHECKED: &[(&str, &str, &str)] = &[
    // Each flag that clone is refused, beside CLONE_SIGHAND, which alone is invalid; then a child.
    ("sys clone 0x880", "EINVAL", "EPERM"),
    ("sys clone 0x8800", "EINVAL", "EPERM"),
    ("sys clone 0x20800", "EINVAL", "EPERM"),
    ("sys clone 0x2000800", "EINVAL", "EPERM"),
    ("sys clone 0x4000800", "EINVAL", "EPERM"),
    ("sys clone 0x8000800", "EINVAL", "EPERM"),
    ("sys clone 0x10000800", "EINVAL", "EPERM"),
    ("sys clone 0x20000800", "EINVAL", "EPERM"),
    ("sys clone 0x40000800", "EINVAL", "EPERM"),
    ("sys clone hi:0x40000800", "EINVAL", "EPERM"),
    ("sys clone 0x800", "EINVAL", "EINVAL"),
    ("sys clone 17", "ok", "ok"),
    ("sys ioctl -1 0x5412", "EBADF", "EPERM"),
    ("sys ioctl -1 hi:0x5412", "EBADF", "EPERM"),
    ("sys ioctl -1 0x541c", "EBADF", "EPERM"),
    ("sys ioctl -1 0x5423", "EBADF", "EPERM"),
    ("sys ioctl -1 0x40086602", "EBADF", "EPERM"),
    ("sys ioctl -1 0x40049409", "EBADF", "EBADF"),
    ("sys ioctl -1 0x5413", "EBADF", "EBADF"),
    ("sys memfd_create -1 0", "EFAULT", "EACCES"),
    ("sys memfd_create -1 hi:0", "EFAULT", "EACCES"),
    ("sys memfd_create -1 8", "EFAULT", "EFAULT"),
    ("sys mknodat -1 -1 0x2000", "EFAULT", "EPERM"),
    ("sys mknodat -1 -1 hi:0x61ff", "EFAULT", "EPERM"),
    ("sys mknodat -1 -1 0x1000", "EFAULT", "EFAULT"),
    ("sys prlimit64 0x3ffffff0 7 -1 0", "EFAULT", "EPERM"),
    (
        "sys prlimit64 0x3ffffff0 7 0x100000000 0",
        "EFAULT",
        "EPERM",
    ),
    ("sys prlimit64 0x3ffffff0 7 0 0", "ESRCH", "ESRCH"),
    ("sys prlimit64 0 7 -1 0", "EFAULT", "EFAULT"),
    ("sys sendto -1 0 0 0x20000000", "EBADF", "EPERM"),
    ("sys sendto -1 0 0 0x4000", "EBADF", "EBADF"),
    ("sys sendmsg -1 0 hi:0x20004000", "EBADF", "EPERM"),
    ("sys sendmsg -1 0 0x4000", "EBADF", "EBADF"),
    ("sys sendmmsg -1 0 0 0x20000000", "EBADF", "EPERM"),
    ("sys sendmmsg -1 0 0 0", "EBADF", "EBADF"),
    ("sys setsockopt -1 6 31", "EBADF", "EPERM"),
    ("sys setsockopt -1 hi:6 hi:31", "EBADF", "EPERM"),
    ("sys setsockopt -1 6 1", "EBADF|EINVAL", "EBADF|EINVAL"),
    ("sys socket 46 1 0", "EAFNOSUPPORT", "EPERM"),
    ("sys socket 2 16 0", "EINVAL", "EPERM"),
    ("sys socket hi:1 1 0", "ok", "EPERM"),
    ("sys socket 2 1 0", "ok", "EPERM"),
    ("sys socket hi:2 hi:0x80801 hi:6", "ok", "EPERM"),
    ("sys socketpair 1 2 0 -1", "EFAULT", "EPERM"),
    ("sys socketpair 1 hi:3 0 -1", "EFAULT", "EPERM"),
    ("sys socketpair hi:1 hi:0x80801 0 -1", "EFAULT", "EFAULT"),
    ("sys socketpair 1 5 0 -1", "EFAULT", "EFAULT"),
];

/// What is refused whatever the arguments, by name with the answer.
fn refused() -> BTreeMap<usize, (&'static str, &'static str)> {
    calls()
        .filter_map(|call| {
            let answer = match call.verdict {
                Verdict::Refuse(Answer::Eperm) => "EPERM",
                Verdict::Refuse(Answer::Enosys) => "ENOSYS",
                Verdict::Refuse(Answer::Eacces) => "EACCES",
                _ => return None,
            };
            Some((call.number(Architecture::NATIVE)?, (call.name, answer)))
        })
        .collect()
}

fn steps(numbers: &[usize], words: impl Fn(usize) -> &'static str) -> String {
    let steps: Vec<String> = numbers
        .iter()
        .map(|&number| format!("sys {number} {}", words(number)))
        .collect();
    steps.join(" then ")
}

#[test]
fn every_number_is_answered_as_the_table_says() {
    let known: BTreeMap<usize, &str> = calls()
        .filter_map(|call| Some((call.number(Architecture::NATIVE)?, call.name)))
        .collect();
    let refused = refused();
    let allowed: BTreeSet<&str> = calls()
        .filter(|call| call.verdict == Verdict::Allow)
        .map(|call| call.name)
        .collect();
    let is_tried = |number: &usize| {
        let name = known.get(number).copied().unwrap_or_default();
        let uprobe = cfg!(target_arch = "x86_64") && *number == UPROBE;
        !uprobe && !NOT_TRIED.iter().any(|row| row.0 == name)
    };
    let numbers: Vec<usize> = (0..=1000).filter(is_tried).collect();
    as_each(|scene| {
        let mut compared = 0;
        // A few at a time: what one call did to the process is gone for the next ones.
        for numbers in numbers.chunks(20) {
            let answers = scene.inside(&scene.policy(), &steps(numbers, |_| BAD));
            assert_eq!(answers.len(), numbers.len(), "{numbers:?}: {answers:?}");
            for (number, answer) in numbers.iter().zip(answers) {
                match (refused.get(number), known.get(number)) {
                    (Some((name, expected)), _) => assert_eq!(&answer, expected, "{number} {name}"),
                    (None, None) => assert_eq!(answer, "ENOSYS", "{number}"),
                    (None, Some(name)) => {
                        // The kernel's own answer, which may be anything; what could be the filter's is looked at.
                        let own = OWN_REFUSALS.iter().any(|row| row.0 == *name);
                        if allowed.contains(name) && !own {
                            let ours = ["EPERM", "EACCES", "ENOSYS"].contains(&answer.as_str());
                            // Outside of the filter it is the kernel that lacks the call.
                            let lacks = || scene.outside(&steps(&[*number], |_| BAD)) == ["ENOSYS"];
                            let kernels = answer == "ENOSYS" && lacks();
                            assert!(!ours || kernels, "{number} {name}, allowed: {answer}");
                        }
                        continue;
                    }
                }
                compared += 1;
            }
        }
        assert!(compared > 700, "{compared}");
    });
}

#[test]
fn every_refused_call_is_one_that_the_kernel_would_answer_otherwise() {
    // What is done at once, without arguments to get wrong, and what -1 would make.
    let all = refused();
    let words = |number: usize| match all[&number].0 {
        "msgget" => "0x7fffff01 0", // -1 has IPC_CREAT
        _ => BAD,
    };
    let tried = |refused: &BTreeMap<usize, (&str, &'static str)>| -> Vec<usize> {
        refused
            .iter()
            .filter(|(_, (name, answer))| *name != "vhangup" && *answer == "EPERM")
            .map(|(n, _)| *n)
            .collect()
    };
    // As root: a user gets EPERM from the kernel for many of them.
    as_root(|scene: &Scene| {
        let refused = refused();
        let numbers = tried(&refused);
        assert!(numbers.len() > 70, "{numbers:?}");
        for numbers in numbers.chunks(20) {
            let outside = scene.outside(&steps(numbers, words));
            let inside = scene.inside(&scene.policy(), &steps(numbers, words));
            for ((number, outside), inside) in numbers.iter().zip(&outside).zip(&inside) {
                let name = refused[number].0;
                assert_ne!(outside, "EPERM", "{name}: the control is refused too");
                assert!(!outside.starts_with("ok"), "{name}: {outside}");
                assert_eq!(inside, "EPERM", "{name}, outside {outside}");
            }
        }
    });
}

#[test]
fn a_user_is_refused_too() {
    as_each(|scene| {
        let refused = refused();
        let step = |number: &usize, name: &str| {
            let words = match name {
                "msgget" => "0x7fffff01 0",
                _ => BAD,
            };
            format!("sys {number} {words}")
        };
        // vhangup has no argument to get wrong: only inside.
        let outside: Vec<_> = refused
            .iter()
            .filter(|(_, (name, _))| *name != "vhangup")
            .collect();
        let steps: Vec<String> = outside
            .iter()
            .map(|(number, (name, _))| step(number, name))
            .collect();
        let lines = scene.outside(&steps.join(" then "));
        assert_eq!(lines.len(), outside.len());
        for (line, (_, (name, _))) in lines.into_iter().zip(outside) {
            let own = !scene.who.is_root() && PRIVILEGED.split_whitespace().any(|one| one == *name);
            // ENOSYS of a call that is refused so, and of one that this kernel lacks, says nothing apart.
            let patterns = if own { "!ok" } else { "!EPERM|ok" };
            assert_lines(&[line], patterns, &format!("{} {name}, outside", scene.who));
        }
        let steps: Vec<String> = refused
            .iter()
            .map(|(number, (name, _))| step(number, name))
            .collect();
        let lines = scene.inside(&scene.policy(), &steps.join(" then "));
        assert_eq!(lines.len(), refused.len());
        for (line, (name, expected)) in lines.into_iter().zip(refused.values()) {
            assert_lines(&[line], expected, &format!("{} {name}", scene.who));
        }
    });
}

#[test]
fn checked_arguments_decide() {
    as_each(|scene| {
        let steps: Vec<&str> = CHECKED.iter().map(|row| row.0).collect();
        let steps = steps.join(" then ");
        let policy: Policy = scene.policy();
        for (lines, inside) in [
            (scene.outside(&steps), false),
            (scene.inside(&policy, &steps), true),
        ] {
            assert_eq!(lines.len(), CHECKED.len());
            for (line, row) in lines.into_iter().zip(CHECKED) {
                let (step, pattern) = (row.0, if inside { row.2 } else { row.1 });
                assert_lines(
                    &[line],
                    pattern,
                    &format!("{}, inside: {inside}: {step}", scene.who),
                );
            }
        }
    });
}
