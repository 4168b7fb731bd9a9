//! The parser against its judge: what serde_json refuses is refused; what breaks a documented rule is refused; the
//! rest is accepted and means the same.

use std::ffi::CStr;

use oarbank_agent::policy::{List, Listed, Net, Policy, reader};

use crate::judge::{Judged, judge};

/// Panics if the parser and its judge disagree on a text.
pub fn check(text: &[u8]) {
    let mut space = vec![0; text.len()];
    let mut lists = Listed::new();
    match (reader::read(text, &mut space, &mut lists), judge(text)) {
        (Err(error), judged) => {
            let line = error.to_string();
            assert!(line.starts_with("oarbank-agent: policy: "), "{line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
            if let Ok(judged) = judged {
                assert!(
                    judged.broken_rule(text).is_some(),
                    "refused without a rule: {line}"
                );
            }
        }
        (Ok(policy), Ok(judged)) => {
            assert_eq!(judged.broken_rule(text), None, "{policy:?}");
            same(&policy, &judged);
        }
        (Ok(policy), Err(error)) => panic!("accepted, but {error}: {policy:?}"),
    }
}

fn same(policy: &Policy<'_>, judged: &Judged) {
    for (list, expected) in [
        (List::Ro, &judged.ro),
        (List::Rw, &judged.rw),
        (List::Rd, &judged.rd),
        (List::Wo, &judged.wo),
    ] {
        let paths: Vec<&CStr> = policy
            .entries()
            .filter(|(of, _)| *of == list)
            .map(|(_, entry)| entry.path)
            .collect();
        assert!(
            paths
                .iter()
                .map(|path| path.to_bytes())
                .eq(expected.iter().map(String::as_bytes)),
            "{list:?}: {paths:?} is not {expected:?}"
        );
    }
    for (number, (_, entry)) in policy.entries().enumerate() {
        assert_eq!(policy.list_path(number), entry.path);
    }
    let net = match policy.net {
        Net::None => None,
        Net::Proxy(port) => Some(port.get()),
    };
    let port = judged
        .proxy_port
        .filter(|_| judged.net == "egress-allowlist");
    assert_eq!(net, port);
    assert_eq!(policy.gpu, judged.gpu);
    assert_eq!(policy.exec_rw, judged.exec_rw);
    let text = |path: &Option<String>| path.as_ref().map(|path| path.as_bytes().to_owned());
    let one = |path: &CStr| path.to_bytes().to_owned();
    let broker = policy.broker_socket().map(|entry| one(entry.path));
    assert_eq!(broker, text(&judged.broker_socket));
    assert_eq!(policy.exe().map(|entry| one(entry.path)), text(&judged.exe));
}
