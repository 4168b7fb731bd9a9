//! Which system call numbers a program's machine code can make, by `objdump -d`, on x86_64.
//!
//! From each `syscall` instruction the value of rax is followed backwards over every path that leads there: through moves
//! between registers, jumps and calls, to the constants that are loaded. What can't be followed to a constant is a fault,
//! and so is a path from an address that the program has as data (a jump table, a function called by its address): who
//! comes from there is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// One instruction, as objdump writes it (AT&T syntax): what it does, and its operands.
struct Instruction {
    address: u64,
    mnemonic: String,
    operands: String,
}

/// A program's code.
pub(crate) struct Code {
    instructions: Vec<Instruction>,
    /// The instructions that jump (or call) to an address, by their index.
    jumps: BTreeMap<u64, Vec<usize>>,
    /// The addresses that the program has as data.
    taken: BTreeSet<u64>,
}

/// A part of a program's memory: its address and what is there.
pub(crate) type Data<'a> = (u64, &'a [u8]);

impl Code {
    /// The code of a file. `None`: there is no objdump.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        let output = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn", "--section=.text"])
            .arg(file)
            .output()
            .ok()?;
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let elf = fs::read(file).expect("the file");
        Some(Self::parse(&text, &data(&elf)))
    }

    /// What objdump prints: address, tab, `lea    0x10(%rip),%rdi        # 0x40de92`.
    pub(crate) fn parse(text: &str, data: &[Data]) -> Self {
        let mut instructions = Vec::new();
        let mut named = BTreeSet::new();
        for line in text.lines() {
            let Some((address, text)) = line.split_once(":\t") else {
                continue;
            };
            let address = u64::from_str_radix(address.trim(), 16).expect("an address");
            let (text, note) = text.split_once('#').unwrap_or((text, ""));
            let note = note.trim().trim_start_matches("0x");
            if let Ok(address) = u64::from_str_radix(note, 16) {
                named.insert(address);
            }
            let (mnemonic, operands) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
            instructions.push(Instruction {
                address,
                mnemonic: mnemonic.to_owned(),
                operands: operands.trim().to_owned(),
            });
        }
        let mut jumps: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            if instruction.is_jump() || instruction.mnemonic == "call" {
                let target = instruction.operands.trim_start_matches("0x");
                if let Ok(target) = u64::from_str_radix(target, 16) {
                    jumps.entry(target).or_default().push(index);
                }
            }
        }
        let is_code = |address: &u64| {
            let found = instructions.binary_search_by_key(address, |one: &Instruction| one.address);
            found.is_ok()
        };
        let taken = named.iter().copied().chain(pointers(data));
        let taken = taken.chain(
            named
                .iter()
                .flat_map(|&table| entries(table, data, &is_code)),
        );
        let taken = taken.filter(is_code).collect();
        Code {
            instructions,
            jumps,
            taken,
        }
    }

    /// The numbers that the `syscall` instructions can make, and how many of these there are. An error: one whose
    /// number is not known, or another way into the kernel.
    pub(crate) fn numbers(&self) -> Result<(BTreeSet<u64>, usize), String> {
        let mut numbers = BTreeSet::new();
        let mut count = 0;
        for (index, instruction) in self.instructions.iter().enumerate() {
            match &*instruction.mnemonic {
                "syscall" => {
                    count += 1;
                    let fault = |fault| format!("syscall at {:x}: {fault}", instruction.address);
                    numbers.extend(self.values(index).map_err(fault)?);
                }
                "int" | "sysenter" | "(bad)" => {
                    return Err(format!(
                        "{} {} at {:x}",
                        instruction.mnemonic, instruction.operands, instruction.address
                    ));
                }
                _ => {}
            }
        }
        Ok((numbers, count))
    }

    /// What rax may hold before an instruction.
    fn values(&self, index: usize) -> Result<BTreeSet<u64>, String> {
        let mut values = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![(index, "rax")];
        while let Some(place) = open.pop() {
            if !seen.insert(place) {
                continue;
            }
            let (index, register) = place;
            // A jump changes no register, and neither does a call until it is in the function.
            let (jumps, previous) = self.before(index)?;
            open.extend(jumps.iter().map(|&jump| (jump, register)));
            let Some(previous) = previous else {
                continue;
            };
            match self.effect(previous, register) {
                Effect::None => open.push((previous, register)),
                Effect::Moved(from) => open.push((previous, from)),
                Effect::Constant(value) => {
                    values.insert(value);
                }
                Effect::Unknown => {
                    let from = &self.instructions[previous];
                    return Err(format!(
                        "{register} is from {} {} at {:x}",
                        from.mnemonic, from.operands, from.address
                    ));
                }
            }
        }
        Ok(values)
    }

    /// The jumps and calls that lead to an instruction, and the one before it, if that goes on here.
    fn before(&self, index: usize) -> Result<(&[usize], Option<usize>), String> {
        let address = self.instructions[index].address;
        if self.taken.contains(&address) {
            return Err(format!("{address:x} may be reached by its address"));
        }
        let jumps = self.jumps.get(&address).map_or(&[][..], Vec::as_slice);
        let previous = index.checked_sub(1);
        let previous = previous.filter(|&previous| !self.instructions[previous].never_goes_on());
        if jumps.is_empty() && previous.is_none() {
            return Err(format!("nothing leads to {address:x}"));
        }
        Ok((jumps, previous))
    }

    /// What an instruction does to a register.
    fn effect(&self, index: usize, register: &'static str) -> Effect {
        let instruction = &self.instructions[index];
        let Instruction {
            mnemonic, operands, ..
        } = instruction;
        if instruction.is_jump() {
            return Effect::None;
        }
        let (source, target) = operands.rsplit_once(',').unwrap_or(("", operands));
        match &**mnemonic {
            // What a called function leaves is its own business, but for what it must restore (System V ABI, 3.2.1).
            "call" | "syscall" => match register {
                "rbx" | "rbp" | "r12" | "r13" | "r14" | "r15" => Effect::None,
                "rdi" | "rsi" | "rdx" | "r8" | "r9" | "r10" if mnemonic == "syscall" => {
                    Effect::None
                }
                _ => Effect::Unknown,
            },
            // These write no register, whatever stands last.
            "cmp" | "cmpb" | "cmpw" | "cmpl" | "cmpq" | "test" | "testb" | "testw" | "testl"
            | "testq" | "push" | "bt" => Effect::None,
            "leave" | "cltd" | "cqto" | "cwtl" | "cltq" | "cpuid" | "rdtsc" | "xgetbv" | "mul"
            | "imul" | "div" | "idiv" | "xchg" | "cmpxchg" | "xadd" | "lock" => Effect::Unknown,
            // Instructions on strings, with a count or without.
            _ if operands.contains("%es:(%rdi)") || operands.contains("%ds:(%rsi)") => {
                match register {
                    "rax" | "rcx" | "rsi" | "rdi" => Effect::Unknown,
                    _ => Effect::None,
                }
            }
            _ if full(target) != Some(register) => Effect::None,
            // A 32-bit write clears the upper half; a narrower one leaves what is there.
            _ if !target.starts_with("%r") && !target.starts_with("%e") => Effect::Unknown,
            _ if target.ends_with('w') || target.ends_with('b') => Effect::Unknown,
            "mov" | "movabs" => match (number(source), full(source)) {
                (Some(value), _) => Effect::Constant(value),
                (_, Some(from)) => Effect::Moved(from),
                _ => Effect::Unknown,
            },
            "xor" if source == target => Effect::Constant(0),
            "pop" => match index.checked_sub(1).map(|index| &self.instructions[index]) {
                Some(push)
                    if push.mnemonic == "push"
                        && !self.jumps.contains_key(&instruction.address) =>
                {
                    match (number(&push.operands), full(&push.operands)) {
                        (Some(value), _) => Effect::Constant(value),
                        (_, Some(from)) => Effect::Moved(from),
                        _ => Effect::Unknown,
                    }
                }
                _ => Effect::Unknown,
            },
            _ => Effect::Unknown,
        }
    }
}

