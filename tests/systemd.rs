//! `sandbox-run` in units of a real systemd, as root, as a user and as a dynamic user: a guest of `cargo test --test kernels`
//! has one. Elsewhere these tests are skipped: they write units and start them.

mod support;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use support::{field, skip, wait_for};

/// Who runs a unit, by name with the lines that say so.
const USERS: [(&str, &str); 3] = [
    ("root", ""),
    ("user", "User=agent"),
    ("dynamic", "DynamicUser=yes"),
];

const DELEGATE: &str = "Delegate=yes";

/// Whether this is a guest with systemd, and says that the test is skipped if not.
fn systemd_is_here() -> bool {
    let here = Path::new("/run/systemd/system").exists() && support::is_emulated();
    if !here {
        skip("no guest with systemd");
    }
    here
}

/// A service in a folder of its own; ended and removed when dropped.
struct Unit {
    name: String,
    folder: String,
}

impl Unit {
    /// `script` is its program, a shell script: `$run` starts `sandbox-run` with its status told, `$policy` is the policy, which
    /// grants the folder `$folder`.
    fn new(name: &str, lines: &str, script: &str) -> Self {
        let folder = format!("/srv/{name}");
        let unit = Self {
            name: format!("{name}.service"),
            folder,
        };
        let folder = &unit.folder;
        fs::create_dir_all(folder).expect("own folder");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("own folder");
        let copied = Command::new("cp")
            .args([env!("CARGO_BIN_EXE_oarbank-agent"), folder])
            .status();
        assert!(copied.expect("cp").success());
        unit.write("policy", &format!("{{\"rw\":[\"{folder}\"]}}"));
        unit.write(
            "script",
            &format!(
                "folder={folder} policy={folder}/policy run='{folder}/oarbank-agent sandbox-run --status-fd 9'\n\
                 exec 9>>$folder/status 2>>$folder/errors\ncd $folder\n{script}\n"
            ),
        );
        let file = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=exec\nReadWritePaths={folder}\nExecStart=/bin/sh {folder}/script\n{lines}\n"
        );
        // Read when it is started: nobody knows a unit of this name yet.
        fs::write(unit.file(), file).expect("a unit");
        unit
    }

    fn file(&self) -> String {
        format!("/run/systemd/system/{}", self.name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = format!("{}/{name}", self.folder);
        fs::write(&path, text).expect("own folder");
        // Whoever the unit runs as.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("own file");
    }

    /// A file in its folder; empty, if it is not there.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(format!("{}/{name}", self.folder)).unwrap_or_default()
    }

    /// Its cgroup.
    fn cgroup(&self) -> String {
        format!("/sys/fs/cgroup/system.slice/{}", self.name)
    }

    fn start(&self) {
        systemctl(&["start", &self.name]);
    }

    /// Waits for its end, and returns its exit code.
    fn wait(&self) -> String {
        // First what costs nothing to ask: each question to systemd is one more program.
        wait_for("its cgroup is gone", || !Path::new(&self.cgroup()).exists());
        let code = Cell::default();
        wait_for("the unit has ended", || {
            let words = [
                "show",
                "-P",
                "ExecMainStatus",
                "-P",
                "ActiveState",
                &self.name,
            ];
            let shown = systemctl(&words);
            let mut lines = shown.lines();
            code.set(lines.next().expect("a code").to_owned());
            ["inactive", "failed"].contains(&lines.next().expect("a state"))
        });
        code.into_inner()
    }

    /// Runs it to its end and returns its exit code.
    fn run(&self) -> String {
        self.start();
        self.wait()
    }

    /// What went wrong may stand here.
    fn said(&self) -> String {
        format!(
            "{}: {}{}",
            self.name,
            self.read("status"),
            self.read("errors")
        )
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if Path::new(&self.cgroup()).exists() {
            systemctl(&["stop", &self.name]);
        }
        let _ = fs::remove_file(self.file());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn systemctl(words: &[&str]) -> String {
    let output = Command::new("systemctl").args(words).output();
    let output = output.expect("systemctl");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text} {errors}");
    text
}

