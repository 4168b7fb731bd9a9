//! Paths below writable roots.
//!
//! A rule is made on what a path means at the launch. A module of an earlier run may have put a symbolic link
//! into its writable root, so that a path of this policy, below that root, leads out of it. Therefore:
//!
//! 1. A path is opened with RESOLVE_NO_SYMLINKS first (`openat2(2)`). If that works, no link took part.
//! 2. If it doesn't (ELOOP), the path is walked here, component by component, and each link read. A link that
//!    lies beneath a writable root binds the path to that root: it must end there. Directories are compared by
//!    device and inode, so a root is known by any of its names. A link of the kernel's own is refused.
//! 3. The link-free path that the walk found is opened with RESOLVE_NO_SYMLINKS again. Whatever was changed
//!    in between, the object opened is the one at that very path, or the launch ends with ELOOP.

use core::ffi::CStr;

use heapless::Vec;

use crate::limits::{PATH_MAX, PATHS, SYMLINKS};
use crate::sys::{Errno, OwnedFd, fs};

/// The memory of a resolver, large enough to be a static of the binary.
pub struct Space {
    walk: Walk,
    /// A path whose ancestors are asked for.
    ancestor: Vec<u8, PATH_MAX>,
    roots: Vec<Root, PATHS>,
}

/// What a file or directory is, by whatever name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl From<fs::Stat> for Identity {
    fn from(stat: fs::Stat) -> Self {
        Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// A writable root.
#[derive(Clone, Copy)]
struct Root {
    /// The number of its path among the policy's.
    path: usize,
    identity: Identity,
    /// Whether a link takes part in its path.
    linked: bool,
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
            ancestor: Vec::new(),
            roots: Vec::new(),
        }
    }

    /// Forgets the roots of the policy before.
    pub fn clear(&mut self) {
        self.roots.clear();
    }

    /// Notes a writable root, which has the number `path` among the policy's paths. If no link takes part in
    /// it, it is also returned opened: nothing can have been done to it.
    pub fn add_root(&mut self, path: usize, root: &CStr) -> Result<Option<OwnedFd>, Errno> {
        let (fd, linked) = match fs::open_location(root) {
            // Where a planted link leads is then a root too, which only binds more.
            Err(Errno::LOOP) => (fs::open_location_without_magic(root)?, true),
            opened => (opened?, false),
        };
        let identity = fs::stat(&fd)?.into();
        self.roots
            .push(Root {
                path,
                identity,
                linked,
            })
            .map_err(|_| Errno::NOMEM)?;
        Ok(Some(fd).filter(|_| !linked))
    }

    /// Whether a path of the policy is a root that [`Self::add_root`] has opened.
    pub fn is_root_without_links(&self, path: usize) -> bool {
        // Roots are added in the order of the policy.
        let found = self.roots.binary_search_by_key(&path, |root| root.path);
        found.is_ok_and(|index| !self.roots[index].linked)
    }

    /// Opens a path. All roots must have been added.
    pub fn open(&mut self, path: &CStr) -> Result<OwnedFd, Failure> {
        match fs::open_location(path) {
            Err(Errno::LOOP) => {}
            opened => return Ok(opened?),
        }
        drop(fs::open_location_without_magic(path)?);
        let Space {
            walk,
            ancestor,
            roots,
        } = self;
        let mut bound: Option<Root> = None;
        walk.run(path, |directory| {
            if bound.is_none() && !roots.is_empty() {
                // The deepest comes first: who stays beneath it stays beneath those around it too.
                find_ancestor(directory, ancestor, |identity| {
                    bound = roots.iter().find(|root| root.identity == identity).copied();
                    bound.is_some()
                })?;
            }
            Ok(())
        })?;
        if let Some(root) = bound
            && !find_ancestor(&walk.real, ancestor, |identity| identity == root.identity)?
        {
            return Err(Failure::Leaves(root.path));
        }
        Ok(fs::open_location(walk.real_path())?)
    }

    /// After [`Failure::Leaves`]: whether the path ended beneath one of `places`.
    pub fn ended_beneath<'a>(&mut self, mut places: impl Iterator<Item = &'a CStr>) -> bool {
        let Space { walk, ancestor, .. } = self;
        places.any(|place| {
            let found = fs::open_location_without_magic(place)
                .and_then(fs::stat)
                .and_then(|stat| {
                    let place = Identity::from(stat);
                    find_ancestor(&walk.real, ancestor, |identity| identity == place)
                });
            found == Ok(true)
        })
    }
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `is` says yes to a path without links, or to one of the directories above it, the nearest first.
fn find_ancestor(
    path: &[u8],
    space: &mut Vec<u8, PATH_MAX>,
    mut is: impl FnMut(Identity) -> bool,
) -> Result<bool, Errno> {
    const LONG: Errno = Errno::NAMETOOLONG;
    space.clear();
    space
        .extend_from_slice(path.strip_suffix(b"\0").unwrap_or(path))
        .map_err(|_| LONG)?;
    loop {
        if space.is_empty() {
            space.push(b'/').map_err(|_| LONG)?;
        }
        let is_top = space.as_slice() == b"/";
        space.push(0).map_err(|_| LONG)?;
        let path = CStr::from_bytes_with_nul(space).map_err(|_| Errno::INVAL)?;
        if is(fs::stat_path(path)?.into()) {
            return Ok(true);
        }
        if is_top {
            return Ok(false);
        }
        let parent = space.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        space.truncate(parent);
    }
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
    fn run(
        &mut self,
        path: &CStr,
        mut on_link: impl FnMut(&[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
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
            on_link(&self.real)?;
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
