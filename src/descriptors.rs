//! Inherited descriptors: closed by the exec, but for those that the caller names in the environment.

use core::ffi::CStr;

use crate::error::{Cause, Error, Step, Subject};
use crate::sys::args::Vector;
use crate::sys::fs::{self, FileType};
use crate::sys::{AsRawFd, BorrowedFd, Errno, signal};

/// Variables whose name starts with this may name a descriptor to keep: `OARBANK_...=fd:N`.
const PREFIX: &[u8] = b"OARBANK_";
/// What such a value starts with.
const MARK: &[u8] = b"fd:";
/// The variable with the descriptor that is told of the confinement, up to its value.
const CONFINED: &[u8] = b"OARBANK_CONFINED=";

/// The standard descriptors, which stay the caller's.
const STANDARD: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Where messages go.
const STANDARD_ERROR: i32 = 2;

/// A descriptor that is told once the sandbox holds.
#[derive(Clone, Copy, Debug)]
pub struct Confined(BorrowedFd<'static>);

/// Marks every descriptor from 3 up close-on-exec, keeps the named ones, and takes `OARBANK_CONFINED` out of the
/// environment. To be called before the launcher opens anything: what is open is then the caller's.
pub fn apply<'a>(environment: &mut Vector<'a>) -> Result<Settled, Error<'a>> {
    let confined = find_confined(environment)?;
    let mut unlinked = close_unnamed()?;
    for variable in environment.starting_with(PREFIX) {
        if let Some(value) = kept_descriptor(variable) {
            unlinked |= keep_named(value, confined).map_err(|cause| refused(variable, cause))?;
        }
    }
    environment.remove(CONFINED);
    Ok(Settled { confined, unlinked })
}

/// What came of the inherited descriptors.
pub struct Settled {
    /// Who is to be told.
    pub confined: Option<Confined>,
    /// Whether one of those that the module gets is a file without a name, which may be one in memory.
    pub unlinked: bool,
}

/// [`apply`] and [`check_memory_files`] for who names descriptors by number.
pub fn keep_only(numbers: &[i32], exec_rw: bool) -> Result<(), Error<'static>> {
    let mut unlinked = close_unnamed()?;
    let named = |cause| {
        Error::refused(
            Step::Descriptors,
            Subject::Name("a descriptor to keep"),
            cause,
        )
    };
    for &number in numbers {
        unlinked |= keep(number).map_err(named)?;
    }
    if exec_rw || !unlinked {
        return Ok(());
    }
    check_standard_memory_files()?;
    numbers
        .iter()
        .try_for_each(|&number| check_memory_file(number).map_err(named))
}

/// The standard descriptors are checked, all others will be closed by the exec. Whether one of the standard ones is a
/// file without a name.
fn close_unnamed() -> Result<bool, Error<'static>> {
    let mut unlinked = false;
    for (number, name) in (0..).zip(&STANDARD) {
        unlinked |=
            check_standard(number).map_err(|errno| Error::call(Step::Descriptors, name, errno))?;
    }
    fs::close_on_exec_from(3)
        .map_err(|errno| Error::call(Step::Descriptors, "close_range", errno))?;
    Ok(unlinked)
}

/// For a process that goes on beside the module: closes now what [`apply`] would let the exec close, but for `confined`
/// and `own`. To be called while nothing is open that this process has opened.
pub fn close_others(
    environment: &Vector<'_>,
    confined: Option<Confined>,
    own: impl Iterator<Item = i32> + Clone,
) -> Result<(), Error<'static>> {
    let confined = confined.map(|confined| confined.number());
    let mut first = 3;
    loop {
        let next = named(environment)
            .chain(confined)
            .chain(own.clone())
            .filter(|&number| number >= first)
            .min();
        let last = next.map_or(u32::MAX, |next| next.cast_unsigned().wrapping_sub(1));
        if first.cast_unsigned() <= last {
            fs::close_inherited_range(first.cast_unsigned(), last)
                .map_err(|errno| Error::call(Step::Descriptors, "close_range", errno))?;
        }
        match next.and_then(|next| next.checked_add(1)) {
            Some(after) => first = after,
            None => return Ok(()),
        }
    }
}

