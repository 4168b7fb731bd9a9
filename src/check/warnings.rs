//! What is likely wrong with a policy.

use core::ffi::CStr;

use heapless::Vec;

use super::print::{Report, resolved};
use crate::landlock::access::Grant;
use crate::limits::PATH_MAX;
use crate::sys::args::Vector;
use crate::sys::fs;

/// Where the rules are, to be compared.
pub(super) struct Places<'a> {
    arena: &'a mut [u8],
    used: usize,
    list: Vec<Place, 2048>,
    /// Whether there was room for all.
    all: bool,
}

struct Place {
    start: usize,
    end: usize,
    writable: bool,
    executable: bool,
}

impl<'a> Places<'a> {
    /// None yet; `arena` takes their paths.
    pub(super) const fn new(arena: &'a mut [u8]) -> Self {
        Places {
            arena,
            used: 0,
            list: Vec::new(),
            all: true,
        }
    }

    pub(super) fn add(&mut self, path: &[u8], grant: Grant) {
        let (start, end) = (self.used, self.used + path.len());
        let place = Place {
            start,
            end,
            writable: matches!(grant, Grant::Work { .. } | Grant::Outbox),
            executable: matches!(grant, Grant::Program),
        };
        match self.arena.get_mut(start..end) {
            Some(room) if !self.list.is_full() => {
                room.copy_from_slice(path);
                self.used = end;
                let _ = self.list.push(place);
            }
            _ => self.all = false,
        }
    }

    fn path(&self, place: &Place) -> &[u8] {
        self.arena.get(place.start..place.end).unwrap_or_default()
    }
}

/// Whether a path is another, or beneath it.
fn is_beneath(path: &[u8], place: &[u8]) -> bool {
    let place = place.strip_suffix(b"/").unwrap_or(place);
    path.strip_prefix(place)
        .is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
}

/// Whether a path is a home directory: HOME's, root's, or one of /home.
fn is_home(path: &[u8], home: Option<&[u8]>) -> bool {
    let user = path.strip_prefix(b"/home/");
    path == b"/root"
        || home == Some(path)
        || user.is_some_and(|user| !user.is_empty() && !user.contains(&b'/'))
}

/// What is likely wrong.
pub(super) fn warn(
    report: &mut Report<'_>,
    policy: &CStr,
    environment: &Vector<'_>,
    places: &Places<'_>,
) {
    let home = environment
        .iter()
        .find_map(|variable| variable.to_bytes().strip_prefix(b"HOME="));
    let mut room = [0; PATH_MAX];
    let policy = fs::open_location_following(policy)
        .ok()
        .and_then(|fd| resolved(&fd, &mut room));
    report.begin_list("warnings");
    for place in &places.list {
        let path = places.path(place);
        if path == b"/" {
            report.warning(path, "the whole file system is granted", None);
        } else if is_home(path, home) {
            report.warning(path, "a home directory is granted", None);
        }
        if !place.writable {
            continue;
        }
        if let Some(policy) = policy.filter(|policy| is_beneath(policy, path)) {
            report.warning(path, "the module can change its own policy", Some(policy));
        }
        for inner in places.list.iter().filter(|inner| inner.executable) {
            let inner = places.path(inner);
            if is_beneath(inner, path) {
                report.warning(
                    path,
                    "the module can change what it may execute",
                    Some(inner),
                );
            }
        }
    }
    if !places.all {
        report.warning(b"", "there are too many rules to compare all", None);
    }
    report.end_list();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_beneath_itself_and_its_directories() {
        for (path, place, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("/", "/", true),
        ] {
            assert_eq!(
                is_beneath(path.as_bytes(), place.as_bytes()),
                expected,
                "{path} {place}"
            );
        }
    }

    #[test]
    fn home_directories_are_known() {
        for (path, expected) in [
            ("/root", true),
            ("/home/a", true),
            ("/srv/me", true),
            ("/home", false),
            ("/home/", false),
            ("/home/a/b", false),
            ("/rooted", false),
        ] {
            assert_eq!(
                is_home(path.as_bytes(), Some(b"/srv/me")),
                expected,
                "{path}"
            );
        }
    }
}
