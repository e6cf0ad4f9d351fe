//! Which file of a crate uses which: the graph that must have no circles.
//!
//! A file uses another if it names something that the other defines, by any path: `crate::a::B`, `super::B`, or
//! `B` where a `use` brings it in. What a module re-exports is defined where it stands, not where it is
//! re-exported, so a parent's re-exports are no use of its children. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module by its path in the crate: `["path", "run"]`; none for the crate's root.
pub type Module = Vec<String>;

/// By module, the modules that it uses.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The graph of the sources under `src`. Modules that only tests have are left out.
pub fn graph(src: &Path) -> Graph {
    let mut files = BTreeMap::new();
    read(src, &mut Vec::new(), &root_file(src), &mut files);
    let aliases: BTreeMap<(Module, String), Module> =
        files.iter().flat_map(|(module, file)| aliases_of(module, file)).collect();
    let edges = |(module, file): (&Module, &File)| {
        let used = file.paths.iter().filter_map(|path| resolve(module, path, &files, &aliases));
        (module.clone(), used.filter(|used| used != module).collect())
    };
    files.iter().map(edges).collect()
}

/// The circles of a graph, each with its modules: its strongly connected components of two modules or more.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|from| (from, reachable(from, graph))).collect();
    let mut found = BTreeSet::new();
    for from in graph.keys() {
        let circle: BTreeSet<Module> =
            reach[from].iter().filter(|to| reach[*to].contains(from)).map(|to| (*to).clone()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reachable<'a>(from: &'a Module, graph: &'a Graph) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(graph.get(module).into_iter().flatten().filter(|to| seen.insert(*to)));
    }
    seen
}

/// What a file names.
struct File {
    /// Paths in code and in private `use`s.
    paths: Vec<Vec<String>>,
    /// What `use` brings in, public or not: the name and the path.
    uses: Vec<(String, Vec<String>)>,
}

fn root_file(src: &Path) -> std::path::PathBuf {
    ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists()).expect("a root")
}

/// Reads a module's file, and those of the modules that it declares.
fn read(folder: &Path, module: &mut Module, path: &Path, files: &mut BTreeMap<Module, File>) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut collector = Collector { paths: Vec::new(), uses: Vec::new(), children: Vec::new(), depth: 0 };
    collector.visit_file(&parsed);
    let Collector { paths, uses, children, .. } = collector;
    files.insert(module.clone(), File { paths, uses });
    for child in children {
        let flat = folder.join(format!("{child}.rs"));
        let file = if flat.exists() { flat } else { folder.join(&child).join("mod.rs") };
        module.push(child.clone());
        read(&folder.join(&child), module, &file, files);
        module.pop();
    }
}

struct Collector {
    paths: Vec<Vec<String>>,
    uses: Vec<(String, Vec<String>)>,
    children: Vec<String>,
    /// Modules within the file that the walk is in.
    depth: usize,
}

impl Collector {
    /// A path as it reads at the top of the file; `None` if it stays within a module of the file.
    fn lifted(&self, mut path: Vec<String>) -> Option<Vec<String>> {
        for _ in 0..self.depth {
            match path.first().map(String::as_str) {
                Some("super") => _ = path.remove(0),
                Some("crate") => break,
                _ => return None,
            }
        }
        Some(path)
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) if module.content.is_none() => self.children.push(module.ident.to_string()),
            Item::Mod(module) => {
                self.depth += 1;
                visit::visit_item_mod(self, module);
                self.depth -= 1;
            }
            Item::Fn(function) if is_test(&function.attrs) => {}
            Item::Impl(block) if is_test(&block.attrs) => {}
            Item::Use(used) if is_test(&used.attrs) => {}
            Item::Use(used) => {
                let mut found = Vec::new();
                leaves(&used.tree, &mut Vec::new(), &mut found);
                let is_private = matches!(used.vis, Visibility::Inherited);
                for (name, path) in found {
                    let Some(path) = self.lifted(path) else { continue };
                    if is_private {
                        self.paths.push(path.clone());
                    }
                    if self.depth == 0 {
                        self.uses.push((name, path));
                    }
                }
            }
            other => visit::visit_item(self, other),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// `pub(crate)` names no module that is used.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.paths.extend(self.lifted(segments));
        visit::visit_path(self, path);
    }
}

/// Whether only tests have it: `#[cfg(test)]`, alone or with more.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition.starts_with("test")
                || condition.starts_with("all (test")
                || condition.starts_with("all(test")
        }
        meta => meta.path().is_ident("test"),
    })
}

/// The names that a `use` brings in, with their paths; of a glob `*`.
fn leaves(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let with = |last: &syn::Ident, before: &[String]| {
        let mut path = before.to_vec();
        if last != "self" {
            path.push(last.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, found);
            before.pop();
        }
        UseTree::Name(name) => {
            let path = with(&name.ident, before);
            found.push((path.last().cloned().unwrap_or_default(), path));
        }
        UseTree::Rename(rename) => found.push((rename.rename.to_string(), with(&rename.ident, before))),
        UseTree::Glob(_) => found.push(("*".to_owned(), before.clone())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, found)),
    }
}

fn aliases_of<'a>(
    module: &'a Module,
    file: &'a File,
) -> impl Iterator<Item = ((Module, String), Module)> + 'a {
    let alias = |(name, path): &(String, Vec<String>)| {
        let full = absolute(module, path).unwrap_or_else(|| [module.clone(), path.clone()].concat());
        // A name that stands for itself leads nowhere.
        let is_itself = full == [module.clone(), vec![name.clone()]].concat();
        (!is_itself).then(|| ((module.clone(), name.clone()), full))
    };
    file.uses.iter().filter_map(alias)
}

/// A path from the crate's root; `None` if it does not say where it begins.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let supers = path.iter().take_while(|segment| *segment == "super").count();
            let base = &module[..module.len().checked_sub(supers)?];
            Some([base, &path[supers..]].concat())
        }
        _ => None,
    }
}

/// The module that defines what a path in `module` names; `None` if it is none of this crate's.
fn resolve(
    module: &Module,
    path: &[String],
    files: &BTreeMap<Module, File>,
    aliases: &BTreeMap<(Module, String), Module>,
) -> Option<Module> {
    let mut full = match absolute(module, path) {
        Some(full) => full,
        None => {
            let first = path.first()?;
            let child = [module.clone(), vec![first.clone()]].concat();
            match aliases.get(&(module.clone(), first.clone())) {
                Some(alias) => [alias, &path[1..]].concat(),
                // A name alone is a variable, not a module.
                None if path.len() > 1 && files.contains_key(&child) => [module, path].concat(),
                None => return None,
            }
        }
    };
    // Through re-exports; bounded, for some lead in circles themselves.
    for _ in 0..16 {
        let known = (0..=full.len()).rev().find(|length| files.contains_key(&full[..*length]))?;
        let (at, rest) = full.split_at(known);
        let Some(name) = rest.first() else { return Some(full) };
        let Some(alias) = aliases.get(&(at.to_vec(), name.clone())) else {
            // A name of another crate that was brought in is no module of ours.
            return Some(at.to_vec());
        };
        full = [alias.as_slice(), &rest[1..]].concat();
    }
    None
}
