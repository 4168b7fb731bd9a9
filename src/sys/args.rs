//! The argument and environment vectors on the process's initial stack.

use core::ffi::{CStr, c_char};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A NULL-terminated vector of C strings: `argv` or `envp` (`execve(2)`).
pub struct Vector {
    first: NonNull<*const c_char>,
    /// The vector is the process's own memory, used by its one thread.
    _not_sync: PhantomData<*mut ()>,
}

impl Vector {
    /// Wraps `argv` or `envp`.
    ///
    /// # Safety
    ///
    /// `first` must point to a NULL-terminated array of pointers to C strings, writable, which nothing
    /// else uses and which lives as long as the process.
    pub const unsafe fn new(first: NonNull<*const c_char>) -> Self {
        Vector {
            first,
            _not_sync: PhantomData,
        }
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static CStr> + '_ {
        // Fused: after the NULL nothing is looked at any more.
        (0..).map_while(|index| self.get(index)).fuse()
    }

    /// The string at `index`; indices up to the first `None` may be asked for.
    fn get(&self, index: usize) -> Option<&'static CStr> {
        // SAFETY: `new` promises a NULL-terminated array, and the callers stop at its NULL, so `index` is
        // within it; a pointer before the NULL is a C string that lives as long as the process.
        unsafe {
            let string = *self.first.as_ptr().add(index);
            if string.is_null() {
                None
            } else {
                Some(CStr::from_ptr(string))
            }
        }
    }

    /// The vector from `index` on, which must not be past its end.
    pub fn skip(self, index: usize) -> Option<Self> {
        if self.iter().count() < index {
            return None;
        }
        // SAFETY: `index` is at most that of the terminating NULL, so the rest is a vector too.
        Some(unsafe { Vector::new(self.first.add(index)) })
    }

    /// Removes every string for which `remove` says so; the others keep their order.
    pub fn remove(&mut self, remove: impl Fn(&CStr) -> bool) {
        let mut kept = 0;
        let mut index = 0;
        while let Some(string) = self.get(index) {
            index += 1;
            if remove(string) {
                continue;
            }
            // SAFETY: `kept` < `index`, which is within the array, writable by `new`'s promise.
            unsafe { *self.first.as_ptr().add(kept) = string.as_ptr() };
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