/// The parts of an ELF file that are loaded and not executed (`elf(5)`).
fn data(elf: &[u8]) -> Vec<Data<'_>> {
    const LOAD: u64 = 1;
    const EXECUTE: u64 = 1;
    let number = |at: usize, size: usize| little_endian(&elf[at..at + size]);
    let header = |index: usize| number(32, 8) as usize + index * number(54, 2) as usize;
    (0..number(56, 2) as usize)
        .map(header)
        .filter(|&at| number(at, 4) == LOAD && number(at + 4, 4) & EXECUTE == 0)
        .map(|at| {
            let (offset, size) = (number(at + 8, 8) as usize, number(at + 32, 8) as usize);
            (number(at + 16, 8), &elf[offset..offset + size])
        })
        .collect()
}

fn little_endian(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Every aligned word: pointers are among them.
fn pointers<'a>(data: &'a [Data<'a>]) -> impl Iterator<Item = u64> + 'a {
    data.iter().flat_map(|(address, bytes)| {
        let skip = address.wrapping_neg() as usize % 8;
        let words = bytes.get(skip..).unwrap_or_default().chunks_exact(8);
        words.map(little_endian)
    })
}

/// The targets of the jump table at an address, if it is one: distances of 32 bits from the table to code.
fn entries<'a>(
    table: u64,
    data: &'a [Data<'a>],
    is_code: &'a impl Fn(&u64) -> bool,
) -> impl Iterator<Item = u64> + 'a {
    let bytes = data.iter().find_map(|(address, bytes)| {
        let at = usize::try_from(table.checked_sub(*address)?).ok()?;
        bytes.get(at..)
    });
    let distances = bytes.unwrap_or_default().chunks_exact(4);
    distances
        .map(move |distance| {
            let distance = little_endian(distance) as u32;
            table.wrapping_add_signed(distance.cast_signed().into())
        })
        .take_while(is_code)
}

