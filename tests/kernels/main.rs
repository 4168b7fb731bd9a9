//! The suites on other kernels, on another architecture, and under a real systemd:
//! `cargo test --test kernels -- --ignored --nocapture`.
//!
//! Each kernel boots in an emulator with a file system that holds the launcher, the probe, the statically linked suites and a
//! static shell: no libc, and nothing else but systemd where that is meant. All of it is fetched once into a folder outside
//! the repository (`OARBANK_KERNELS`, or `oarbank-kernels` among the user's caches). `OARBANK_ONLY=6.12,amd64` runs what has one
//! of these in its name.

mod archive;
mod build;
mod guest;
mod results;
mod suites;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use build::Built;
use guest::{GUESTS, Guest, Landlock, System};
use results::Results;
use support::other_abi::with_abi;

/// How many seconds one guest may take: alone two minutes at most, beside another and the build for arm64 on two slow cores
/// nearly twice as long.
const LIMIT: u64 = 600;

/// Guests that run at the same time.
const AT_ONCE: usize = 2;

#[test]
#[ignore = "fetches 360 MB and boots sixteen guests"]
fn the_suites_hold_on_every_kernel() {
    let only = std::env::var("OARBANK_ONLY").unwrap_or_default();
    let is_meant = |guest: &&Guest| only.split(',').any(|part| guest.to_string().contains(part));
    let guests: Vec<&Guest> = GUESTS.iter().filter(is_meant).collect();
    let newest = guests.first().expect("one of the list");
    let cache = fetch(&guests);
    let start = Instant::now();
    let built = Built::new(System::Amd64, &cache);
    println!("built in {} s", start.elapsed().as_secs());
    let archives: BTreeMap<System, OnceLock<Option<PathBuf>>> = guests
        .iter()
        .map(|guest| (guest.system, OnceLock::new()))
        .collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        // Those for the first guests come first; the others are built beside them.
        for (system, archive) in &archives {
            let (built, cache) = (&built, &cache);
            let make = move || {
                let other = || Built::new(*system, cache).archive(*system, cache);
                let bytes = match system {
                    System::Arm64 => other(),
                    _ => built.archive(*system, cache),
                };
                let path = cache.join(format!("{system:?}-{}.cpio", std::process::id()));
                fs::write(&path, bytes).expect("the cache");
                path
            };
            // Whoever waits for it goes on also when it can't be made.
            let make = AssertUnwindSafe(make);
            threads.spawn(move || archive.set(catch_unwind(make).ok()).expect("made once"));
        }
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(guest) = guests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(archive) = archives[&guest.system].wait() else {
                        let failure = format!("{guest}: its programs can't be built");
                        failures.lock().expect("no panic").push(failure);
                        continue;
                    };
                    let results = in_guest(guest, &cache, archive, &built);
                    let failed = results
                        .failures
                        .iter()
                        .map(|failure| format!("{guest}: {failure}"));
                    failures.lock().expect("no panic").extend(failed);
                }
            });
        }
    });
    for archive in archives.into_values().filter_map(|made| made.into_inner()?) {
        fs::remove_file(&archive).expect("own file");
    }
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let seconds = start.elapsed().as_secs();
    println!(
        "all in {seconds} s; the newest kernel of these is {}",
        newest.version
    );
}

