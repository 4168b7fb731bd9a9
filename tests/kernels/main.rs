//! The suites on other kernels, and under Landlock ABIs that no kernel here has:
//! `cargo test --test kernels -- --ignored --nocapture`.
//!
//! Each kernel boots in an emulator with a file system that holds the launcher, the probe, the statically linked suites and a
//! static shell: no /usr, no libc, no /etc. Kernels, emulator and shell are fetched once into a folder outside the repository
//! (`OARBANK_KERNELS`, or `oarbank-kernels` among the user's caches). `OARBANK_ONLY=6.12,7.3` runs what has one of these in its name.

mod archive;
mod build;
mod guest;
mod results;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use build::Built;
use guest::{GUESTS, Guest, Landlock};
use results::Results;

/// What runs under a Landlock that launches nothing.
const REFUSED: &[&str] = &["kernel"];

/// What runs where something is launched. The policy's format is no matter of the kernel.
const SUITES: &[&str] = &[
    "kernel",
    "check",
    "filter_kernel",
    "grants",
    "escapes",
    "launch",
    "limits",
];

/// Tests that take more than a thousand launches, too many for an emulator. They are about the launcher's own reading of names;
/// what it asks of the kernel is in the other tests on links too.
const LEFT_OUT: &[&str] = &[
    "a_writable_root_is_recognised_by_any_of_its_names",
    "a_link_out_of_a_writable_root_is_refused",
    "a_link_that_stays_below_its_writable_root_is_followed",
];

fn suites(landlock: Landlock) -> &'static [&'static str] {
    if landlock.suffices() { SUITES } else { REFUSED }
}

/// How many seconds one guest may take.
const LIMIT: u64 = 240;

/// Guests that run at the same time.
const AT_ONCE: usize = 2;

#[test]
#[ignore = "fetches 400 MB and boots nine kernels"]
fn the_suites_hold_on_every_kernel() {
    let only = std::env::var("OARBANK_ONLY").unwrap_or_default();
    let guests: Vec<&Guest> = GUESTS
        .iter()
        .filter(|guest| only.split(',').any(|part| guest.to_string().contains(part)))
        .collect();
    let newest = guests.last().expect("one of the list");
    let cache = fetch();
    let built = Built::new(SUITES);
    let archive = cache.join(format!("guest-{}.cpio", std::process::id()));
    fs::write(
        &archive,
        built.archive(SUITES, &cache.join("root/bin/busybox")),
    )
    .expect("the cache");
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(guest) = guests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let results = in_guest(guest, &cache, &archive, &built);
                    let failed = results
                        .failures
                        .iter()
                        .map(|failure| format!("{guest}: {failure}"));
                    failures.lock().expect("no panic").extend(failed);
                }
            });
        }
    });
    fs::remove_file(&archive).expect("own file");
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("the newest kernel of these is {newest}");
}

/// Runs the suites in a guest and says how that went.
fn in_guest(guest: &Guest, cache: &Path, archive: &Path, built: &Built) -> Results {
    let start = Instant::now();
    let suites = suites(guest.landlock);
    let (console, failed) = guest.boot(cache, archive, suites, LEFT_OUT, LIMIT);
    let log = cache.join(format!("{guest}.log").replace([' ', '='], "-"));
    fs::write(log, &console).expect("the cache");
    let mut results = Results::default();
    results.console(&console);
    results.failures.extend(failed);
    results.judge(&guest.to_string(), &tests(suites, built));
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

/// Every test of these suites.
fn tests(suites: &[&str], built: &Built) -> BTreeSet<(String, String)> {
    let named = |suite: &&str| {
        let suite = (*suite).to_owned();
        built
            .tests(&suite)
            .into_iter()
            .filter(|test| !LEFT_OUT.contains(&test.as_str()))
            .map(move |test| (suite.clone(), test))
    };
    suites.iter().flat_map(named).collect()
}

/// The folder with kernels, emulator and shell.
fn fetch() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let folder = folder("OARBANK_KERNELS").or_else(|| Some(cache()?.join("oarbank-kernels")));
    let folder = folder.expect("a home directory");
    let versions: BTreeSet<&str> = GUESTS.iter().map(|guest| guest.version).collect();
    let fetched = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/fetch.sh"))
        .arg(&folder)
        .args(versions)
        .stdout(Stdio::null())
        .status();
    assert!(
        fetched.expect("bash").success(),
        "kernels, emulator or shell can't be had"
    );
    folder
}
