//! The arguments of a call, as words of the command line.
//!
//! | word | register |
//! |---|---|
//! | `12`, `-100`, `0x80` | the number |
//! | `hi:WORD` | the same with rubbish in the high 32 bits |
//! | `s:TEXT` | pointer to the text, ended by a zero byte |
//! | `buf:N` | pointer to N zero bytes |
//! | `u64:A,B` | pointer to these numbers |
//! | `fix:ADDRESS:A,B` | the same, placed at that address |
//! | `in:HOST:PORT`, `un:PATH`, `abs:NAME` | pointer to a socket address; `abs` is an abstract unix one |
//! | `iov:TEXT` | pointer to one `iovec` |
//! | `msg:ADDRESS`, `mmsg:ADDRESS` | pointer to one `msghdr`, `mmsghdr`: one byte for that address word |
//! | `len` | the length behind the pointer before |
//! | `[0]`, `[1]` | an int of the newest buffer (what `pipe` and `socketpair` filled in) |
//! | `$`, `$2` | the value of the step before, of step 2 (from 0) |
//! | `pid` | the probe's own process |

use std::net::SocketAddr;

/// What the steps before left.
#[derive(Default)]
pub(crate) struct State {
    /// The value of each step; all ones for one that failed.
    pub(crate) answers: Vec<u64>,
    newest_buffer: Option<*const i32>,
    newest_length: u64,
}

impl State {
    /// The registers of a call; those without a word are zero.
    pub(crate) fn registers(&mut self, words: &[&str]) -> [u64; 6] {
        assert!(words.len() <= 6, "a call has six registers");
        let mut registers = [0; 6];
        for (register, word) in registers.iter_mut().zip(words) {
            *register = self.register(word);
        }
        registers
    }

    fn register(&mut self, word: &str) -> u64 {
        match word {
            "len" => return self.newest_length,
            "pid" => return u64::from(std::process::id()),
            "$" => return *self.answers.last().expect("a step before"),
            "[0]" | "[1]" => return self.buffered(word == "[1]"),
            _ => {}
        }
        if let Some(step) = word.strip_prefix('$') {
            return self.answers[step.parse::<usize>().expect("a step number")];
        }
        match word.split_once(':') {
            None => number(word),
            Some(("hi", inner)) => self.register(inner) | 0x5a5a_5a5a_0000_0000,
            Some((kind, text)) => self.pointer(kind, text),
        }
    }

    fn buffered(&self, second: bool) -> u64 {
        let buffer = self.newest_buffer.expect("a buffer before");
        // SAFETY: `pointer` made the buffer with at least 16 bytes and it is never freed.
        let value = unsafe { buffer.add(usize::from(second)).read_volatile() };
        value as u64
    }

    fn pointer(&mut self, kind: &str, text: &str) -> u64 {
        let bytes = match kind {
            "s" => {
                self.newest_length = text.len() as u64;
                return keep(zero_ended(text));
            }
            "buf" => vec![0; number(text) as usize],
            "u64" => numbers(text),
            "in" => internet_address(text.parse().expect("an address and a port")),
            "un" => unix_address(&zero_ended(text)),
            "abs" => unix_address(format!("\0{text}").as_bytes()),
            "iov" => io_vector(text),
            "msg" => self.message(text),
            "mmsg" => [self.message(text), vec![0; 8]].concat(),
            "fix" => return place(text),
            _ => panic!("no such kind of word: {kind}"),
        };
        self.newest_length = bytes.len() as u64;
        let pointer = keep(bytes);
        if kind == "buf" {
            self.newest_buffer = Some(pointer as *const i32);
        }
        pointer
    }

    /// A `msghdr` with one byte for an address, on x86_64, aarch64 and riscv64 alike.
    fn message(&mut self, address: &str) -> Vec<u8> {
        let name = self.register(address);
        let vector = keep(io_vector("x"));
        [name, self.newest_length, vector, 1, 0, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    }
}

/// A number in decimal, also negative, or in hexadecimal.
pub(crate) fn number(word: &str) -> u64 {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word
            .parse::<i64>()
            .map(|value| value as u64)
            .or_else(|_| word.parse())
            .ok(),
    };
    parsed.unwrap_or_else(|| panic!("not a number: {word}"))
}

fn numbers(text: &str) -> Vec<u8> {
    text.split(',')
        .flat_map(|word| number(word).to_ne_bytes())
        .collect()
}

fn zero_ended(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// Keeps the bytes, eight-byte aligned, until the process ends.
fn keep(bytes: Vec<u8>) -> u64 {
    let mut words = vec![0_u64; bytes.len() / 8 + 2];
    for (index, byte) in bytes.iter().enumerate() {
        words[index / 8] |= u64::from(*byte) << (8 * (index % 8));
    }
    words.leak().as_mut_ptr() as u64
}

fn internet_address(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&family[..], &port, &v4.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(v6) => {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            [&family[..], &port, &[0; 4], &v6.ip().octets(), &[0; 4]].concat()
        }
    }
}

fn unix_address(path: &[u8]) -> Vec<u8> {
    [&(libc::AF_UNIX as u16).to_ne_bytes(), path].concat()
}

fn io_vector(text: &str) -> Vec<u8> {
    [keep(text.as_bytes().to_vec()), text.len() as u64]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect()
}

/// `ADDRESS:A,B`: the numbers on a page of their own at that address.
fn place(text: &str) -> u64 {
    let (address, values) = text.split_once(':').expect("ADDRESS:NUMBERS");
    let bytes = numbers(values);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let (wanted, protection) = (
        number(address) as *mut libc::c_void,
        libc::PROT_READ | libc::PROT_WRITE,
    );
    // SAFETY: a new page where none was; the bytes are fewer than a page.
    unsafe {
        let page = libc::mmap(wanted, 4096, protection, flags, -1, 0);
        assert_eq!(page, wanted, "the address is free");
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.cast(), bytes.len());
    }
    wanted as u64
}