#[test]
fn each_limit_holds_in_a_delegated_unit() {
    if !systemd_is_here() {
        return;
    }
    let hungry = "dd if=/dev/zero of=/dev/null bs=24M count=1";
    let forks = "for n in 1 2 3 4 5; do sleep 1000 & done; exit 5";
    let busy = "while :; do :; done";
    for (user, lines) in USERS {
        for (name, options, program, code, told) in [
            ("enough", "--memory-max=64M", hungry, "0", "\"oom\":false"),
            ("memory", "--memory-max=12M", hungry, "137", "\"oom\":true"),
            ("few", "--pids-max=6", forks, "5", "\"code\":5"),
            ("pids", "--pids-max=4", forks, "2", "\"code\":2"),
            (
                "cpu",
                "--cpu-max=0.1 --timeout=2 --grace=0",
                busy,
                "124",
                "\"timeout\":true",
            ),
        ] {
            let unit = Unit::new(
                &format!("{user}-{name}"),
                &format!("{DELEGATE}\n{lines}"),
                &format!("exec $run {options} $policy -- /bin/sh -c 'exec 2>/dev/null; {program}'"),
            );
            assert_eq!(unit.run(), code, "{}", unit.said());
            let status = unit.read("status");
            assert!(status.contains(told), "{}", unit.said());
            let leaf = format!("{}/oarbank-", unit.cgroup());
            assert!(
                field(&status, "cgroup").starts_with(&leaf),
                "{}",
                unit.said()
            );
            if name == "cpu" {
                let used: u64 = field(&status, "cpu_usec").parse().expect("a number");
                assert!((50_000..300_000).contains(&used), "{}", unit.said());
            }
        }
    }
}

#[test]
fn without_delegation_a_limit_is_refused() {
    if !systemd_is_here() {
        return;
    }
    for (user, lines) in &USERS[1..] {
        let script =
            |options: &str| format!("exec $run {options} $policy -- /bin/sh -c 'echo > ran'");
        let unit = Unit::new(
            &format!("{user}-undelegated"),
            lines,
            &script("--pids-max=9"),
        );
        assert_eq!(unit.run(), "70", "{}", unit.said());
        assert!(unit.read("errors").contains("EACCES"), "{}", unit.said());
        assert_eq!(unit.read("ran"), "");
        let unit = Unit::new(&format!("{user}-unlimited"), lines, &script(""));
        assert_eq!(unit.run(), "0", "{}", unit.said());
        assert_eq!(field(&unit.read("status"), "cgroup"), "null");
        assert_eq!(unit.read("ran"), "\n");
    }
}

/// Leaves the session and counts, with a leader that does not end by itself.
const COUNTER: &str = "(setsid /bin/sh -c 'trap \"\" TERM; while :; do echo >> count; sleep 0.01; done' &); while :; do sleep 0.05; done";

#[test]
fn stopping_the_unit_or_killing_its_processes_ends_all_of_it() {
    if !systemd_is_here() {
        return;
    }
    for (user, lines) in USERS {
        let script = format!(
            "cat >program <<'END'\n{COUNTER}\nEND\nexec $run --grace=0.2 --memory-max=64M --pids-max=9 $policy -- /bin/sh program"
        );
        let unit = Unit::new(
            &format!("{user}-stop"),
            &format!("{DELEGATE}\n{lines}"),
            &script,
        );
        let length = || unit.read("count").len();
        // Each start finds what the one before has left, which is nothing.
        for how in ["stop", "front", "all"] {
            unit.write("status", "");
            let before = length();
            unit.start();
            let what = format!("{user}, {how}: it counts");
            wait_for(&what, || length() > before + 3);
            match how {
                "stop" => drop(systemctl(&["stop", &unit.name])),
                "front" => drop(systemctl(&[
                    "kill",
                    "--kill-whom=main",
                    "-s",
                    "KILL",
                    &unit.name,
                ])),
                _ => drop(systemctl(&["kill", "-s", "KILL", &unit.name])),
            }
            unit.wait();
            let after = length();
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert_eq!(length(), after, "{how}: {}", unit.said());
        }
    }
}

