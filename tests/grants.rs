//! Each grant: what it gives, and what it does not. Every denial is one that works outside.

mod support;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

use support::{
    Policy, Scene, as_each, as_root, assert_lines, egress_is_here, is_here, landlock_abi, skip,
};

/// Not on every kernel that the suites run on.
const PYTHON: &str = "/usr/bin/python3";

/// How Landlock answers a link or rename between directories without the right to it.
const NO_REFER: &str = "EXDEV|EACCES";

/// A granted directory `in` with a tree, and one that is not granted, `out`.
struct Tree {
    inside: String,
    outside: String,
}

impl Tree {
    /// Fresh each time: the steps change it.
    fn new(scene: &Scene, name: &str) -> Self {
        let _ = fs::remove_dir_all(scene.path(name));
        Self::at(scene, &format!("{name}/in"), &format!("{name}/out"))
    }

    fn at(scene: &Scene, inside: &str, outside: &str) -> Self {
        let program = scene.path("tree-program");
        if !Path::new(&program).exists() {
            scene.program("tree-program", Path::new("/bin/true"));
        }
        for root in [inside, outside] {
            scene.dir(root);
            scene.dir(&format!("{root}/sub"));
            scene.dir(&format!("{root}/empty"));
            scene.file(&format!("{root}/file"), "contents");
            scene.file(&format!("{root}/sub/file"), "contents");
            fs::hard_link(&program, scene.path(&format!("{root}/program"))).expect("a link");
            scene.symlink("file", &format!("{root}/alias"));
        }
        Self {
            inside: scene.path(inside),
            outside: scene.path(outside),
        }
    }

    /// The step with `@` for the granted directory and `#` for the other.
    fn step(&self, step: &str) -> String {
        step.replace('@', &self.inside).replace('#', &self.outside)
    }
}

/// Every operation on a directory and its files, by the right that it needs.
const OPERATIONS: &[(&str, &str)] = &[
    ("read", "read @/file"),
    ("read", "read @/sub/file"),
    ("read", "read @/alias"),
    ("list", "list @"),
    ("list", "list @/sub"),
    ("execute", "execute @/program"),
    ("write", "write @/file"),
    ("write", "append @/sub/file"),
    ("truncate", "truncate @/file"),
    ("truncate", "replace @/file"),
    ("make", "create @/new"),
    ("make", "create @/sub/new"),
    ("make", "redirect @/redirected"),
    ("mkdir", "mkdir @/newdir"),
    ("mkdir", "mkdir @/sub/newdir"),
    ("mkdir", "mkdir @/newer then create @/newer/file"),
    ("unlink", "unlink @/file"),
    ("unlink", "unlink @/alias"),
    ("unlink", "rmdir @/empty"),
    ("rename", "rename @/file @/renamed"),
    ("rename", "rename @/sub @/moved"),
    ("refer", "rename @/file @/sub/moved"),
    ("refer", "rename @/sub @/empty/moved"),
    ("refer", "link @/file @/sub/linked"),
    ("symlink", "symlink file @/newlink"),
    ("mkfifo", "mkfifo @/fifo"),
    ("mksock", "mksock @/socket"),
];

/// Makes every operation outside, where it works, and inside, where it works if its right is
/// among those granted. Each has a tree of its own; all of one side are made in one process.
fn check_operations(scene: &Scene, granted: &[&str], policy: impl Fn(&str) -> Policy) {
    let trees = |name: &str| -> Vec<String> {
        let _ = fs::remove_dir_all(scene.path(name));
        let steps = OPERATIONS
            .iter()
            .enumerate()
            .map(|(number, (_, operation))| {
                Tree::at(
                    scene,
                    &format!("{name}/in/{number}"),
                    &format!("{name}/out/{number}"),
                )
                .step(operation)
            });
        steps.collect()
    };
    let control = trees("control").join(" then ");
    let outside = scene.outside(&control);
    assert_lines(&outside, "ok", &control);
    let steps = trees("trees");
    let lines = scene.inside(&policy(&scene.path("trees/in")), &steps.join(" then "));
    let mut rest = lines.as_slice();
    for ((right, _), steps) in OPERATIONS.iter().zip(&steps) {
        let (own, others) = rest.split_at(steps.split(" then ").count());
        rest = others;
        let expected = if granted.contains(right) {
            "ok"
        } else if *right == "refer" {
            NO_REFER
        } else {
            "EACCES"
        };
        // What an operation begins with may be refused already.
        let last = &own[own.len() - 1..];
        assert_lines(
            last,
            if own.len() > 1 && expected != "ok" {
                "EACCES|ENOENT"
            } else {
                expected
            },
            steps,
        );
    }
}