/// What becomes of a register.
enum Effect {
    None,
    Constant(u64),
    Moved(&'static str),
    Unknown,
}

impl Instruction {
    fn is_jump(&self) -> bool {
        self.mnemonic.starts_with('j') || self.mnemonic.starts_with("loop")
    }

    /// Whether the next instruction is no next one.
    fn never_goes_on(&self) -> bool {
        ["jmp", "ret", "ud2", "hlt"].contains(&&*self.mnemonic)
    }
}

/// An immediate operand.
fn number(operand: &str) -> Option<u64> {
    u64::from_str_radix(operand.strip_prefix("$0x")?, 16).ok()
}

/// The 64-bit register that a register operand is (a part of).
fn full(operand: &str) -> Option<&'static str> {
    const REGISTERS: [(&str, &str, &str, &str); 8] = [
        ("rax", "eax", "ax", "al"),
        ("rbx", "ebx", "bx", "bl"),
        ("rcx", "ecx", "cx", "cl"),
        ("rdx", "edx", "dx", "dl"),
        ("rsi", "esi", "si", "sil"),
        ("rdi", "edi", "di", "dil"),
        ("rbp", "ebp", "bp", "bpl"),
        ("rsp", "esp", "sp", "spl"),
    ];
    const NUMBERED: [&str; 8] = ["r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let name = operand.strip_prefix('%')?;
    let high = ["ah", "bh", "ch", "dh"]
        .iter()
        .position(|&other| other == name);
    let named = REGISTERS
        .iter()
        .position(|&(q, d, w, b)| [q, d, w, b].contains(&name));
    if let Some(found) = named.or(high) {
        return Some(REGISTERS[found].0);
    }
    let name = name.trim_end_matches(['d', 'w', 'b']);
    NUMBERED.into_iter().find(|&other| other == name)
}
