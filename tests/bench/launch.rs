//! `cargo bench`: what a launch costs, against its own floors, in one interleaved run.
//!
//! `nothing` is a bare vfork, exec and wait of a program that ends at once; `trampoline` the same through a program without
//! libc that only makes an execve; `floor` one that makes the rules of the same policy and a filter of five instructions
//! and nothing else; `floor+filter` the same with the launcher's own filter; `floor+calls` makes the other calls of a launch by
//! a policy too, and `floor of run` those with which `sandbox-run` starts a module in a process of its own and looks at it
//! before its exec. Numbers are noisy: only ratios of one run count.
//! The kernel can't divide times as short as these into user and system time, so their sum is given.
//! `cargo bench -- ROUNDS` sets how many.

use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use oarbank_agent::seccomp::{Mode, filter};
use oarbank_agent::{Memory, Module, Pointer, Room, Sandbox, Vector};

static MEMORY: Mutex<Memory> = Mutex::new(Memory::new());

/// What one run of something cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
    faults: f64,
}

/// Something to run, and what its runs cost.
struct Case {
    name: &'static str,
    run: Box<dyn FnMut() -> Cost>,
    costs: Vec<Cost>,
}

fn main() {
    let rounds = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(1000);
    let place = Place::new();
    let nothing = place.compile("nothing.c", "nothing", &[]);
    let work = format!("-DWORK=\"{}\"", place.work);
    let exe = format!("-DEXE=\"{nothing}\"");
    let all = format!("-DALL={}ul", handled_rights());
    let filter_file = format!("-DFILTER=\"{}\"", place.filter());
    let rules = ["-DRULES", &work, &exe, &all];
    let trampoline = place.compile("floor.c", "trampoline", &[]);
    let floor = place.compile("floor.c", "floor", &rules);
    let policy = place.write(
        "policy.json",
        &format!("{{\"rw\": [\"{}\"], \"exe\": \"{nothing}\"}}", place.work),
    );
    let policy_file = format!("-DPOLICY=\"{policy}\"");
    let with_filter = [&rules[..], &[&filter_file]].concat();
    let calls_too = [&with_filter[..], &[&policy_file]].concat();
    let own_filter = place.compile("floor.c", "floor-filter", &with_filter);
    let all_calls = place.compile("floor.c", "floor-calls", &calls_too);
    let run_floor = place.compile(
        "floor.c",
        "floor-run",
        &[&calls_too[..], &["-DRUN"]].concat(),
    );
    let agent = release_binary();

    let spawned = |name, words: &[&str]| Case::new(name, spawn(words));
    let run_in_cgroup = [&agent, "sandbox-run", &policy, "--", &nothing];
    let run_alone = [
        &agent,
        "sandbox-run",
        "--cgroup",
        "none",
        &policy,
        "--",
        &nothing,
    ];
    let mut cases = vec![
        spawned("nothing", &[&nothing]),
        spawned("trampoline", &[&trampoline, &nothing]),
        spawned("floor", &[&floor, &nothing]),
        spawned("floor+filter", &[&own_filter, &nothing]),
        spawned("floor+calls", &[&all_calls, &nothing]),
        spawned("floor of run", &[&run_floor, &nothing]),
        spawned(
            "sandbox-exec",
            &[&agent, "sandbox-exec", &policy, "--", &nothing],
        ),
        spawned("sandbox-run, cgroup", &run_in_cgroup),
        spawned("sandbox-run, none", &run_alone),
        Case::new("kernel's part", kernels_part(&policy, &nothing)),
        Case::new("prepared launch", prepared(&policy, &nothing)),
    ];
    match bubblewrap(&place.work, &nothing) {
        Some(words) => cases.push(Case::new("bubblewrap", spawn(&words))),
        None => println!("bubblewrap is not installed (or can't run here), and is left out\n"),
    }
    for _ in 0..rounds {
        for case in &mut cases {
            case.costs.push((case.run)());
        }
    }
    table(&cases);
    println!(
        "\nfile: {} bytes",
        fs::metadata(&agent).expect("built").len()
    );
    resident(&agent, &policy, &nothing);
    calls(&agent, &policy, &nothing);
    paths(&place, &agent, &nothing, &rules, rounds);
    inside(&place, &agent, &rules);
}

/// A directory of the benchmark's own.
struct Place {
    directory: PathBuf,
    work: String,
}

