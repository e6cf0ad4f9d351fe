//! How much a reader of the contract meets at once.

use syn::{Item, TraitItem};

/// The names of the items of trait `NetworkFunction`.
pub fn items(source: &str) -> Vec<String> {
    let file = syn::parse_file(source).expect("a source file");
    let contract = file.items.into_iter().find_map(|item| match item {
        Item::Trait(item) if item.ident == "NetworkFunction" => Some(item),
        _ => None,
    });
    let name = |item: &TraitItem| match item {
        TraitItem::Const(item) => item.ident.to_string(),
        TraitItem::Fn(item) => item.sig.ident.to_string(),
        TraitItem::Type(item) => item.ident.to_string(),
        _ => panic!("an item that is no constant, function or type"),
    };
    contract.expect("trait `NetworkFunction`").items.iter().map(name).collect()
}

/// Lines of the first example in a crate's page, from its first that is shown to the end of the function.
pub fn example_lines(source: &str) -> usize {
    let page = source.lines().map_while(|line| line.strip_prefix("//!"));
    let example = page.skip_while(|line| *line != " ```").skip(1).take_while(|line| *line != " ```");
    let shown: Vec<&str> = example.filter(|line| !line.starts_with(" # ")).collect();
    shown.iter().rposition(|line| *line == " }").map_or(0, |last| last + 1)
}
