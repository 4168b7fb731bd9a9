//! What came of the suites in one place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Skips that are right: what stands in the name of the place (empty: any), which test (empty: any), and how its reason
/// starts. Every other skip is a failure.
///
/// A guest holds no program but the shell, and no library.
const MAY_SKIP: &[(&str, &str, &str)] = &[
    (
        "",
        "a_capability_that_does_not_hold_is_unavailable_with_the_reason",
        "no strace",
    ),
    (
        "",
        "a_check_in_json_is_one_object_also_of_a_failure",
        "no /usr/bin/python3",
    ),
    (
        "",
        "the_report_says_what_this_kernel_enforces",
        "no /usr/bin/python3",
    ),
    (
        "",
        "the_exec_is_foreseen_with_the_part_that_fails",
        "the shell has no loader",
    ),
    (
        "",
        "egress_allowlist_is_for_a_real_client",
        "no /usr/bin/python3",
    ),
    (
        "",
        "gpu_lets_the_module_name_its_threads",
        "no /usr/bin/python3",
    ),
    (
        "",
        "the_shells_redirections_to_devices_work",
        "no /bin/bash",
    ),
    ("", "a_panic_ends_in_70", "no strace"),
    ("", "every_call_that_fails_ends_the_launch", "no strace"),
    (
        "",
        "the_first_call_is_ours_and_the_steps_are_in_order",
        "no strace",
    ),
    ("", "a_shell_stops_and_continues_it_as_a_job", "no python3"),
    (
        "",
        "a_stub_that_does_not_confine_is_killed_before_it_acts",
        "no strace",
    ),
    (
        "",
        "there_is_one_exec_and_it_comes_after_the_verification",
        "no strace",
    ),
    ("", "real_programs_run", "no /"),
    (
        "",
        "what_a_module_calls_itself_is_made_harmless",
        "no /usr/bin/python3",
    ),
    (
        "",
        "nothing_that_the_module_has_is_held_open_beside_it",
        "no /bin/bash",
    ),
    (
        "",
        "a_file_loses_no_line_on_a_system_that_would_have_it_wait",
        "no /usr/sbin/mkfs.",
    ),
    ("arm64", "the_32_bit_call_table_kills", "x86_64 only"),
    ("arm64", "x32_numbers_are_refused", "x86_64 only"),
    (
        "Landlock ABI 3",
        "",
        "egress-allowlist needs Landlock ABI 4",
    ),
    // Without audit=1; a guest with it fails instead.
    ("", "", "what Landlock denies is not seen here"),
    // Turned off by the distribution since Linux 6.2.
    (
        "",
        "nothing_is_typed_into_the_terminal",
        "this kernel refuses TIOCSTI",
    ),
];

/// What the suites printed.
#[derive(Default)]
pub(crate) struct Results {
    /// The result of each test, by suite and name.
    tests: BTreeMap<(String, String), String>,
    skips: Vec<String>,
    pub(crate) failures: Vec<String>,
}

impl Results {
    /// Reads what a suite printed on standard output and error.
    pub(crate) fn suite(&mut self, suite: &str, out: &str, err: &str, code: &str) {
        for line in out.lines() {
            let result = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "));
            if let Some((test, result)) = result {
                self.tests
                    .insert((suite.to_owned(), test.to_owned()), result.to_owned());
            }
        }
        let skips = err.lines().filter_map(|line| line.strip_prefix("SKIPPED "));
        self.skips
            .extend(skips.map(|skip| format!("{suite}: {skip}")));
        if code != "0" {
            // What the failed tests said.
            let said = out.split_once("failures:\n").map_or(out, |(_, said)| said);
            self.failures
                .push(format!("{suite} ends with {code}:\n{said}\n{err}"));
        }
    }

    /// Reads what `/init` has printed, to its last mark.
    pub(crate) fn console(&mut self, console: &str) {
        for part in console.split("=== suite ").skip(1) {
            let (suite, rest) = part.split_once('\n').unwrap_or((part, ""));
            let (out, rest) = rest.split_once("=== errors\n").unwrap_or((rest, ""));
            let (err, end) = rest.split_once("=== end ").unwrap_or((rest, "nothing"));
            let code = end.split_whitespace().next().unwrap_or_default();
            self.suite(suite, out, err, code);
        }
        if !console.lines().any(|line| line == "=== done") {
            let last = console
                .char_indices()
                .rev()
                .nth(2000)
                .map_or(0, |(at, _)| at);
            self.failures.push(format!(
                "the guest did not come to its end:\n{}",
                &console[last..]
            ));
        }
    }

    /// Holds them against the tests that there are, and the skips against those that are right here.
    pub(crate) fn judge(&mut self, place: &str, expected: &BTreeSet<(String, String)>) {
        for (suite, test) in expected {
            let result = self.tests.get(&(suite.clone(), test.clone()));
            let result = result.map_or("did not run", String::as_str);
            if result != "ok" {
                self.failures.push(format!("{suite}: {test}: {result}"));
            }
        }
        let unknown = self.tests.keys().filter(|test| !expected.contains(test));
        self.failures
            .extend(unknown.map(|test| format!("{test:?} is in no list")));
        let wrong = self.skips.iter().filter(|skip| {
            !MAY_SKIP.iter().any(|(part, test, reason)| {
                let is_meant = test.is_empty() || skip.contains(&format!(": {test}: "));
                is_meant && place.contains(part) && skip.contains(&format!(": {reason}"))
            })
        });
        self.failures
            .extend(wrong.map(|skip| format!("skipped without leave: {skip}")));
    }
}

impl fmt::Display for Results {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.tests.values().filter(|result| *result == "ok").count();
        let (skips, failures) = (self.skips.len(), self.failures.len());
        write!(
            out,
            "{passed} tests passed, {skips} skips, {failures} failures"
        )
    }
}
