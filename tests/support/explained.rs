//! What `--explain-denials` says of a run, in JSON.

use std::fs;

use super::{Outcome, Policy, Scene, Trial, field};

/// Where it is said, not yet there.
pub(crate) fn log(scene: &Scene) -> String {
    let log = scene.dir("log") + "/denials";
    let _ = fs::remove_file(&log);
    log
}

/// What a run of the probe was, and what was said of it.
pub(crate) struct Explained {
    pub(crate) outcome: Outcome,
    pub(crate) lines: Vec<String>,
}

impl Explained {
    /// In JSON, into a file.
    pub(crate) fn of(trial: &Trial<'_>, policy: &Policy, argv: &[&str]) -> Self {
        let scene = trial.scene;
        let log = log(scene);
        let option = format!("--explain-denials={log}");
        let trial = trial.again().options(&[&option, "--json"]);
        let outcome = trial.run(policy, argv).run();
        trial.is_gone();
        let text = fs::read_to_string(&log).expect("UTF-8");
        assert!(text.ends_with('\n'), "{text}");
        let lines = text.lines().map(str::to_owned).collect();
        Self { outcome, lines }
    }

    /// The lines of an event.
    pub(crate) fn events(&self, name: &str) -> Vec<&str> {
        let start = format!("{{\"event\":\"{name}\",");
        let lines = self.lines.iter().map(String::as_str);
        lines.filter(|line| line.starts_with(&start)).collect()
    }

    /// A number of the last line.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let last = self.lines.last().expect("a line");
        assert!(last.starts_with("{\"event\":\"summary\","), "{last}");
        field(last, name).parse().expect("a number")
    }
}

/// Some steps of the probe, explained; they must be answered what they are answered without.
#[track_caller]
pub(crate) fn explain(scene: &Scene, policy: &Policy, steps: &str) -> Explained {
    let trial = Trial::new(scene, None);
    let argv = scene.probe_argv(steps);
    let explained = Explained::of(&trial, policy, &argv);
    let without = trial.run(policy, &argv).run();
    assert_eq!(
        explained.outcome.code, without.code,
        "{:?}",
        explained.outcome
    );
    assert_eq!(
        explained.outcome.success(),
        without.success(),
        "{steps}: {:?}",
        explained.lines
    );
    explained
}
