//! The kept corpus, through the same checks as in the fuzzer.

use std::fs;
use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        // Shown when a check fails.
        eprintln!("{}", path.display());
        let data = fs::read(&path).expect("a file");
        check(&data);
        files += 1;
        bytes += data.len();
    }
    assert!((20..200).contains(&files), "{files} files");
    assert!(bytes < 200 * 1024, "{bytes} bytes");
}

#[test]
fn policy() {
    replay("policy", oarbank_agent_fuzz::policy::check);
}

#[test]
fn ruleset() {
    replay("ruleset", oarbank_agent_fuzz::ruleset::check);
}