/// The ABIs that no kernel of a distribution has: this kernel's, cut down by a supervisor.
#[test]
#[ignore = "takes a minute"]
fn the_suites_hold_under_every_other_abi() {
    let built = Built::new(System::Amd64, Path::new(""));
    let mut failures = Vec::new();
    for abi in 3..=5 {
        let place = format!("Landlock ABI {abi}");
        if support::landlock_abi() < abi.into() {
            support::skip(&format!("this kernel is older than {place}"));
            continue;
        }
        let start = Instant::now();
        let mut results = Results::default();
        for suite in suites::LANDLOCK {
            let mut output = None;
            with_abi(Ok(abi), || {
                let skipped = suites::SEE_SUPERVISOR
                    .iter()
                    .flat_map(|test| ["--skip", test]);
                let run = Command::new(built.path(suite))
                    .arg("--exact")
                    .args(skipped)
                    .stdin(Stdio::null())
                    .output();
                output = Some(run.expect("a suite"));
            });
            let output = output.expect("it was run");
            let text = String::from_utf8_lossy;
            let code = output
                .status
                .code()
                .map_or("a signal".to_owned(), |code| code.to_string());
            results.suite(suite, &text(&output.stdout), &text(&output.stderr), &code);
        }
        results.judge(
            &place,
            &tests(suites::LANDLOCK, suites::SEE_SUPERVISOR, &built),
        );
        println!("{place}: {results}, {} s", start.elapsed().as_secs());
        failures.extend(
            results
                .failures
                .iter()
                .map(|failure| format!("{place}: {failure}")),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The initramfs that `dist/initramfs.sh` makes: its first process mounts what a host has and becomes the program.
#[test]
#[ignore = "boots a guest"]
fn the_initramfs_of_dist_starts_a_confined_program() {
    const SCRIPT: &str = "grep NoNewPrivs /proc/self/status; echo a >/work/a && cat /work/a; echo a >/tmp/a || echo refused; sleep 1";
    let guest = GUESTS
        .iter()
        .find(|guest| guest.landlock == Landlock::Abi(7))
        .expect("one of the list");
    let cache = fetch(&[guest]);
    let built = Built::new(System::Amd64, &cache);
    let directory = support::TempDir::new();
    let (policy, archive) = ["policy.json", "initramfs"]
        .map(|name| directory.path().join(name))
        .into();
    fs::write(&policy, r#"{"rw": ["/work"]}"#).expect("own file");
    let mut make = Command::new("dist/initramfs.sh");
    make.arg(built.path("oarbank-agent"))
        .arg(&policy)
        .arg(cache.join("emulator/usr/bin/busybox"))
        .arg(&archive)
        .args(["/bin/sh", "-c", SCRIPT]);
    assert!(make.status().expect("bash").success());
    let (console, failed) = guest.boot(&cache, &archive, &[], LIMIT);
    assert_eq!(failed, None, "{console}");
    assert!(
        console.contains("NoNewPrivs:\t1\na\n") && console.contains("\nrefused\n"),
        "{console}"
    );
    println!("the initramfs of dist, Linux {}: confined", guest.version);
}

/// Runs the suites in a guest and says how that went.
fn in_guest(guest: &Guest, cache: &Path, archive: &Path, built: &Built) -> Results {
    let start = Instant::now();
    let (console, failed) = guest.boot(cache, archive, suites::LEFT_OUT, LIMIT);
    let log = cache.join(format!("{guest}.log").replace([' ', '='], "-"));
    fs::write(log, &console).expect("the cache");
    let mut results = Results::default();
    results.console(&console);
    results.failures.extend(failed);
    results.judge(
        &guest.to_string(),
        &tests(guest.suites, suites::LEFT_OUT, built),
    );
    let release = console
        .split("=== kernel ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let release = release.unwrap_or("?");
    println!(
        "{guest} ({release}, Landlock {}): {results}, {} s",
        guest.landlock,
        start.elapsed().as_secs()
    );
    results
}

/// Every test of these suites; they are the same on every architecture.
fn tests(suites: &[&str], left_out: &[&str], built: &Built) -> BTreeSet<(String, String)> {
    let named = |suite: &&str| {
        let suite = (*suite).to_owned();
        built
            .tests(&suite)
            .into_iter()
            .filter(|test| !left_out.contains(&test.as_str()))
            .map(move |test| (suite.clone(), test))
    };
    suites.iter().flat_map(named).collect()
}

/// The folder with all that was fetched for these guests.
fn fetch(guests: &[&Guest]) -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let folder = folder("OARBANK_KERNELS").or_else(|| Some(cache()?.join("oarbank-kernels")));
    let folder = folder.expect("a home directory");
    let kernels: BTreeSet<String> = guests.iter().map(|guest| guest.kernel()).collect();
    let fetched = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/fetch.sh"))
        .arg(&folder)
        .args(kernels)
        .stdout(Stdio::null())
        .status();
    assert!(
        fetched.expect("bash").success(),
        "kernels, emulator, shell, systemd or compiler can't be had"
    );
    folder
}
