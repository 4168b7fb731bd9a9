//! Any accepted policy at every ABI gives only bits of that ABI, and the filter of its mode answers every call.
//!
//! The input is 64 bytes of `seccomp_data` (`include/uapi/linux/seccomp.h`), then a policy.

use linux_raw_sys::ptrace::sock_filter;
use oarbank_agent::landlock::abi::Abi;
use oarbank_agent::landlock::access::Grant;
use oarbank_agent::landlock::ruleset::{host_rules, list_grant, proxy_port};
use oarbank_agent::launch::mode;
use oarbank_agent::policy::{List, Listed, Net, Policy, reader};
use oarbank_agent::seccomp::{Architecture, Mode, assemble};

use crate::interpreter::{Data, run};

/// The bytes of a call before the policy.
pub const CALL: usize = 64;

/// Panics if a policy's rules or its filter are not what every policy's must be.
pub fn check(input: &[u8]) {
    let Some((call, text)) = input.split_first_chunk::<CALL>() else {
        return;
    };
    let mut space = vec![0; text.len()];
    let mut lists = Listed::new();
    let Ok(policy) = reader::read(text, &mut space, &mut lists) else {
        return;
    };
    for version in 3..=12 {
        let abi = Abi::of_kernel(version).expect("Landlock ABI 3 is enough");
        check_rules(&policy, abi, Bits::of(version.min(11)));
    }
    check_filters(mode(&policy), call);
}

/// What the kernel's header has at an ABI (`include/uapi/linux/landlock.h`).
struct Bits {
    fs: u64,
    net: u64,
    scoped: u64,
    attr_size: usize,
}

impl Bits {
    fn of(abi: u32) -> Self {
        let lowest = |count: u32| (1 << count) - 1;
        Bits {
            fs: lowest(match abi {
                3 | 4 => 15,
                5..9 => 16,
                _ => 17,
            }),
            net: lowest(match abi {
                3 => 0,
                4..10 => 2,
                _ => 4,
            }),
            scoped: lowest(if abi < 6 { 0 } else { 2 }),
            attr_size: match abi {
                3 => 8,
                4 | 5 => 16,
                _ => 24,
            },
        }
    }
}

const EXECUTE: u64 = 1;
/// What a rule on something else than a directory may have: execute, write, read, truncate, device ioctl, and
/// resolve for a socket.
const OF_A_FILE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15 | 1 << 16;
const RESOLVE_UNIX: u64 = 1 << 16;

fn check_rules(policy: &Policy<'_>, abi: Abi, bits: Bits) {
    let attr = abi.ruleset_attr();
    assert_eq!(attr.handled_access_fs, bits.fs, "{abi:?}");
    assert_eq!(attr.handled_access_net, bits.net, "{abi:?}");
    assert_eq!(attr.scoped, bits.scoped, "{abi:?}");
    assert_eq!(abi.attr_size(), bits.attr_size, "{abi:?}");

    let lists = policy.entries().map(|(list, _)| {
        let may_execute = list == List::Ro || (list == List::Rw && policy.exec_rw);
        (list_grant(list, policy.exec_rw), may_execute)
    });
    let host = host_rules(policy).map(|rule| (rule.grant, rule.grant == Grant::Program));
    let mut grants: Vec<(Grant, bool)> = lists.chain(host).collect();
    grants.extend(policy.exe().map(|_| (Grant::Program, true)));
    if policy.gpu {
        grants.extend([(Grant::Gpu, false), (Grant::Tasks, false)]);
    } else {
        assert!(!grants.contains(&(Grant::Gpu, false)), "{policy:?}");
    }
    for (grant, may_execute) in grants {
        let (rights, file_rights) = (grant.rights(abi), grant.file_rights(abi));
        // The kernel refuses a rule without rights (ENOMSG) and one with a right that is not handled (EINVAL).
        assert_ne!(file_rights, 0, "{grant:?} at {abi:?}");
        assert_eq!(rights & !bits.fs, 0, "{grant:?} at {abi:?}");
        assert_eq!(file_rights, rights & OF_A_FILE, "{grant:?} at {abi:?}");
        assert_eq!(rights & EXECUTE != 0, may_execute, "{grant:?} at {abi:?}");
        assert_eq!(rights & RESOLVE_UNIX, 0, "{grant:?} at {abi:?}");
    }
    assert_eq!(Grant::Broker.rights(abi), bits.fs & RESOLVE_UNIX);
    assert_eq!(Grant::Broker.file_rights(abi), bits.fs & RESOLVE_UNIX);

    match (proxy_port(policy, abi), policy.net) {
        (Ok(None), Net::None) => {}
        (Ok(Some(port)), Net::Proxy(expected)) => {
            assert_eq!(port, expected.get());
            assert_ne!(bits.net & 2, 0, "{abi:?} has no right to connect");
        }
        (Err(_), Net::Proxy(_)) => assert_eq!(bits.net, 0, "{abi:?} could hold it"),
        (other, net) => panic!("{other:?} for {net:?}"),
    }
}

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const EACCES: u32 = 0x0005_000d;
const ENOSYS: u32 = 0x0005_0026;

