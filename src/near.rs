//! The word that was probably meant: for what a person types, and what no list has.

#![forbid(unsafe_code)]

/// The most bytes of a word that is looked at; what is meant is shorter.
const LONGEST: usize = 32;

/// The most slips that are taken for slips.
const SLIPS: usize = 2;

/// The known word that is nearest to `word`, if one is near: two slips at most, and half of a short word; or a beginning of it.
pub fn nearest<'k>(word: &[u8], known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let stem = stem(word);
    let scored = known.filter_map(|known| {
        let target = self::stem(known.as_bytes());
        let allowed = SLIPS.min(target.len() / 2);
        match slips(stem, target)? {
            few if few <= allowed => Some((few, known)),
            // `--mem`: worse than any slip.
            _ if is_start(stem, target) => Some((SLIPS + 1, known)),
            _ => None,
        }
    });
    scored.min_by_key(|(score, _)| *score).map(|(_, name)| name)
}

/// A word without what all words of its kind begin with, so that `exec` and `-timeout` are near to something.
fn stem(word: &[u8]) -> &[u8] {
    let joint = |byte: &u8| matches!(byte, b'-' | b'_');
    let bare = |word: &[u8]| word.iter().take_while(|byte| joint(byte)).count();
    let word = word.split_at(bare(word)).1;
    let word = match word.split_at_checked(b"sandbox".len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(b"sandbox") => rest,
        _ => word,
    };
    word.split_at(bare(word)).1
}

fn is_start(word: &[u8], of: &[u8]) -> bool {
    let start = of.get(..word.len());
    !word.is_empty() && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// How many letters were left out, added, changed or swapped with their neighbour ("optimal string alignment"); the case
/// does not count. `None`: a word is too long to be one of ours.
fn slips(one: &[u8], other: &[u8]) -> Option<usize> {
    if one.len() > LONGEST || other.len() > LONGEST {
        return None;
    }
    let letter = |word: &[u8], at: usize| word.get(at).map(u8::to_ascii_lowercase);
    // Three rows of the table of distances between beginnings: of the word's letter, the one before, and the one before that.
    let mut rows = [[0_usize; LONGEST + 1]; 3];
    rows[0] = core::array::from_fn(|column| column);
    for row in 1..=one.len() {
        rows.rotate_right(1);
        rows[0][0] = row;
        for column in 1..=other.len() {
            let same = letter(one, row - 1) == letter(other, column - 1);
            let mut least = (rows[1][column] + 1).min(rows[0][column - 1] + 1);
            least = least.min(rows[1][column - 1] + usize::from(!same));
            let swapped = row > 1
                && column > 1
                && letter(one, row - 1) == letter(other, column - 2)
                && letter(one, row - 2) == letter(other, column - 1);
            if swapped {
                least = least.min(rows[2][column - 2] + 1);
            }
            rows[0][column] = least;
        }
    }
    Some(rows[0][other.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_left_out_added_changed_or_swapped() {
        for (one, other, expected) in [
            ("", "", Some(0)),
            ("", "abc", Some(3)),
            ("abc", "", Some(3)),
            ("exec_rw", "EXEC_RW", Some(0)),
            ("exec_wr", "exec_rw", Some(1)),
            ("exec-rw", "exec_rw", Some(1)),
            ("exe_rw", "exec_rw", Some(1)),
            ("execc_rw", "exec_rw", Some(1)),
            ("ro", "wo", Some(1)),
            ("kitten", "sitting", Some(3)),
            ("ab", "ba", Some(1)),
            ("abcd", "badc", Some(2)),
        ] {
            assert_eq!(
                slips(one.as_bytes(), other.as_bytes()),
                expected,
                "{one} {other}"
            );
            assert_eq!(slips(other.as_bytes(), one.as_bytes()), expected);
        }
        let long = [b'a'; LONGEST + 1];
        assert_eq!(slips(&long, b"a"), None);
        assert_eq!(slips(b"a", &long), None);
        assert_eq!(slips(&long[1..], &long[1..]), Some(0));
    }

    #[test]
    fn what_was_meant_is_found_and_nothing_else() {
        const OPTIONS: [&str; 5] = ["--timeout", "--memory-max", "--cgroup", "--help", "--json"];
        const COMMANDS: [&str; 4] = ["sandbox-exec", "sandbox-run", "sandbox-report", "--help"];
        const FIELDS: [&str; 6] = ["ro", "rw", "net", "proxy_port", "exec_rw", "exe"];
        for (word, known, expected) in [
            ("--timout", &OPTIONS[..], Some("--timeout")),
            ("-timeout", &OPTIONS, Some("--timeout")),
            ("--memmory-max", &OPTIONS, Some("--memory-max")),
            ("--mem", &OPTIONS, Some("--memory-max")),
            ("-h", &OPTIONS, Some("--help")),
            ("--jsno", &OPTIONS, Some("--json")),
            ("--network", &OPTIONS, None),
            ("-", &OPTIONS, None),
            ("---", &OPTIONS, None),
            ("", &OPTIONS, None),
            ("sandbox-exce", &COMMANDS, Some("sandbox-exec")),
            ("sandbox_exec", &COMMANDS, Some("sandbox-exec")),
            ("sandbox", &COMMANDS, None),
            ("exec", &COMMANDS, Some("sandbox-exec")),
            ("run", &COMMANDS, Some("sandbox-run")),
            ("help", &COMMANDS, Some("--help")),
            ("policy.json", &COMMANDS, None),
            ("/bin/sh", &COMMANDS, None),
            ("exec_wr", &FIELDS, Some("exec_rw")),
            ("RW", &FIELDS, Some("rw")),
            ("rwx", &FIELDS, Some("rw")),
            ("proxy", &FIELDS, Some("proxy_port")),
            ("proxyPort", &FIELDS, Some("proxy_port")),
            ("x", &FIELDS, None),
            ("xyz", &FIELDS, None),
            ("added_later", &FIELDS, None),
        ] {
            let known = known.iter().copied();
            assert_eq!(nearest(word.as_bytes(), known), expected, "{word}");
        }
    }
}
