//! The layering of `src/`: a module uses lower layers or its own folder, and unsafe code lives in named rooms.
//!
//! The layers are read from the table in `src/lib.rs`, so what the documentation says is what is checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every Rust file with its text.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            found.push((path, text));
        }
    }
    found
}

/// `| 3 | [`policy`] | ... |`: layer 3 is `policy`.
fn layers() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(source().join("lib.rs")).expect("lib.rs");
    let mut layers = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let mut cells = line.split('|').map(str::trim);
        let (Some(Ok(layer)), Some(modules)) = (cells.next().map(str::parse), cells.next()) else {
            continue;
        };
        for module in modules.split(',') {
            layers.insert(
                module.trim().trim_matches(['[', ']', '`']).to_owned(),
                layer,
            );
        }
    }
    layers
}

/// The modules that a text names as `crate::module` or in `crate::{module, ...}`.
fn used(text: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut modules = Vec::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            None => modules.push(word(after)),
            Some(list) => {
                let list = list.split("};").next().expect("the first part");
                let mut depth = 0;
                for part in list.split_inclusive(['{', '}', ',']) {
                    if depth == 0 && !word(part).is_empty() {
                        modules.push(word(part));
                    }
                    depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
                }
            }
        }
    }
    modules
}

/// The module of the first level that a file belongs to.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(source()).expect("below src");
    let first = inside.components().next().expect("a name");
    let name = first.as_os_str().to_str().expect("text");
    name.trim_end_matches(".rs").to_owned()
}

#[test]
fn a_module_uses_lower_layers_or_its_own_folder() {
    let layers = layers();
    assert!(
        layers.len() > 8,
        "the table of lib.rs was not understood: {layers:?}"
    );
    let mut uses = 0;
    for (path, text) in files(&source()) {
        let module = module_of(&path);
        if ["lib", "main", "rt"].contains(&module.as_str()) {
            continue;
        }
        let own = layers
            .get(&module)
            .unwrap_or_else(|| panic!("{module} is in no layer"));
        for other in used(&text).into_iter().filter(|other| *other != module) {
            let layer = layers
                .get(&other)
                .unwrap_or_else(|| panic!("{}: crate::{other} is in no layer", path.display()));
            assert!(
                layer < own,
                "{}: layer {own} uses {other} of layer {layer}",
                path.display()
            );
            uses += 1;
        }
    }
    assert!(uses > 20, "the uses were not found");
}

#[test]
fn uses_are_read_in_every_form() {
    let text = "use crate::sys::{self, fs};\nuse crate::{a, b::{c, d}, e};\nlet x = crate::f::g();";
    assert_eq!(used(text), ["sys", "a", "b", "e", "f"]);
}

#[test]
fn unsafe_code_lives_in_sys_and_rt() {
    let mut rooms = 0;
    for (path, text) in files(&source()) {
        let module = module_of(&path);
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let has_unsafe = code
            .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
            .any(|word| word == "unsafe");
        if has_unsafe {
            assert!(
                ["sys", "rt"].contains(&module.as_str()),
                "{}: unsafe code",
                path.display()
            );
            rooms += 1;
        }
    }
    assert!(rooms > 3, "the unsafe code was not found");
}