#[test]
fn without_a_grant_nothing_works() {
    as_each(|scene| check_operations(scene, &[], |_| scene.policy()));
}

#[test]
fn ro_reads_lists_and_executes() {
    as_each(|scene| {
        check_operations(scene, &["read", "list", "execute"], |path| {
            scene.policy().ro(path)
        })
    });
}

#[test]
fn rd_reads_and_lists() {
    as_each(|scene| check_operations(scene, &["read", "list"], |path| scene.policy().rd(path)));
}

#[test]
fn wo_makes_and_writes() {
    as_each(|scene| {
        check_operations(scene, &["write", "truncate", "make", "mkdir"], |path| {
            scene.policy().wo(path)
        });
    });
}

#[test]
fn rw_does_everything_but_execute() {
    as_each(|scene| {
        let granted: Vec<&str> = OPERATIONS
            .iter()
            .map(|row| row.0)
            .filter(|right| *right != "execute")
            .collect();
        check_operations(scene, &granted, |path| scene.policy().rw(path));
    });
}

#[test]
fn rw_with_exec_rw_does_everything() {
    as_each(|scene| {
        let granted: Vec<&str> = OPERATIONS.iter().map(|row| row.0).collect();
        check_operations(scene, &granted, |path| scene.policy().rw(path).exec_rw());
    });
}

#[test]
fn exec_rw_gives_execute_to_rw_alone() {
    as_each(|scene| {
        check_operations(scene, &["read", "list"], |path| {
            scene.policy().rd(path).exec_rw()
        });
        check_operations(scene, &["write", "truncate", "make", "mkdir"], |path| {
            scene.policy().wo(path).exec_rw()
        });
    });
}

#[test]
fn grants_of_one_path_add_up() {
    as_each(|scene| {
        let granted = ["read", "list", "write", "truncate", "make", "mkdir"];
        check_operations(scene, &granted, |path| scene.policy().rd(path).wo(path));
        let granted = [
            "read", "list", "execute", "write", "truncate", "make", "mkdir",
        ];
        check_operations(scene, &granted, |path| {
            scene.policy().wo(path).ro(path).wo(path)
        });
    });
}

#[test]
fn wo_makes_no_links_between_directories() {
    as_each(|scene| {
        let check = |number: usize, step: &str, expected: &str| {
            let control = Tree::new(scene, &format!("control-{number}"));
            assert_lines(&scene.outside(&control.step(step)), "ok", step);
            let tree = Tree::new(scene, &format!("tree-{number}"));
            assert_lines(
                &scene.inside(&scene.policy().wo(&tree.inside), &tree.step(step)),
                expected,
                step,
            );
        };
        for (number, step) in [
            "link @/sub/file @/linked",
            "link #/file @/linked",
            "link @/file #/linked",
        ]
        .iter()
        .enumerate()
        {
            check(number, step, NO_REFER);
        }
        // Within one directory the kernel asks for the right to make files alone, which an outbox
        // has. Such a second name reveals, moves and replaces nothing.
        check(9, "link @/file @/linked", "ok");
    });
}

#[test]
fn nothing_crosses_from_one_grant_to_another_with_more_rights() {
    as_each(|scene| {
        for (number, (list, steps)) in [
            // Read-only files must not become writable ones, nor files without execute executable.
            ("ro", "link #/file @/stolen"),
            ("rd", "link #/program @/stolen"),
            ("rd", "rename #/program @/stolen"),
            ("ro", "rename #/sub @/stolen"),
            // What is written must not reach the folders that are only read.
            ("ro", "rename @/file #/planted"),
            ("rd", "link @/file #/planted"),
            ("wo", "rename @/file #/moved"),
            ("wo", "link @/file #/linked"),
        ]
        .iter()
        .enumerate()
        {
            let control = Tree::new(scene, &format!("control-{number}"));
            assert_lines(&scene.outside(&control.step(steps)), "ok", steps);
            let tree = Tree::new(scene, &format!("tree-{number}"));
            let policy = scene
                .policy()
                .rw(&tree.inside)
                .exec_rw()
                .path(list, &tree.outside);
            assert_lines(&scene.inside(&policy, &tree.step(steps)), NO_REFER, steps);
        }
    });
}

