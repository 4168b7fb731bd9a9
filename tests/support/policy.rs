//! A policy, written as JSON.

/// The fields that a test sets; the rest is left out and so takes its default.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    fields: Vec<(String, String)>,
    lists: Vec<(&'static str, Vec<String>)>,
}

impl Policy {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn ro(self, path: &str) -> Self {
        self.path("ro", path)
    }

    pub(crate) fn rw(self, path: &str) -> Self {
        self.path("rw", path)
    }

    pub(crate) fn rd(self, path: &str) -> Self {
        self.path("rd", path)
    }

    pub(crate) fn wo(self, path: &str) -> Self {
        self.path("wo", path)
    }

    /// One more path of a list.
    pub(crate) fn path(mut self, list: &'static str, path: &str) -> Self {
        match self.lists.iter_mut().find(|(name, _)| *name == list) {
            Some((_, paths)) => paths.push(path.to_owned()),
            None => self.lists.push((list, vec![path.to_owned()])),
        }
        self
    }

    pub(crate) fn exe(self, path: &str) -> Self {
        self.field("exe", &quoted(path))
    }

    pub(crate) fn exec_rw(self) -> Self {
        self.field("exec_rw", "true")
    }

    pub(crate) fn gpu(self) -> Self {
        self.field("gpu", "true")
    }

    pub(crate) fn broker(self, socket: &str) -> Self {
        self.field("broker_socket", &quoted(socket))
    }

    /// TCP to that port alone.
    pub(crate) fn proxy(self, port: u16) -> Self {
        self.field("net", "\"egress-allowlist\"")
            .field("proxy_port", &port.to_string())
    }

    /// A field with its value as it will stand in the file; replaces an earlier one.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(earlier, _)| earlier != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(&self) -> String {
        let lists = self.lists.iter().map(|(name, paths)| {
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            format!("\"{name}\": [{}]", paths.join(", "))
        });
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| format!("\"{name}\": {value}"));
        let members: Vec<String> = lists.chain(fields).collect();
        format!("{{{}}}", members.join(", "))
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            '\0'..'\u{20}' => format!("\\u{:04x}", u32::from(letter)),
            _ => letter.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}
