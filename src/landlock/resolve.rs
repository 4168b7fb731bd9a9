//! Paths below writable roots.
//!
//! A rule is made on what a path means at the launch. A module of an earlier run may have put a symbolic link
//! into its writable root, so that a path of this policy, below that root, leads out of it. Therefore:
//!
//! 1. A path is opened with RESOLVE_NO_SYMLINKS first (`openat2(2)`). If that works, no link took part.
//! 2. If it doesn't (ELOOP), the first link is looked for here, component by component, and read. A link that
//!    lies beneath a writable root binds the path to that root: it must end there. Directories are compared by
//!    device and inode, so a root is known by any of its names. A link of the kernel's own is refused.
//! 3. The link's text takes its place, and the path is opened with RESOLVE_NO_SYMLINKS again. Whatever was changed
//!    in between, the object that this opens is the one at that very path. If there are more links, on from 2.

use core::ffi::CStr;

use heapless::Vec;

use crate::limits::{PATH_MAX, PATHS, SYMLINKS};
use crate::sys::{Errno, OwnedFd, fs};

/// The memory of a resolver, large enough to be a static of the binary. In this order, for one page less to touch: what
/// every launch uses is together.
#[repr(C)]
pub struct Space {
    /// What was opened and needs not be closed yet.
    held: Vec<OwnedFd, HELD>,
    /// What `/` is, once somebody asked: it is above every path.
    top: Option<Identity>,
    roots: Vec<Root, PATHS>,
    walk: Walk,
    /// A path whose ancestors are asked for.
    ancestor: Vec<u8, PATH_MAX>,
}

/// How many descriptors are left to the exec to close: as many as a usual policy opens, and few enough for a tight
/// RLIMIT_NOFILE.
const HELD: usize = 24;

/// What a file or directory is, by whatever name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
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