#[test]
fn two_writable_folders_are_one() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let policy = scene.policy().rw(&tree.inside).rw(&tree.outside);
        scene.works(
            &policy,
            &tree.step(
                "rename @/file #/moved then link #/sub/file @/linked then rename #/sub @/empty/sub",
            ),
        );
    });
}

#[test]
fn a_grant_below_another_adds_to_it() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let policy = scene
            .policy()
            .ro(&tree.inside)
            .rw(&format!("{}/sub", tree.inside));
        scene.works(
            &policy,
            &tree.step("create @/sub/new then unlink @/sub/file then read @/file"),
        );
        scene.denied(
            &policy,
            &tree.step("create @/made then unlink @/made"),
            "EACCES EACCES|ENOENT",
        );
    });
}

// Single files.

#[test]
fn a_single_file_may_be_granted() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let (file, program) = (
            format!("{}/file", tree.inside),
            format!("{}/program", tree.inside),
        );
        let read = scene.policy().ro(&file).ro(&program);
        scene.works(&read, &tree.step("read @/file then execute @/program"));
        let denied = ["write @/file", "read @/sub/file", "list @"].map(|step| tree.step(step));
        scene.denied_each(&read, &denied, "EACCES");

        let input = scene.policy().rd(&file).rd(&program);
        scene.works(&input, &tree.step("read @/file then read @/program"));
        let denied = ["execute @/program", "truncate @/file"].map(|step| tree.step(step));
        scene.denied_each(&input, &denied, "EACCES");

        let file = scene.file("tree/in/work", "contents");
        let work = scene.policy().rw(&file);
        scene.works(
            &work,
            &tree.step("write @/work then read @/work then replace @/work then truncate @/work"),
        );
        scene.denied(
            &work,
            &tree.step("rename @/work @/moved then rename @/moved @/work"),
            "EACCES|EXDEV EACCES|EXDEV|ENOENT",
        );
        scene.denied(
            &work,
            &tree.step("create @/made then unlink @/made"),
            "EACCES EACCES|ENOENT",
        );

        let outbox = scene.policy().wo(&file);
        scene.works(
            &outbox,
            &tree.step("write @/work then truncate @/work then redirect @/work"),
        );
        scene.denied(&outbox, &tree.step("read @/work"), "EACCES");

        let program = scene.policy().rw(&program);
        scene.denied(&program, &tree.step("execute @/program"), "EACCES");
        scene.works(&program.exec_rw(), &tree.step("execute @/program"));
    });
}

#[test]
fn a_grant_through_a_symlink_is_one_of_its_target() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let alias = scene.symlink(&tree.inside, "alias");
        scene.works(
            &scene.policy().ro(&alias),
            &tree.step("read @/file then list @"),
        );
        scene.works(
            &scene.policy().rw(&alias),
            &format!("create {alias}/new then unlink {alias}/new"),
        );
        scene.denied(
            &scene.policy().rw(&alias),
            &tree.step("create #/new then unlink #/new"),
            "EACCES EACCES|ENOENT",
        );
    });
}

#[test]
fn exe_gives_its_own_file_and_no_other() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let program = format!("{}/program", tree.inside);
        let outcome = scene
            .confined(&Policy::new().exe(&program), &[&program])
            .run();
        outcome.success();
        let outcome = scene
            .confined(&Policy::new().exe(scene.probe()), &[&program])
            .run();
        outcome.refused(71, "exec", &["EACCES"]);
        // The probe is its own `exe`.
        scene.works(
            &scene.policy(),
            &format!("read {0} then execute {0}", "/bin/true"),
        );
        scene.contrast(
            &scene.policy(),
            &format!("read {}", scene.probe()),
            "ok",
            "ok",
        );
        scene.denied(&scene.policy(), &tree.step("read @/program"), "EACCES");
        let copy = scene.program("copy", Path::new(scene.probe()));
        scene.denied(
            &Policy::new().exe(&copy).ro(scene.probe()),
            &format!("append {copy}"),
            "EACCES",
        );
    });
}