impl Place {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("oarbank-bench-{}", std::process::id()));
        let work = directory.join("work");
        fs::create_dir_all(&work).expect("a directory for temporary files");
        let work = text(&work);
        Place { directory, work }
    }

    fn write(&self, name: &str, contents: &str) -> String {
        let path = self.directory.join(name);
        fs::write(&path, contents).expect("own directory");
        text(&path)
    }

    /// Compiles a program without libc.
    fn compile(&self, source: &str, name: &str, more: &[&str]) -> String {
        let mut words = vec!["-nostdlib", "-fno-stack-protector", "-fcf-protection=none"];
        words.extend(["-Wl,--build-id=none", "-Wl,-z,noseparate-code"]);
        words.extend(more);
        self.compile_with(source, name, &words)
    }

    fn compile_with(&self, source: &str, name: &str, more: &[&str]) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/bench")
            .join(source);
        let path = text(&self.directory.join(name));
        let done = Command::new("cc")
            .args(["-O2", "-static", "-o", &path])
            .args(more)
            .arg(source)
            .status()
            .expect("a C compiler");
        assert!(done.success(), "{name}");
        path
    }

    /// The launcher's filter for the policy, as C.
    fn filter(&self) -> String {
        let mode = Mode {
            tcp: false,
            broker: false,
            exec_rw: false,
        };
        let mut code = String::new();
        for instruction in filter::program(mode) {
            let (code_, jt, jf, k) = (
                instruction.code,
                instruction.jt,
                instruction.jf,
                instruction.k,
            );
            writeln!(code, "{{{code_}, {jt}, {jf}, {k}u}},").expect("a string");
        }
        self.write("filter.h", &code)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// `cargo bench` builds it in the profile that is released.
fn release_binary() -> String {
    env!("CARGO_BIN_EXE_oarbank-agent").to_owned()
}

/// Every filesystem right of this kernel's ABI, but for those that came after the C library's headers may have been made.
fn handled_rights() -> u64 {
    oarbank_agent::landlock::abi::probe()
        .expect("Landlock")
        .fs()
        & 0xffff
}

impl Case {
    fn new(name: &'static str, run: impl FnMut() -> Cost + 'static) -> Self {
        Case {
            name,
            run: Box::new(run),
            costs: Vec::new(),
        }
    }

    /// The value below which `part` of the runs are.
    fn quantile(&self, part: f64, of: impl Fn(&Cost) -> f64) -> f64 {
        let mut values: Vec<f64> = self.costs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * part) as usize]
    }
}

fn usage() -> libc::rusage {
    // SAFETY: writes one structure, of which zero is a value.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    }
}

/// Measures something that makes a child and waits for it.
fn measure(act: impl FnOnce()) -> Cost {
    let micros = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    let (before, start) = (usage(), Instant::now());
    act();
    let wall = start.elapsed().as_secs_f64() * 1e6;
    let after = usage();
    Cost {
        wall,
        cpu: micros(after.ru_utime) + micros(after.ru_stime)
            - micros(before.ru_utime)
            - micros(before.ru_stime),
        faults: (after.ru_minflt - before.ru_minflt) as f64,
    }
}

/// vfork, exec and wait.
fn spawn(words: &[&str]) -> impl FnMut() -> Cost + 'static {
    let words: Vec<CString> = words
        .iter()
        .map(|word| CString::new(*word).expect("no NUL"))
        .collect();
    move || {
        let mut argv: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
        argv.push(std::ptr::null());
        measure(|| {
            let mut child = 0;
            let none = [std::ptr::null_mut()];
            // SAFETY: reads two vectors that end in NULL, writes one number. The C library makes it by vfork.
            let failed = unsafe {
                libc::posix_spawn(
                    &mut child,
                    argv[0],
                    std::ptr::null(),
                    std::ptr::null(),
                    argv.as_ptr().cast(),
                    none.as_ptr(),
                )
            };
            assert_eq!(failed, 0);
            wait(child);
        })
    }
}

fn wait(child: i32) {
    let mut status = 0;
    // SAFETY: writes one number.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
}

fn sandbox(policy: &str) -> Sandbox {
    let json = fs::read(policy).expect("own file");
    let mut memory = MEMORY.lock().expect("one thread");
    Sandbox::parse(&json, &mut memory).unwrap_or_else(|error| panic!("{error}"))
}

/// The library, with what can be prepared prepared.
fn prepared(policy: &str, program: &str) -> impl FnMut() -> Cost + 'static {
    let sandbox = sandbox(policy);
    let program = CString::new(program).expect("no NUL");
    move || {
        measure(|| {
            let argv: [&CStr; 1] = [&program];
            let (mut pointers, mut none) = ([Pointer::NULL; 2], [Pointer::NULL; 1]);
            let command = oarbank_agent::Command {
                program: &program,
                argv: Vector::of(&argv, &mut pointers).expect("room"),
                environment: Vector::of(&[], &mut none).expect("room"),
                standard: [0, 1, 2],
                leaf: None,
            };
            let mut room = Room::new();
            let module = Module::start(&sandbox, command, &mut room)
                .unwrap_or_else(|error| panic!("{error}"));
            module.wait().unwrap_or_else(|error| panic!("{error}"));
        })
    }
}