/// What a path leads to.
pub struct Opened {
    /// Opened as a location.
    pub fd: OwnedFd,
    /// Whether a link took part.
    pub linked: bool,
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
            held: Vec::new(),
            top: None,
            roots: Vec::new(),
            walk: Walk::new(),
            ancestor: Vec::new(),
        }
    }

    /// Forgets the roots of the policy before, and closes what was held.
    pub fn clear(&mut self) {
        self.roots.clear();
        self.top = None;
        self.held.clear();
    }

    /// Leaves a descriptor to the exec to close, or closes it.
    pub fn hold(&mut self, fd: OwnedFd) {
        drop(self.held.push(fd));
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
    pub fn open(&mut self, path: &CStr) -> Result<Opened, Failure> {
        match fs::open_location(path) {
            Err(Errno::LOOP) => {}
            opened => {
                return Ok(Opened {
                    fd: opened?,
                    linked: false,
                });
            }
        }
        let Space {
            walk,
            ancestor,
            roots,
            top,
            ..
        } = self;
        let mut bound: Option<Root> = None;
        let mut magic_refused = false;
        let fd = walk.run(path, |directory| {
            // The links of the kernel's own are in directories of processes, never in the top one.
            if !magic_refused && !directory.is_empty() {
                drop(fs::open_location_without_magic(path)?);
                magic_refused = true;
            }
            if bound.is_none() && !roots.is_empty() {
                // The deepest comes first: who stays beneath it stays beneath those around it too.
                find_ancestor(directory, ancestor, top, |identity| {
                    bound = roots.iter().find(|root| root.identity == identity).copied();
                    bound.is_some()
                })?;
            }
            Ok(())
        })?;
        if let Some(root) = bound
            && !find_ancestor(&walk.real, ancestor, top, |identity| {
                identity == root.identity
            })?
        {
            return Err(Failure::Leaves(root.path));
        }
        Ok(Opened { fd, linked: true })
    }

    /// Whether the path that was opened last ends beneath one of these directories, to which no link leads.
    pub fn ends_beneath(&self, path: &CStr, linked: bool, places: &[&CStr]) -> bool {
        let real = if linked {
            &*self.walk.real
        } else {
            path.to_bytes()
        };
        places.iter().any(|place| {
            let rest = real.strip_prefix(place.to_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        })
    }

    /// After [`Failure::Leaves`]: whether the path ended beneath one of `places`.
    pub fn ended_beneath<'a>(&mut self, mut places: impl Iterator<Item = &'a CStr>) -> bool {
        let Space {
            walk,
            ancestor,
            top,
            ..
        } = self;
        places.any(|place| {
            let found = fs::open_location_without_magic(place)
                .and_then(fs::stat)
                .and_then(|stat| {
                    let place = Identity::from(stat);
                    find_ancestor(&walk.real, ancestor, top, |identity| identity == place)
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
    top: &mut Option<Identity>,
    mut is: impl FnMut(Identity) -> bool,
) -> Result<bool, Errno> {
    space.clear();
    space.extend_from_slice(path).map_err(|_| LONG)?;
    loop {
        if space.is_empty() {
            space.push(b'/').map_err(|_| LONG)?;
        }
        let is_top = space.as_slice() == b"/";
        space.push(0).map_err(|_| LONG)?;
        let path = CStr::from_bytes_with_nul(space).map_err(|_| Errno::INVAL)?;
        let identity = match top {
            Some(top) if is_top => *top,
            _ => fs::stat_path(path)?.into(),
        };
        if is_top {
            *top = Some(identity);
        }
        let found = is(identity);
        if found || is_top {
            return Ok(found);
        }
        let parent = space.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        space.truncate(parent);
    }
}

/// Following a path by hand.
struct Walk {
    /// What was walked, without links.
    real: Vec<u8, PATH_MAX>,
    /// What is left to walk.
    rest: Vec<u8, PATH_MAX>,
    /// What is left after a link.
    next: Vec<u8, PATH_MAX>,
    link: [u8; PATH_MAX],
}

const LONG: Errno = Errno::NAMETOOLONG;

impl Walk {
    const fn new() -> Self {
        Walk {
            real: Vec::new(),
            rest: Vec::new(),
            next: Vec::new(),
            link: [0; PATH_MAX],
        }
    }

    /// Opens an absolute path that has a link, and leaves what it led to in `real`. `on_link` is told the directory of each
    /// link, which is free of links itself; empty is the top one.
    fn run(
        &mut self,
        path: &CStr,
        mut on_link: impl FnMut(&[u8]) -> Result<(), Errno>,
    ) -> Result<OwnedFd, Errno> {
        self.real.clear();
        self.rest.clear();
        self.rest
            .extend_from_slice(path.to_bytes())
            .map_err(|_| LONG)?;
        for _ in 0..SYMLINKS {
            if !self.find_link()? {
                // What had a link a moment ago has none now.
                return self.open();
            }
            on_link(&self.real)?;
            match self.open_rest() {
                Err(Errno::LOOP) => {}
                opened => {
                    let opened = opened?;
                    // No component is a link, so that `..` is what the text says.
                    while self.step()?.is_some() {}
                    return Ok(opened);
                }
            }
        }
        Err(Errno::LOOP)
    }

    /// Takes the next component from `rest` to `real`; `..` and `.` are done. The length of `real` before; `None` at the
    /// end.
    fn step(&mut self) -> Result<Option<usize>, Errno> {
        let start = self.rest.iter().position(|&byte| byte != b'/');
        let Some(start) = start else {
            self.rest.clear();
            return Ok(None);
        };
        let name = self.rest.get(start..).unwrap_or_default();
        let length = name.iter().position(|&byte| byte == b'/');
        let length = length.unwrap_or(name.len());
        let name = name.get(..length).unwrap_or_default();
        let before = self.real.len();
        match name {
            b"." => {}
            b".." => {
                let parent = self.real.iter().rposition(|&byte| byte == b'/');
                self.real.truncate(parent.unwrap_or(0));
            }
            name => {
                self.real.push(b'/').map_err(|_| LONG)?;
                self.real.extend_from_slice(name).map_err(|_| LONG)?;
            }
        }
        let end = start + length;
        self.rest.copy_within(end.., 0);
        let left = self.rest.len() - end;
        self.rest.truncate(left);
        Ok(Some(before))
    }

    /// Walks to the next link, and puts its text in its place: `real` is then its directory, `rest` what is to be walked
    /// from there. False: there is none.
    fn find_link(&mut self) -> Result<bool, Errno> {
        while let Some(before) = self.step()? {
            if self.real.len() <= before {
                continue;
            }
            self.real.push(0).map_err(|_| LONG)?;
            let path = CStr::from_bytes_until_nul(&self.real).map_err(|_| LONG)?;
            let link = fs::read_link(path, &mut self.link);
            self.real.pop();
            let target = match link {
                Err(Errno::INVAL) => continue,
                link => link?,
            };
            self.real.truncate(before);
            self.next.clear();
            // What is left starts with its slash.
            for part in [target, &self.rest] {
                self.next.extend_from_slice(part).map_err(|_| LONG)?;
            }
            core::mem::swap(&mut self.rest, &mut self.next);
            return Ok(true);
        }
        Ok(false)
    }

    /// Opens `rest` from `real` on, if no link is in it.
    fn open_rest(&mut self) -> Result<OwnedFd, Errno> {
        if self.rest.first() == Some(&b'/') {
            self.real.clear();
        }
        self.next.clear();
        for part in [&*self.real, b"/", &self.rest, b"\0"] {
            self.next.extend_from_slice(part).map_err(|_| LONG)?;
        }
        fs::open_location(CStr::from_bytes_until_nul(&self.next).map_err(|_| LONG)?)
    }

    /// Opens `real`.
    fn open(&mut self) -> Result<OwnedFd, Errno> {
        self.rest.clear();
        self.open_rest()
    }
}