#[test]
fn argv_0_needs_no_exe_when_another_grant_covers_it() {
    as_each(|scene| {
        let tree = Tree::new(scene, "tree");
        let program = format!("{}/program", tree.inside);
        scene
            .confined(&Policy::new().ro(&tree.inside), &[&program])
            .run()
            .success();
        scene
            .confined(&Policy::new(), &["/bin/true"])
            .run()
            .success();
        let argv = [program.as_str()];
        scene
            .confined(&Policy::new().rd(&tree.inside), &argv)
            .run()
            .refused(71, "exec", &["EACCES"]);
        scene
            .confined(&Policy::new().rw(&tree.inside), &argv)
            .run()
            .refused(71, "exec", &["EACCES"]);
    });
}

// The base system and devices.

#[test]
fn the_base_system_is_read_and_executed() {
    as_each(|scene| {
        let policy = scene.policy();
        let listed: Vec<String> = [
            "/usr",
            "/lib",
            "/lib32",
            "/lib64",
            "/bin",
            "/sbin",
            "/etc",
            "/opt",
            "/proc",
            "/sys/devices/system/cpu",
        ]
        .iter()
        .filter(|directory| Path::new(directory).is_dir())
        .map(|directory| format!("list {directory}"))
        .collect();
        scene.each_inside(&policy, &listed, "ok");
        scene.works(&policy, "read /etc/passwd then execute /usr/bin/true then execute /bin/true then read /proc/self/maps");
        scene.works(
            &policy,
            "read /sys/devices/system/cpu/online then read /proc/meminfo then list /proc/self/fd",
        );
        let mut denied = Vec::from(
            [
                "/",
                "/tmp",
                "/dev",
                "/var",
                "/sys",
                "/sys/devices",
                "/sys/kernel",
                "/home",
                "/run",
                "/boot",
            ]
            .map(|directory| format!("list {directory}")),
        );
        let written = |file: &str| format!("sys openat -100 s:/proc/{file} 1");
        denied.extend(["self/oom_score_adj", "self/clear_refs"].map(written));
        denied.push("name-thread".to_owned());
        if scene.who.is_root() {
            denied.extend(["list /root".to_owned(), written("sys/kernel/hostname")]);
            scene.denied(
                &policy,
                "mkdir /etc/oarbank-test then rmdir /etc/oarbank-test",
                "EACCES EACCES|ENOENT",
            );
        }
        scene.denied_each(&policy, &denied, "EACCES");
        scene.denied(
            &policy,
            "create /dev/shm/oarbank-test then unlink /dev/shm/oarbank-test",
            "EACCES EACCES|ENOENT",
        );
    });
}