/// For a process that opens what it keeps beside the module: no standard descriptor's number is left for that. What takes
/// them can neither be read nor written (`O_PATH`), and the exec closes it: the module finds closed what was closed.
pub fn fill_standard() -> Result<(), Error<'static>> {
    loop {
        let filler = fs::open_location_following(c"/")
            .map_err(|errno| Error::call(Step::Descriptors, "openat", errno))?;
        if filler.as_raw_fd() > STANDARD_ERROR {
            return Ok(());
        }
        // Nobody's own from here on, as the inherited ones.
        core::mem::forget(filler);
    }
}

/// For a process that goes on beside the module: closes what the module was given, so that whoever is at the other
/// end of it sees the module's end. Standard error stays, for messages.
pub fn close_given(environment: &Vector<'_>, confined: Option<Confined>) {
    let confined = confined.map(|confined| confined.number());
    let all = [0, 1].into_iter().chain(named(environment)).chain(confined);
    for number in all.filter(|&number| number != STANDARD_ERROR) {
        // Closed already, or never open.
        let _ = fs::inherited(number).and_then(fs::close_inherited);
    }
}

/// Whether a variable keeps a descriptor.
pub fn keeps(variable: &CStr) -> bool {
    kept_descriptor(variable).is_some()
}

/// Whether the environment names a descriptor.
pub fn is_named(environment: &Vector<'_>, number: i32) -> bool {
    named(environment).any(|named| named == number)
}

/// The numbers of the descriptors that the environment names, `OARBANK_CONFINED` among them.
fn named(environment: &Vector<'_>) -> impl Iterator<Item = i32> {
    environment.starting_with(PREFIX).filter_map(|variable| {
        let told = variable.to_bytes().strip_prefix(CONFINED);
        kept_descriptor(variable).or(told).and_then(number)
    })
}

/// Without `exec_rw`: no descriptor that the module gets may be a file in memory that it could write and then
/// execute. Landlock does not see such files (no path leads to them), and the filter only sees new ones.
pub fn check_memory_files<'a>(
    environment: &Vector<'a>,
    unlinked: bool,
    exec_rw: bool,
) -> Result<(), Error<'a>> {
    if exec_rw || !unlinked {
        return Ok(());
    }
    check_standard_memory_files()?;
    for variable in environment.starting_with(PREFIX) {
        if let Some(number) = kept_descriptor(variable).and_then(number) {
            check_memory_file(number).map_err(|cause| refused(variable, cause))?;
        }
    }
    Ok(())
}

fn check_standard_memory_files() -> Result<(), Error<'static>> {
    for (number, name) in (0..).zip(&STANDARD) {
        check_memory_file(number)
            .map_err(|cause| Error::refused(Step::Descriptors, Subject::Name(name), cause))?;
    }
    Ok(())
}

fn check_memory_file(number: i32) -> Result<(), Cause<'static>> {
    let fd = fs::inherited(number).map_err(Cause::Errno)?;
    match fs::is_open_memory_file(fd) {
        // A closed standard descriptor is none.
        Ok(false) | Err(Errno::BADF) => Ok(()),
        Ok(true) => Err(Cause::Explained(
            Errno::ACCESS,
            "a file in memory that could be written and executed; seal it with F_SEAL_EXEC or F_SEAL_WRITE, or grant exec_rw",
        )),
        Err(errno) => Err(Cause::Errno(errno)),
    }
}

/// The descriptor in `OARBANK_CONFINED`.
fn find_confined<'a>(environment: &Vector<'a>) -> Result<Option<Confined>, Error<'a>> {
    let mut found = None;
    for variable in environment.starting_with(CONFINED) {
        let Some(value) = variable.to_bytes().strip_prefix(CONFINED) else {
            continue;
        };
        if found.is_some() {
            return Err(refused(
                variable,
                Cause::Reason("OARBANK_CONFINED stands in the environment twice: unset one"),
            ));
        }
        let Some(number) = number(value).filter(|&number| number > 2) else {
            return Err(refused(
                variable,
                Cause::Reason("must be the number of a descriptor above 2"),
            ));
        };
        // It must be open: F_SETFD also sees to it that the module does not get it if the close fails.
        let fd = fs::inherited(number)
            .and_then(|fd| fs::close_on_exec(fd).map(|()| fd))
            .map_err(|errno| refused(variable, Cause::Errno(errno)))?;
        found = Some(Confined(fd));
    }
    Ok(found)
}

