//! Landlock ABIs that this kernel is newer than, among them those that no kernel of a distribution has (1, 3, 4, 5).

mod support;

use std::net::{Ipv4Addr, TcpListener};

use support::other_abi::{Answer, Call, with_abi};
use support::{Policy, Scene, as_each, as_root, landlock_abi, skip};

/// The test as on a kernel of each of these ABIs; nothing that is passed to the kernel may be above.
fn on_each(abis: std::ops::RangeInclusive<u32>, test: impl Fn(u32, &Scene) + Sync) {
    for abi in abis {
        if landlock_abi() < abi.into() {
            skip(&format!("this kernel is older than Landlock ABI {abi}"));
            continue;
        }
        let calls = with_abi(Ok(abi), || as_each(|scene| test(abi, scene)));
        let refused = calls.iter().find(|call| matches!(call, Call::Refused(..)));
        assert_eq!(refused, None, "ABI {abi}");
    }
}

/// The control of all others: a right that an ABI lacks would be seen.
#[test]
fn what_an_abi_lacks_is_refused() {
    let attr = [1_u64, 3, 3];
    for (abi, size, errno) in [
        (3, 8, None),
        (3, 16, Some(libc::E2BIG)),
        (5, 16, None),
        (5, 24, Some(libc::E2BIG)),
        (6, 24, None),
    ] {
        let calls = with_abi(Ok(abi), || {
            // SAFETY: attributes of this size, which outlive the call; the descriptor that it may return is closed.
            unsafe {
                let ruleset = libc::SYS_landlock_create_ruleset;
                let made = libc::syscall(ruleset, attr.as_ptr(), size as usize, 0);
                let error = std::io::Error::last_os_error().raw_os_error();
                assert_eq!(error.filter(|_| made < 0), errno, "ABI {abi}, {size} bytes");
                libc::close(made as i32);
            }
        });
        let is_refused = matches!(calls.as_slice(), [Call::Refused(..)]);
        assert_eq!(is_refused, errno.is_some(), "{calls:?}");
    }
}

/// Without Landlock, or with too little of it, everything that launches says so, and nothing runs.
#[test]
fn below_abi_3_nothing_runs() {
    let too_old = |abi| {
        format!("landlock: version: needs Landlock ABI 3 (Linux 6.2), this kernel has ABI {abi}\n")
    };
    let answers: [(Answer, String); 5] = [
        (Ok(0), too_old(0)),
        (Ok(1), too_old(1)),
        (Ok(2), too_old(2)),
        (
            Err(libc::ENOSYS),
            "landlock: version: ENOSYS (this kernel has no Landlock: Linux 6.2 or newer with CONFIG_SECURITY_LANDLOCK is needed)\n".to_owned(),
        ),
        (
            Err(libc::EOPNOTSUPP),
            "landlock: version: EOPNOTSUPP (built in but not enabled: boot with landlock in lsm=, see /sys/kernel/security/lsm)\n".to_owned(),
        ),
    ];
    for (answer, message) in answers {
        let calls = with_abi(answer, || {
            as_each(|scene| {
                let work = scene.dir("work");
                let ran = format!("{work}/ran");
                let policy = scene.policy_file(scene.policy().rw(&work).json());
                for command in ["sandbox-exec", "sandbox-run", "sandbox-check"] {
                    let words = [command, &policy, "--", scene.probe(), "mkdir", &ran];
                    let outcome = scene.launcher(&words).run();
                    let said = String::from_utf8_lossy(&outcome.err);
                    assert_eq!(outcome.code, Some(70), "{command}: {outcome:?}");
                    assert_eq!(said, format!("oarbank-agent: {message}"), "{command}");
                    assert!(!std::path::Path::new(&ran).exists(), "{command}: it ran");
                }
                let report = scene.launcher(&["sandbox-report"]).run();
                let text = String::from_utf8_lossy(&report.out);
                assert_eq!(report.code, Some(1), "{report:?}");
                assert!(text.contains("\"backend\":null"), "{text}");
                assert!(!text.contains(":\"enforced\""), "{text}");
            });
        });
        assert_eq!(calls, [], "{answer:?}");
    }
}

#[test]
fn from_abi_3_a_launch_confines() {
    on_each(3..=6, |abi, scene| {
        assert_eq!(landlock_abi(), abi.into());
        let (work, secret) = (scene.dir("work"), scene.file("secret", "contents"));
        let policy = scene.policy().rw(&work);
        scene.works(&policy, &format!("mkdir {work}/new then rmdir {work}/new"));
        scene.denied(&policy, &format!("read {secret}"), "EACCES");
        // The right that ABI 3 has brought: truncate, by its number.
        let truncate = format!("sys {} s:{secret} 0", libc::SYS_truncate);
        scene.contrast(&policy, &truncate, "ok", "EACCES");
    });
}