#[test]
fn the_directories_of_a_merged_usr_are_executed_wherever_their_links_lead() {
    type Links = &'static [(&'static str, &'static str)];
    type Programs = &'static [&'static str];
    // Each with what is a link there, and the programs that are in the base system by it.
    let hosts: [(Links, Programs); 4] = [
        (&[], &["usr/bin/agent", "bin/agent", "lib64/agent"]),
        (
            &[
                ("usr/bin", "bin"),
                ("/usr/lib64", "lib64"),
                ("usr/none", "sbin"),
            ],
            &["usr/bin/agent", "usr/lib64/agent"],
        ),
        // Deeper, beside it, and by one more link out of it.
        (
            &[
                ("usr/a/b", "bin"),
                ("other/lib64", "lib64"),
                ("../other", "usr/lib"),
                ("usr/lib", "lib"),
            ],
            &["usr/a/b/agent", "other/lib64/agent", "other/agent"],
        ),
        // The whole of it is elsewhere.
        (
            &[("mnt", "usr"), ("usr/bin", "bin")],
            &["mnt/bin/agent", "mnt/agent"],
        ),
    ];
    as_root(|scene| {
        for (number, (links, programs)) in hosts.into_iter().enumerate() {
            let place = |path: &str| format!("host{number}/{path}");
            for program in programs.iter().chain(&["agent", "outside/agent"]) {
                let program = place(program);
                scene.dir(program.rsplit_once('/').expect("in a folder").0);
                scene.program(&program, Path::new(scene.agent()));
            }
            for (target, link) in links {
                std::os::unix::fs::symlink(target, scene.path(&place(link))).expect("own folder");
            }
            fs::write(scene.path(&place("policy")), "{}").expect("own folder");
            let root = scene.path(&place(""));
            let version = |program: &str| {
                let argv = [
                    "/agent",
                    "sandbox-exec",
                    "/policy",
                    "--",
                    program,
                    "--version",
                ];
                scene.plain(&argv).in_root(&root).run()
            };
            for program in programs {
                assert_eq!(version(&format!("/{program}")).code, Some(0), "{program}");
            }
            for (target, link) in links {
                let program = format!("/{link}/agent");
                let reached =
                    fs::exists(format!("{root}/{}/agent", target.trim_start_matches('/')));
                if reached.expect("a path") {
                    assert_eq!(version(&program).code, Some(0), "{program}");
                }
            }
            version("/outside/agent").refused(71, "exec", &["EACCES"]);
        }
    });
}

#[test]
fn the_five_devices_are_read_and_written() {
    as_each(|scene| {
        let policy = scene.policy();
        let used = ["null", "zero", "random", "urandom"].map(|device| {
            format!("read /dev/{device} then write /dev/{device} then append /dev/{device} then replace /dev/{device} then redirect /dev/{device}")
        });
        scene.each_inside(&policy, &used, "ok");
        scene.works(&policy, "read /dev/full");
        scene.contrast(&policy, "write /dev/full", "ENOSPC", "ENOSPC");
        if Path::new("/dev/ptmx").exists() {
            scene.denied(&policy, "sys openat -100 s:/dev/ptmx 2", "EACCES");
        }
        if scene.who.is_root() {
            scene.denied(&policy, "list /dev/pts", "EACCES");
            scene.denied(&policy, "sys openat -100 s:/dev/kmsg 0", "EACCES");
        }
    });
}

#[test]
fn the_shells_redirections_to_devices_work() {
    as_each(|scene| {
        let script = "set -e; echo x >/dev/null; echo x >>/dev/null; : <>/dev/null; echo x >/dev/zero; head -c 3 </dev/zero >/dev/null; \
                      head -c 8 /dev/urandom >/dev/null; head -c 8 /dev/random >>/dev/null; cat </dev/null; if echo x >/dev/full; then exit 9; fi; echo done";
        for shell in ["/bin/sh", "/bin/bash"] {
            if !is_here(shell) {
                continue;
            }
            let outcome = scene.confined(&Policy::new(), &[shell, "-c", script]).run();
            assert_eq!(outcome.success(), "done\n", "{shell}: {outcome:?}");
        }
        let noclobber = scene
            .confined(
                &Policy::new(),
                &[
                    "/bin/sh",
                    "-c",
                    "set -C; echo x >/dev/null; echo x >|/dev/null; echo done",
                ],
            )
            .run();
        assert_eq!(noclobber.success(), "done\n");
    });
}

#[test]
fn the_base_devices_take_no_ioctl_of_theirs() {
    as_each(|scene| {
        // TCGETS: what isatty asks; /dev/null has no such answer. Landlock handles it from ABI 5.
        let inside = if landlock_abi() < 5 {
            "ok ENOTTY"
        } else {
            "ok EACCES"
        };
        scene.contrast(
            &scene.policy(),
            "sys openat -100 s:/dev/null 2 then sys ioctl $ 0x5401 buf:64",
            "ok ENOTTY",
            inside,
        );
    });
}

/// A device node like those of a GPU driver, which is really `/dev/null`; removed when dropped.
struct FakeGpu(&'static str, Option<&'static str>);

impl FakeGpu {
    fn new(path: &'static str, directory: Option<&'static str>) -> Self {
        if let Some(directory) = directory {
            fs::create_dir_all(directory).expect("a directory in /dev");
        }
        let made = std::process::Command::new("mknod")
            .args(["-m", "666", path, "c", "1", "3"])
            .status();
        assert!(made.expect("mknod").success(), "{path}");
        Self(path, directory)
    }
}