/// A fork whose child confines itself by a ruleset and a filter that exist, and makes its exec: what no launcher can leave out.
fn kernels_part(policy: &str, program: &str) -> impl FnMut() -> Cost + 'static {
    let sandbox = sandbox(policy);
    let program = CString::new(program).expect("no NUL");
    move || {
        measure(|| {
            // SAFETY: the child makes system calls only.
            let child = unsafe {
                let child = libc::fork();
                if child == 0 {
                    if sandbox.enter_keeping(&[]).is_ok() {
                        let argv = [program.as_ptr(), std::ptr::null()];
                        libc::execv(program.as_ptr(), argv.as_ptr());
                    }
                    libc::_exit(120);
                }
                child
            };
            wait(child);
        })
    }
}

/// A comparable command line of bubblewrap, if it works here.
fn bubblewrap<'a>(work: &'a str, program: &'a str) -> Option<Vec<&'a str>> {
    let path = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    let words = vec![
        path,
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        "--ro-bind",
        "/etc",
        "/etc",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--bind",
        work,
        work,
        "--ro-bind",
        program,
        program,
        "--die-with-parent",
        program,
    ];
    let works = Command::new(path)
        .args(&words[1..])
        .stderr(Stdio::null())
        .status();
    works.is_ok_and(|status| status.success()).then_some(words)
}

fn table(cases: &[Case]) {
    let floor = cases
        .iter()
        .find(|case| case.name == "floor")
        .expect("it is there")
        .quantile(0.5, |cost| cost.wall);
    println!(
        "{:<20} {:>9} {:>9} {:>8} {:>7} {:>8}",
        "", "median us", "p95 us", "cpu us", "faults", "x floor"
    );
    for case in cases {
        let mean =
            |of: fn(&Cost) -> f64| case.costs.iter().map(of).sum::<f64>() / case.costs.len() as f64;
        let median = case.quantile(0.5, |cost| cost.wall);
        println!(
            "{:<20} {median:>9.1} {:>9.1} {:>8.1} {:>7.1} {:>8.2}",
            case.name,
            case.quantile(0.95, |cost| cost.wall),
            mean(|cost| cost.cpu),
            mean(|cost| cost.faults),
            median / floor,
        );
    }
    let median = |name: &str| {
        cases
            .iter()
            .find(|case| case.name == name)
            .expect("it is there")
            .quantile(0.5, |cost| cost.wall)
    };
    println!();
    for (one, other) in [
        ("sandbox-exec", "floor"),
        ("sandbox-exec", "floor+filter"),
        ("floor+calls", "floor+filter"),
        ("sandbox-exec", "floor+calls"),
        ("sandbox-run, none", "sandbox-exec"),
        ("floor of run", "sandbox-exec"),
        ("sandbox-run, none", "floor of run"),
        ("prepared launch", "kernel's part"),
    ] {
        println!("{one} / {other}: {:.2}", median(one) / median(other));
    }
}