/// The `N` of `OARBANK_...=fd:N`.
fn kept_descriptor(variable: &CStr) -> Option<&[u8]> {
    let variable = variable.to_bytes();
    let equals = variable.iter().position(|&byte| byte == b'=')?;
    let (name, value) = variable.split_at(equals);
    if name.starts_with(PREFIX) {
        value.get(1..)?.strip_prefix(MARK)
    } else {
        None
    }
}

/// Keeps the descriptor of an `OARBANK_...=fd:N`.
fn keep_named(value: &[u8], confined: Option<Confined>) -> Result<bool, Cause<'static>> {
    let number = number(value).ok_or(Cause::Reason(
        "must be fd: and the number of a descriptor, as fd:5",
    ))?;
    if confined.is_some_and(|confined| confined.number() == number) {
        return Err(Cause::Reason(
            "OARBANK_CONFINED names this descriptor too, but the module must not get it: use another number",
        ));
    }
    keep(number)
}

/// Lets the exec pass a descriptor on, which must be a socket, a pipe or a regular file: a directory or a device
/// opened before the launch would be outside the sandbox. Whether it is a file without a name.
fn keep(number: i32) -> Result<bool, Cause<'static>> {
    let fd = fs::inherited(number).map_err(Cause::Errno)?;
    let stat = fs::stat(fd).map_err(Cause::Errno)?;
    match fs::file_type(&stat) {
        FileType::Socket | FileType::Fifo | FileType::RegularFile => {}
        _ => {
            return Err(Cause::Explained(
                Errno::INVAL,
                "must be a socket, a pipe or a regular file: what leads past the sandbox is not passed on",
            ));
        }
    }
    fs::keep_over_exec(fd).map_err(Cause::Errno)?;
    Ok(fs::is_unlinked_file(&stat))
}

/// A standard descriptor may be anything but a directory, which the module could list. Whether it is a file without a
/// name.
fn check_standard(number: i32) -> Result<bool, Errno> {
    match fs::stat(fs::inherited(number)?) {
        Ok(stat) if fs::file_type(&stat) == FileType::Directory => Err(Errno::ISDIR),
        Ok(stat) => Ok(fs::is_unlinked_file(&stat)),
        Err(Errno::BADF) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A descriptor number: decimal digits, no sign, no leading zero.
fn number(text: &[u8]) -> Option<i32> {
    if text.is_empty() || text.len() > 1 && text[0] == b'0' {
        return None;
    }
    text.iter().try_fold(0_i32, |value, &byte| {
        let digit = char::from(byte).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit.cast_signed())
    })
}

fn refused<'a>(variable: &'a CStr, cause: Cause<'a>) -> Error<'a> {
    Error::refused(Step::Descriptors, Subject::Text(variable.to_bytes()), cause)
}

impl Confined {
    fn number(self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Tells that the sandbox holds: one byte, then the end.
    pub fn tell(self) -> Result<(), Error<'static>> {
        let failed = |call| move |errno| Error::call(Step::Confined, call, errno);
        let written =
            signal::without_write_signals(|| fs::write(self.0, b"1")).map_err(failed("write"))?;
        if written != 1 {
            return Err(failed("write")(Errno::IO));
        }
        fs::close_inherited(self.0).map_err(failed("close"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_alone() {
        for (text, expected) in [
            ("3", Some(3)),
            ("0", Some(0)),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", None),
            ("99999999999", None),
            ("", None),
            ("-1", None),
            ("+3", None),
            (" 3", None),
            ("3x", None),
            ("03", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn only_the_marked_variables_keep_a_descriptor() {
        assert_eq!(kept_descriptor(c"OARBANK_BUS=fd:7"), Some(&b"7"[..]));
        assert_eq!(kept_descriptor(c"OARBANK_=fd:"), Some(&b""[..]));
        for other in [
            c"OARBANK_BUS=7",
            c"OARBANK=fd:7",
            c"XOARBANK_A=fd:7",
            c"OARBANK_A",
            c"A=OARBANK_B=fd:7",
        ] {
            assert_eq!(kept_descriptor(other), None, "{other:?}");
        }
    }
}