impl Drop for FakeGpu {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
        if let Some(directory) = self.1 {
            let _ = fs::remove_dir(directory);
        }
    }
}

#[test]
fn gpu_gives_the_gpu_nodes() {
    // The nodes are made by root; they are then used as either user.
    as_root(|_| {
        let _node = FakeGpu::new("/dev/nvidia-oarbank-test", None);
        let _odd = FakeGpu::new("/dev/nvidia\u{1f600} \"\\odd", None);
        let _below = FakeGpu::new(
            "/dev/nvidia-oarbank-test-caps/cap1",
            Some("/dev/nvidia-oarbank-test-caps"),
        );
        let _other = FakeGpu::new("/dev/oarbank-test-nvidia", None);
        as_each(|scene| {
            let gpu = scene.policy().gpu();
            let nodes = [
                "/dev/nvidia-oarbank-test",
                "/dev/nvidia-oarbank-test-caps/cap1",
            ];
            let used = nodes.map(|node| {
                format!("sys openat -100 s:{node} 2 then write {node} then read {node} then replace {node}")
            });
            scene.each_inside(&gpu, &used, "ok");
            // From ABI 5 an ioctl is a right of its own: without it the answer would be EACCES.
            let asked = nodes
                .map(|node| format!("sys openat -100 s:{node} 2 then sys ioctl $ 0x5401 buf:64"));
            scene.contrast_each(&gpu, &asked, "ok ENOTTY", "ok ENOTTY");
            let mut denied = Vec::from(nodes.map(|node| format!("read {node}")));
            denied.extend(nodes.map(|node| format!("write {node}")));
            denied.push("list /dev/nvidia-oarbank-test-caps".to_owned());
            scene.denied_each(&scene.policy(), &denied, "EACCES");
            let odd = "/dev/nvidia\u{1f600} \"\\odd";
            assert_eq!(
                scene
                    .confined(&gpu, &[scene.probe(), "write", odd])
                    .run()
                    .success(),
                "ok 1\n"
            );
            assert_eq!(
                scene
                    .confined(&scene.policy(), &[scene.probe(), "write", odd])
                    .run()
                    .success(),
                "EACCES\n"
            );
            scene.works(
                &gpu,
                "list /dev/nvidia-oarbank-test-caps then write /dev/null",
            );
            let others = ["read /dev/oarbank-test-nvidia", "list /dev"];
            scene.denied_each(&gpu, &others, "EACCES");
        });
    });
}

#[test]
fn gpu_gives_the_other_drivers_nodes() {
    as_root(|_| {
        if Path::new("/dev/dri").exists() || Path::new("/dev/kfd").exists() {
            return skip("this machine has GPU nodes of its own");
        }
        let _card = FakeGpu::new("/dev/dri/card-oarbank-test", Some("/dev/dri"));
        let _kfd = FakeGpu::new("/dev/kfd", None);
        as_each(|scene| {
            for node in ["/dev/dri/card-oarbank-test", "/dev/kfd"] {
                scene.works(
                    &scene.policy().gpu(),
                    &format!("read {node} then write {node} then sys openat -100 s:{node} 2"),
                );
                scene.denied(&scene.policy(), &format!("read {node}"), "EACCES");
            }
            scene.works(&scene.policy().gpu(), "list /dev/dri");
            scene.denied(&scene.policy(), "list /dev/dri", "EACCES");
        });
    });
}

#[test]
fn gpu_without_a_gpu_is_no_error() {
    as_each(|scene| scene.works(&scene.policy().gpu(), "read /dev/null"));
}

