//! The judge of the parser: serde_json with the contract's fields, and the rules by which a policy is held to more
//! than that. None of it is taken from the launcher.

use serde::Deserialize;

/// The policy as the contract's table has it; what is missing takes its default, what is unknown is skipped, what
/// stands there twice is an error.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Judged {
    /// A label, as `kind`: held to be a string, and read by nobody.
    module: String,
    pub(crate) ro: Vec<String>,
    pub(crate) rw: Vec<String>,
    pub(crate) rd: Vec<String>,
    pub(crate) wo: Vec<String>,
    pub(crate) net: String,
    pub(crate) proxy_port: Option<u16>,
    pub(crate) broker_socket: Option<String>,
    pub(crate) gpu: bool,
    pub(crate) exec_rw: bool,
    kind: String,
    pub(crate) exe: Option<String>,
}

impl Default for Judged {
    fn default() -> Self {
        Judged {
            module: String::new(),
            ro: Vec::new(),
            rw: Vec::new(),
            rd: Vec::new(),
            wo: Vec::new(),
            net: "none".to_owned(),
            proxy_port: None,
            broker_socket: None,
            gpu: false,
            exec_rw: false,
            kind: "runner".to_owned(),
            exe: None,
        }
    }
}

/// What serde_json makes of a text.
pub(crate) fn judge(text: &[u8]) -> Result<Judged, serde_json::Error> {
    serde_json::from_slice(text)
}

impl Judged {
    fn listed(&self) -> impl Iterator<Item = &String> {
        [&self.ro, &self.rw, &self.rd, &self.wo]
            .into_iter()
            .flatten()
    }

    fn paths(&self) -> impl Iterator<Item = &String> {
        self.listed().chain(&self.broker_socket).chain(&self.exe)
    }

    /// The documented rule beyond serde_json's that a text breaks. The labels have none.
    pub(crate) fn broken_rule(&self, text: &[u8]) -> Option<&'static str> {
        let path = |wrong: fn(&str) -> bool| self.paths().any(|path| wrong(path));
        let rules = [
            // serde takes the array form of a struct too.
            (
                "the object form",
                !text.trim_ascii_start().starts_with(b"{"),
            ),
            // serde_json looks at no skipped byte's encoding.
            ("UTF-8", std::str::from_utf8(text).is_err()),
            ("64 levels", depth(text) > 64),
            ("1,024 paths", self.listed().count() > 1024),
            ("no empty path", path(str::is_empty)),
            ("absolute paths", path(|path| !path.starts_with('/'))),
            ("no NUL", path(|path| path.contains('\0'))),
            ("PATH_MAX", path(|path| path.len() >= 4096)),
            (
                "no ..",
                path(|path| path.split('/').any(|name| name == "..")),
            ),
            (
                "net",
                !["none", "egress-allowlist"].contains(&self.net.as_str()),
            ),
            ("port 0", self.proxy_port == Some(0)),
            (
                "a port for the allowlist",
                self.net == "egress-allowlist" && self.proxy_port.is_none(),
            ),
        ];
        rules
            .into_iter()
            .find_map(|(rule, broken)| broken.then_some(rule))
    }
}

/// How many arrays and objects are inside each other, in a text that is JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_knows_the_rules() {
        let verdict = |text: &[u8]| judge(text).map(|judged| judged.broken_rule(text));
        for (text, rule) in [
            (&br#"{"ro": ["/a"], "x": [1]}"#[..], None),
            (b"[]", Some("the object form")),
            (b"{\"x\": \"\xff\"}", Some("UTF-8")),
            (br#"{"exe": ""}"#, Some("no empty path")),
            (br#"{"wo": ["a"]}"#, Some("absolute paths")),
            (br#"{"rd": ["/a\u0000"]}"#, Some("no NUL")),
            (br#"{"rw": ["/a/.."]}"#, Some("no ..")),
            (br#"{"net": "egress-any"}"#, Some("net")),
            (br#"{"proxy_port": 0}"#, Some("port 0")),
            (
                br#"{"net": "egress-allowlist"}"#,
                Some("a port for the allowlist"),
            ),
        ] {
            assert_eq!(verdict(text).expect("JSON"), rule, "{text:?}");
        }
        let nested = |levels| format!("{{\"x\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(verdict(nested(63).as_bytes()).expect("JSON"), None);
        assert_eq!(
            verdict(nested(64).as_bytes()).expect("JSON"),
            Some("64 levels")
        );
        assert!(verdict(br#"{"gpu": true, "gpu": true}"#).is_err());
    }
}
