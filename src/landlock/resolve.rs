//! Paths below writable roots.
//!
//! A rule is made on what a path means at the launch. A module of an earlier run may have put a symbolic link
//! into its writable root, so that a path of this policy, below that root, leads out of it. Therefore:
//!
//! 1. A path is opened with RESOLVE_NO_SYMLINKS first (`openat2(2)`). If that works, no link took part.
//! 2. If it doesn't (ELOOP), the path is walked here, component by component, and each link read. A link that
//!    lies beneath a writable root binds the path to that root: it must end there.
//! 3. The link-free path that the walk found is opened with RESOLVE_NO_SYMLINKS again. Whatever was changed
//!    in between, the object opened is the one at that very path, or the launch ends with ELOOP.

use core::ffi::CStr;

use heapless::Vec;

use crate::limits::{PATH_MAX, PATHS, SYMLINKS};
use crate::sys::{Errno, OwnedFd, fs};

/// How many bytes the real paths of writable roots may have that are reached through links.
const REAL_PATHS: usize = 1 << 20;

/// The memory of a resolver, large enough to be a static of the binary.
pub struct Space {
    walk: Walk,
    /// Where `exe` ended outside its root.
    outside: Vec<u8, PATH_MAX>,
    roots: Vec<Root, PATHS>,
    /// The real paths of roots that were reached through links.
    real_paths: Vec<u8, REAL_PATHS>,
}

/// A writable root: the number of its path among the policy's, and where its real path is.
#[derive(Clone, Copy)]
struct Root {
    path: usize,
    /// In `real_paths`; `None` if the path as given is free of links.
    real: Option<(usize, usize)>,
}

/// Why a path can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A call failed.
    Errno(Errno),
    /// It leads out of this writable root (a number that [`Space::add_root`] was given).
    Leaves(usize),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure::Errno(errno)
    }
}

impl Space {
    /// An empty one.
    pub const fn new() -> Self {
        Space {
            walk: Walk::new(),
            outside: Vec::new(),
            roots: Vec::new(),
            real_paths: Vec::new(),
        }
    }

    /// Notes a writable root, which has the number `path` among the policy's paths. If no link takes part in
    /// it, it is also opened: nothing can have been done to it.
    pub fn add_root(&mut self, path: usize, root: &CStr) -> Result<Option<OwnedFd>, Errno> {
        let (opened, real) = match fs::open_location(root) {
            Ok(fd) => (Some(fd), None),
            Err(Errno::LOOP) => {
                self.walk.run(root, |_| {})?;
                let start = self.real_paths.len();
                self.real_paths
                    .extend_from_slice(&self.walk.real)
                    .map_err(|_| Errno::NAMETOOLONG)?;
                (None, Some((start, self.real_paths.len())))
            }
            Err(errno) => return Err(errno),
        };
        self.roots
            .push(Root { path, real })
            .map_err(|_| Errno::NAMETOOLONG)?;
        Ok(opened)
    }

    /// Whether a path of the policy is a root that [`Self::add_root`] has opened.
    pub fn is_root_without_links(&self, path: usize) -> bool {
        // Roots are added in the order of the policy.
        let found = self.roots.binary_search_by_key(&path, |root| root.path);
        found.is_ok_and(|index| self.roots[index].real.is_none())
    }

    /// Opens a path. All roots must have been added; `given` has the policy's paths by their number.
    pub fn open<'a>(
        &mut self,
        path: &CStr,
        given: impl Fn(usize) -> &'a [u8],
    ) -> Result<OwnedFd, Failure> {
        match fs::open_location(path) {
            Err(Errno::LOOP) => {}
            opened => return Ok(opened?),
        }
        let mut bound: Option<usize> = None;
        let real_path = |root: &Root| match root.real {
            Some((start, end)) => self.real_paths.get(start..end).unwrap_or_default(),
            None => given(root.path),
        };
        self.walk.run(path, |directory| {
            if bound.is_none() {
                // The deepest: who stays beneath it stays beneath those around it too.
                let around = self
                    .roots
                    .iter()
                    .enumerate()
                    .filter(|(_, root)| is_beneath(directory, real_path(root)));
                bound = around
                    .max_by_key(|(_, root)| components(real_path(root)).count())
                    .map(|(index, _)| index);
            }
        })?;
        if let Some(root) = bound.and_then(|index| self.roots.get(index))
            && !is_beneath(&self.walk.real, real_path(root))
        {
            return Err(Failure::Leaves(root.path));
        }
        Ok(fs::open_location(self.walk.real_path())?)
    }

    /// After [`Failure::Leaves`]: whether the path ends beneath one of `places`, as they are really.
    pub fn ended_beneath<'a>(&mut self, mut places: impl Iterator<Item = &'a CStr>) -> bool {
        self.outside.clone_from(&self.walk.real);
        places.any(|place| {
            self.walk.run(place, |_| {}).is_ok() && is_beneath(&self.outside, &self.walk.real)
        })
    }
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// The components of an absolute path; empty ones and `.` mean nothing.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/' || byte == 0)
        .filter(|name| !name.is_empty() && *name != b".")
}