#[test]
fn gpu_lets_the_module_name_its_threads() {
    as_each(|scene| {
        scene.denied(&scene.policy(), "name-thread", "EACCES");
        scene.works(&scene.policy().gpu(), "name-thread");
        // A thread other than the first.
        if is_here(PYTHON) {
            let program = "import threading\ndef name():\n p='/proc/self/task/%d/comm' % threading.get_native_id()\n open(p,'w').write('renamed')\n print(open(p).read())\n\
                       t=threading.Thread(target=name); t.start(); t.join()";
            let outcome = scene
                .confined(&Policy::new().gpu(), &[PYTHON, "-c", program])
                .run();
            assert_eq!(outcome.success(), "renamed\n\n", "{outcome:?}");
        }
        // The links below it lead to their targets, which are not granted.
        let secret = scene.file("secret", "contents");
        scene.denied(
            &scene.policy().gpu(),
            &format!("write /proc/thread-self/root{secret}"),
            "EACCES",
        );
        scene.denied(
            &scene.policy().gpu(),
            &format!("read /proc/thread-self/root{secret}"),
            "EACCES",
        );
        // Not the rest of /proc, nor a neighbour.
        let other = scene.process(&["/bin/sleep", "60"]);
        let id = other.id();
        let each = [
            format!("{id}/task/{id}/comm"),
            format!("{id}/oom_score_adj"),
            "self/comm".to_owned(),
            "self/oom_score_adj".to_owned(),
        ]
        .map(|file| format!("sys openat -100 s:/proc/{file} 1"));
        scene.denied_each(&scene.policy().gpu(), &each, "EACCES");
    });
}

// The network.

/// A listener on loopback, on a free port.
fn listen(address: IpAddr) -> Option<(TcpListener, u16)> {
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).ok()?;
    let port = listener.local_addr().expect("bound").port();
    Some((listener, port))
}