/// The memory of a launcher that is about to make its exec: it is held there by a full pipe that it wants to tell.
fn resident(agent: &str, policy: &str, program: &str) {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are made and owned here.
    let (_read, write) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let number = write.as_raw_fd();
    // SAFETY: of an own descriptor; what can't be written any more is not.
    unsafe {
        libc::fcntl(number, libc::F_SETFL, libc::O_NONBLOCK);
        while libc::write(number, [0_u8; 4096].as_ptr().cast(), 4096) > 0 {}
        while libc::write(number, [0_u8].as_ptr().cast(), 1) > 0 {}
        libc::fcntl(number, libc::F_SETFL, 0);
        libc::fcntl(number, libc::F_SETFD, 0);
    }
    let mut child = Command::new(agent)
        .args(["sandbox-exec", policy, "--", program])
        .env("OARBANK_CONFINED", number.to_string())
        .spawn()
        .expect("the launcher");
    let status = format!("/proc/{}/status", child.id());
    let confined = |text: &str| text.lines().any(|line| line == "Seccomp:\t2");
    let status = loop {
        let text = fs::read_to_string(&status).expect("a child that was not waited for");
        if confined(&text) {
            break text;
        }
    };
    let fields = ["VmRSS", "RssAnon", "RssFile"].map(|name| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a field");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    println!("resident before the exec: {}", fields.join(", "));
    child.kill().expect("own child");
    child.wait().expect("own child");
}

/// The system calls of a launch, as strace counts them.
fn calls(agent: &str, policy: &str, program: &str) {
    let words = [
        "-f",
        "-o",
        "/dev/stdout",
        agent,
        "sandbox-exec",
        policy,
        "--",
        program,
    ];
    let Ok(traced) = Command::new("strace").args(words).output() else {
        println!("system calls of a launch: not counted, there is no strace");
        return;
    };
    let text = String::from_utf8_lossy(&traced.stdout);
    // From after the launcher's own exec to that of the program.
    let count = text
        .lines()
        .skip(1)
        .take_while(|line| !line.contains("execve("))
        .count()
        + 1;
    // SAFETY: asks for a number.
    let who = if unsafe { libc::geteuid() } == 0 {
        "root, whose bounding set takes one each"
    } else {
        "a user"
    };
    println!("system calls of a launch: {count} (as {who})");
}

/// What each further path costs, against a floor that opens it, makes its rule and closes it.
fn paths(place: &Place, agent: &str, program: &str, rules: &[&str], rounds: usize) {
    const COUNTS: [usize; 4] = [0, 64, 256, 1000];
    let directory = place.directory.join("paths");
    let more = format!("-DMORE=\"{}/\"", text(&directory));
    let floor = place.compile("floor.c", "floor-paths", &[rules, &[&more]].concat());
    let mut cases = Vec::new();
    for count in COUNTS {
        let folders: Vec<String> = (0..count)
            .map(|number| {
                let path = directory.join(number.to_string());
                fs::create_dir_all(&path).expect("own directory");
                format!("{:?}", text(&path))
            })
            .collect();
        let folders = folders.join(", ");
        let json = format!("{{\"ro\": [{folders}], \"exe\": \"{program}\"}}");
        let policy = place.write(&format!("paths-{count}.json"), &json);
        let launch = spawn(&[agent, "sandbox-exec", &policy, "--", program]);
        cases.push(Case::new("sandbox-exec", launch));
        cases.push(Case::new(
            "floor",
            spawn(&[&floor, &count.to_string(), program]),
        ));
    }
    for _ in 0..rounds.div_ceil(4) {
        for case in &mut cases {
            case.costs.push((case.run)());
        }
    }
    let medians: Vec<f64> = cases
        .iter()
        .map(|case| case.quantile(0.5, |cost| cost.wall))
        .collect();
    for (count, pair) in COUNTS.iter().zip(medians.chunks(2)).skip(1) {
        let each = |which: usize| (pair[which] - medians[which]) / *count as f64;
        println!(
            "{count} more paths: {:.2} us each, the floor {:.2}",
            each(0),
            each(1)
        );
    }
}

/// What calls cost inside, against outside, and against the floor's filter of five instructions.
fn inside(place: &Place, agent: &str, rules: &[&str]) {
    let program = place.compile_with("inside.c", "inside", &[]);
    let exe = format!("-DEXE=\"{program}\"");
    let rules: Vec<&str> = rules
        .iter()
        .copied()
        .filter(|rule| !rule.starts_with("-DEXE"))
        .chain([exe.as_str()])
        .collect();
    let floor = place.compile("floor.c", "floor-inside", &rules);
    let policy = place.write("inside.json", &format!("{{\"exe\": \"{program}\"}}"));
    let run = |words: &[&str]| -> Vec<(String, f64)> {
        let done = Command::new(words[0])
            .args(&words[1..])
            .output()
            .expect("it was built");
        assert!(done.status.success(), "{words:?}: {done:?}");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, time)| (name.to_owned(), time.parse().expect("a number")))
            .collect()
    };
    let ways: [&[&str]; 3] = [
        &[&program],
        &[&floor, &program],
        &[agent, "sandbox-exec", &policy, "--", &program],
    ];
    // The best time of each call, in each way.
    let mut best: Vec<(String, [f64; 3])> = Vec::new();
    for _ in 0..5 {
        for (way, words) in ways.iter().enumerate() {
            for (index, (name, time)) in run(words).into_iter().enumerate() {
                if best.len() == index {
                    best.push((name, [f64::INFINITY; 3]));
                }
                let times = &mut best[index].1;
                times[way] = times[way].min(time);
            }
        }
    }
    println!(
        "\n{:<12} {:>10} {:>10} {:>10} {:>7} {:>10}",
        "call", "outside ns", "floor ns", "inside ns", "ratio", "floor's"
    );
    for (name, [outside, floor, inside]) in best {
        println!(
            "{name:<12} {outside:>10.1} {floor:>10.1} {inside:>10.1} {:>7.2} {:>10.2}",
            inside / outside,
            floor / outside
        );
    }
    std::io::stdout().flush().expect("a terminal or a file");
}
