//! The filter against the kernel: real calls, with arguments that do no harm.
//!
//! `tests/filter.rs` proves the program; here the kernel runs it.

mod support;

use std::collections::BTreeMap;

use oarbank_agent::seccomp::Architecture;
use oarbank_agent::seccomp::call::{Answer, Verdict};
use oarbank_agent::seccomp::filter::TABLES;
use support::{Scene, as_each, as_root};

/// Bad numbers, descriptors and pointers, all at once.
const BAD: &str = "-1 -1 -1 -1 -1 -1";

/// Numbers that are not tried, with the reason.
const NOT_TRIED: [(u16, &str); 10] = [
    (
        15,
        "rt_sigreturn: restores registers from a frame that is not there",
    ),
    (34, "pause: never returns"),
    (
        57,
        "fork: the probe's other half would go on with the steps",
    ),
    (58, "vfork: as fork"),
    (60, "exit: ends the probe"),
    (219, "restart_syscall: returns whatever was interrupted"),
    (231, "exit_group: ends the probe"),
    (
        273,
        "set_robust_list: nothing to see, and the list is walked at the exit",
    ),
    (
        335,
        "uretprobe: SIGILL when called by hand, and exempt from seccomp since Linux 6.14",
    ),
    (336, "uprobe: as uretprobe"),
];

/// What is refused whatever the arguments, by name with the answer.
fn refused() -> BTreeMap<usize, (&'static str, &'static str)> {
    let calls = TABLES
        .iter()
        .flat_map(|table| table.iter())
        .flat_map(|group| group.calls);
    calls
        .filter_map(|call| {
            let answer = match call.verdict {
                Verdict::Refuse(Answer::Eperm) => "EPERM",
                Verdict::Refuse(Answer::Enosys) => "ENOSYS",
                Verdict::Refuse(Answer::Eacces) => "EACCES",
                _ => return None,
            };
            Some((call.number(Architecture::X86_64)?, (call.name, answer)))
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
    let known: BTreeMap<usize, &str> = TABLES
        .iter()
        .flat_map(|table| table.iter())
        .flat_map(|group| group.calls)
        .filter_map(|call| Some((call.number(Architecture::X86_64)?, call.name)))
        .collect();
    let refused = refused();
    let numbers: Vec<usize> = (0..=1000)
        .filter(|&number| !NOT_TRIED.iter().any(|&(not, _)| usize::from(not) == number))
        .collect();
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
                    // Allowed or decided by its arguments: the kernel's own answer, which may be anything.
                    (None, Some(_)) => continue,
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
    let words = |number: usize| match number {
        68 => "0x7fffff01 0", // msgget: -1 has IPC_CREAT
        _ => BAD,
    };
    let vhangup = 153;
    let tried = |refused: &BTreeMap<usize, (&str, &'static str)>| -> Vec<usize> {
        refused
            .iter()
            .filter(|(number, (_, answer))| **number != vhangup && *answer == "EPERM")
            .map(|(n, _)| *n)
            .collect()
    };
    // As root: a user gets EPERM from the kernel for many of them.
    as_root(|scene: &Scene| {
        let refused = refused();
        let numbers = tried(&refused);
        assert!(numbers.len() > 80, "{numbers:?}");
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