#[test]
fn net_none_makes_no_internet_socket() {
    as_each(|scene| {
        let (_server, port) = listen(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        for policy in [
            scene.policy(),
            scene
                .policy()
                .field("net", "\"none\"")
                .field("proxy_port", &port.to_string()),
        ] {
            scene.contrast(
                &policy,
                &format!("sys socket 2 1 0 then sys connect $ in:127.0.0.1:{port} len"),
                "ok ok",
                "EPERM EBADF",
            );
            let each = [
                "2 1 6",
                "2 2 0",
                "2 2 17",
                "10 1 0",
                "10 1 6",
                "10 2 0",
                "2 0x80801 0",
            ]
            .map(|socket| format!("sys socket {socket}"));
            scene.denied_each(&policy, &each, "EPERM");
        }
    });
}

#[test]
fn egress_allowlist_connects_to_the_proxy_port_alone() {
    if !egress_is_here() {
        return;
    }
    as_each(|scene| {
        for (family, host, address) in [
            ("2", "127.0.0.1", IpAddr::from(Ipv4Addr::LOCALHOST)),
            ("10", "[::1]", IpAddr::from(Ipv6Addr::LOCALHOST)),
            ("10", "[::ffff:127.0.0.1]", Ipv4Addr::LOCALHOST.into()),
        ] {
            let (Some((_proxy, proxy)), Some((_other, other))) = (listen(address), listen(address))
            else {
                skip(&format!("no loopback for {host}"));
                continue;
            };
            let policy = scene.policy().proxy(proxy);
            scene.works(&policy, &format!("sys socket {family} 1 0 then sys connect $ in:{host}:{proxy} len then sys sendto $0 s:hello 5 0"));
            scene.works(&policy, &format!("sys socket {family} 0x80801 6"));
            let denied = [
                format!("sys socket {family} 1 0 then sys connect $ in:{host}:{other} len"),
                format!("sys socket {family} 1 0 then sys bind $ in:{host}:0 len"),
            ];
            scene.denied_each(&policy, &denied, "EACCES");
            // Refused by the rule, not by the absence of a server.
            let nobody = format!("sys socket {family} 1 0 then sys connect $ in:{host}:1 len");
            scene.contrast(&policy, &nobody, "ECONNREFUSED", "EACCES");
            scene.denied(
                &policy,
                &format!(
                    "sys socket {family} 1 0 then sys bind $ in:{host}:0 len then sys listen $0 5"
                ),
                "EACCES EPERM",
            );
            scene.denied(
                &policy,
                &format!("sys socket {family} 1 0 then sys listen $ 5"),
                "EPERM",
            );
            let own = format!("sys socket {family} 1 0 then sys bind $ in:{host}:{proxy} len");
            scene.contrast(&policy, &own, "EADDRINUSE", "EACCES");
        }
    });
}

#[test]
fn egress_allowlist_is_for_a_real_client() {
    if !egress_is_here() {
        return;
    }
    if !is_here(PYTHON) {
        return;
    }
    as_each(|scene| {
        let (server, port) = listen(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let answering = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut client, _) = server.accept().expect("a client");
            let mut request = [0_u8; 1024];
            let length = client.read(&mut request).expect("a request");
            client
                .write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                .expect("an answer");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let program = format!(
            "import urllib.request as u\nu.install_opener(u.build_opener(u.ProxyHandler({{'http': 'http://127.0.0.1:{port}'}})))\nprint(u.urlopen('http://example.test/x').read().decode())"
        );
        let outcome = scene
            .confined(&Policy::new().proxy(port), &[PYTHON, "-c", &program])
            .run();
        assert_eq!(outcome.success(), "hello\n", "{outcome:?}");
        assert!(
            answering
                .join()
                .expect("a server")
                .starts_with("GET http://example.test/x ")
        );
    });
}

// The broker.

#[test]
fn a_broker_grant_gives_unix_sockets() {
    as_each(|scene| {
        scene.dir("place");
        let broker = scene.path("place/broker");
        let _listener = UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        let steps = format!(
            "sys socket 1 1 0 then sys connect $ un:{broker} len then sys sendto $0 s:hello 5 0"
        );
        scene.works(&scene.policy().broker(&broker), &steps);
        scene.contrast(&scene.policy(), &steps, "ok ok ok", "EPERM EBADF EBADF");
        scene.denied(&scene.policy().broker(&broker), "sys socket 2 1 0", "EPERM");
        // The grant is for connecting, not for the node.
        let unlink = format!("unlink {broker}");
        assert_lines(
            &scene.inside(&scene.policy().broker(&broker), &unlink),
            "EACCES",
            "inside",
        );
        assert_lines(&scene.outside(&unlink), "ok", "outside");
    });
}

#[test]
fn a_broker_client_binds_only_where_it_may_make_sockets() {
    as_each(|scene| {
        let broker = scene.path("broker");
        let _listener = UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        let (work, input, outbox) = (scene.dir("work"), scene.dir("input"), scene.dir("outbox"));
        let policy = scene
            .policy()
            .broker(&broker)
            .rw(&work)
            .rd(&input)
            .wo(&outbox);
        scene.denied(
            &policy,
            &format!("sys socket 1 1 0 then sys bind $ un:{input}/s len then unlink {input}/s"),
            "EACCES EACCES|ENOENT",
        );
        scene.denied(
            &policy,
            &format!("sys socket 1 1 0 then sys bind $ un:{outbox}/s len then unlink {outbox}/s"),
            "EACCES EACCES|ENOENT",
        );
        scene.contrast(&policy, &format!("sys socket 1 1 0 then sys bind $ un:{work}/s len then sys listen $0 5 then unlink {work}/s"), "ok ok ok ok", "ok ok EPERM ok");
    });
}

#[test]
fn a_broker_may_be_reached_through_a_symlink() {
    as_each(|scene| {
        let broker = scene.path("broker");
        let _listener = UnixListener::bind(&broker).expect("a socket");
        scene.give(&broker);
        let alias = scene.symlink("broker", "alias");
        scene.works(
            &scene.policy().broker(&alias),
            &format!("sys socket 1 1 0 then sys connect $ un:{alias} len"),
        );
    });
}

#[test]
fn from_abi_9_the_broker_is_the_only_socket() {
    as_each(|scene| {
        let (broker, other) = (scene.path("broker"), scene.path("other"));
        let listeners = [
            UnixListener::bind(&broker).expect("a socket"),
            UnixListener::bind(&other).expect("a socket"),
        ];
        scene.give(&broker);
        scene.give(&other);
        // Below, the others stay within reach where their mode allows: a known limit.
        let inside = if landlock_abi() < 9 {
            "ok ok"
        } else {
            "ok EACCES"
        };
        let steps = format!("sys socket 1 1 0 then sys connect $ un:{other} len");
        scene.contrast(&scene.policy().broker(&broker), &steps, "ok ok", inside);
        drop(listeners);
    });
}
