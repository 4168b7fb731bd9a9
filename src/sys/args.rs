//! The argument and environment vectors on the process's initial stack.

use core::ffi::{CStr, c_char};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Room for a pointer of a [`Vector`].
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Pointer(*const c_char);

impl Pointer {
    /// No string.
    pub const NULL: Self = Pointer(core::ptr::null());
}

/// A NULL-terminated vector of C strings: `argv` or `envp` (`execve(2)`).
pub struct Vector<'a> {
    first: NonNull<*const c_char>,
    _strings: PhantomData<&'a [&'a CStr]>,
}

impl<'a> Vector<'a> {
    /// Wraps `argv` or `envp`.
    ///
    /// # Safety
    ///
    /// `first` must point to a NULL-terminated array of pointers to C strings, writable, which nothing
    /// else uses for `'a`.
    pub const unsafe fn new(first: NonNull<*const c_char>) -> Self {
        Vector {
            first,
            _strings: PhantomData,
        }
    }

    /// Makes a vector of `strings` in `space`, which has room for one more. `None`: it has not.
    pub fn of(strings: &'a [&'a CStr], space: &'a mut [Pointer]) -> Option<Self> {
        let (last, pointers) = space.get_mut(..=strings.len())?.split_last_mut()?;
        for (pointer, string) in pointers.iter_mut().zip(strings) {
            *pointer = Pointer(string.as_ptr());
        }
        *last = Pointer::NULL;
        let first = NonNull::new(space.as_mut_ptr())?.cast();
        // SAFETY: the pointers before the NULL are those of `strings`, and both live for `'a`, in which nobody
        // else has `space`. A `Pointer` is a pointer (`repr(transparent)`).
        Some(unsafe { Vector::new(first) })
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a CStr> + '_ {
        // Fused: after the NULL nothing is looked at any more.
        (0..).map_while(|index| self.get(index)).fuse()
    }

    /// The string at `index`; indices up to the first `None` may be asked for.
    fn get(&self, index: usize) -> Option<&'a CStr> {
        // SAFETY: `pointer` gave the address of a C string that lives for `'a`.
        self.pointer(index)
            .map(|string| unsafe { CStr::from_ptr(string) })
    }

    /// The address of the string at `index`, as [`Self::get`] takes it.
    fn pointer(&self, index: usize) -> Option<*const c_char> {
        // SAFETY: `new` promises a NULL-terminated array, and the callers stop at its NULL, so `index` is
        // within it.
        let string = unsafe { *self.first.as_ptr().add(index) };
        (!string.is_null()).then_some(string)
    }

    /// The strings that start with `prefix`, in order. Nothing but the first bytes of the others is read.
    pub fn starting_with(&self, prefix: &'static [u8]) -> impl Iterator<Item = &'a CStr> + '_ {
        (0..)
            .map_while(|index| self.pointer(index))
            .fuse()
            // SAFETY: `pointer` gave the address of a C string that lives for `'a`.
            .filter_map(move |string| unsafe {
                starts_with(string, prefix).then(|| CStr::from_ptr(string))
            })
    }

    /// The first string.
    pub fn first(&self) -> Option<&'a CStr> {
        self.get(0)
    }

    /// Takes the first string off.
    pub fn take_first(&mut self) -> Option<&'a CStr> {
        let first = self.first()?;
        // SAFETY: the first pointer is not the terminating NULL, so that what comes after it is a vector too.
        self.first = unsafe { self.first.add(1) };
        Some(first)
    }

    /// Removes every string that starts with `prefix`; the others keep their order.
    pub fn remove(&mut self, prefix: &'static [u8]) {
        let mut kept = 0;
        let mut index = 0;
        while let Some(string) = self.pointer(index) {
            index += 1;
            // SAFETY: `pointer` gave the address of a C string.
            if unsafe { starts_with(string, prefix) } {
                continue;
            }
            // SAFETY: `kept` < `index`, which is within the array, writable by `new`'s promise.
            unsafe { *self.first.as_ptr().add(kept) = string };
            kept += 1;
        }
        // SAFETY: `kept` is at most the index of the old NULL.
        unsafe { *self.first.as_ptr().add(kept) = core::ptr::null() };
    }

    /// The address, for `execve(2)`.
    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.first.as_ptr()
    }
}

/// Whether a C string starts with `prefix`, which has no NUL.
///
/// # Safety
///
/// `string` must be the address of a C string.
unsafe fn starts_with(string: *const c_char, prefix: &[u8]) -> bool {
    // SAFETY: all bytes before this one were those of `prefix`, none of them the NUL, so that this one is in the string.
    prefix
        .iter()
        .enumerate()
        .all(|(index, &byte)| unsafe { *string.cast::<u8>().add(index) } == byte)
}