/// Whether `path` is `root` or beneath it; both absolute, without links and `..`.
fn is_beneath(path: &[u8], root: &[u8]) -> bool {
    let mut path = components(path);
    components(root).all(|name| path.next() == Some(name))
}

/// Following a path by hand.
struct Walk {
    /// What was walked, without links; ends in a NUL, which is no component.
    real: Vec<u8, PATH_MAX>,
    /// What is left to walk.
    rest: Vec<u8, PATH_MAX>,
    /// What is left after a link.
    next: Vec<u8, PATH_MAX>,
    link: [u8; PATH_MAX],
}

impl Walk {
    const fn new() -> Self {
        Walk {
            real: Vec::new(),
            rest: Vec::new(),
            next: Vec::new(),
            link: [0; PATH_MAX],
        }
    }

    fn real_path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.real).unwrap_or(c"")
    }

    /// Follows an absolute path to the end and leaves the result in `real`. `on_link` is told the directory
    /// of each link, which is free of links itself.
    fn run(&mut self, path: &CStr, mut on_link: impl FnMut(&[u8])) -> Result<(), Errno> {
        const LONG: Errno = Errno::NAMETOOLONG;
        self.real.clear();
        self.rest.clear();
        self.rest
            .extend_from_slice(path.to_bytes())
            .map_err(|_| LONG)?;
        let mut at = 0;
        let mut links = 0;
        while at < self.rest.len() {
            let end = self.rest[at..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(self.rest.len(), |n| at + n);
            let (name, after) = (at..end, end + 1);
            at = after;
            match &self.rest[name.clone()] {
                b"" | b"." => continue,
                b".." => {
                    let parent = self
                        .real
                        .iter()
                        .rposition(|&byte| byte == b'/')
                        .unwrap_or(0);
                    self.real.truncate(parent);
                    continue;
                }
                _ => {}
            }
            let parent = self.real.len();
            self.real.push(b'/').map_err(|_| LONG)?;
            self.real
                .extend_from_slice(&self.rest[name])
                .map_err(|_| LONG)?;
            self.real.push(0).map_err(|_| LONG)?;
            let link = fs::read_link(
                CStr::from_bytes_until_nul(&self.real).map_err(|_| LONG)?,
                &mut self.link,
            );
            self.real.pop();
            let target = match link {
                Ok(target) => target,
                Err(Errno::INVAL) => continue,
                Err(errno) => return Err(errno),
            };
            links += 1;
            if links > SYMLINKS {
                return Err(Errno::LOOP);
            }
            self.real.truncate(parent);
            on_link(&self.real);
            if target.first() == Some(&b'/') {
                self.real.clear();
            }
            self.next.clear();
            self.next.extend_from_slice(target).map_err(|_| LONG)?;
            if after < self.rest.len() {
                self.next.push(b'/').map_err(|_| LONG)?;
                self.next
                    .extend_from_slice(&self.rest[after..])
                    .map_err(|_| LONG)?;
            }
            core::mem::swap(&mut self.rest, &mut self.next);
            at = 0;
        }
        if self.real.is_empty() {
            self.real.push(b'/').map_err(|_| LONG)?;
        }
        self.real.push(0).map_err(|_| LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beneath_means_by_components() {
        for (path, root, expected) in [
            ("/data/w", "/data/w", true),
            ("/data/w/a/b", "/data/w", true),
            ("/data//w/./a", "/./data/w/", true),
            ("/data/w\0", "/data/w", true),
            ("/data/work", "/data/w", false),
            ("/data", "/data/w", false),
            ("/", "/data", false),
            ("/anything", "/", true),
        ] {
            assert_eq!(
                is_beneath(path.as_bytes(), root.as_bytes()),
                expected,
                "{path} {root}"
            );
        }
    }
}
