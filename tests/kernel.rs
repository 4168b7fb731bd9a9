//! What this very kernel has of Landlock decides whether anything runs.

mod support;

use std::fs;

use support::{as_each, landlock_abi};

/// Below ABI 3, and without Landlock, every command that launches refuses with the reason; nothing runs, and there is no
/// backend. From ABI 3 on the same commands work.
#[test]
fn a_kernel_without_enough_of_landlock_runs_nothing() {
    as_each(|scene| {
        let abi = landlock_abi();
        let errno = std::io::Error::last_os_error().raw_os_error();
        let message = match (abi, errno) {
            (3.., _) => None,
            (0.., _) => Some(format!(
                "needs Landlock ABI 3 (Linux 6.2), this kernel has ABI {abi}"
            )),
            (_, Some(libc::EOPNOTSUPP)) => Some("EOPNOTSUPP (".to_owned()),
            (_, errno) => {
                assert_eq!(errno, Some(libc::ENOSYS));
                Some("ENOSYS (this kernel has no Landlock: ".to_owned())
            }
        };
        let work = scene.dir("work");
        let ran = format!("{work}/ran");
        let policy = scene.policy().rw(&work);
        let policy = scene.policy_file(policy.json());
        let probe = scene.probe();
        for command in ["sandbox-exec", "sandbox-run", "sandbox-check"] {
            let _ = fs::remove_dir(&ran);
            let words = [command, &policy, "--", probe, "mkdir", &ran];
            let outcome = scene.launcher(&words).run();
            let does_run = message.is_none() && command != "sandbox-check";
            assert_eq!(fs::exists(&ran).expect("a path"), does_run, "{outcome:?}");
            match &message {
                None => assert_eq!(outcome.code, Some(0), "{outcome:?}"),
                Some(message) => {
                    let err = String::from_utf8_lossy(&outcome.err);
                    assert_eq!(outcome.code, Some(70), "{outcome:?}");
                    assert!(err.starts_with("oarbank-agent: landlock: "), "{err}");
                    assert!(err.contains(message.as_str()), "{err}");
                    assert_eq!(err.lines().count(), 1, "{err}");
                }
            }
        }
        let report = scene.launcher(&["sandbox-report", "--json"]).run();
        let text = String::from_utf8_lossy(&report.out);
        assert_eq!(report.code, Some(i32::from(message.is_some())), "{text}");
        assert_eq!(
            text.contains("\"backend\":null"),
            message.is_some(),
            "{text}"
        );
        assert_eq!(text.contains(":\"enforced\""), message.is_none(), "{text}");
    });
}