fn check_filters(mode: Mode, call: &[u8; CALL]) {
    let word = |at: usize| u32::from_ne_bytes(call[at..at + 4].try_into().expect("four bytes"));
    let given = Data {
        nr: word(0),
        arch: word(4),
        args: std::array::from_fn(|argument| {
            let at = 16 + 8 * argument;
            u64::from_ne_bytes(call[at..at + 8].try_into().expect("eight bytes"))
        }),
    };
    for architecture in Architecture::ALL {
        let assembled = assemble(architecture, mode);
        let program = assembled.as_slice();
        loads(program);
        let arch = architecture.audit_arch();
        // As given, and so that something is reached.
        check_call(program, architecture, given);
        check_call(program, architecture, Data { arch, ..given });
        let nr = given.nr % 600;
        check_call(program, architecture, Data { arch, nr, ..given });
    }
}

/// The kernel takes the program (`bpf_check_classic`, `seccomp_check_filter`).
fn loads(program: &[sock_filter]) {
    assert!((1..=4096).contains(&program.len()));
    assert_eq!(program.last().map(|last| last.code), Some(0x06));
    for (at, instruction) in program.iter().enumerate() {
        let after = program.len() - at - 1;
        let (taken, not_taken) = match instruction.code {
            0x05 => (instruction.k as usize, 0),
            0x15 | 0x35 | 0x45 => (instruction.jt.into(), instruction.jf.into()),
            0x20 => {
                assert!(instruction.k < 64 && instruction.k.is_multiple_of(4));
                continue;
            }
            0x06 | 0x54 => continue,
            other => panic!("an instruction of another kind: {other:#x}"),
        };
        assert!(taken.max(not_taken) < after, "a jump out at {at}");
    }
}

fn check_call(program: &[sock_filter], architecture: Architecture, call: Data) {
    let answer = |call: &Data| {
        run(program, call, |_| {}).unwrap_or_else(|fault| {
            panic!("{fault:?} on {call:?}");
        })
    };
    let outcome = answer(&call);
    let known = [ALLOW, KILL, EPERM, EACCES, ENOSYS].contains(&outcome.answer);
    assert!(known, "{outcome:?} on {call:?}");
    let other = call.arch != architecture.audit_arch();
    assert_eq!(outcome.answer == KILL, other, "{outcome:?} on {call:?}");
    if other {
        return;
    }
    if architecture == Architecture::X86_64 && call.nr >= 0x4000_0000 {
        assert_eq!(outcome.answer, EPERM, "x32: {call:?}");
    } else if call.nr >= 470 {
        assert_eq!(outcome.answer, ENOSYS, "{call:?}");
    }
    // What is answered by number alone is answered so whatever the arguments.
    let args = call.args.map(|argument| !argument);
    if outcome.by_number {
        assert_eq!(answer(&Data { args, ..call }), outcome, "{call:?}");
    }
}