#[test]
fn an_agent_that_stays_beside_its_modules_has_a_subgroup() {
    if !systemd_is_here() {
        return;
    }
    // It starts three, two of them at once.
    let script = "module() { $run --memory-max=$1 $policy -- /bin/sh -c \"exec dd if=/dev/zero of=/dev/null bs=24M count=1 2>/dev/null\"; echo $? >>codes; }\n\
        module 64M & module 64M & wait; module 12M; cat codes >all; exit 3";
    for (user, lines) in USERS {
        for (name, subgroup, codes) in [
            ("beside", "DelegateSubgroup=oarbank-caller", "0\n0\n137\n"),
            // The control: the agent is in the cgroup that would have to have controllers for leaves.
            ("in-the-way", "", "70\n70\n70\n"),
        ] {
            let unit = Unit::new(
                &format!("{user}-{name}"),
                &format!("{DELEGATE}\n{subgroup}\n{lines}"),
                script,
            );
            assert_eq!(unit.run(), "3", "{}", unit.said());
            assert_eq!(unit.read("all"), codes, "{}", unit.said());
            let refused = unit.read("errors").matches("EBUSY").count();
            assert_eq!(refused, codes.matches("70").count(), "{}", unit.said());
        }
    }
}

#[test]
fn the_unit_of_dist_runs_a_module_as_a_user_of_its_own() {
    if !systemd_is_here() {
        return;
    }
    const UNIT: &str = "/run/systemd/system/oarbank-module@.service";
    const NAME: &str = "oarbank-module@sample";
    const STATE: &str = "/var/lib/oarbank/sample";
    let mode = |path: &str, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
    };
    fs::write(
        UNIT,
        include_str!("../dist/systemd/oarbank-module@.service"),
    )
    .expect("a unit");
    // A guest starts with less than what a unit waits for.
    fs::create_dir_all(format!("{UNIT}.d")).expect("a folder");
    let less = "[Unit]\nDefaultDependencies=no\n";
    fs::write(format!("{UNIT}.d/guest.conf"), less).expect("a unit");
    fs::copy(
        env!("CARGO_BIN_EXE_oarbank-agent"),
        "/usr/bin/oarbank-agent",
    )
    .expect("a copy");
    mode("/usr/bin/oarbank-agent", 0o755);
    fs::create_dir_all("/etc/oarbank").expect("a folder");
    fs::create_dir_all("/srv/oarbank/sample").expect("a folder");
    let policy = format!(r#"{{"ro": ["/srv/oarbank/sample"], "rw": ["{STATE}"]}}"#);
    fs::write("/etc/oarbank/sample.json", policy).expect("a policy");
    let program = "#!/bin/sh\nid -u >user\ngrep NoNewPrivs /proc/self/status >status\n\
        echo no >/var/tmp/other || echo refused >status2\ncat /proc/self/cgroup >cgroup\n\
        while ! [ -e go ]; do sleep 0.05; done\nexit 3\n";
    fs::write("/srv/oarbank/sample/run", program).expect("a program");
    mode("/srv/oarbank/sample/run", 0o755);
    let read = |name: &str| fs::read_to_string(format!("{STATE}/{name}")).unwrap_or_default();
    systemctl(&["start", NAME]);
    wait_for("the module runs", || read("cgroup").ends_with('\n'));
    assert_ne!(read("user").trim(), "0");
    assert_eq!(read("status"), "NoNewPrivs:\t1\n");
    assert_eq!(read("status2"), "refused\n");
    // Its leaf, in the cgroup of the unit, with the limits of the unit.
    let leaf = read("cgroup");
    let leaf = leaf.trim().strip_prefix("0::").expect("cgroup v2");
    assert!(
        leaf.contains("/oarbank-module@sample.service/oarbank-"),
        "{leaf}"
    );
    let limit = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup{leaf}/{name}"));
    assert_eq!(limit("memory.max").expect("a limit"), "536870912\n");
    assert_eq!(limit("pids.max").expect("a limit"), "256\n");
    // Its exit code is the unit's, which is started again for it, but not for 70.
    fs::write("/etc/oarbank/sample.json", "{").expect("a policy");
    fs::write(format!("{STATE}/go"), "").expect("own file");
    wait_for("the unit fails", || {
        systemctl(&["show", "-P", "ExecMainStatus", NAME]) == "70"
            && systemctl(&["show", "-P", "ActiveState", NAME]) == "failed"
    });
    assert_eq!(systemctl(&["show", "-P", "NRestarts", NAME]), "1");
}