/// Every right, port and scope of the ABI is handled, and none is that it lacks.
#[test]
fn all_of_an_abi_is_handled_and_no_more() {
    for (abi, fs, net, scoped) in [(3, 15, 0, 0), (4, 15, 3, 0), (5, 16, 3, 0), (6, 16, 3, 3)] {
        if landlock_abi() < i64::from(abi) {
            skip(&format!("this kernel is older than Landlock ABI {abi}"));
            continue;
        }
        let fs = (1 << fs) - 1;
        let calls = with_abi(Ok(abi), || {
            let scene = Scene::new(support::Who::current());
            let policy = scene.policy_file(scene.policy().json());
            let words = [
                "sandbox-exec",
                &policy,
                "--",
                scene.probe(),
                "sys",
                "getpid",
            ];
            scene.launcher(&words).unforeseeable().run();
        });
        assert_eq!(
            calls.first(),
            Some(&Call::Ruleset { fs, net, scoped }),
            "ABI {abi}"
        );
        assert_eq!(calls.last(), Some(&Call::Restrict), "ABI {abi}");
    }
}

/// A grant that the ABI can't enforce is refused, with the ABI that could.
#[test]
fn egress_needs_abi_4() {
    on_each(3..=6, |abi, scene| {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let port = server.local_addr().expect("bound").port();
        let policy = scene.policy().proxy(port);
        let connect = |port| format!("sys socket 2 1 0 then sys connect $ in:127.0.0.1:{port} len");
        if abi < 4 {
            let found = format!("this kernel has ABI {abi}");
            let argv = ["/bin/echo", "ran"];
            let outcome = scene.confined(&policy, &argv).run();
            outcome.refused(
                70,
                "landlock",
                &["needs Landlock ABI 4 (Linux 6.7)", &found],
            );
        } else {
            scene.works(&policy, &connect(port));
            scene.contrast(&policy, &connect(1), "ok ECONNREFUSED", "ok EACCES");
        }
    });
}

/// A GPU is useless without device ioctl, so its nodes have that right where it is handled.
#[test]
fn a_gpu_has_device_ioctl_from_abi_5() {
    const NODE: &str = "/dev/nvidia-oarbank-abi-test";
    as_root(|_| {
        let node = std::process::Command::new("mknod")
            .args(["-m", "666", NODE, "c", "1", "3"])
            .status();
        assert!(node.expect("mknod").success());
        let tried = std::panic::catch_unwind(|| {
            on_each(3..=6, |abi, scene| {
                let ioctl =
                    |node| format!("sys openat -100 s:{node} 2 then sys ioctl $ 0x5401 buf:64");
                // The node is really `/dev/null`, which has no such ioctl.
                scene.contrast(
                    &scene.policy().gpu(),
                    &ioctl(NODE),
                    "ok ENOTTY",
                    "ok ENOTTY",
                );
                let other = if abi < 5 { "ok ENOTTY" } else { "ok EACCES" };
                scene.contrast(
                    &scene.policy().gpu(),
                    &ioctl("/dev/null"),
                    "ok ENOTTY",
                    other,
                );
            });
        });
        std::fs::remove_file(NODE).expect("own node");
        if let Err(failure) = tried {
            std::panic::resume_unwind(failure);
        }
    });
}

/// `sandbox-report` tries, and says what this ABI enforces: contract section 6.
#[test]
fn the_report_follows_the_abi() {
    on_each(3..=6, |abi, scene| {
        let outcome = scene.launcher(&["sandbox-report"]).run();
        let text = outcome.success();
        assert!(text.contains(&format!("\"landlock_abi\":{abi},")), "{text}");
        for (name, since) in [("filesystem", 3), ("net.egress-allowlist", 4), ("ipc", 6)] {
            let status = if abi < since {
                "unavailable"
            } else {
                "enforced"
            };
            assert!(text.contains(&format!("\"{name}\":\"{status}\"")), "{text}");
        }
    });
}

/// The broker's socket and, below ABI 6, scopes: a launch with every grant asks for nothing that the ABI lacks.
#[test]
fn every_grant_at_once() {
    on_each(4..=6, |_, scene| {
        let (work, outbox, input) = (scene.dir("work"), scene.dir("outbox"), scene.dir("input"));
        let broker = scene.path("broker");
        let _listener = std::os::unix::net::UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        let policy: Policy = scene.policy().rw(&work).exec_rw().wo(&outbox).rd(&input);
        let policy = policy.gpu().proxy(3128).broker(&broker);
        scene.works(
            &policy,
            &format!("sys socket 1 1 0 then sys connect $ un:{broker} len"),
        );
    });
}
